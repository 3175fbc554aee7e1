"""Samples of normalization ops. Gradients of fused batch norm are checked in tests/ops: they flow through y alone."""
import numpy as np

from tests.registry.sample import f, sample


def _training(x, scale, offset, *_):
    axes = (0, 1, 2)
    mean, var = x.mean(axes), x.var(axes)
    n = x.size // x.shape[3]
    y = (x - mean) / np.sqrt(var + 1e-3) * scale + offset
    return [y, mean, var * n / (n - 1), mean, var]


def _inference(x, scale, offset, mean, var):
    return [(x - mean) / np.sqrt(var + 1e-3) * scale + offset, mean, var, mean, var]


_x, _scale, _offset, _mean, _var = f(3, 4, 2, 5), f(5), f(5), f(5), f(5, low=0.5)
_none = np.zeros(0, np.float32)


def _averaged(factor, x, scale, offset, mean, variance):
    y, batch_mean, batch_variance, *rest = _training(x, scale, offset, None, None)
    return [y, mean + factor * (batch_mean - mean), variance + factor * (batch_variance - variance), *rest,
            np.zeros(0, np.float32)]


for _version in ("", "V2", "V3"):
    _more = [np.zeros(0, np.float32)] if _version == "V3" else []
    sample(f"FusedBatchNorm{_version}", _x, _scale, _offset, _none, _none, epsilon=1e-3, through=[0], grad=[0, 1, 2],
           expect=lambda *a, more=_more: _training(*a) + more)
    sample(f"FusedBatchNorm{_version}", _x, _scale, _offset, _mean, _var, epsilon=1e-3, is_training=False, through=[0],
           grad=[0, 1, 2], expect=lambda *a, more=_more: _inference(*a) + more)
    for _is_training in (False, True):
        sample(f"FusedBatchNormGrad{_version}", f(3, 4, 2, 5), _x, _scale, _x.mean((0, 1, 2)), _x.var((0, 1, 2)), *_more,
               epsilon=1e-3, is_training=_is_training, grad=False)
sample("FusedBatchNormV3", np.moveaxis(_x, 3, 1), _scale, _offset, _none, _none, data_format="NCHW", through=[0],
       grad=[0, 1, 2])
sample("FusedBatchNormV3", _x, _scale, _offset, _mean, _var, epsilon=1e-3, exponential_avg_factor=0.25, through=[0],
       grad=[0, 1, 2], expect=lambda *a: _averaged(0.25, *a))
sample("FusedBatchNormV2", _x.astype(np.float16), _scale, _offset, _none, _none, grad=False, rtol=1e-2, atol=1e-2)


def _lrn(x, radius=2, bias=1.0, alpha=0.5, beta=0.75):
    total = np.stack([(x[..., max(0, c - radius):c + radius + 1] ** 2).sum(-1) for c in range(x.shape[3])], -1)
    return x / (bias + alpha * total) ** beta


_LRN = {"depth_radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75}
sample("LRN", f(1, 2, 3, 7), **_LRN, expect=_lrn)
sample("LRNGrad", f(1, 2, 3, 7), _x7 := f(1, 2, 3, 7), _lrn(_x7), **_LRN)


def _global(t, m, v, beta, gamma):
    return (t - m) / np.sqrt(v + 1e-3) * gamma + beta


_GLOBAL = {"variance_epsilon": 1e-3, "scale_after_normalization": True}
sample("BatchNormWithGlobalNormalization", _x, _mean, _var, _offset, _scale, **_GLOBAL, expect=_global)
sample("BatchNormWithGlobalNormalizationGrad", _x, _mean, _var, _scale, f(3, 4, 2, 5), **_GLOBAL, grad=False)

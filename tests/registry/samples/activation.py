"""Samples of activations. Values keep away from the kinks, where numeric gradients are wrong."""
import numpy as np

from tests.registry.sample import f, i, sample

_x = np.array([[-3.2, -1.1, -0.4], [0.3, 1.7, 4.2]], np.float32)
_g = f(2, 3)
_SCALE, _SCALE_ALPHA = 1.0507009873554805, 1.7580993408473766

sample("Relu", _x, expect=lambda x: np.maximum(x, 0))
sample("Relu", _x.astype(np.float16), expect=lambda x: np.maximum(x, 0))
sample("Relu", i(3, 4), expect=lambda x: np.maximum(x, 0))
sample("Relu", i(5, low=0, dtype=np.uint16), expect=lambda x: x)
sample("ReluGrad", _g, _x, expect=lambda g, x: g * (x > 0))
sample("ReluGrad", i(5, low=0, dtype=np.uint16), i(5, low=0, dtype=np.uint16), expect=lambda g, x: g * (x > 0))
sample("Relu6", _x * 3, expect=lambda x: np.clip(x, 0, 6))
sample("Relu6", i(7, low=0, high=12, dtype=np.uint16), expect=lambda x: np.clip(x, 0, 6))
sample("Relu6Grad", _g, _x * 3, expect=lambda g, x: g * ((x > 0) & (x < 6)))
sample("Relu6Grad", i(6), i(6, high=12), expect=lambda g, x: g * ((x > 0) & (x < 6)))
sample("LeakyRelu", _x, alpha=0.3, expect=lambda x: np.where(x > 0, x, 0.3 * x))
sample("LeakyReluGrad", _g, _x, alpha=0.3, expect=lambda g, x: np.where(x > 0, g, 0.3 * g))
sample("Elu", _x, expect=lambda x: np.where(x < 0, np.expm1(x), x))
sample("EluGrad", _g, np.maximum(_x, -0.9), expect=lambda g, y: np.where(y < 0, g * (y + 1), g))
sample("Selu", _x, expect=lambda x: np.where(x < 0, _SCALE_ALPHA * np.expm1(x), _SCALE * x))
sample("SeluGrad", _g, np.maximum(_x, -1.6), expect=lambda g, y: np.where(y < 0, g * (y + _SCALE_ALPHA), g * _SCALE))
sample("Softplus", _x, expect=lambda x: np.log1p(np.exp(x)))
sample("Softplus", np.array([-50.0, 0.0, 30.0, 50.0]), expect=lambda x: np.logaddexp(0, x), rtol=1e-12, atol=0)
sample("SoftplusGrad", _g, _x, expect=lambda g, x: g / (1 + np.exp(-x)))
sample("Softsign", _x, expect=lambda x: x / (1 + np.abs(x)))
sample("SoftsignGrad", _g, _x, expect=lambda g, x: g / (1 + np.abs(x)) ** 2)

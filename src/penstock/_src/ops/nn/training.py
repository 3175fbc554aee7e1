"""The updates of optimizers: one rule each, on rows or on whole variables, in place.

A rule is written once, over tensors that it may change (the variable and its slots), numbers (learning rates and the
like) and the gradient. A number on a GPU stays a tensor, so that no step waits for it. `family` declares
TensorFlow's ops around it (ops/nn/update_ops.py).
A rule that only adds may have a second form, `rows=`, that adds to distinct rows in place.
"""
from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.ops import rules
from penstock._src.ops.nn.update_kernels import check, number
from penstock._src.ops.nn.update_ops import family
from penstock._src.ops.registry import get, internal
from penstock._src.ops.state.state import VariableResource


def _towards(average: torch.Tensor, value: torch.Tensor, decay: Any) -> None:
    """average = decay * average + (1 - decay) * value."""
    if isinstance(decay, torch.Tensor):
        average.mul_(decay).addcmul_(value, 1 - decay)
    elif average.is_complex():
        average.add_(value - average, alpha=1 - decay)
    else:
        average.lerp_(value, 1 - decay)


def _less(x: torch.Tensor, y: torch.Tensor, rate: Any) -> torch.Tensor:
    """x -= rate * y."""
    return x.addcmul_(y, rate, value=-1) if isinstance(rate, torch.Tensor) else x.sub_(y, alpha=rate)


def _squares(average: torch.Tensor, grad: torch.Tensor, decay: Any) -> None:
    """average = decay * average + (1 - decay) * grad ** 2."""
    if isinstance(decay, torch.Tensor):
        average.mul_(decay).addcmul_(grad * (1 - decay), grad)
    else:
        average.mul_(decay).addcmul_(grad, grad, value=1 - decay)


def _less_ratio(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, rate: Any) -> torch.Tensor:
    """x -= rate * a / b."""
    return x.addcmul_(a / b, rate, value=-1) if isinstance(rate, torch.Tensor) else x.addcdiv_(a, b, value=-rate)


def _used(number: Any) -> bool:
    """Whether a number may be other than zero; one on a GPU is not inspected."""
    return isinstance(number, torch.Tensor) or number != 0


def _shrink(x: torch.Tensor, by: Any) -> torch.Tensor:
    """Soft thresholding: elements moved towards zero by at most `by`."""
    return x.sign() * (x.abs() - by).clamp_(min=0)


def _chosen_by(option: str, yes: str, no: str) -> Callable:
    """Two compiled rules, one of which an attribute chooses, with the numbers of the op."""
    return lambda *numbers, **attrs: (yes if attrs[option] else no, numbers)


def _descend_at_constant_rate(var, _, grad, *, numbers, is_ref):
    if type(var) is not VariableResource or var.value is None or var.value.shape != grad.shape:
        check(["var"], [var], grad, None)
    var.add(grad, -numbers[0])
    return var if is_ref else None


@family("GradientDescent", "var", "alpha delta", constant=_descend_at_constant_rate)
def _descend(var, alpha, grad):
    _less(var, grad, alpha)


def _add_product_fusion() -> None:
    """A gradient that is a product of matrices without other consumers is accumulated into the variable directly."""
    for name, state, out, flags in (("ApplyGradientDescent", "Ref(T)", "out: Ref(T)", {"foldable": False}),
                                    ("ResourceApplyGradientDescent", "resource", "", {"stateful": True})):
        fused = internal(f"_{name}Product", f"var: {state}, alpha: T, a: T, b: T -> {out}",
                         "T: type in {float32 float64}, transpose_a: bool = False, transpose_b: bool = False", **flags)
        fused.kernel(functools.partial(_descend_along_product, is_ref=bool(out)))
        rules.fusion.fuse[get(name)] = functools.partial(_fuse_product, into=fused.name)


def _descend_along_product(var, alpha, a, b, *, transpose_a, transpose_b, is_ref):
    a, b = a.t() if transpose_a else a, b.t() if transpose_b else b
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise errors.invalid(f"Matrix size-incompatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}")
    check(["var"], [var], _OfShape((a.shape[0], b.shape[1])), None)
    rate = number(alpha, "alpha")
    if isinstance(rate, torch.Tensor):      # on a GPU, and never waited for
        with var.lock:
            var.writable().sub_(torch.mm(a, b).mul_(rate))
    else:
        var.add_product(a, b, -rate)
    return var if is_ref else None


class _OfShape:
    """A gradient of which only the shape is inspected."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple):
        self.shape = shape


def _fuse_product(op: Any, f: Any, *, into: str) -> Any:
    var, alpha, grad = op.inputs
    product = f.only(grad, op)
    if product is None or product.opdef is not get("MatMul") or product.attrs["T"] not in (dtypes.float32, dtypes.float64):
        return None
    attrs = {"T": product.attrs["T"], "transpose_a": product.attrs["transpose_a"], "transpose_b": product.attrs["transpose_b"]}
    return f.make(into, [var, alpha, *product.inputs], attrs, op)


_add_product_fusion()
rules.updates.chosen[get("ResourceApplyGradientDescent")] = lambda alpha: ("DESCEND", (alpha,))


@family("ProximalGradientDescent", "var", "alpha l1 l2 delta", sparse=True,
        compiled=lambda alpha, l1, l2: ("PROXIMAL_DESCEND", (alpha, alpha * l1, 1 + l2 * alpha)))
def _proximal_gradient_descent_update(var, alpha, l1, l2, grad):
    moved = _less(var.clone(), grad, alpha)
    if _used(l1):
        moved = _shrink(moved, alpha * l1)
    var.copy_(moved.div_(1 + l2 * alpha))


@family("Momentum", "var accum", "lr grad momentum", "use_nesterov: bool = False", sparse=True,
        compiled=_chosen_by("use_nesterov", "MOMENTUM_NESTEROV", "MOMENTUM"))
def _momentum_update(var, accum, lr, grad, momentum, *, use_nesterov):
    accum.mul_(momentum).add_(grad)
    if use_nesterov:
        _less(_less(var, grad, lr), accum, momentum * lr)
    else:
        _less(var, accum, lr)


@family("KerasMomentum", "var accum", "lr grad momentum", "use_nesterov: bool = False", sparse=True, ref=False,
        compiled=_chosen_by("use_nesterov", "KERAS_MOMENTUM_NESTEROV", "KERAS_MOMENTUM"))
def _keras_momentum_update(var, accum, lr, grad, momentum, *, use_nesterov):
    _less(accum.mul_(momentum), grad, lr)
    if use_nesterov:
        _less(_less(var, accum, -momentum), grad, lr)
    else:
        var.add_(accum)


_MANY_STEPS = torch.tensor(1e9)


def _in_memory_order(*tensors: torch.Tensor) -> list[torch.Tensor] | None:
    """Views of tensors as ATen's fused updates take them: whole, in one order, on the CPU, in single or double precision."""
    first = tensors[0]
    if tracing.lowering() or first.dtype not in (torch.float32, torch.float64) or not first.is_cpu or \
            any(t.stride() != first.stride() or t.dtype is not first.dtype for t in tensors):
        return None
    if first.is_contiguous():
        return list(tensors)
    order = sorted(range(first.ndim), key=first.stride().__getitem__, reverse=True)
    views = [t.permute(order) for t in tensors]
    return views if views[0].is_contiguous() else None


def _adam_rate(lr: Any, beta1_power: Any, beta2_power: Any) -> Any:
    """The step size with bias correction for both averages."""
    if any(isinstance(n, torch.Tensor) for n in (lr, beta1_power, beta2_power)):
        return lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    root = cmath.sqrt(1 - beta2_power)
    if not isinstance(beta2_power, complex):
        root = root.real if beta2_power <= 1 else math.nan
    return _ratio(lr * root, 1 - beta1_power)


def _ratio(a: Any, b: Any) -> Any:
    """a / b; infinite or not a number where b is zero, as for tensors."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) or b:
        return a / b
    with np.errstate(all="ignore"):
        return np.divide(a, b).item()


def _adam_numbers(beta1_power, beta2_power, lr, beta1, beta2, epsilon, *, use_nesterov=False, rule="ADAM"):
    rate = _adam_rate(lr, beta1_power, beta2_power)
    return "ADAM_NESTEROV" if use_nesterov else rule, (rate, 1 - beta1, beta2, 1 - beta2, epsilon)


@family("Adam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", "use_nesterov: bool = False",
        compiled=_adam_numbers)
def _adam_update(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, *, use_nesterov):
    rate = _adam_rate(lr, beta1_power, beta2_power)
    whole = None if use_nesterov or isinstance(rate, torch.Tensor) and not rate.is_cpu else _in_memory_order(var, grad, m, v)
    if whole is not None:
        # ATen's kernel takes the bias out by the number of steps; after so many there is none, and the rate has it already
        variables, grads, means, squares = ([t] for t in whole)
        torch._fused_adam_(variables, grads, means, squares, [], [_MANY_STEPS], lr=rate, beta1=beta1, beta2=beta2,
                           weight_decay=0.0, eps=epsilon, amsgrad=False, maximize=False)
        return
    _towards(m, grad, beta1)
    _squares(v, grad, beta2)
    step = m.mul(beta1).add_(grad * (1 - beta1)) if use_nesterov else m
    _less_ratio(var, step, v.sqrt().add_(epsilon), rate)


@family("AdamWithAmsgrad", "var m v vhat", "beta1_power beta2_power lr beta1 beta2 epsilon grad", ref=False,
        compiled=functools.partial(_adam_numbers, rule="ADAM_AMSGRAD"))
def _adam_with_amsgrad_update(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad):
    _towards(m, grad, beta1)
    _squares(v, grad, beta2)
    torch.maximum(vhat, v, out=vhat)
    _less_ratio(var, m, vhat.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


def _adamax_numbers(beta1_power, lr, beta1, beta2, epsilon):
    return "ADAMAX", (_ratio(lr, 1 - beta1_power), 1 - beta1, beta2, 0.0, epsilon)


@family("AdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", compiled=_adamax_numbers)
def _ada_max_update(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad):
    _towards(m, grad, beta1)
    torch.maximum(v.mul_(beta2), grad.abs(), out=v)
    _less_ratio(var, m, v + epsilon, _ratio(lr, 1 - beta1_power))


def _adagrad_rows(var, accum, at, lr, grad, *, update_slots):
    if update_slots:
        accum.index_add_(0, at, grad * grad)
    var.index_add_(0, at, accum.index_select(0, at).rsqrt_().mul_(grad).mul_(-lr))


@family("Adagrad", "var accum", "lr grad", "update_slots: bool = True", sparse=True, rows=_adagrad_rows,
        compiled=_chosen_by("update_slots", "ADAGRAD", "ADAGRAD_KEPT"))
def _adagrad_update(var, accum, lr, grad, *, update_slots):
    if update_slots:
        accum.addcmul_(grad, grad)
    _less(var, accum.rsqrt().mul_(grad), lr)


@family("AdagradV2", "var accum", "lr epsilon grad", "update_slots: bool = True", sparse=True,
        compiled=_chosen_by("update_slots", "ADAGRAD_V2", "ADAGRAD_V2_KEPT"))
def _adagrad_v2_update(var, accum, lr, epsilon, grad, *, update_slots):
    if update_slots:
        accum.addcmul_(grad, grad)
    _less_ratio(var, grad, accum.sqrt().add_(epsilon), lr)


@family("ProximalAdagrad", "var accum", "lr l1 l2 grad", sparse=True,
        compiled=lambda *numbers: ("PROXIMAL_ADAGRAD", numbers))
def _proximal_adagrad_update(var, accum, lr, l1, l2, grad):
    accum.addcmul_(grad, grad)
    rate = accum.rsqrt().mul_(lr)
    moved = var.addcmul(grad, rate, value=-1)
    if _used(l1):
        moved = _shrink(moved, rate * l1)
    var.copy_(moved.div_(rate.mul_(l2).add_(1)))


@family("AdagradDA", "var gradient_accumulator gradient_squared_accumulator", "grad lr l1 l2 global_step", sparse=True,
        compiled=lambda lr, l1, l2, step: ("ADAGRAD_DA", (lr, l1 * step, l2 * step * lr)))
def _adagrad_da_update(var, total, squares, grad, lr, l1, l2, global_step):
    total.add_(grad)
    squares.addcmul_(grad, grad)
    kept = _shrink(total, l1 * global_step) if _used(l1) else total
    var.copy_((kept * -lr).div_(squares.sqrt().add_(l2 * global_step * lr)))


@family("Adadelta", "var accum accum_update", "lr rho epsilon grad", sparse=True,
        compiled=lambda *numbers: ("ADADELTA", numbers))
def _adadelta_update(var, accum, accum_update, lr, rho, epsilon, grad):
    _squares(accum, grad, rho)
    step = (accum_update + epsilon).sqrt_().mul_((accum + epsilon).rsqrt_()).mul_(grad)
    _less(var, step, lr)
    _squares(accum_update, step, rho)


@family("RMSProp", "var ms mom", "lr rho momentum epsilon grad", sparse=True, compiled=lambda *numbers: ("RMSPROP", numbers))
def _rms_prop_update(var, ms, mom, lr, rho, momentum, epsilon, grad):
    _squares(ms, grad, rho)
    _less_ratio(mom.mul_(momentum), grad, (ms + epsilon).sqrt_(), -lr)
    var.sub_(mom)


@family("CenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad", sparse=True,
        compiled=lambda *numbers: ("CENTERED_RMSPROP", numbers))
def _centered_rms_prop_update(var, mg, ms, mom, lr, rho, momentum, epsilon, grad):
    _squares(ms, grad, rho)
    _towards(mg, grad, rho)
    spread = ms.addcmul(mg, mg, value=-1).add_(epsilon)
    _less_ratio(mom.mul_(momentum), grad, spread.sqrt_(), -lr)
    var.sub_(mom)


def _ftrl_numbers(lr, l1, l2, *more):
    shrinkage, lr_power = (0.0, *more) if len(more) == 1 else more
    return "FTRL" if lr_power == -0.5 else "FTRL_POWER", (lr, l1, l2, shrinkage, -lr_power)


def _ftrl(var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power):
    """Follow the regularized leader: `linear` sums the gradients, l1 keeps small weights at zero."""
    new = accum.addcmul(grad, grad)
    half = not isinstance(lr_power, torch.Tensor) and lr_power == -0.5
    root, old_root = (new.sqrt(), accum.sqrt()) if half else (new.pow(-lr_power), accum.pow(-lr_power))
    asked = grad.add(var * (2 * l2_shrinkage)) if _used(l2_shrinkage) else grad
    linear.add_(asked).sub_((root - old_root).div_(lr).mul_(var))
    steps = (linear.sign() * l1 - linear).div_(root.div_(lr).add_(2 * l2))
    var.copy_(torch.where(linear.abs() > l1, steps, torch.zeros_like(steps)))
    accum.copy_(new)


@family("Ftrl", "var accum linear", "grad lr l1 l2 lr_power", sparse=True, compiled=_ftrl_numbers)
def _ftrl_update(var, accum, linear, grad, lr, l1, l2, lr_power):
    _ftrl(var, accum, linear, grad, lr, l1, l2, 0, lr_power)


family("FtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", sparse=True, compiled=_ftrl_numbers)(_ftrl)


@family("AddSign", "var m", "lr alpha sign_decay beta grad",
        compiled=lambda lr, alpha, decay, beta: ("ADD_SIGN", (lr, alpha, decay, 1 - beta)))
def _add_sign_update(var, m, lr, alpha, sign_decay, beta, grad):
    _towards(m, grad, beta)
    agreement = grad.sign() * m.sign()
    _less(var, agreement.mul_(sign_decay).add_(alpha).mul_(grad), lr)


@family("PowerSign", "var m", "lr logbase sign_decay beta grad",
        compiled=lambda lr, logbase, decay, beta: ("POWER_SIGN", (lr, logbase * decay, 1 - beta)))
def _power_sign_update(var, m, lr, logbase, sign_decay, beta, grad):
    _towards(m, grad, beta)
    agreement = grad.sign() * m.sign()
    _less(var, agreement.mul_(logbase * sign_decay).exp_().mul_(grad), lr)


# -- the rules of DeepRec ---------------------------------------------------------------------------------------------
@family("LazyAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", sparse=True, hidden=True,
        compiled=_adam_numbers)
def _lazy_adam_update(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad):
    """Adam; of sparse gradients, on their rows only."""
    _towards(m, grad, beta1)
    _squares(v, grad, beta2)
    _less_ratio(var, m, v.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


@family("AdagradDecay", "var accum accum_decay_power", "lr periods decay_rate baseline grad", sparse=True, hidden=True,
        compiled=lambda *numbers: ("ADAGRAD_DECAY", numbers))
def _adagrad_decay_update(var, accum, accum_decay_power, lr, periods, decay_rate, baseline, grad):
    """Adagrad whose sums decay once in a period; `accum_decay_power` counts how often they have."""
    due = accum_decay_power < periods
    accum.copy_(torch.where(due, (accum * decay_rate).clamp_(min=baseline), accum))
    accum_decay_power.add_(due)
    accum.addcmul_(grad, grad)
    _less(var, accum.rsqrt().mul_(grad), lr)


# -- the rules of Keras, whose sparse updates move all rows -----------------------------------------------------------
_keras = functools.partial(family, sparse=True, all_rows=True)


@_keras("KerasRowsMomentum", "var accum", "lr grad momentum", "use_nesterov: bool = False",
        compiled=_chosen_by("use_nesterov", "KERAS_MOMENTUM_NESTEROV", "KERAS_MOMENTUM"))
def _keras_rows_momentum(var, accum, lr, grad, momentum, *, use_nesterov):
    _keras_momentum_update(var, accum, lr, grad, momentum, use_nesterov=use_nesterov)


@_keras("KerasAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", compiled=_adam_numbers)
def _keras_adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad):
    _towards(m, grad, beta1)
    _towards(v, grad * grad, beta2)
    _less_ratio(var, m, v.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


@_keras("KerasAdamWithAmsgrad", "var m v vhat", "beta1_power beta2_power lr beta1 beta2 epsilon grad",
        compiled=functools.partial(_adam_numbers, rule="ADAM_AMSGRAD"))
def _keras_adam_with_amsgrad(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad):
    _towards(m, grad, beta1)
    _towards(v, grad * grad, beta2)
    vhat.copy_(torch.maximum(vhat, v))
    _less_ratio(var, m, vhat.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


@_keras("KerasAdamax", "var m v", "beta1_power lr beta1 beta2 epsilon grad",
        compiled=_adamax_numbers)
def _keras_adamax(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad):
    _towards(m, grad, beta1)
    v.copy_(torch.maximum(v * beta2, grad.abs()))
    _less_ratio(var, m, v + epsilon, _ratio(lr, 1 - beta1_power))


def _nadam_numbers(lr, beta1, beta2, beta2_power, epsilon, now, then, product, next_product):
    return "NADAM", (lr, 1 - beta1, beta2, 1 - beta2, epsilon, _ratio(1 - now, 1 - product), _ratio(then, 1 - next_product),
                     _ratio(1.0, 1 - beta2_power))


@_keras("KerasNadam", "var m v", "lr beta1 beta2 beta2_power epsilon now then product next_product grad",
        compiled=_nadam_numbers)
def _keras_nadam(var, m, v, lr, beta1, beta2, beta2_power, epsilon, now, then, product, next_product, grad):
    """Momentum as it will be in the next step; `product` is that of all momenta so far."""
    _towards(m, grad, beta1)
    _towards(v, grad * grad, beta2)
    ahead = grad * _ratio(1 - now, 1 - product) + m * _ratio(then, 1 - next_product)
    _less_ratio(var, ahead, (v * _ratio(1.0, 1 - beta2_power)).sqrt_().add_(epsilon), lr)


@_keras("KerasAdagrad", "var accum", "lr epsilon grad", compiled=lambda *numbers: ("KERAS_ADAGRAD", numbers))
def _keras_adagrad(var, accum, lr, epsilon, grad):
    accum.add_(grad * grad)
    _less_ratio(var, grad, (accum + epsilon).sqrt_(), lr)


@_keras("KerasAdadelta", "var accum accum_update", "lr rho epsilon grad",
        compiled=lambda *numbers: ("ADADELTA", numbers))
def _keras_adadelta(var, accum, accum_update, lr, rho, epsilon, grad):
    _towards(accum, grad * grad, rho)
    ratio = ((accum_update + epsilon) / (accum + epsilon)).sqrt_()
    _less(var, ratio * grad, lr)
    _towards(accum_update, ratio * ratio * (grad * grad), rho)


@_keras("KerasRMSprop", "var ms", "lr rho momentum epsilon grad",
        compiled=lambda *numbers: ("KERAS_RMSPROP", numbers))
def _keras_rmsprop(var, ms, lr, rho, momentum, epsilon, grad):
    _towards(ms, grad * grad, rho)
    _less_ratio(var, grad, (ms + epsilon).sqrt_(), lr)


@_keras("KerasCenteredRMSprop", "var mg ms", "lr rho momentum epsilon grad",
        compiled=lambda *numbers: ("KERAS_CENTERED_RMSPROP", numbers))
def _keras_centered_rmsprop(var, mg, ms, lr, rho, momentum, epsilon, grad):
    _towards(mg, grad, rho)
    _towards(ms, grad * grad, rho)
    _less_ratio(var, grad, (ms - mg * mg + epsilon).sqrt_(), lr)


@_keras("KerasMomentumRMSprop", "var ms mom", "lr rho momentum epsilon grad",
        compiled=lambda *numbers: ("RMSPROP", numbers))
def _keras_momentum_rmsprop(var, ms, mom, lr, rho, momentum, epsilon, grad):
    _towards(ms, grad * grad, rho)
    var.sub_(_less_ratio(mom.mul_(momentum), grad, (ms + epsilon).sqrt_(), -lr))


@_keras("KerasCenteredMomentumRMSprop", "var mg ms mom", "lr rho momentum epsilon grad",
        compiled=lambda *numbers: ("CENTERED_RMSPROP", numbers))
def _keras_centered_momentum_rmsprop(var, mg, ms, mom, lr, rho, momentum, epsilon, grad):
    _towards(mg, grad, rho)
    _towards(ms, grad * grad, rho)
    var.sub_(_less_ratio(mom.mul_(momentum), grad, (ms - mg * mg + epsilon).sqrt_(), -lr))


@_keras("KerasFtrl", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", compiled=_ftrl_numbers)
def _keras_ftrl(var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power):
    new = accum + grad * grad
    root, old_root = new.pow(-lr_power), accum.pow(-lr_power)
    linear.add_(grad).add_(var * (2 * l2_shrinkage)).sub_((root - old_root).div_(lr).mul_(var))
    steps = (linear.sign() * l1 - linear).div_(root.div_(lr).add_(2 * l2))
    var.copy_(torch.where(linear.abs() > l1, steps, torch.zeros_like(steps)))
    accum.copy_(new)


@_keras("KerasLion", "var momentum", "lr beta_1 beta_2 grad", compiled=lambda *numbers: ("LION", numbers))
def _keras_lion(var, momentum, lr, beta_1, beta_2, grad):
    _less(var, (momentum * beta_1 + grad * (1 - beta_1)).sign_(), lr)
    _towards(momentum, grad, beta_2)

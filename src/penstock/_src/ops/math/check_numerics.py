"""NaN and infinity: checking one tensor, all tensors of a graph, or the outputs of all ops from now on."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get, op

_FLOATS = "T: type in {bfloat16 half float32 float64}, message: string"
check_numerics_op = op("CheckNumerics", "tensor: T -> output: T", _FLOATS, stateful=True)
check_numerics_v2 = op("CheckNumericsV2", "tensor: T -> output: T", _FLOATS, stateful=True)
rules.batching.elementwise.update((check_numerics_op, check_numerics_v2))

rules.tiers.raises.update((check_numerics_op, check_numerics_v2))
check_numerics_op.shape(lambda tensor: tensor)
check_numerics_v2.shape(lambda tensor: tensor)


@check_numerics_op.kernel
def _check_numerics_kernel(tensor, *, message):
    if not tracing.holds(torch.isfinite(tensor).all()):
        inf, nan = bool(torch.isinf(tensor).any()), bool(torch.isnan(tensor).any())
        raise errors.invalid(f"{message} : Tensor had {' and '.join(['Inf'] * inf + ['NaN'] * nan)} values")
    return tensor


@check_numerics_v2.kernel
def _check_numerics_v2_kernel(tensor, *, message):
    if not tracing.holds(torch.isfinite(tensor).all()):
        kinds = (["-Inf"] * bool((tensor == -torch.inf).any()) + ["+Inf"] * bool((tensor == torch.inf).any())
                 + ["NaN"] * bool(torch.isnan(tensor).any()))
        raise errors.invalid(f"{message} : Tensor had {', '.join(kinds[:-2] + [' and '.join(kinds[-2:])])} values")
    return tensor


def _check_numerics_gradient(op, grad):
    return get(op.type)(grad, message="Not a number (NaN) or infinity (Inf) values detected in gradient. "
                        f"{op.attrs['message']}")


check_numerics_op.gradient(_check_numerics_gradient)
check_numerics_v2.gradient(_check_numerics_gradient)


@export("debugging.check_numerics", v1=["check_numerics"])
@dispatched
def check_numerics(tensor: Any, message: Any, name: str | None = None) -> Tensor:
    """`tensor`; InvalidArgumentError with `message` if it holds a NaN or an infinity.

    >>> loss = tf.debugging.check_numerics(loss, "the loss")
    """
    return check_numerics_op(tensor, message=message, name=name)


@export(v1=["verify_tensor_all_finite", "debugging.assert_all_finite"])
@dispatched
def verify_tensor_all_finite(t: Any = None, msg: Any = None, name: str | None = None, x: Any = None,
                             message: Any = None) -> Tensor:
    """`t`, checked to hold no NaN and no infinity when it is computed."""
    x, message = t if x is None else x, msg if message is None else message
    with name_scope(name, "VerifyFinite", [x]):
        x = convert(x, name="t")
        with control_dependencies([check_numerics(x, message=message)]):
            return identity(x)


@export(v2=["debugging.assert_all_finite"])
@dispatched
def assert_all_finite_v2(x: Any, message: Any, name: str | None = None) -> Tensor:
    """`x`, checked to hold no NaN and no infinity when it is computed."""
    return verify_tensor_all_finite(x, message, name)


@export(v1=["add_check_numerics_ops"])
@dispatched
def add_check_numerics_ops() -> Any:
    """One op that checks every half, float and double tensor of the graph for NaN and infinity.

    >>> sess.run([train_op, tf.add_check_numerics_ops()])
    """
    if context.executing_eagerly():
        raise RuntimeError("add_check_numerics_ops() is not compatible with eager execution. To check for Inf's and "
                           "NaN's under eager execution, call tf.debugging.check_numerics on the tensors.")
    checks: list = []
    for node in context.current_graph().get_operations():
        for t in node.outputs:
            if t.dtype.base_dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
                continue
            if node._get_control_flow_context() is not None:
                raise ValueError("`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                                 "operations such as `tf.cond()` or `tf.while_loop()`.")
            with control_dependencies(checks[-1:]):
                checks.append(check_numerics(t, message=f"{node.name}:{t.value_index}"))
    return group(*checks)


# -- all ops ----------------------------------------------------------------------------------------------------------
_UNCHECKED = ("CheckNumerics", "CheckNumericsV2", "Const", "Placeholder", "PlaceholderWithDefault", "Identity")


@export("debugging.enable_check_numerics")
@dispatched
def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Checks the floating outputs of every op that is executed, or added to a graph, from now on.

    >>> tf.debugging.enable_check_numerics()
    >>> tf.math.log([-1.])     # InvalidArgumentError: ... in output 0 of eagerly-executing op "Log" ...
    """
    context.process.watch = _checked


@export("debugging.disable_check_numerics")
@dispatched
def disable_check_numerics() -> None:
    """Disables the checks of enable_check_numerics."""
    context.process.watch = None


def _checked(op_type: str, out: Any) -> Any:
    """The results of an op, with its floating tensors checked."""
    if op_type in _UNCHECKED or out is None or isinstance(out, Operation):
        return out
    if isinstance(out, Tensor):
        return _checked_output(out, op_type, 0, 1)
    flat = [_checked_output(t, op_type, i, len(out)) if isinstance(t, Tensor) else t for i, t in enumerate(out)]
    return type(out)(*flat) if hasattr(out, "_fields") else type(out)(flat)


def _checked_output(t: Tensor, op_type: str, index: int, count: int) -> Tensor:
    if t.dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        return t
    eager = hasattr(t, "_value")
    message = (f"!!! Detected Infinity or NaN in output {index} of {'eagerly-executing' if eager else 'graph'} op "
               f'"{op_type if eager else t.op.name}" (# of outputs: {count}) !!!\n  dtype: {t.dtype}\n  '
               f"shape: {t.shape}")
    if eager:
        check_numerics_v2(t, message=message)
        return t
    with t.graph.as_default(), name_scope(f"{t.op.name}/"):
        return check_numerics_v2(t, message=message)

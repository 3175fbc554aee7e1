"""NaN and infinity: checking one tensor, all tensors of a graph, or the outputs of all ops from now on."""
from __future__ import annotations

import dataclasses
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
        found = " and ".join(kinds) if len(kinds) < 3 else f"{', '.join(kinds[:-1])}, and {kinds[-1]}"
        raise errors.invalid(f"{message} : Tensor had {found} values")
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
_UNCHECKED = ("CheckNumerics", "CheckNumericsV2", "Placeholder", "PlaceholderWithDefault", "Identity")


@export("debugging.enable_check_numerics")
@dispatched
def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Checks the floating outputs of every op that is executed, or added to a graph, from now on.

    Args:
        stack_height_limit: How many frames of the place where an op of a graph was created an error shows.
        path_length_limit: How many characters of a file's path it shows.

    >>> tf.debugging.enable_check_numerics()
    >>> tf.math.log([-1.])     # InvalidArgumentError: ... in output 0 of eagerly-executing op "Log" ...
    """
    context.process.watch = _Checks(stack_height_limit, path_length_limit)


@export("debugging.disable_check_numerics")
@dispatched
def disable_check_numerics() -> None:
    """Disables the checks of enable_check_numerics."""
    context.process.watch = None


@dataclasses.dataclass(frozen=True)
class _Checks:
    """The process's watch: called with the type of an op, its inputs and its results, it returns the results, checked."""

    stack_height: int
    path_length: int

    def __call__(self, op_type: str, inputs: tuple, out: Any) -> Any:
        if op_type in _UNCHECKED or out is None or isinstance(out, Operation):
            return out
        if isinstance(out, Tensor):
            return self._checked(out, op_type, inputs, 0, 1)
        flat = [self._checked(t, op_type, inputs, i, len(out)) if isinstance(t, Tensor) else t for i, t in enumerate(out)]
        return type(out)(*flat) if hasattr(out, "_fields") else type(out)(flat)

    def _checked(self, t: Tensor, op_type: str, inputs: tuple, index: int, count: int) -> Tensor:
        if t.dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
            return t
        where = f'op "{op_type}" (# of outputs: {count}) !!!\n  dtype: {t.dtype}\n  shape: {t.shape}\n'
        if not hasattr(t, "_value"):
            message = (f"!!! Detected Infinity or NaN in output {index} of graph {where}{_shown(inputs)}"
                       f'  Graph name: "{getattr(t.graph, "name", "")}"\n  Name of the op: {t.op.name}\n{self._created(t.op)}')
            with t.graph.as_default(), name_scope(f"{t.op.name}/"):
                return check_numerics_v2(t, message=message)
        try:
            check_numerics_v2(t, message="")
        except errors.InvalidArgumentError as e:
            kinds = {"-Inf": t._value == -torch.inf, "+Inf": t._value == torch.inf, "NaN": torch.isnan(t._value)}
            counts = "".join(f"  # of {kind} elements: {int(found.sum())}\n" for kind, found in kinds.items() if found.any())
            raise errors.invalid(f"!!! Detected Infinity or NaN in output {index} of eagerly-executing {where}{counts}"
                                 f"{_shown(inputs)}{e}") from None
        return t

    def _created(self, made: Operation) -> str:
        """Where the user's program created an op."""
        lines = [f"    {file[-self.path_length:]}:{line} in {function}\n" for file, line, function, *_ in made.traceback]
        return "".join(["  Stack trace of op's creation:\n", *lines[-self.stack_height:]])


def _shown(inputs: tuple) -> str:
    if len(inputs) < 2:
        return "".join(f"\n  Input tensor: {x!s}\n" for x in inputs)
    return "".join([f"\n  Input tensors ({len(inputs)}):\n", *(f"    {i}: {x!s}\n" for i, x in enumerate(inputs))])

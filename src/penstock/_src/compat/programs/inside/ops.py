"""Of `framework.ops`, `framework.smart_cond`, `ops.control_flow_ops`, `ops.control_flow_util` and the modules of variables."""
from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base import nest
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.context import eager_outside_functions
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import graph_from
from penstock._src.state.variables.initializers import fans as _compute_fans  # noqa: F401
from penstock._src.state.variables.interface import VariableInterface
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock._src.state.variables.reference import RefVariable
from penstock._src.state.variables.resource import BaseResourceVariable

_numbers = itertools.count()


def __getattr__(name: str) -> Any:
    if name in ("Variable", "VariableV1"):
        return tf.Variable
    if name == "RefVariable":
        return RefVariable
    if name == "PartitionedVariable":
        return PartitionedVariable
    if name == "name_scope_v1":
        return tf.name_scope
    if name == "EagerTensor":
        return EagerTensor
    if name == "executing_eagerly_outside_functions":
        return eager_outside_functions
    if name == "ENABLE_CONTROL_FLOW_V2":
        return tf.control_flow_v2_enabled()
    if name == "enable_eager_execution_internal":
        return tf.enable_eager_execution
    raise AttributeError(name)


def _get_graph_from_inputs(op_input_list: Sequence[Any], graph: Any = None) -> Any:
    """The graph of some tensors, which must be one; `graph` if it is given."""
    if graph is None:
        return graph_from(op_input_list)
    for value in op_input_list:
        if getattr(value, "graph", graph) is not graph:
            raise ValueError(f"{value} is not from the passed-in graph.")
    return graph


class NullContextmanager(contextlib.AbstractContextManager):
    """A context that changes nothing, whatever it is called with."""

    def __init__(self, *args: Any, **kwargs: Any):
        """Nothing is kept of the arguments."""

    def __exit__(self, *error: Any) -> None:
        """Errors go on."""


def internal_convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False,
                               preferred_dtype: Any = None, dtype_hint: Any = None, ctx: Any = None,
                               accepted_result_types: Any = (Tensor,)) -> Any:
    """The value as a tensor; with `as_ref`, the reference of a variable. The context `ctx` is the current one."""
    return convert(value, dtype, name, as_ref, dtype_hint or preferred_dtype, accepted_result_types)


def is_dense_tensor_like(t: Any) -> bool:
    """Whether a value can stand for a dense tensor: a tensor or a variable."""
    return isinstance(t, (Tensor, VariableInterface))


def with_dependencies(dependencies: Sequence[Any], output_tensor: Any, name: str | None = None) -> Any:
    """The tensor, computed after `dependencies`."""
    with tf.control_dependencies(dependencies):
        return tf.identity(output_tensor, name=name)


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> Any:
    """The outputs of a Switch: (for a false `pred`, for a true one)."""
    return tf.raw_ops.Switch(data=tf.convert_to_tensor(data, dtype), pred=pred, name=name)


def merge(inputs: Sequence[Any], name: str | None = None) -> Any:
    """The output of a Merge: the tensor that is available, and its index."""
    return tf.raw_ops.Merge(inputs=list(inputs), name=name)


def smart_cond(pred: Any, true_fn: Callable | None = None, false_fn: Callable | None = None, name: str | None = None,
               fn1: Callable | None = None, fn2: Callable | None = None) -> Any:
    """tf.cond, or one of the two functions where the condition is known now."""
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    for what, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"Argument `{what}` must be callable. Received {function}")
    known = smart_constant_value(pred)
    if known is None:
        return tf.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if known else false_fn()       # type: ignore[misc]


def smart_constant_value(pred: Any) -> bool | None:
    """The condition as a Python bool where it is known now, else None."""
    if isinstance(pred, (bool, int)):
        return bool(pred)
    known = tf.get_static_value(tf.convert_to_tensor(pred))
    return None if known is None else bool(known)


def GraphOrParentsInXlaContext(graph: Any) -> bool:
    """Whether a graph is built for XLA: never, penstock compiles graphs without it (`tf.xla.experimental.jit_scope`)."""
    return False


def GetContainingXLAContext(ctxt: Any) -> None:
    """The innermost context of XLA around a control-flow context: there is none, as above."""


def convert_n_to_tensor(values: Sequence[Any], dtype: Any = None, name: str | None = None, preferred_dtype: Any = None) -> list:
    """Each of `values` as a tensor."""
    return [tf.convert_to_tensor(v, dtype=dtype, name=None if name is None else f"{name}_{i}", preferred_dtype=preferred_dtype)
            for i, v in enumerate(values)]


def shape_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = None) -> Any:
    """tf.shape; without `optimize`, never a constant."""
    out_type = out_type or tf.int32
    return tf.shape(input, name, out_type) if optimize else tf.raw_ops.Shape(input=input, out_type=out_type, name=name)


def is_resource_variable(variable: Any) -> bool:
    """Whether a variable is a resource, not a reference."""
    return isinstance(variable, BaseResourceVariable)


def uid() -> int:
    """A number that no other call returns in this process."""
    return next(_numbers)


def convert_to_tensor_or_composite(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """The value as a tensor; composite tensors stay what they are."""
    return value if isinstance(value, CompositeTensor) else convert(value, dtype, name, results=(Tensor, CompositeTensor))


def name_from_scope_name(name: str) -> str:
    """The name of an op whose scope is `name`: without the slash at the end."""
    return name.removesuffix("/")


def numpy_text(tensor: Any, is_repr: bool = False) -> str:
    """The values of an eager tensor as numpy prints them."""
    return tensor._show(repr if is_repr else str)


def convert_variables_to_tensors(values: Any) -> Any:
    """A structure with variables read, also those of composite tensors in it."""
    def read(x: Any) -> Any:
        if isinstance(x, BaseResourceVariable):
            return x.value()
        return x._convert_variables_to_tensors() if isinstance(x, CompositeTensor) else x
    return nest.map_structure(read, values)

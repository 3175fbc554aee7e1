"""What is known about a tensor's value while the graph is being built.

`constant_value` evaluates small constant subgraphs with the ops' own kernels. `constant_dims` returns what is known of a
vector that is used as a shape, from the `value` rules of ops (Shape, Pack, Concat, slices …).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.arguments import group_inputs
from penstock._src.graph.convert import is_tensor
from penstock._src.graph.list_types import outside
from penstock._src.graph.node import AnyTensor, is_edge
from penstock._src.kernels.bridge import to_numpy, to_torch

_LIMIT = 4096          # the largest number of elements that is evaluated at build time
_DEPTH = 24


PARTIAL_RULES: dict[Any, Any] = {}       # by definition of the op: (tensor, partial value of an input) to a partial value


def constant_value(tensor: Any, partial: bool = False, _depth: int = 0) -> np.ndarray | None:
    """The value of a tensor as a numpy array, if it is known; None otherwise.

    With `partial`, a stack of which only some parts are known is an array of them, with None for the others.
    """
    value = _whole_value(tensor, _depth)
    if value is None and partial and is_edge(tensor):
        rule = PARTIAL_RULES.get(tensor.op.opdef)
        return None if rule is None else rule(tensor, lambda t: constant_value(t, True, _depth + 1))
    return value


def _whole_value(tensor: Any, _depth: int) -> np.ndarray | None:
    if hasattr(tensor, "_value"):
        return tensor.numpy()
    if not is_edge(tensor):
        return np.asarray(tensor)
    op = tensor.op
    opdef = op.opdef
    if not op.inputs and "value" in op.attrs and opdef.foldable and opdef.name == "Const":
        return op.attrs["value"]
    known = op.graph.caches.setdefault("constants", {})
    key = (op.number, tensor.value_index)
    if key in known:
        return known[key]
    outer = outside(tensor)
    value = _evaluate(tensor, _depth) if outer is None or hasattr(outer, "_value") else constant_value(outer, _depth=_depth)
    if value is not None:
        known[key] = value
    return value


def _evaluate(tensor: AnyTensor, depth: int) -> np.ndarray | None:
    op = tensor.op
    opdef = op.opdef
    if opdef.value_rule is not None:
        dims = _dims_by_rule(tensor, depth)
        if dims is not None and all(d is not None for d in dims):
            out = np.array(dims, tensor.dtype.as_numpy_dtype)
            return out.reshape(()) if tensor.static_dims == () else out
    if not opdef.foldable or depth > _DEPTH or not op.inputs or opdef.control_flow and \
            getattr(op, "_control_flow_context", op) is not None:              # nodes of a step have no context
        return None
    dims = tensor.static_dims
    if dims is None or None in dims or np.prod(dims, dtype=float) > _LIMIT:
        return None
    inputs = []
    for t in op.inputs:
        if t.static_dims is None or any(d is None for d in t.static_dims) or np.prod(t.static_dims, dtype=float) > _LIMIT:
            return None
        v = constant_value(t, _depth=depth + 1)
        if v is None:
            return None
        inputs.append(v)
    return _run(op, inputs, tensor.value_index)


def _run(op: Any, inputs: list[np.ndarray], index: int) -> np.ndarray | None:
    kernel = op.opdef.kernel_for("cpu")
    if kernel is None or kernel.wants_ctx:
        return None
    values = [to_torch(np.asarray(v), t.dtype.base_dtype) for v, t in zip(inputs, op.inputs, strict=True)]
    try:
        out = kernel.bind(op.attrs, op)(*group_inputs(op.opdef, values, op.counts))
    except Exception:                     # the op rejects these values: the run reports the error
        return None
    return np.array(to_numpy(op.opdef.flat(out)[index], op.outputs[index].dtype))


def constant_dims(tensor: Any, _depth: int = 0) -> tuple | None:
    """What is known of an int vector used as a shape: None (not even its length), or a tuple with None for unknowns."""
    if not is_edge(tensor):
        return tuple(int(d) for d in np.asarray(tensor).reshape(-1))
    if not hasattr(tensor, "_value") and tensor.op.opdef.value_rule is not None:
        dims = _dims_by_rule(tensor, _depth)
    else:
        dims = None
    if dims is None:
        value = constant_value(tensor)
        if value is not None:
            if value.ndim == 0:
                if value == -1:
                    return None
                raise ValueError("Shape must be rank 1 but is rank 0: as a shape, a scalar must be -1, which describes an "
                                 f"unknown one; got the scalar {value} (rank-0)")
            dims = tuple(int(v) for v in value.reshape(-1))
    if dims is not None:
        return tuple(None if d is None or d == -1 else d for d in dims)
    outer = None if hasattr(tensor, "_value") else outside(tensor)
    if outer is not None and not hasattr(outer, "_value"):
        return constant_dims(outer, _depth)
    if tensor.static_dims is not None and len(tensor.static_dims) == 1 and tensor.static_dims[0] is not None:
        return (None,) * tensor.static_dims[0]
    return None


def partial_values(tensor: Any, depth: int = 0) -> tuple | None:
    """The elements of an int scalar or vector, None for each unknown one; None if not even their number is known."""
    if depth > _DEPTH:
        return None
    if not hasattr(tensor, "_value") and is_edge(tensor) and tensor.op.opdef.value_rule is not None:
        out = _dims_by_rule(tensor, depth)
        if out is not None:
            return out
    value = constant_value(tensor, _depth=depth)
    if value is not None and value.dtype != object and value.ndim <= 1:
        return tuple(int(v) for v in value.reshape(-1))
    outer = outside(tensor)
    if outer is not None and not hasattr(outer, "_value"):
        return partial_values(outer, depth)
    dims = tensor.static_dims
    if dims is not None and len(dims) <= 1 and (not dims or dims[0] is not None):
        return (None,) * (dims[0] if dims else 1)
    return None


def _dims_by_rule(tensor: AnyTensor, depth: int) -> tuple | None:
    """Calls the op's value rule: rule(op, values), where values(i) returns partial_values of input i."""
    if depth > _DEPTH:
        return None
    op = tensor.op
    return op.opdef.value_rule(op, lambda i: partial_values(op.inputs[i], depth + 1))


@export("get_static_value")
def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor if it is known without running anything.

    Args:
        tensor: The tensor.
        partial: Whether an array of objects with None for unknown elements may be returned.

    Returns:
        A NumPy array, or None.

    >>> print(tf.get_static_value(tf.constant([1, 2])))
    [1 2]
    """
    if is_edge(tensor):
        value = constant_value(tensor, partial)
        return value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    return None if is_tensor(tensor) else tensor

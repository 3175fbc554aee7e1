"""The v1 functions that change variables: assign, scatter_* and scatter_nd_*, for references and resources alike."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.registry import get


def _is_ref(ref: Any) -> bool:
    return ref.dtype._is_ref_dtype


@export(v1=["assign"])
def assign(ref: Any, value: Any, validate_shape: bool | None = None, use_locking: bool | None = None,
           name: str | None = None) -> Any:
    """Sets a variable; returns the reference (or the variable) after the change.

    Args:
        ref: Variable.
        value: New value.
        validate_shape: Whether `value` must have the variable's shape.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Name of the operation.

    Returns:
        The variable after the assignment: a reference, or for resource variables a tensor-like object.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     v = tf.get_variable("v", initializer=[0., 0.])
    ...     print(sess.run(tf.assign(v, [1., 2.])))
    [1. 2.]
    """
    if _is_ref(ref):
        return get("Assign")(ref, value, validate_shape=validate_shape, use_locking=use_locking, name=name)
    return ref.assign(value, name=name)


@export(v1=["assign_add"])
def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Adds to a variable.

    Args:
        ref: Variable of numbers.
        value: What to add; of the variable's shape.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Name of the operation.

    Returns:
        The variable after the addition.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     count = tf.get_variable("count", initializer=1)
    ...     sess.run(count.initializer)
    ...     print(sess.run(tf.assign_add(count, 4)))
    5
    """
    if _is_ref(ref):
        return get("AssignAdd")(ref, value, use_locking=use_locking, name=name)
    return ref.assign_add(value)


@export(v1=["assign_sub"])
def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Subtracts from a variable."""
    if _is_ref(ref):
        return get("AssignSub")(ref, value, use_locking=use_locking, name=name)
    return ref.assign_sub(value)


@export(v1=["count_up_to"])
def count_up_to(ref: Any, limit: int, name: str | None = None) -> Any:
    """Increments a variable until `limit` is reached, and returns the previous value; then raises OutOfRangeError."""
    if _is_ref(ref):
        return get("CountUpTo")(ref, limit=limit, name=name)
    return get("ResourceCountUpTo")(ref.handle, limit=limit, T=ref.dtype, name=name)


def _scatter(kind: str, locking: bool, doc: str) -> Callable:
    """A function tf.scatter_<kind> (or scatter_nd_<kind>) over the ops of both kinds of variable."""
    title = "".join(w.capitalize() for w in kind.split("_"))

    def scatter(ref: Any, indices: Any, updates: Any, use_locking: bool = locking, name: str | None = None) -> Any:
        if _is_ref(ref):
            return get(f"Scatter{title}")(ref, indices, updates, use_locking=use_locking, name=name)
        if ref._own_saveable:                                # copies on several devices
            return ref._scattered(kind, indices, convert(updates, ref.dtype), name)
        return ref._updated(get(f"ResourceScatter{title}")(ref.handle, indices, convert(updates, ref.dtype), name=name))
    scatter.__name__, scatter.__doc__ = f"scatter_{kind}", doc
    export.value(scatter, v1=[f"scatter_{kind}"])
    return scatter


scatter_update = _scatter("update", True, "Sets rows of a variable: ref[indices] = updates.")
scatter_add = _scatter("add", False, "Adds to rows of a variable; repeated rows add up.")
scatter_sub = _scatter("sub", False, "Subtracts from rows of a variable; repeated rows add up.")
scatter_mul = _scatter("mul", False, "Multiplies rows of a variable.")
scatter_div = _scatter("div", False, "Divides rows of a variable.")
scatter_min = _scatter("min", False, "Takes the minimum of rows of a variable and updates.")
scatter_max = _scatter("max", False, "Takes the maximum of rows of a variable and updates.")
scatter_nd_update = _scatter("nd_update", True, "Sets elements or slices of a variable.")
scatter_nd_add = _scatter("nd_add", False, "Adds to elements or slices of a variable.")
scatter_nd_sub = _scatter("nd_sub", False, "Subtracts from elements or slices of a variable.")


@export(v1=["batch_scatter_update"])
def batch_scatter_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True,
                         name: str | None = None) -> Any:
    """Sets ref[b, indices[b, i]] = updates[b, i] for every batch index b (of any rank) and i."""
    with name_scope(name):
        indices = convert(indices, name="indices")
        shape, batch = get("Shape")(indices), indices.shape.rank - 1
        index_dtype = indices.dtype.base_dtype
        parts = [get("ExpandDims")(indices, -1)]
        for axis in range(batch):
            # The batch index along this axis, repeated over all the others.
            steps = get("Range")(get("Cast")(0, DstT=index_dtype), get("Cast")(shape[axis], DstT=index_dtype),
                                 get("Cast")(1, DstT=index_dtype))
            lead = [1] * axis + [-1] + [1] * (batch - axis + 1)
            ones = get("Fill")(get("ConcatV2")([shape, [1]], 0), get("Cast")(1, DstT=index_dtype))
            parts.insert(axis, get("Mul")(get("Reshape")(steps, lead), ones))
        at = get("ConcatV2")(parts, -1) if len(parts) > 1 else parts[0]
    return scatter_nd_update(ref, at, updates, use_locking, name)

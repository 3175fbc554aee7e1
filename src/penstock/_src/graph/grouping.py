"""Ops that wait for others: tf.group and tf.tuple."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import control_dependencies, device, name_scope
from penstock._src.ops.registry import get


@export("group")
def group(*inputs: Any, **kwargs: Any) -> Operation | None:
    """An op that runs all of `inputs` (ops, tensors, nests of them).

    Args:
        *inputs: Tensors, operations, or nests of them.
        **kwargs: `name`, the name of the op.

    Returns:
        An op without outputs; in eager execution None.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     a, b = tf.Variable(1), tf.Variable(2)
    ...     sess.run(tf.compat.v1.global_variables_initializer())
    ...     sess.run(tf.group(a.assign_add(10), b.assign_add(10)))
    ...     print(sess.run([a, b]))
    [np.int32(11), np.int32(12)]
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    if context.executing_eagerly():
        return None
    flat = [i for i in nest.flatten(inputs, expand_composites=True)]
    with name_scope(name, "group_deps", flat) as scope:
        for i in flat:
            if not (hasattr(i, "device") or hasattr(i, "_as_graph_element") or hasattr(i, "handle")):
                raise TypeError(f"Expected tf.group() expected Tensor objects not None with type '{type(i)}'"
                                if i is None else
                                f"Expected tf.group() expected Tensor or Operation objects, got {i!r} of {type(i)}")
        by_device: dict[str, list] = {}
        for i in flat:
            by_device.setdefault(getattr(i, "device", None) or "", []).append(i)
        if len(by_device) <= 1:
            return _wait_for(flat, next(iter(by_device), ""), scope)
        gates = [_wait_for(by_device[d], d, None) for d in sorted(by_device)]
        return _wait_for(gates, "", scope)


def _wait_for(inputs: list, device_name: str, name: str | None) -> Operation:
    """A NoOp that waits for `inputs`, on their device."""
    with control_dependencies(inputs):
        if not device_name:
            return get("NoOp")(name=name)
        with device(device_name):
            return get("NoOp")(name=name)


@export(v2=["tuple"])
def tuple_v2(tensors: Any, control_inputs: Any = None, name: str | None = None) -> list:
    """The tensors, each available only when all of them, and `control_inputs`, have been computed.

    Args:
        tensors: A list of tensors; None in it stays None.
        control_inputs: Tensors and operations to wait for.
        name: A name for the op.

    Returns:
        A list of tensors with the same values.

    Raises:
        ValueError: if there is no tensor in the list.

    >>> [x.numpy().item() for x in tf.tuple([tf.constant(1), tf.constant(2)])]
    [1, 2]
    """
    return tuple_(tensors, name, control_inputs)


@export(v1=["tuple"])
def tuple_(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list:
    """The tensors, each available only when all of them have been computed."""
    if context.executing_eagerly():
        return tensors
    with name_scope(name, "tuple", list(tensors)):
        wait = []
        for t in tensors:
            if t is not None:
                wait.append(t if isinstance(t, Operation) else t.op if hasattr(t, "op") else convert(t).op)
        for c in control_inputs or ():
            if not isinstance(c, (Tensor, Operation)) and not hasattr(c, "_as_graph_element"):
                raise TypeError(f"A control input must be an operation or a tensor, got {c}")
            wait.append(c if isinstance(c, Operation) else c.op)
        if not wait:
            raise ValueError(f"Must have at least one Tensor: {tensors}")
        gate = group(*wait)
        out: list = []
        with control_dependencies([gate]):
            for t in tensors:
                if t is None or isinstance(t, Operation):
                    out.append(None if t is None else group(t))
                elif isinstance(t, IndexedSlices):
                    out.append(IndexedSlices(get("Identity")(t.values), get("Identity")(t.indices), t.dense_shape))
                else:
                    out.append(get("Identity")(t))
        return out

"""`for element in dataset` in functions: a While loop over an iterator, which AutoGraph builds through here."""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.datasets import structure
from penstock._src.eager.autograph.staged import State, _going, while_stmt
from penstock._src.ops.registry import get


# Names in the body, and so the tags of summaries, are in the scopes in which TensorFlow puts them.
def for_dataset(dataset: Any, go_on: Callable[[], Any] | None, body: Callable[[Any], None], state: Any,
                options: dict[str, Any]) -> None:
    """Runs the body for the elements of a dataset: there in a function of the dataset, outside of the scopes around, and in a
    conditional of it if the loop may be left."""
    def outside(element: Any) -> None:
        with tf.name_scope(""), contextlib.nullcontext() if go_on is None else tf.name_scope("cond"):
            body(element)
    for_elements(iter(dataset), go_on, outside, state, options, "ReduceDataset")


def for_iterator(iterator: Any, go_on: Callable[[], Any] | None, body: Callable[[Any], None], state: Any,
                 options: dict[str, Any]) -> None:
    """Runs the body for the remaining elements of an iterator: there in a conditional on whether there is a next one."""
    def inside(element: Any) -> None:
        with tf.name_scope("cond"):
            body(element)
    for_elements(iterator, go_on, inside, state, options)


def for_elements(iterator: Any, go_on: Callable[[], Any] | None, body: Callable[[Any], None], state: Any,
                 options: dict[str, Any], name: str | None = None) -> None:
    """Runs the body for the elements of an iterator, while `go_on()`; after the last iteration, no further element is read."""
    spec = iterator.element_spec
    outputs = structure.outputs(spec)

    def following() -> Any:
        return get("IteratorGetNextAsOptional")(iterator._iterator_resource, **outputs)
    at: list = [following()]

    def write(values: tuple) -> None:
        at[0] = values[0]
        state.write(values[1:])

    def test() -> Any:
        return _going(get("OptionalHasValue")(at[0]), go_on)

    def step() -> None:
        body(structure.from_tensors(spec, get("OptionalGetValue")(at[0], **outputs)))
        more = True if go_on is None else go_on()
        if isinstance(more, tf.Tensor):
            at[0] = tf.cond(more, following, lambda: get("OptionalNone")())
        else:
            at[0] = following() if more else get("OptionalNone")()
    loop = State(lambda: (at[0], *state.read()), write, ("ag__next", *state.names))
    start = loop.read()
    try:
        while_stmt(test, step, loop, options, name)
    except ValueError as e:
        if "shape" not in str(e) or options.get("shape_invariants"):
            raise
        loop.write(start)                             # shapes may change from element to element
        relaxed = [(t, TensorShape(None)) for t in start[1:] if isinstance(t, tf.Tensor)]
        while_stmt(test, step, loop, {**options, "shape_invariants": relaxed}, name)

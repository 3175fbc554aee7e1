"""tf.autodiff.ForwardAccumulator: Jacobian-vector products, computed along with the values.

An accumulator stands among the tapes. For each op that it sees, it computes the tangents of the outputs from those of inputs.
The Jacobian's transpose is what gradient functions multiply with, and that product is linear in its vector. So a tape over it,
with respect to the vector, returns the product with the Jacobian itself: no op needs its own rule.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import UnconnectedGradients, is_trainable
from penstock._src.graph.tape import Tape, backpropagate
from penstock._src.ops.registry import get


@export("autodiff.ForwardAccumulator")
class ForwardAccumulator:
    """Computes directional derivatives with respect to `primals`, in the direction of `tangents`.

    >>> x = tf.constant([2.0, 3.0])
    >>> with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
    ...     y = x[0] ** 2 * x[1]
    >>> acc.jvp(y).numpy()
    12.0
    """

    _watch_variables = notes_all_variables = False      # as a member of the tapes: variables are not watched when they are read

    def __init__(self, primals: Any, tangents: Any):
        nest.assert_same_structure(primals, tangents)
        self._watched: dict[int, Any] = {}              # tangents by the id of their tensor, as long as it is alive
        self._alive: dict[int, Any] = {}
        for primal, given in zip(nest.flatten(primals), nest.flatten(tangents), strict=True):
            if id(_source(primal)) in self._watched:
                raise ValueError("A tensor was given multiple times as a primal; add up its tangents.")
            self._watch(primal, given)

    def _watch(self, primal: Any, given: Any) -> None:
        """Adds a tangent to what is known of a primal."""
        tangent, known = convert(given), self._watched.get(id(_source(primal)))
        if not primal.shape.is_compatible_with(tangent.shape):
            raise ValueError(f"A tangent of shape {tangent.shape} does not match its primal of shape {primal.shape}.")
        if primal.dtype.base_dtype != tangent.dtype.base_dtype:
            raise ValueError(f"A tangent of dtype {tangent.dtype} does not match its primal of dtype {primal.dtype}.")
        self._keep(_source(primal), tangent if known is None else known + tangent)

    def __enter__(self) -> ForwardAccumulator:
        if self in context.state.tapes:
            raise ValueError("The accumulator is already recording.")
        context.state.tapes = (*context.state.tapes, self)
        return self

    def __exit__(self, *exc: Any) -> None:
        context.state.tapes = tuple(t for t in context.state.tapes if t is not self)

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """The Jacobian of each value with respect to the primals, times the tangents; None for what does not depend on them."""
        zeros = UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.ZERO
        flat = nest.flatten(primals)
        found = [self._watched.get(id(_source(value))) for value in flat]
        if zeros:
            found = [get("ZerosLike")(convert(v)) if t is None else t for v, t in zip(flat, found, strict=True)]
        return nest.pack_sequence_as(primals, found)

    # -- among the tapes ---------------------------------------------------------------------------------------------------
    def _note(self, op: Any, inputs: list, outputs: list, gradient: Callable | None) -> None:
        """Computes the tangents of the outputs. Accumulators around this one differentiate that again; those inside do not."""
        old = context.state.tapes
        around = old[:old.index(self)]
        context.state.tapes = tuple(t for t in old if not isinstance(t, ForwardAccumulator) or t in around)
        seen = list(outputs)
        try:
            self._forward((op, inputs, outputs, gradient), seen)
            if len(outputs) > len(seen):                # the gradient of a loop has made it return values that it saves
                self._forward((op, inputs, outputs, gradient), outputs[len(seen):])
        finally:
            context.state.tapes = old

    def _outputs_added(self, op: Any, new: list) -> None:
        old = context.state.tapes
        context.state.tapes = tuple(t for t in old if t is not self)
        try:
            self._forward((op, op.inputs, op.outputs, None), new)
        finally:
            context.state.tapes = old

    def _forward(self, recorded: tuple, outputs: list) -> None:
        known = list({id(t): t for t in recorded[1] if id(t) in self._watched}.values())
        outputs = [o for o in outputs if is_trainable(o)]
        if not outputs:
            return
        with Tape(watch_accessed_variables=False) as second:
            vectors = [get("ZerosLike")(o) for o in outputs]
            second.watch(vectors)
            back = backpropagate([recorded], outputs, known, vectors)
            pairs = [(convert(b), self._watched[id(t)]) for b, t in zip(back, known, strict=True) if b is not None]
        if not pairs:
            return
        products = second.gradient([b for b, _ in pairs], vectors, output_gradients=[t for _, t in pairs])
        for o, product in zip(outputs, products, strict=True):
            self._keep(o, get("ZerosLike")(o) if product is None else product)

    def _keep(self, tensor: Any, tangent: Any) -> None:
        key, watched, alive = id(tensor), self._watched, self._alive

        def drop(_: Any) -> None:
            watched.pop(key, None)
            alive.pop(key, None)
        watched[key], alive[key] = tangent, weakref.ref(tensor, drop)


def _source(value: Any) -> Any:
    """What ops read: of a variable, its handle."""
    return value.handle if hasattr(value, "handle") and hasattr(value, "trainable") else value

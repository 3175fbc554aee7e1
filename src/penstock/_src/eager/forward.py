"""tf.autodiff.ForwardAccumulator: Jacobian-vector products, computed along with the values.

The Jacobian's transpose is what tapes multiply with (`tape.py`), and that product is linear in its vector. So a second tape
over it, with respect to the vector, returns the product with the Jacobian itself: no op needs its own rule.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.eager.tape import GradientTape
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import UnconnectedGradients
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

    def __init__(self, primals: Any, tangents: Any):
        nest.assert_same_structure(primals, tangents)
        self._primals = nest.flatten(primals)
        self._tangents = [convert(t) for t in nest.flatten(tangents)]
        for primal, tangent in zip(self._primals, self._tangents, strict=True):
            if not primal.shape.is_compatible_with(tangent.shape):
                raise ValueError(f"A tangent of shape {tangent.shape} does not match its primal of shape {primal.shape}.")
            if primal.dtype.base_dtype != tangent.dtype.base_dtype:
                raise ValueError(f"A tangent of dtype {tangent.dtype} does not match its primal of dtype {primal.dtype}.")
        self._tape = GradientTape(persistent=True, watch_accessed_variables=False)

    def __enter__(self) -> ForwardAccumulator:
        self._tape.__enter__()
        self._tape.watch(self._primals)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._tape.__exit__(*exc)

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """The Jacobian of each value with respect to the primals, times the tangents; None for what does not depend on them."""
        unconnected = UnconnectedGradients(unconnected_gradients)
        found = [self._product(value) for value in nest.flatten(primals)]
        if unconnected is UnconnectedGradients.ZERO:
            found = [get("ZerosLike")(convert(value)) if product is None else product
                     for value, product in zip(nest.flatten(primals), found, strict=True)]
        return nest.pack_sequence_as(primals, found)

    def _product(self, value: Any) -> Any:
        for primal, tangent in zip(self._primals, self._tangents, strict=True):
            if value is primal:
                return get("Identity")(tangent)
        value = convert(value)
        recording = self._tape._recording
        with self._tape.stop_recording() if recording else GradientTape(watch_accessed_variables=False), \
                GradientTape(watch_accessed_variables=False) as second:
            vector = get("ZerosLike")(value)
            second.watch(vector)
            back = self._tape._gradient([value], self._primals, [vector], UnconnectedGradients.NONE)
            back = [None if b is None else convert(b) for b in back]
        pairs = [(b, t) for b, t in zip(back, self._tangents, strict=True) if b is not None]
        if not pairs:
            return None
        product = second.gradient([b for b, _ in pairs], vector, output_gradients=[t for _, t in pairs])
        return get("ZerosLike")(value) if product is None else product

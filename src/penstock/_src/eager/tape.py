"""tf.GradientTape: a tape, and jacobians, whose backward passes, one per element of the target, are vectorized."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import UnconnectedGradients
from penstock._src.graph.tape import Stopped, Tape
from penstock._src.ops.control.map_fn import map_rows
from penstock._src.ops.control.vectorize import NotVectorizable, vectorized
from penstock._src.ops.registry import get


@export("GradientTape", "autodiff.GradientTape")
class GradientTape(Tape):
    """Records operations, and differentiates what was recorded.

    Args:
        persistent: Whether `gradient` may be called more than once. The recorded values then live as long as the tape.
        watch_accessed_variables: Whether trainable variables are watched when they are read.

    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> tape.gradient(y, x).numpy()
    np.float32(6.0)
    """

    def jacobian(self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
                 parallel_iterations: Any = None, experimental_use_pfor: bool = True) -> Any:
        """The jacobian of `target` with respect to each source: shape target.shape + source.shape."""
        self._check_several_passes(experimental_use_pfor, parallel_iterations, "jacobian")
        y, flat_sources = convert(target), nest.flatten(sources)
        n, shape = get("Size")(y), get("Shape")(y)
        seeds = get("Reshape")(_identity(n, y.dtype.base_dtype), get("ConcatV2")([get("Reshape")(n, [1]), shape], 0))
        stacked = self._passes(y, flat_sources, seeds, unconnected_gradients, experimental_use_pfor)
        out = [None if rows is None else get("Reshape")(rows, get("ConcatV2")([shape, get("Shape")(convert(s))], 0))
               for s, rows in zip(flat_sources, stacked, strict=True)]
        return nest.pack_sequence_as(sources, out)

    def _check_several_passes(self, use_pfor: bool, parallel_iterations: Any, what: str) -> None:
        if not self._persistent and use_pfor and parallel_iterations is not None:
            raise RuntimeError(f"GradientTape must be created with persistent=True to compute the {what} with "
                               "parallel_iterations.")
        if context.executing_eagerly() and not use_pfor and not self._persistent:
            raise RuntimeError(f"GradientTape must be created with persistent=True to compute the {what} with eager execution "
                               "enabled and with experimental_use_pfor set to False.")

    def _passes(self, y: Any, sources: list, seeds: Any, unconnected: Any, at_once: bool) -> list:
        """A backward pass for each row of the seeds; per source the gradients, stacked, or None."""
        unconnected = UnconnectedGradients(unconnected)
        connected: list = []

        def one(seed: Any) -> list:
            grads = self._gradient([y], sources, [seed], unconnected)
            connected[:] = [g is not None for g in grads]
            return [get("ZerosLike")(convert(s)) if g is None else convert(g) for g, s in zip(grads, sources, strict=True)]
        with self._kept():
            stacked = self._at_once(one, seeds) if at_once else None
            if stacked is None:
                stacked = map_rows(one, seeds, dtype=[convert(s).dtype.base_dtype for s in sources])
        self._used = True
        return [t if c else None for t, c in zip(stacked, connected, strict=True)]

    @staticmethod
    def _at_once(one: Callable, seeds: Any) -> list | None:
        rows = seeds.shape[0]
        try:
            return vectorized(one, [seeds], get("Shape")(seeds)[0] if rows is None else rows)
        except NotVectorizable:
            return None

    def batch_jacobian(self, target: Any, source: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
                       parallel_iterations: Any = None, experimental_use_pfor: bool = True) -> Any:
        """Jacobians row by row of a batch: shape [b, ...target, ...source]."""
        self._check_several_passes(experimental_use_pfor, parallel_iterations, "batch_jacobian")
        self._check_unused()
        y, x = convert(target), source
        if y.shape.rank is None or y.shape.rank < 2 or x.shape.rank is None or x.shape.rank < 2:
            raise ValueError(f"Target and source must have rank at least 2, got {y.shape} and {x.shape}")
        if not y.shape[:1].is_compatible_with(x.shape[:1]):
            raise ValueError(f"Need first dimension of target shape ({y.shape}) and source shape ({x.shape}) to match.")
        shape = get("Shape")(y)
        size = get("Prod")(shape[1:], np.int32(0))
        one_row = get("Reshape")(_identity(size, y.dtype.base_dtype), get("ConcatV2")([[-1, 1], shape[1:]], 0))
        seeds = get("BroadcastTo")(one_row, get("ConcatV2")([get("Reshape")(size, [1]), shape], 0))
        [stacked] = self._passes(y, [x], seeds, unconnected_gradients, experimental_use_pfor)
        if stacked is None:
            return None
        order = np.array([1, 0, *range(2, x.shape.rank + 1)], np.int32)
        return get("Reshape")(get("Transpose")(stacked, order), get("ConcatV2")([shape, get("Shape")(convert(x))[1:]], 0))

    def _kept(self) -> Any:
        """A context for several backward passes: stops recording, and marks the tape as used."""
        self._check_unused()
        return Stopped(self) if self._recording else _Nothing()


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        return None


def _identity(n: Any, dtype: Any) -> Any:
    return get("MatrixDiag")(get("Fill")(get("Reshape")(n, [1]), convert(1, dtype)))

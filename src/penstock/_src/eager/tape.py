"""tf.GradientTape: a tape, and jacobians, which take one backward pass per element of the target."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import UnconnectedGradients
from penstock._src.graph.tape import Stopped, Tape
from penstock._src.ops.control.map_fn import map_rows
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
    6.0
    """

    def jacobian(self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
                 parallel_iterations: Any = None, experimental_use_pfor: bool = True) -> Any:
        """The jacobian of `target` with respect to each source: shape target.shape + source.shape."""
        self._check_several_passes(experimental_use_pfor, parallel_iterations, "jacobian")
        flat_sources = nest.flatten(sources)
        y = convert(target)
        with self._kept():
            stacked = self._stacked_rows(y, flat_sources, unconnected_gradients)
        shape_y = get("Shape")(y)
        out = [None if rows is None else get("Reshape")(rows, get("ConcatV2")([shape_y, get("Shape")(convert(s))], 0))
               for s, rows in zip(flat_sources, stacked, strict=True)]
        self._used = True
        return nest.pack_sequence_as(sources, out)

    def _check_several_passes(self, use_pfor: bool, parallel_iterations: Any, what: str) -> None:
        if not self._persistent and use_pfor and parallel_iterations is not None:
            raise RuntimeError(f"GradientTape must be created with persistent=True to compute the {what} with "
                               "parallel_iterations.")
        if context.executing_eagerly() and not use_pfor and not self._persistent:
            raise RuntimeError(f"GradientTape must be created with persistent=True to compute the {what} with eager execution "
                               "enabled and with experimental_use_pfor set to False.")

    def _stacked_rows(self, y: Any, sources: list, unconnected: Any) -> list:
        """One backward pass per element of the target, by one-hot seeds; per source the gradients, stacked."""
        n = y.shape.num_elements()
        unconnected = UnconnectedGradients(unconnected)
        if n is None:
            return self._looped_rows(y, sources, unconnected)
        rows = [self._gradient([y], sources, [_one_hot(y, i, n)], unconnected) for i in range(n)]
        out: list = []
        for k, s in enumerate(sources):
            parts = [r[k] for r in rows]
            if any(p is None for p in parts):
                out.append(None)
            elif parts:
                out.append(get("Pack")([convert(p) for p in parts], axis=0))
            else:
                out.append(_no_rows(convert(s)))
        return out

    def _looped_rows(self, y: Any, sources: list, unconnected: Any) -> list:
        """The same as a loop in the graph, for a target of unknown size."""
        n = get("Size")(y)
        connected: list = []

        def row(i: Any) -> list:
            grads = self._gradient([y], sources, [_one_hot(y, i, n)], unconnected)
            connected[:] = [g is not None for g in grads]
            return [convert(g) if g is not None else get("ZerosLike")(convert(s))
                    for g, s in zip(grads, sources, strict=True)]
        stacked = map_rows(row, get("Range")(convert(0), n, convert(1)), dtype=[convert(s).dtype for s in sources])
        return [t if c else None for t, c in zip(stacked, connected, strict=True)]

    def batch_jacobian(self, target: Any, source: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
                       parallel_iterations: Any = None, experimental_use_pfor: bool = True) -> Any:
        """Jacobians row by row of a batch: shape [b, ...target, ...source]."""
        self._check_several_passes(experimental_use_pfor, parallel_iterations, "batch_jacobian")
        self._check_unused()
        y, x = convert(target), source
        if y.shape.rank is None or y.shape.rank < 2 or x.shape.rank is None or x.shape.rank < 2:
            raise ValueError(f"Target and source must have rank at least 2, got {y.shape} and {x.shape}")
        if not y.shape[:1].is_compatible_with(x.shape[:1]):
            raise ValueError("Need first dimension of target shape and source shape to match.")
        rest = y.shape[1:].num_elements()
        batch = y.shape.as_list()[0]
        if rest is None or batch is None:
            raise ValueError("batch_jacobian needs a target of statically known shape here")
        rows = []
        with self._kept():
            for i in range(rest):
                seed = get("Tile")(get("Reshape")(_one_hot_vector(i, rest, y.dtype), [1, rest]), [batch, 1])
                rows.append(self._gradient([y], [x], [get("Reshape")(seed, get("Shape")(y))],
                                           UnconnectedGradients(unconnected_gradients))[0])
        self._used = True
        if any(r is None for r in rows):
            return None
        if not rows:
            return get("Fill")(get("ConcatV2")([get("Shape")(y), get("Shape")(x)[1:]], 0), convert(0, y.dtype))
        stacked = get("Pack")(rows, axis=1)
        return get("Reshape")(stacked, get("ConcatV2")([get("Shape")(y), get("Shape")(x)[1:]], 0))

    def _kept(self) -> Any:
        """A context for several backward passes: stops recording, and marks the tape as used."""
        self._check_unused()
        return Stopped(self) if self._recording else _Nothing()


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        return None


def _one_hot_vector(i: Any, n: Any, dtype: Any) -> Any:
    return get("OneHot")(convert(i), convert(n), convert(1, dtype), convert(0, dtype))


def _one_hot(y: Any, i: Any, n: Any) -> Any:
    """A tensor shaped like y with a one at flat position i."""
    return get("Reshape")(_one_hot_vector(i, n, y.dtype.base_dtype), get("Shape")(y))


def _no_rows(t: Any) -> Any:
    return get("Fill")(get("ConcatV2")([convert([0]), get("Shape")(t)], 0), convert(0, t.dtype.base_dtype))

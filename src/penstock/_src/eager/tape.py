"""GradientTape: records what is executed (or built) and differentiates it backwards."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import UnconnectedGradients, gradient_function, is_trainable
from penstock._src.graph.indexed_slices import IndexedSlices, add_gradients
from penstock._src.graph.node import Tensor
from penstock._src.ops.registry import get


def record(op: Any, inputs: list, outputs: list, gradient: Callable | None = None) -> None:
    """Puts an executed op on every active tape that watches one of its inputs."""
    for tape in context.state.tapes:
        watched = tape._watched
        for t in inputs:
            if id(t) in watched:
                tape._records.append((op, inputs, outputs, gradient))
                for o in outputs:
                    if is_trainable(o):
                        watched[id(o)] = o
                break


def variable_accessed(variable: Any) -> None:
    """Tells the tapes that a trainable variable is about to be read."""
    for tape in context.state.tapes:
        if tape._watch_variables and variable.trainable:
            tape._watch_variable(variable)


@export("GradientTape", "autodiff.GradientTape")
class GradientTape:
    """Records operations, and differentiates what was recorded.

    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> tape.gradient(y, x).numpy()
    6.0
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True):
        self._persistent, self._watch_variables = persistent, watch_accessed_variables
        self._watched: dict[int, Any] = {}
        self._variables: dict[int, Any] = {}
        self._records: list[tuple] = []
        self._recording = self._used = False

    def __enter__(self) -> GradientTape:
        self._push()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._recording:
            self._pop()

    def _push(self) -> None:
        if self._recording:
            raise ValueError("Tape is already recording: this happens if you enter an active tape again.")
        if self._used and not self._persistent:
            self._watched, self._records, self._used = {}, [], False
        context.state.tapes = (*context.state.tapes, self)
        self._recording = True

    def _pop(self) -> None:
        if not self._recording:
            raise ValueError("Tape is not recording.")
        context.state.tapes = tuple(t for t in context.state.tapes if t is not self)
        self._recording = False

    def watch(self, tensor: Any) -> None:
        """Watches a tensor (or nest of them): gradients with respect to it can be requested."""
        for t in nest.flatten(tensor, expand_composites=True):
            if not (isinstance(t, Tensor) or hasattr(t, "handle") or hasattr(t, "_ref")):
                raise ValueError(f"Passed in object of type {type(t)}, not tf.Tensor")
            if hasattr(t, "handle"):
                self._watch_variable(t)
            else:
                if not is_trainable(t):
                    import logging
                    logging.getLogger("penstock").warning("The dtype of the watched tensor must be floating "
                                                          "(e.g. tf.float32), got %r", t.dtype)
                self._watched[id(t)] = t

    def _watch_variable(self, variable: Any) -> None:
        handle = variable.handle
        self._watched[id(handle)] = handle
        self._variables[id(variable)] = variable

    def watched_variables(self) -> tuple:
        """The variables that were read or watched, oldest first."""
        return tuple(sorted(self._variables.values(), key=_age))

    def stop_recording(self) -> Any:
        """A context manager in which nothing is recorded."""
        return _Stopped(self)

    def reset(self) -> None:
        """Forgets everything recorded."""
        recording = self._recording
        if recording:
            self._pop()
        self._watched, self._records, self._variables = {}, [], {}
        if recording:
            self._push()

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None,
                 unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """The gradient of `target` (summed) with respect to each of `sources`, in their structure."""
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients "
                               "(or jacobians)")
        if self._recording and not self._persistent:
            self._pop()
        elif self._recording and self._persistent:
            import logging
            logging.getLogger("penstock").warning("Calling GradientTape.gradient on a persistent tape inside its context "
                                                  "is significantly less efficient than calling it outside the context")
        try:
            unconnected = UnconnectedGradients(unconnected_gradients)
        except ValueError:
            raise ValueError(f"Unknown value for unconnected_gradients: {unconnected_gradients!r}") from None
        grads = self._gradient(_targets(target), nest.flatten(sources), output_gradients, unconnected)
        self._used = True
        if not self._persistent:
            self._records, self._watched = [], {}
        return nest.pack_sequence_as(sources, grads)

    def _gradient(self, targets: list, sources: list, output_gradients: Any, unconnected: Any) -> list:
        seeds = [None] * len(targets) if output_gradients is None else nest.flatten(output_gradients)
        flat_sources: list = []
        for s in sources:
            parts = getattr(s, "_gradient_components", None)
            flat_sources.append(parts() if parts is not None else [_source(s)])
        grads = backpropagate(self._records, targets, [p for ps in flat_sources for p in ps], seeds)
        out, i = [], 0
        for s, parts in zip(sources, flat_sources, strict=True):
            found = grads[i:i + len(parts)]
            i += len(parts)
            if getattr(s, "_gradient_components", None) is not None:
                out.append(None if all(g is None for g in found) else s._with_gradient_components(found))
            elif found[0] is None and unconnected is UnconnectedGradients.ZERO:
                out.append(_zeros_like(s))
            else:
                out.append(found[0])
        return out

    def jacobian(self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
                 parallel_iterations: Any = None, experimental_use_pfor: bool = True) -> Any:
        """The jacobian of `target` with respect to each source: shape target.shape + source.shape."""
        self._check_several_passes(experimental_use_pfor, "jacobian")
        flat_sources = nest.flatten(sources)
        y = convert(target)
        with self._kept():
            stacked = self._stacked_rows(y, flat_sources, unconnected_gradients)
        shape_y = get("Shape")(y)
        out = [None if rows is None else get("Reshape")(rows, get("ConcatV2")([shape_y, get("Shape")(convert(s))], 0))
               for s, rows in zip(flat_sources, stacked, strict=True)]
        self._used = True
        return nest.pack_sequence_as(sources, out)

    def _check_several_passes(self, use_pfor: bool, what: str) -> None:
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
        """The same by a loop in the graph, for a target whose size is not known yet."""
        from penstock._src.ops.control.map_fn import map_fn
        n = get("Size")(y)
        connected: list = []

        def row(i: Any) -> list:
            grads = self._gradient([y], sources, [_one_hot(y, i, n)], unconnected)
            connected[:] = [g is not None for g in grads]
            return [convert(g) if g is not None else get("ZerosLike")(convert(s))
                    for g, s in zip(grads, sources, strict=True)]
        stacked = map_fn(row, get("Range")(convert(0), n, convert(1)), dtype=[convert(s).dtype for s in sources])
        return [t if c else None for t, c in zip(stacked, connected, strict=True)]

    def batch_jacobian(self, target: Any, source: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
                       parallel_iterations: Any = None, experimental_use_pfor: bool = True) -> Any:
        """Jacobians row by row of a batch: shape [b, ...target, ...source]."""
        self._check_several_passes(experimental_use_pfor, "batch_jacobian")
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
        """While several backward passes run: not recording, and used once."""
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients "
                               "(or jacobians)")
        return _Stopped(self) if self._recording else _Nothing()


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        return None


class _Stopped:
    def __init__(self, tape: GradientTape):
        self._tape = tape

    def __enter__(self) -> None:
        self._was = self._tape._recording
        if not self._was:
            raise ValueError("Tape is not recording.")
        self._tape._pop()

    def __exit__(self, *exc: Any) -> None:
        tapes = context.state.tapes
        if not self._tape._recording:
            context.state.tapes = (*tapes, self._tape)
            self._tape._recording = True


def _one_hot_vector(i: Any, n: Any, dtype: Any) -> Any:
    return get("OneHot")(convert(i), convert(n), convert(1, dtype), convert(0, dtype))


def _one_hot(y: Any, i: Any, n: Any) -> Any:
    """A tensor shaped like y with a one at flat position i."""
    return get("Reshape")(_one_hot_vector(i, n, y.dtype.base_dtype), get("Shape")(y))


def _no_rows(t: Any) -> Any:
    return get("Fill")(get("ConcatV2")([convert([0]), get("Shape")(t)], 0), convert(0, t.dtype.base_dtype))


def _age(variable: Any) -> int:
    """When a variable was made, from the number in its unique id."""
    number = str(getattr(variable, "_unique_id", "")).rsplit("_", 1)[-1]
    return int(number) if number.isdigit() else -1


def _targets(target: Any) -> list:
    out: list = []
    for t in nest.flatten(target):
        parts = getattr(t, "_gradient_components", None)
        if parts is not None:
            out.extend(parts())
        else:
            out.append(t if isinstance(t, IndexedSlices) else _target(t))
    return out


def _target(t: Any) -> Any:
    if hasattr(t, "handle") and not isinstance(t, Tensor):
        return t.handle
    return convert(t)


def _source(s: Any) -> Any:
    if isinstance(s, Tensor):
        return s
    return s.handle if hasattr(s, "handle") else s._ref() if hasattr(s, "_ref") else s.values \
        if isinstance(s, IndexedSlices) else convert(s)


def _zeros_like(s: Any) -> Any:
    return get("ZerosLike")(convert(s))


def backpropagate(records: list[tuple], targets: list, sources: list, seeds: list) -> list:
    """Gradients of the sum of `targets` for `sources`, over recorded ops in reverse order."""
    reachable = {id(s) for s in sources}
    useful = []
    for r in records:
        if any(id(t) in reachable for t in r[1]):
            useful.append(r)
            reachable.update(id(o) for o in r[2] if is_trainable(o))
    grads: dict[int, list] = {}
    for t, seed in zip(targets, seeds, strict=True):
        if id(t) in reachable and is_trainable(t):
            grads.setdefault(id(t), []).append(_seed(t, seed))
    kept: dict[int, Any] = {}
    source_ids = {id(s) for s in sources}
    for op, inputs, outputs, fn in reversed(useful):
        outs = [_take(grads, o, kept, source_ids) for o in outputs]
        if all(g is None for g in outs):
            continue
        if fn is None:
            fn = gradient_function(op)
            if fn is None:
                continue
            ins = fn(op, *(outs if getattr(fn, "takes_none", False) else _zeros_where_needed(outputs, outs)))
        else:
            ins = fn(*_zeros_where_needed(outputs, outs))
        ins = list(ins) if isinstance(ins, (list, tuple)) else [ins]
        for t, g in zip(inputs, ins, strict=True):
            if g is not None and id(t) in reachable:
                grads.setdefault(id(t), []).append(g if isinstance(g, (Tensor, IndexedSlices)) else convert(g))
    return [kept[id(s)] if id(s) in kept else add_gradients(grads[id(s)]) if id(s) in grads else None for s in sources]


def _take(grads: dict[int, list], t: Any, kept: dict[int, Any], sources: set[int]) -> Any:
    parts = grads.pop(id(t), None)
    if parts is None:
        return None
    total = add_gradients(parts)
    if id(t) in sources:
        kept[id(t)] = total
    return total


def _seed(t: Any, seed: Any) -> Any:
    if seed is not None:
        return seed if isinstance(seed, IndexedSlices) else convert(seed)
    if t.dtype == dtypes.resource:
        from penstock._src.ops.state.state import handle_dtype
        return get("Fill")(get("VariableShape")(t), convert(1, handle_dtype(t)))
    return get("OnesLike")(t)


def _zeros_where_needed(outputs: list, grads: list) -> list:
    if len(grads) == 1:
        return grads
    return [_known_zeros(o) if g is None and is_trainable(o) and o.dtype not in (dtypes.resource, dtypes.variant)
            else g for o, g in zip(outputs, grads, strict=True)]


def _known_zeros(like: Any) -> Any:
    """Zeros for an output that nothing used; gradient functions may ask whether a tensor is of this kind."""
    zeros = get("ZerosLike")(like)
    zeros._is_zeros = True
    return zeros

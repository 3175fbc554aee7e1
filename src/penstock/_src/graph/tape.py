"""Tapes: record executed (or built) ops and differentiate them in reverse."""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from penstock._src.base import dtypes, nest
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import UnconnectedGradients, gradient_function, is_trainable
from penstock._src.graph.handles import handle_dtype, value_dims
from penstock._src.graph.indexed_slices import IndexedSlices, add_gradients
from penstock._src.graph.node import Tensor
from penstock._src.ops.registry import get

T = TypeVar("T", bound="Tape")


class Tape:
    """Records operations, and differentiates what was recorded; `tf.GradientTape` (eager/tape.py) adds jacobians."""

    notes_all_variables = False         # only trainable ones, where variables are watched

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True):
        self._persistent, self._watch_variables = persistent, watch_accessed_variables
        self._watched: dict[int, Any] = {}
        self._variables: dict[int, Any] = {}
        self._records: list[tuple] = []
        self._recording, self._used = False, True          # a tape that was never entered has no gradients either

    def __enter__(self: T) -> T:
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

    def _note(self, op: Any, inputs: list, outputs: list, gradient: Any) -> None:
        """Records an op that uses something watched."""
        self._records.append((op, inputs, outputs, gradient))
        watched = self._watched
        for o in outputs:
            if is_trainable(o):
                watched[id(o)] = o

    def _outputs_added(self, op: Any, new: list) -> None:
        """An op that was recorded returns more values now."""
        self._watched.update((id(t), t) for t in new)

    def watch(self, tensor: Any) -> None:
        """Watches a tensor (or nest of them): gradients with respect to it can be requested."""
        for t in [part for x in nest.flatten(tensor) for part in _watchable(x)]:
            if not (isinstance(t, Tensor) or hasattr(t, "handle") or hasattr(t, "_ref")):
                raise ValueError(f"Passed in object {t!r} of type {type(t)}, not tf.Tensor or tf.Variable")
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

    def _watches(self, tensor: Any) -> bool:
        """Whether a tensor is watched, or was made of one that is."""
        return id(tensor) in self._watched

    def watched_variables(self) -> tuple:
        """The variables that were read or watched, oldest first."""
        return tuple(sorted(self._variables.values(), key=_age))

    def stop_recording(self) -> Any:
        """A context manager in which nothing is recorded."""
        return Stopped(self)

    def reset(self) -> None:
        """Clears the recording."""
        recording = self._recording
        if recording:
            self._pop()
        self._watched, self._records, self._variables = {}, [], {}
        if recording:
            self._push()

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None,
                 unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """The gradient of `target` (summed) with respect to each of `sources`, in their structure.

        `output_gradients`, flattened, are the gradients of the targets in their order. Targets beyond them have ones.
        """
        self._check_unused()
        targets = _targets(target)                       # under the tape: parts of composites may be read from variables
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
        grads = self._gradient(targets, nest.flatten(sources), output_gradients, unconnected)
        self._used = True
        if not self._persistent:
            self._records, self._watched = [], {}
        return nest.pack_sequence_as(sources, grads)

    def _check_unused(self) -> None:
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients "
                               "(or jacobians)")

    def _gradient(self, targets: list, sources: list, output_gradients: Any, unconnected: Any) -> list:
        given = [] if output_gradients is None else [p for g in nest.flatten(output_gradients) for p in _parts(g)]
        seeds = [given[i] if i < len(given) else None for i in range(len(targets))]
        flat_sources = [_parts(s, _source) for s in sources]
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


class Stopped:
    """A block in which a tape does not record."""

    def __init__(self, tape: Tape):
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


def _age(variable: Any) -> int:
    """When a variable was created, from the number in its unique id."""
    number = str(getattr(variable, "_unique_id", "")).rsplit("_", 1)[-1]
    return int(number) if number.isdigit() else -1


def _watchable(x: Any) -> list:
    """The tensors of a composite value that have gradients."""
    parts = getattr(x, "_gradient_components", None)
    return nest.flatten(x, expand_composites=True) if parts is None else parts()


def _targets(target: Any) -> list:
    return [p for t in nest.flatten(target) for p in _parts(t, _target)]


def _parts(value: Any, single: Callable[[Any], Any] = lambda x: x) -> list:
    """The tensors of a composite through which gradients flow; `single` of another value."""
    parts = getattr(value, "_gradient_components", None)
    return [single(value)] if parts is None else list(parts())


def _target(t: Any) -> Any:
    if isinstance(t, IndexedSlices):
        return t
    if hasattr(t, "handle") and not isinstance(t, Tensor):
        return t.handle
    if isinstance(t, (bool, int, float, complex)):
        raise AttributeError(f"The target of a gradient must be a tensor that was computed under the tape, not {t!r}: a "
                             "conversion by float() or .numpy() ends what the tape can follow.")
    return convert(t)


def _source(s: Any) -> Any:
    if isinstance(s, Tensor):
        return s
    if hasattr(s, "is_sharded_variable"):              # a gradient of None would leave it untrained
        raise AttributeError(f"'ShardedVariable' object has no attribute 'handle': {s.name} has no gradient as a whole. Pass "
                             "its shards to the tape and to the optimizer: *variable.variables")
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
            inputs = (*inputs, *op.inputs[len(inputs):])         # the gradient of a loop adds saved values to the loop
        else:
            ins = fn(*_zeros_where_needed(outputs, outs))
        ins = list(ins) if isinstance(ins, (list, tuple)) else [ins]
        for t, g in zip(inputs, ins, strict=True):
            if g is not None and id(t) in reachable:
                g = g if isinstance(g, (Tensor, IndexedSlices)) else convert(g)
                if type(g) is Tensor:
                    _refine(g, t)
                grads.setdefault(id(t), []).append(g)
    return [kept[id(s)] if id(s) in kept else add_gradients(grads[id(s)]) if id(s) in grads else None for s in sources]


def _refine(grad: Tensor, t: Any) -> None:
    """Gives the gradient in a graph what is known of its tensor's shape: slices of run-time sizes have lost it."""
    if grad.static_dims is None or None in grad.static_dims:
        with contextlib.suppress(ValueError):              # of a custom gradient: what uses it reports its shape
            grad.set_shape(value_dims(t))


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
        return get("Fill")(get("VariableShape")(t), convert(1, handle_dtype(t)))
    return get("OnesLike")(t)


def _zeros_where_needed(outputs: list, grads: list) -> list:
    if len(grads) == 1:
        return grads
    return [_known_zeros(o) if g is None and is_trainable(o) and o.dtype not in (dtypes.resource, dtypes.variant)
            else g for o, g in zip(outputs, grads, strict=True)]


def _known_zeros(like: Any) -> Any:
    """Zeros for an unused output; gradient functions may test for this class."""
    zeros = get("ZerosLike")(like)
    zeros._is_zeros = True
    return zeros

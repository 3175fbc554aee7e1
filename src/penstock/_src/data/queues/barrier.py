"""A barrier: elements of several components, assembled by key, ready when all of their components have arrived."""
from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.data.queues.base import slices
from penstock._src.data.queues.priority import PriorityQueue
from penstock._src.data.queues.shared import Shared
from penstock._src.kernels import arrays

_MISSING: Any = object()
_FIRST = -(1 << 63)


class _Unfinished:
    __slots__ = ("index", "components")

    def __init__(self, index: int, count: int):
        self.index = index
        self.components: list = [_MISSING] * count


class Barrier(Shared):
    """Elements wait in `incomplete` for their components, then in a queue, ordered by the insertion that began them."""

    kind = "Barrier"

    def __init__(self, name: str, types: Sequence[Any], shapes: Sequence[tuple], container: str = ""):
        super().__init__(name, container)
        self.types, self.shapes = list(types), [tuple(s) for s in shapes]
        self.closed = self.cancelled = False
        self.incomplete: dict[bytes, _Unfinished] = {}
        self._insertions = _FIRST
        self._lock = threading.Lock()
        self._ready = PriorityQueue(f"{name}_queue", [dtypes.string, *types], [(), *self.shapes], -1)

    def insert_many(self, component: int, keys: np.ndarray, values: Any) -> None:
        """Inserts one component for each key. Nothing is inserted if one of the keys is not allowed."""
        if not 0 <= component < len(self.types):
            raise errors.invalid(f"The component ID is out of range {component} > num_components (= {len(self.types)})")
        dims, names = arrays.dims_of(values), keys.ravel().tolist()
        if names and 0 in dims:
            raise errors.invalid(f"Tensors with no elements are not supported {self.name}: received shape {arrays.show(dims)}")
        if len(dims) < 1 or dims[0] != len(names):
            raise errors.invalid(f"{len(names)} keys need as many values, got shape {arrays.show(dims)}")
        self._check_component(component, values, dims[1:])
        rows = slices(values) if names else []
        with self._lock:
            self._check_open(names)
            self._check_keys(component, names)
            done = self._insert(component, names, rows)
            if done:
                self._ready.extend(done)
            if self.closed and not self.incomplete and not self._ready.closed:
                self._ready.close(True)

    def _check_component(self, component: int, values: Any, dims: tuple) -> None:
        wanted, shape = self.types[component], self.shapes[component]
        if isinstance(values, torch.Tensor) and values.dtype is not wanted.torch:
            raise errors.invalid(f"Type mismatch in component {component}. Expected {wanted.name}, got "
                                 f"{str(values.dtype).removeprefix('torch.')}")
        if 0 not in dims and dims != shape:
            raise errors.invalid(f"Shape mismatch in component {component}. Expected {arrays.show(shape)}, got "
                                 f"{arrays.show(dims)}")

    def _check_open(self, names: list[bytes]) -> None:
        if self.closed and (self.cancelled or (names and not self.incomplete)):
            raise errors.CancelledError(
                None, None, f"Barrier {self.name} is closed.  Pending enqueues cancelled: {int(self.cancelled)}.  Number of "
                f"new insertions: {len(names)}.  Number of incomplete keys: {len(self.incomplete)}.")

    def _check_keys(self, component: int, names: list[bytes]) -> None:
        seen = set()
        for i, key in enumerate(names):
            element = self.incomplete.get(key)
            if element is None and self.closed:
                raise errors.CancelledError(
                    None, None, f"Barrier {self.name} is closed, but attempted to insert a brand new key: "
                    f"{key.decode(errors='replace')}.  Pending enqueues cancelled: {int(self.cancelled)}.  Insertion index: "
                    f"{i}.  Number of incomplete keys: {len(self.incomplete)}.")
            twice = len(self.types) > 1 and key in seen      # with one component, the first one is complete by then
            if twice or element is not None and element.components[component] is not _MISSING:
                raise errors.invalid(f"Key {key.decode(errors='replace')} already has a value for component {component} in "
                                     f"barrier {self.name}")
            seen.add(key)

    def _insert(self, component: int, names: list[bytes], rows: Sequence[Any]) -> list[tuple]:
        """Puts components in; returns the elements that are complete now, as rows of the queue."""
        done, began = [], False
        for key, value in zip(names, rows, strict=True):
            element = self.incomplete.get(key)
            if element is None:
                element = self.incomplete[key] = _Unfinished(self._insertions, len(self.types))
                began = True
            element.components[component] = value
            if _MISSING not in map(_identity, element.components):
                del self.incomplete[key]
                name = np.array(key, dtype=object)
                done.append((torch.tensor(element.index), name, *element.components))
        self._insertions += began
        return done

    def take_many(self, count: int, small: bool, ctx: Any) -> tuple:
        """`count` complete elements (fewer of a closed barrier, if `small`): indices, keys, components."""
        if count < 0:
            raise errors.invalid(f"num_elements must not be negative, got {count}")
        with self._lock:
            if self.closed:
                available = len(self._ready)
                if small:
                    count = min(count, available)
                else:
                    available += len(self.incomplete)
                if available < max(count, 1):
                    raise errors.OutOfRangeError(
                        None, None, f"Barrier '{self.name}' is closed and has insufficient elements (requested {count}, "
                        f"total size {available})")
        indices, keys, *values = self._ready.dequeue_many(count, ctx, fewer=small)
        return indices, keys, values

    def end_inserts(self, cancel_pending_enqueues: bool) -> None:
        """Closes the barrier for new keys; if cancelled, also for components of existing ones."""
        with self._lock:
            if self.closed and (self.cancelled or not cancel_pending_enqueues):
                raise errors.CancelledError(None, None, f"Barrier '{self.name}' is already closed.")
            self.cancelled, self.closed = cancel_pending_enqueues, True
            if cancel_pending_enqueues or not self.incomplete:
                self.incomplete.clear()
                self._ready.close(True)

    def ready_size(self) -> int:
        """How many elements are complete."""
        return len(self._ready)

    def check_same(self, types: Sequence[Any], shapes: Sequence[tuple]) -> None:
        """InvalidArgumentError unless a second op that shares this barrier describes the same one."""
        types, dims = list(types), [tuple(s) for s in shapes]
        for word, have, want in (("types", self.types, types), ("shapes", self.shapes, dims)):
            if have != want:
                raise errors.invalid(f"Shared barrier '{self.name}' has component {word} {_listed(have)} but requested "
                                     f"component {word} were {_listed(want)}")


def _listed(items: list) -> str:
    return ", ".join(arrays.show(i) if isinstance(i, tuple) else i.name for i in items)


def _identity(value: Any) -> Any:
    """Checks for a missing component by identity: tensors compare element by element."""
    return value if value is _MISSING else None

"""Staging areas: a first-in-first-out buffer, and a map of elements that may come and go in parts.

A waiter waits for a specific element (a position, a key), so all of them check again after each change.
"""
from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.data.queues.base import kept
from penstock._src.data.queues.shared import Shared


def size_in_bytes(values: Sequence[Any]) -> int:
    """The memory that values take."""
    return sum(v.numel() * v.element_size() if isinstance(v, torch.Tensor) else
               sum(map(len, v.ravel().tolist())) + v.nbytes if hasattr(v, "ravel") else 0 for v in values)


class _Area(Shared):
    """The base of both kinds: the limits, and waiting for a change."""

    kind = "StagingArea"

    def __init__(self, name: str, capacity: int, memory_limit: int, container: str = ""):
        super().__init__(name, container)
        self.capacity, self.memory_limit, self.bytes = capacity, memory_limit, 0
        self.changed = threading.Condition()

    def __len__(self) -> int:
        raise NotImplementedError

    def _fits(self, added: int) -> bool:
        return not self.memory_limit or self.bytes + added <= self.memory_limit

    def _has_room(self, added: int) -> bool:
        return self._fits(added) and (not self.capacity or len(self) < self.capacity)

    def _check_limit(self, added: int) -> None:
        if self.memory_limit and added > self.memory_limit:
            raise errors.ResourceExhaustedError(
                None, None, f"Attempted to insert tensors with combined size of '{added}' bytes into Staging Area with a "
                f"memory limit of '{self.memory_limit}'.")

    def _wait(self, ctx: Any, ready: Callable[[], bool]) -> None:
        if not ready():
            ctx.wait(self.changed, ready, self._about)

    def _about(self) -> str:
        elements, size = (f" of at most {limit}" if limit else "" for limit in (self.capacity, self.memory_limit))
        return f"staging area {self.name!r} with {len(self)}{elements} elements and {self.bytes}{size} bytes"


class Stage(_Area):
    """First in, first out."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._rows: collections.deque[tuple[list, int]] = collections.deque()

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, values: Sequence[Any], ctx: Any) -> None:
        """Adds an element, waiting for room."""
        values = list(map(kept, values))
        added = size_in_bytes(values)
        self._check_limit(added)
        with self.changed:
            self._wait(ctx, lambda: self._has_room(added))
            self._rows.append((values, added))
            self.bytes += added
            self.changed.notify_all()

    def get(self, ctx: Any) -> list:
        """Takes the oldest element, waiting for it."""
        with self.changed:
            self._wait(ctx, lambda: bool(self._rows))
            values, size = self._rows.popleft()
            self.bytes -= size
            self.changed.notify_all()
        return values

    def peek(self, index: int, ctx: Any) -> list:
        """The element at a position, waiting until there is one; it stays."""
        if index < 0:
            raise errors.invalid(f"index must not be negative, got {index}")
        with self.changed:
            self._wait(ctx, lambda: index < len(self._rows))
            return self._rows[index][0]

    def clear(self) -> None:
        """Drops everything."""
        with self.changed:
            self._rows.clear()
            self.bytes = 0
            self.changed.notify_all()


class MapStage(_Area):
    """Elements by key. Components may be put and taken in several calls; an element can be taken when it is whole."""

    def __init__(self, name: str, capacity: int, memory_limit: int, count: int, ordered: bool, container: str = ""):
        super().__init__(name, capacity, memory_limit, container)
        self.count, self.ordered = count, ordered
        self.whole: dict[int, dict[int, Any]] = {}
        self.incomplete: dict[int, dict[int, Any]] = {}

    def __len__(self) -> int:
        return len(self.whole)

    def put(self, key: int, indices: list[int], values: Sequence[Any], ctx: Any) -> None:
        """Adds components of an element, waiting for room."""
        self._check_indices(key, indices)
        values = list(map(kept, values))
        if len(values) != len(indices):
            raise errors.invalid(f"{len(indices)} indices need as many values, got {len(values)}")
        added = size_in_bytes(values)
        self._check_limit(added)
        complete = len(indices) == self.count
        with self.changed:
            self._wait(ctx, lambda: self._has_room(added) if complete else self._fits(added))
            parts = {} if complete else self.incomplete.get(key, {})
            for i in indices:
                if i in parts:
                    raise errors.invalid(f"The tensor for index '{i}' for key '{key}' was already initialized '{self.count}'.")
            if complete and key in self.whole:
                return                             # existing components stay
            parts.update(zip(indices, values, strict=True))
            self.bytes += added
            if len(parts) == self.count:
                self.incomplete.pop(key, None)
                self.whole[key] = parts
                self.changed.notify_all()
            else:
                self.incomplete[key] = parts

    def peek(self, key: int, indices: list[int], ctx: Any) -> list:
        """Components of an element, waiting for it; they stay."""
        self._check_indices(key, indices)
        with self.changed:
            self._wait(ctx, lambda: key in self.whole)
            return self._values(key, indices)

    def pop(self, key: int, indices: list[int], ctx: Any) -> list:
        """Takes components of an element, waiting for it."""
        self._check_indices(key, indices)
        with self.changed:
            self._wait(ctx, lambda: key in self.whole)
            return self._take(key, indices)

    def pop_any(self, indices: list[int], ctx: Any) -> tuple[int, list]:
        """Takes components of the element of least key (of any, if not ordered), waiting for one."""
        with self.changed:
            self._wait(ctx, lambda: bool(self.whole))
            key = min(self.whole) if self.ordered else next(iter(self.whole))
            self._check_indices(key, indices)
            return key, self._take(key, indices)

    def _take(self, key: int, indices: list[int]) -> list:
        values, element = self._values(key, indices), self.whole[key]
        for i in indices:
            del element[i]
        if not element:
            del self.whole[key]
        self.bytes -= size_in_bytes(values)
        self.changed.notify_all()
        return values

    def _values(self, key: int, indices: list[int]) -> list:
        element = self.whole[key]
        for i in indices:
            if i not in element:
                raise errors.invalid(f"Tensor at index '{i}' for key '{key}' has already been removed.")
        return [element[i] for i in indices]

    def _check_indices(self, key: int, indices: list[int]) -> None:
        if not indices:
            raise errors.invalid("Indices are empty")
        if any(a >= b for a, b in zip(indices, indices[1:], strict=False)):
            raise errors.invalid("Indices are not strictly ordered")
        for i in indices:
            if not 0 <= i < self.count:
                raise errors.invalid(f"Index '{i}' for key '{key}' was out of bounds '{self.count}'.")

    def clear(self) -> None:
        """Drops everything."""
        with self.changed:
            self.whole.clear()
            self.incomplete.clear()
            self.bytes = 0
            self.changed.notify_all()

"""Conditional accumulators: gradients are summed as they arrive, and their mean is taken when there are enough of them.

A gradient is stale, and dropped, if it was computed at an earlier step than the accumulator's. Taking the mean increments the
accumulator's step.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors, tf_logging
from penstock._src.base.static_shape import compatible
from penstock._src.data.queues.attempts import Attempt, Lines
from penstock._src.data.queues.base import kept, shown
from penstock._src.data.queues.shared import Shared
from penstock._src.kernels import arrays, unsigned


class Accumulator(Shared):
    """The base of dense and sparse accumulators: steps, counting, waiting."""

    kind = "ConditionalAccumulator"

    def __init__(self, name: str, dtype: Any, dims: tuple | None, reduction: str, container: str = ""):
        super().__init__(name, container)
        self.dtype, self.dims, self.mean = dtype, dims, reduction == "MEAN"
        self.count = self.step = 0
        self.tallies: dict[str, list[int]] = {}     # of gradients that were added and that were stale, by worker
        self.given: set[str | None] = set()         # workers whose gradients are in the sum
        self.workers = 0                            # the number of workers, if known
        self.gone: set[str] = set()                 # those of them that have ended
        self.waiting = Lines(1, lambda: f"accumulator {self.name!r} with {self.count} gradients at step {self.step}")

    def apply(self, local_step: int, gradient: Any, worker: str | None = None, once: bool = False) -> None:
        """Adds a gradient that was computed at `local_step`; drops it if it is stale. Both are counted per worker. If `once`, a
        second gradient of a worker for the same mean is dropped too: the worker was restarted after the first."""
        with self.waiting.lock:
            stale = local_step < self.step or once and worker in self.given
            if worker is not None:
                self.tallies.setdefault(worker, [0, 0])[stale] += 1
            if stale:
                return
            self._check(gradient)
            self._add(gradient)
            self.count += 1
            self.given.add(worker)
            self.waiting.flush()

    def meet(self, worker: str, workers: int, present: bool) -> None:
        """One of `workers` begins or ends: the gradients of workers that have ended are not waited for."""
        with self.waiting.lock:
            self.workers = workers
            self.tallies.setdefault(worker, [0, 0])
            (self.gone.discard if present else self.gone.add)(worker)
            self.waiting.flush()

    def interrupt(self) -> None:
        """Ends all waiting for gradients with CancelledError."""
        with self.waiting.lock:
            self.waiting.cancel(self.waiting.lines[0])

    def enough(self, required: int) -> int:
        """The number of gradients to wait for, when some workers have ended."""
        return min(required, max(1, self.workers - len(self.gone))) if self.gone else required

    def take(self, required: int, ctx: Any) -> Any:
        """The mean (or sum) of the gradients, when at least `required` of them have arrived."""
        if required <= 0:
            raise errors.invalid(f"Argument num_required must be positive, but was {required}")
        return self.waiting.run(_Take(self, required), self.waiting.lines[0], ctx)

    def set_step(self, step: int) -> None:
        """Sets the step before which gradients are stale."""
        with self.waiting.lock:
            if step < self.step:
                tf_logging.warning("Accumulator %s: the global step goes back from %d to %d", self.name, self.step, step)
            self.step = step

    def _check(self, gradient: Any) -> None:
        raise NotImplementedError

    def _add(self, gradient: Any) -> None:
        raise NotImplementedError

    def _result(self) -> Any:
        """Returns the accumulated value, and drops the reference to it."""
        raise NotImplementedError


class _Take(Attempt):
    __slots__ = ("accumulator", "required")
    what = "TakeGrad"

    def __init__(self, accumulator: Accumulator, required: int):
        super().__init__()
        self.accumulator, self.required = accumulator, required

    def advance(self) -> bool:
        owner = self.accumulator
        if owner.count < owner.enough(self.required):
            return False
        self.finish(owner._result())
        owner.step += 1
        owner.count = 0
        owner.given.clear()
        return True


class DenseAccumulator(Accumulator):
    """Accumulates tensors of one shape."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._total: torch.Tensor | None = None
        self._owned = False                        # the total is not shared: it may be overwritten

    def _check(self, gradient: torch.Tensor) -> None:
        got = tuple(gradient.shape)
        expected = tuple(self._total.shape) if self._total is not None else self.dims
        if gradient.dtype is not self.dtype.torch:
            raise errors.invalid(f"Type mismatch: expected {self.dtype.name}, got {gradient.dtype}")
        if not compatible(expected, got):
            raise errors.invalid(f"Shape mismatch: expected {shown(expected or ())}, got {shown(got)}")

    def _add(self, gradient: torch.Tensor) -> None:
        if self._total is None:
            self._total, self._owned = kept(gradient), False
        elif self._owned:
            _add_into(self._total, gradient)
        else:
            self._total, self._owned = _sum(self._total, gradient), True

    def _result(self) -> torch.Tensor:
        total, self._total = self._total, None
        if not self.mean or self.count == 1:
            return total                           # type: ignore[return-value]
        return _divided(total, torch.tensor(self.count))   # type: ignore[arg-type]


class SparseAccumulator(Accumulator):
    """Accumulates rows of a tensor: each row's mean is over the gradients that have it."""

    kind = "SparseConditionalAccumulator"

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._indices: Any = None
        self._values: Any = None
        self._counts: Any = None

    def _check(self, gradient: tuple) -> None:
        indices, values, shape = gradient
        if indices.dim() != 1:
            raise errors.invalid(f"Input indices should be vector but received shape: {shown(tuple(indices.shape))}")
        if values.dim() == 0:
            raise errors.invalid("Values cannot be 0-dimensional.")
        if values.shape[0] != indices.shape[0]:
            raise errors.invalid(f"Expected {indices.shape[0]} non-empty input values, got {values.shape[0]}")
        if values.dtype is not self.dtype.torch:
            raise errors.invalid(f"Type mismatch: expected {self.dtype.name}, got {values.dtype}")
        dims = self.dims or ()
        if shape is not None:
            self._check_shape(dims, arrays.ints(shape))
        self._check_indices(dims, indices)
        self._check_values(dims, tuple(values.shape))

    @staticmethod
    def _check_shape(dims: tuple, given: list[int]) -> None:
        if len(dims) > len(given):
            raise errors.invalid(f"Shape mismatch: expected shape rank at least {len(dims)}, got {len(given)}")
        for i, (d, g) in enumerate(zip(dims, given, strict=False)):
            if d is not None and d != g:
                raise errors.invalid(f"Shape mismatch: expected shape dim {i} to be {d}, got {g}")

    @staticmethod
    def _check_indices(dims: tuple, indices: torch.Tensor) -> None:
        limit = dims[0] if dims and dims[0] is not None else None
        wrong = indices < 0 if limit is None else (indices < 0) | (indices >= limit)
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            raise errors.invalid(f"Shape mismatch: index of slice {i} exceeded limits of shape; index is {int(indices[i])} "
                                 f"exceeded {limit}")

    def _check_values(self, dims: tuple, got: tuple) -> None:
        exact = self._values is not None
        expected = tuple(self._values.shape) if exact else dims
        if exact and len(expected) != len(got):
            raise errors.invalid(f"Shape mismatch: expected values rank {len(expected)}, got {len(got)}")
        if len(expected) > len(got):
            raise errors.invalid(f"Shape mismatch: expected values rank at least {len(expected)}, got {len(got)}")
        for i in range(1, len(expected)):
            if expected[i] is not None and expected[i] != got[i]:
                raise errors.invalid(f"Shape mismatch: expected values dim {i} to be {expected[i]}, got {got[i]}")

    def _add(self, gradient: tuple) -> None:
        indices, values, _ = gradient
        if self._values is None:
            self._indices, self._values, self._counts = kept(indices), kept(values), torch.ones_like(indices)
            return
        merged, where = torch.unique(torch.cat([self._indices, indices]), return_inverse=True)
        old, new = where[:len(self._indices)], where[len(self._indices):]
        total = torch.zeros((len(merged), *values.shape[1:]), dtype=values.dtype)
        arrays.add_at(total, (old,), self._values)
        arrays.add_at(total, (new,), values)
        counts = torch.zeros_like(merged).index_copy_(0, old, self._counts)
        counts[new.unique()] += 1
        self._indices, self._values, self._counts = merged, total, counts

    def _result(self) -> tuple:
        indices, values, counts = self._indices, self._values, self._counts
        self._indices = self._values = self._counts = None
        if self.mean and self.count > 1:
            values = _divided(values, counts.reshape(-1, *[1] * (values.dim() - 1)))
        first = self.dims[0] if self.dims and self.dims[0] is not None else -1
        return indices, values, torch.tensor([first, *values.shape[1:]])


def _sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (arrays.signed(a) + arrays.signed(b)).view(a.dtype)


def _add_into(total: torch.Tensor, more: torch.Tensor) -> None:
    arrays.signed(total).add_(arrays.signed(more))


def _divided(total: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Quotients of the same type: integers are rounded towards zero."""
    counts = counts.to(total.dtype)
    if unsigned.is_wide(total):
        return unsigned.divide(total, counts)
    return total / counts if total.is_floating_point() or total.is_complex() else \
        torch.div(total, counts, rounding_mode="trunc")

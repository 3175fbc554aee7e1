"""Several operations on each element of arrays on a GPU, in one kernel: CUDA source that NVRTC compiles in milliseconds.

A `Plan` is a list of *terms* over an array of some shape: arrays that are given (broadcast over the shape), numbers, and steps,
each of which computes one term of others. Sums and maxima over the last axis are steps, too, and so are sums over all other
axes, in plans that have none over the last. `device_source.py` writes the kernels.

Steps compute in single precision. Casts and results round to their types, other steps do not, so a plan returns what separate
kernels return, or something closer to the exact value. Steps that stand for ops in half precision use the fast functions of the
device, whose errors are below that precision. Where there is no NVRTC, or it fails, `Plan.separate` calls ATen for each step.
The same source, compiled for one lane by a C++ compiler, is what the tests run.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from penstock._src.kernels import nvrtc
from penstock._src.kernels.device_source import (
    COLUMNS,
    EACH,
    REDUCTIONS,
    ColumnSource,
    Given,
    Source,
    Step,
    Term,
    rounds,
)

__all__ = ["LARGEST", "MOST_GIVEN", "Given", "Plan", "Step", "Term"]

LARGEST = (1 << 31) - 1                 # elements: indices are of 32 bits
MOST_GIVEN = 24                         # arrays that a kernel takes


class Plan:
    """Computes `terms` over arrays of shape `dims`, and returns some of them, each of its type and in a shape: of all elements,
    of one for each row, or of one for each column if it is a sum of these. `given` are types and shapes of arrays."""

    def __init__(self, dims: Sequence[int], given: Sequence[tuple[torch.dtype, tuple[int, ...]]], terms: Sequence[Term],
                 results: Sequence[int], shapes: Sequence[tuple[int, ...]]):
        self.dims, self.given, self.terms, self.results = tuple(dims), list(given), list(terms), list(results)
        self.types, self.shapes = [_dtype(self.terms[r]) for r in results], list(shapes)
        self.per_column = [isinstance(t := self.terms[r], Step) and t.kind in COLUMNS for r in results]
        self.per_row = [not c and math.prod(s) != math.prod(self.dims) for s, c in zip(shapes, self.per_column, strict=True)]
        self.narrow = [self._is_narrow(i) for i in range(len(self.terms))]
        self._source = ColumnSource(self) if any(self.per_column) else Source(self)
        self._kernel = nvrtc.kernel(self._source.text(), self._source.names()) if torch.cuda.is_available() else None

    def _is_narrow(self, i: int) -> bool:
        """Whether a term is one number for each row."""
        term = self.terms[i]
        if isinstance(term, Given):
            return self.given[term.number][1][-1:] != (self.dims[-1],)
        if isinstance(term, float):
            return True
        return self.dims[-1] != 1 and term.kind not in COLUMNS and \
            (term.kind in REDUCTIONS or all(self._is_narrow(s) for s in term.sources))

    def run(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results for some arrays, on the device of the first one."""
        device = next((v.device for v in values if v.is_cuda), None)
        launch = self._kernel.loaded(device) if self._kernel is not None and device is not None else None
        if launch is None:
            return self.separate(values)
        values = [_aligned(v if v.is_cuda else v.to(device)) for v in values]
        results = [torch.empty(s, dtype=t, device=device) for s, t in zip(self.shapes, self.types, strict=True)]
        self._source.run(launch, values, results)
        return results

    def separate(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The same by a call of ATen for each step."""
        found: list[Any] = []
        for term in self.terms:
            if isinstance(term, Given):
                found.append(values[term.number].float())
            elif isinstance(term, float):
                found.append(torch.tensor(term, device=values[0].device))
            else:
                sources = [found[s] for s in term.sources]
                found.append(self._made(term, sources).float())
        whole = [(*self.dims[:-1], 1) if row else self.dims[-1:] if column else self.dims
                 for row, column in zip(self.per_row, self.per_column, strict=True)]
        return [found[r].to(t).expand(w).reshape(s).contiguous()
                for r, t, s, w in zip(self.results, self.types, self.shapes, whole, strict=True)]

    def _made(self, step: Step, sources: list[torch.Tensor]) -> torch.Tensor:
        if step.kind in COLUMNS:
            return COLUMNS[step.kind](sources[0].expand(self.dims))
        if step.kind in REDUCTIONS:
            return REDUCTIONS[step.kind][2](sources[0].expand(self.dims))
        made = EACH[step.kind][1](*sources)
        return made.to(step.dtype) if rounds(step) else made

    @property
    def source(self) -> str:
        """The generated kernel."""
        return self._source.text()


def _dtype(term: Term) -> torch.dtype:
    assert isinstance(term, Step)
    return term.dtype


def _aligned(value: torch.Tensor) -> torch.Tensor:
    """A value as the kernel reads it."""
    value = value.contiguous()
    return value if value.data_ptr() % 16 == 0 else value.clone()

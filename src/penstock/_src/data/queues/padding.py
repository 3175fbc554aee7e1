"""First in, first out, with components of variable size: batches are padded."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import compatible
from penstock._src.data.queues.base import shown
from penstock._src.data.queues.fifo import FIFOQueue
from penstock._src.kernels import arrays


class PaddingFIFOQueue(FIFOQueue):
    """A FIFO queue whose shapes may have unknown dimensions; a batch pads those with zeros to the largest row."""

    kind = "PaddingFIFOQueue"
    _alike = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if len(self.shapes) != len(self.types):
            raise errors.invalid(f"Shapes must be provided for all components, but received {len(self.types)} dtypes and "
                                 f"{len(self.shapes)} shapes.")

    def _check_shape(self, i: int, expected: tuple, got: tuple) -> None:
        if len(expected) != len(got) or not compatible(expected, got):
            raise errors.invalid(f"Shape mismatch in tuple component {i}. Expected {shown(expected)}, got {shown(got)}")

    def _stack(self, i: int, values: Sequence[Any]) -> Any:
        dims = [arrays.dims_of(v) for v in values]
        if all(d == dims[0] for d in dims):
            return arrays.stack(values, 0)
        largest = tuple(map(max, zip(*dims, strict=True)))
        out: Any = arrays.zeros((len(values), *largest), values[0])
        for n, (value, d) in enumerate(zip(values, dims, strict=True)):
            part: Any = (n, *(slice(size) for size in d))
            if isinstance(out, torch.Tensor):
                out[part].copy_(value)
            else:
                out[part] = value
        return out

"""Sobol sequences: points that fill the unit cube evenly."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

_DIMENSIONS = 2056
sobol_op = op("SobolSample", "dim: int32, num_results: int32, skip: int32 -> samples: dtype",
              "dtype: type in {float32 float64} = float32", host="dim num_results skip").no_gradient()


@sobol_op.shape
def _sobol_shape(dim, num_results, skip, *, c):
    for dims in (dim, num_results, skip):
        rank_is(dims, 0)
    rows, columns = c.const("num_results"), c.const("dim")
    return None if rows is None else int(rows), None if columns is None else int(columns)


@sobol_op.kernel
def _sobol_kernel(dim, num_results, skip, *, dtype):
    for name, value, least in (("dim", dim, 1), ("num_results", num_results, 1), ("skip", skip, 0)):
        if value.dim() or int(value) < least:
            raise errors.invalid(f"{name} must be a scalar of at least {least}, got {value.tolist()}")
    most = 2 ** 31 - 1
    if int(num_results) * int(dim) >= most:
        raise errors.invalid(f"num_results*dim must be less than {most}, got {int(num_results)} and {int(dim)}")
    if int(num_results) + int(skip) >= most:
        raise errors.invalid(f"num_results+skip must be less than {most}, got {int(num_results)} and {int(skip)}")
    if int(dim) > _DIMENSIONS or int(num_results) + int(skip) > 2 ** 30:
        raise errors.invalid(f"dim must be at most {_DIMENSIONS}, and the number of points below 2**30")
    source = torch.quasirandom.SobolEngine(int(dim))
    source.fast_forward(1 + int(skip))                      # the first point, zero, is left out
    return source.draw(int(num_results), dtype=dtype.torch)


@export("math.sobol_sample")
@dispatched
def sobol_sample(dim: Any, num_results: Any, skip: Any = 0, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Points [num_results, dim] of the Sobol sequence, after the first `skip`."""
    with name_scope(name, "sobol", [dim, num_results, skip]) as scope:
        return sobol_op(dim, num_results, skip, dtype=dtype, name=scope)

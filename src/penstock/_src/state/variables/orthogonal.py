"""Convolution kernels that preserve the norm of their input (exactly, with circular padding).

After Xiao et al., 2018: a delta kernel is an orthogonal matrix at the centre and zero elsewhere; a full kernel is put
together from 2-wide blocks of projections, one block after another by convolution of matrices.
"""
from __future__ import annotations

import itertools
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import constant
from penstock._src.ops.random.random import random_normal
from penstock._src.ops.registry import get
from penstock._src.state.variables.initializers import Initializer, floating, random_orthogonal

Blocks = dict[tuple[int, ...], Any]


class _Convolutional(Initializer):
    """The base of both kinds."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32):
        self.gain, self.seed, self.dtype = gain, seed, floating(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        shape = [int(d) for d in shape]
        self._check(shape)
        if shape[-2] > shape[-1]:
            raise ValueError("In_filters cannot be greater than out_filters.")
        return get("Mul")(self._kernel(shape, dtype), constant(self.gain, dtype))

    def _check(self, shape: list[int]) -> None:
        raise NotImplementedError

    def _kernel(self, shape: list[int], dtype: Any) -> Any:
        raise NotImplementedError


@export(v1=["contrib.framework.convolutional_delta_orthogonal"])
class ConvolutionDeltaOrthogonal(_Convolutional):
    """An orthogonal matrix at the centre, zeros elsewhere; for kernels of rank 3, 4 or 5."""

    def _check(self, shape: list[int]) -> None:
        if not 3 <= len(shape) <= 5:
            raise ValueError("The tensor to initialize must be at least three-dimensional and at most five-dimensional")

    def _kernel(self, shape: list[int], dtype: Any) -> Any:
        q = random_orthogonal(shape[-1], shape[-1], dtype, self.seed)[:shape[-2], :]
        centre = [(d - 1) // 2 for d in shape[:-2]]
        return get("ScatterNd")([centre], get("ExpandDims")(q, 0), shape)


class _FullOrthogonal(_Convolutional):
    """A kernel of blocks in `rank` spatial dimensions."""

    rank = 0

    def _check(self, shape: list[int]) -> None:
        if len(shape) != self.rank + 2:
            raise ValueError(f"The tensor to initialize must be {('three', 'four', 'five')[self.rank - 1]}-dimensional")
        if len(set(shape[:-2])) > 1:
            raise ValueError("Kernel sizes must be equal.")

    def _next_seed(self) -> int | None:
        self._drawn += 1
        return None if self.seed is None else self.seed + self._drawn

    def _kernel(self, shape: list[int], dtype: Any) -> Any:
        self._drawn = -1
        size, n = shape[0], shape[-1]
        lead = random_orthogonal(n, n, dtype, self._next_seed())[:shape[-2], :]
        blocks: Blocks = {(0,) * self.rank: get("MatrixDiag")(get("Fill")([n], constant(1, dtype)))}
        for _ in range(size - 1):
            blocks = self._convolved(blocks, self._block(n, dtype))
        cells = [get("MatMul")(lead, blocks[at]) for at in itertools.product(range(size), repeat=self.rank)]
        return get("Reshape")(get("Pack")(cells), shape)

    def _block(self, n: int, dtype: Any) -> Blocks:
        """2-wide: products of a projection or what it leaves out, one for each spatial dimension."""
        pairs = [self._projections(n, dtype) for _ in range(self.rank)]
        out: Blocks = {}
        for at in itertools.product((0, 1), repeat=self.rank):
            product = pairs[0][at[0]]
            for pair, i in zip(pairs[1:], at[1:], strict=True):
                product = get("MatMul")(product, pair[i])
            out[at] = product
        return out

    def _projections(self, n: int, dtype: Any) -> tuple[Any, Any]:
        """A random symmetric projection P, and 1 - P."""
        q = random_orthogonal(n, n, dtype, self._next_seed())
        keep = get("Cast")(get("Greater")(random_normal([n], seed=self._next_seed()), 0.), DstT=dtype)
        kept = get("Mul")(q, keep)
        p = get("MatMul")(kept, kept, transpose_b=True)
        return p, get("MatrixDiag")(get("Fill")([n], constant(1, dtype))) - p

    def _convolved(self, a: Blocks, b: Blocks) -> Blocks:
        """The convolution of two kernels whose elements are matrices."""
        terms: dict[tuple[int, ...], list] = {}
        for (i, x), (j, y) in itertools.product(a.items(), b.items()):
            terms.setdefault(tuple(p + q for p, q in zip(i, j, strict=True)), []).append(get("MatMul")(x, y))
        return {at: get("AddN")(found) for at, found in terms.items()}


@export(v1=["contrib.framework.convolutional_orthogonal_1d"])
class ConvolutionOrthogonal1D(_FullOrthogonal):
    """For kernels [width, in, out]."""

    rank = 1


@export(v1=["contrib.framework.convolutional_orthogonal_2d"])
class ConvolutionOrthogonal2D(_FullOrthogonal):
    """For kernels [height, width, in, out]."""

    rank = 2


@export(v1=["contrib.framework.convolutional_orthogonal_3d"])
class ConvolutionOrthogonal3D(_FullOrthogonal):
    """For kernels [depth, height, width, in, out]."""

    rank = 3

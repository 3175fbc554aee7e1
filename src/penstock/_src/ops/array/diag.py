"""Diagonals and bands of matrices.

A band is stored as one row per diagonal, the uppermost first, each padded to the longest; `align` is the side. The ops without
a version number support the main diagonal only, those of version 2 pad on the right, those of version 3 have an
attribute. The v1 functions lay bands out as TensorFlow 1.15 does, the v2 functions as TensorFlow 2.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, merge, rank_at_least, show
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.array.fill import ones
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import OpDef, get, op

# -- whole tensors --------------------------------------------------------------
_MOST_BYTES = 2 ** 63 - 1         # that a tensor can have
_NUMBERS = "T: type in {bfloat16 half float32 float64 int32 int64 complex64 complex128}"

diag_op = op("Diag", "diagonal: T -> output: T", _NUMBERS, export_as="linalg.tensor_diag", v1_as="diag",
             doc="A tensor of twice the rank with `diagonal` on its diagonal, zeros elsewhere.")
diag_part_op = op("DiagPart", "input: T -> diagonal: T", _NUMBERS, export_as="linalg.tensor_diag_part",
                  v1_as="diag_part", doc="The diagonal of a tensor whose shape is the same one twice.")


@diag_op.shape
def _diag_shape_2(diagonal):
    if diagonal == ():
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    return None if diagonal is None else diagonal + diagonal


@diag_op.kernel
def _diag_kernel_2(diagonal):
    if not diagonal.dim():
        raise errors.invalid("Input must be at least rank 1, got 0")
    return torch.diag(diagonal.reshape(-1)).reshape(tuple(diagonal.shape) * 2)


@diag_part_op.shape
def _diag_part_shape(input):
    if input is None:
        return None
    if len(input) % 2 or not input:
        raise ValueError(f"Input must have even and non-zero rank, input rank is {len(input)}: {show(input)}")
    half = len(input) // 2
    return merge(input[:half], input[half:])


@diag_part_op.kernel
def _diag_part_kernel(input):
    half = input.dim() // 2
    dims = tuple(input.shape[:half])
    if input.dim() % 2 or dims != tuple(input.shape[half:]):
        raise errors.invalid(f"Invalid shape {arrays.show(input.shape)}: the first and second half of the dimensions "
                             "do not match")
    n = int(np.prod(dims))
    return input.reshape(n, n).diagonal().reshape(dims)


diag_op.gradient(lambda op, grad: diag_part_op(grad))
diag_part_op.gradient(lambda op, grad: diag_op(grad))


# -- the geometry of bands --------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Band:
    """The diagonals lower … upper of matrices with `rows` x `cols` elements."""
    lower: int
    upper: int
    rows: int
    cols: int
    align: str = "LEFT_LEFT"

    @property
    def count(self) -> int:
        """The number of diagonals."""
        return self.upper - self.lower + 1

    @property
    def longest(self) -> int:
        """The length of the longest one."""
        return min(self.rows + min(self.upper, 0), self.cols - max(self.lower, 0))

    def check(self) -> None:
        """InvalidArgumentError unless the diagonals are in the matrix."""
        for name, k in (("lower_diag_index", self.lower), ("upper_diag_index", self.upper)):
            if not (-self.rows < k < self.cols or k == 0):
                raise errors.invalid(f"{name} is out of bound: {k}. It must be between {-self.rows} and {self.cols}")

    def offsets(self, d: torch.Tensor) -> torch.Tensor:
        """Where the elements of diagonals `d` start in their padded rows."""
        length = torch.minimum(self.rows + d.clamp(max=0), self.cols - d.clamp(min=0))
        above, below = (word == "RIGHT" for word in self.align.split("_"))
        right = torch.where(d > 0, above, torch.where(d < 0, below, above and below))
        return torch.where(right, self.longest - length, 0)

    def of_matrix(self, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """For each element of the matrix: whether it is in the band, and its position there."""
        d = torch.arange(self.cols, device=device) - torch.arange(self.rows, device=device).unsqueeze(1)
        inside = (d >= self.lower) & (d <= self.upper)
        along = torch.arange(self.cols, device=device) - d.clamp(min=0) + self.offsets(d)
        return inside, torch.where(inside, (self.upper - d) * self.longest + along, 0)

    def of_rows(self, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """For each position of the band's rows: whether it holds an element, and which one of the matrix."""
        d = torch.arange(self.upper, self.lower - 1, -1, device=device).unsqueeze(1)
        along = torch.arange(self.longest, device=device) - self.offsets(d)
        row, col = along + (-d).clamp(min=0), along + d.clamp(min=0)
        inside = (along >= 0) & (row < self.rows) & (col < self.cols)
        return inside, torch.where(inside, row * self.cols + col, 0)


def _range(k: Any) -> tuple[int, int]:
    """Lower and upper diagonal of an input `k`."""
    given = arrays.ints(k)
    if k.ndim > 1 or len(given) not in (1, 2):
        raise errors.invalid(f"diag_index must be a scalar, or a vector of one or two elements, received shape: "
                             f"{arrays.show(k.shape)}")
    if given[0] > given[-1]:
        raise errors.invalid(f"lower_diag_index must not be larger than upper_diag_index: {given[0]} > {given[-1]}")
    return given[0], given[-1]


def _static_range(c: Any) -> tuple[int, int] | None:
    k = c.const("k")
    if k is None:
        return None
    try:
        return _range(torch.from_numpy(np.array(k)))
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None


def _looked_up(values: torch.Tensor, where: torch.Tensor, inside: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """values[batch, where] where inside, else `other`."""
    if values.shape[1] == 0:
        return other.expand(values.shape[0], *where.shape)
    found = values.index_select(1, where.reshape(-1)).reshape(values.shape[0], *where.shape)
    return torch.where(inside, found, other)


def _matrix_from(diagonal: torch.Tensor, band: Band, other: torch.Tensor) -> torch.Tensor:
    """Matrices with the rows of `diagonal` on the band, `other` elsewhere."""
    keep = diagonal.dim() - (1 if band.count == 1 else 2)
    lead = tuple(diagonal.shape[:keep])
    inside, where = band.of_matrix(diagonal.device)
    batch = int(np.prod(lead))
    out = _looked_up(diagonal.reshape(batch, -1), where, inside,
                     other if other.dim() == 0 else other.reshape(batch, band.rows, band.cols))
    return out.reshape(*lead, band.rows, band.cols)


def _rows_from(input: torch.Tensor, band: Band, padding: torch.Tensor) -> torch.Tensor:
    """The rows of a band of matrices."""
    band.check()
    lead = tuple(input.shape[:-2])
    inside, where = band.of_rows(input.device)
    out = _looked_up(input.reshape(int(np.prod(lead)), -1), where, inside, padding)
    return out.reshape(*lead, *([band.count] if band.count > 1 else []), band.longest)


def _matrix_dims(x: torch.Tensor) -> tuple[int, int]:
    if x.dim() < 2:
        raise errors.invalid(f"input must be at least 2-dim, received shape: {arrays.show(x.shape)}")
    return x.shape[-2], x.shape[-1]


# -- matrix_diag --------------------------------------------------------------
_ALIGN = "T: type, align: string in {LEFT_RIGHT RIGHT_LEFT LEFT_LEFT RIGHT_RIGHT} = 'RIGHT_LEFT'"

matrix_diag_op = op("MatrixDiag", "diagonal: T -> output: T", "T: type")
rules.batching.leading[matrix_diag_op] = (0,)
batch_matrix_diag = op("BatchMatrixDiag", "diagonal: T -> output: T", "T: type")
for _made in (matrix_diag_op, batch_matrix_diag):
    _made.shape(lambda diagonal: None if diagonal is None else (*rank_at_least(diagonal, 1), diagonal[-1]))
    _made.gradient(lambda op, grad: matrix_diag_part_op(grad))

    @_made.kernel
    def _made_kernel(diagonal):
        if not diagonal.dim():
            raise errors.invalid("diagonal must be at least 1-dim, received shape: []")
        return torch.diag_embed(diagonal)


@rules.regions.lower(matrix_diag_op)
def _matrix_diag_in_region(op, r):
    found = r.filled(op.outputs[0].static_dims, 0.0, r.kind(op.outputs[0]))
    r.copy(r.diagonal(found), r.view(op.inputs[0]))
    return [found]


def _matrix_size(longest: int, lower: int, upper: int, rows: int, cols: int) -> tuple[int, int]:
    """The size of the matrix that a band of a width belongs to; -1 if it is to be inferred."""
    least_rows, least_cols = longest - min(upper, 0), longest + max(lower, 0)
    if rows != -1 and rows < least_rows:
        raise errors.invalid("The number of rows is too small.")
    if cols != -1 and cols < least_cols:
        raise errors.invalid("The number of columns is too small.")
    if rows == -1 and cols == -1:
        rows = cols = max(least_rows, least_cols)
    rows, cols = least_rows if rows == -1 else rows, least_cols if cols == -1 else cols
    if rows != least_rows and cols != least_cols:
        raise errors.invalid("num_rows and num_cols do not match the shape of the diagonals and k.")
    return rows, cols


def _diag_shape(diagonal: Dims, c: Any) -> Dims:
    ks, rows, cols = _static_range(c), c.const("num_rows"), c.const("num_cols")
    rank_at_least(diagonal, 1)
    if diagonal is None or ks is None:
        return None
    lead = diagonal[:-1] if ks[0] == ks[1] else diagonal[:-2]
    if ks[0] != ks[1] and (len(diagonal) < 2 or diagonal[-2] not in (None, ks[1] - ks[0] + 1)):
        raise ValueError("The number of diagonals provided in the input does not match the lower_diag_index and "
                         f"upper_diag_index range: {show(diagonal)} for {ks}")
    if diagonal[-1] is None or rows is None or cols is None:
        return (*lead, None, None)
    try:
        return (*lead, *_matrix_size(diagonal[-1], *ks, int(rows), int(cols)))
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None


def _diag_kernel(diagonal: Any, k: Any, num_rows: Any, num_cols: Any, padding_value: Any, align: str) -> Any:
    if not diagonal.dim():
        raise errors.invalid("diagonal must be at least 1-dim, received shape: []")
    lower, upper = _range(k)
    if lower != upper and (diagonal.dim() < 2 or diagonal.shape[-2] != upper - lower + 1):
        raise errors.invalid("The number of diagonals provided in the input does not match the lower_diag_index and "
                             "upper_diag_index range.")
    rows, cols = _matrix_size(diagonal.shape[-1], lower, upper, int(num_rows), int(num_cols))
    arrays.checked_dims(torch.tensor([*diagonal.shape[:-1], rows, cols]))
    return _matrix_from(diagonal, Band(lower, upper, rows, cols, align), padding_value.reshape(()))


_DIAG_ARGS = "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> output: T"
matrix_diag_v2 = op("MatrixDiagV2", _DIAG_ARGS, "T: type")
matrix_diag_v3 = op("MatrixDiagV3", _DIAG_ARGS, _ALIGN)
rules.batching.leading[matrix_diag_v3] = (0,)
for _made in (matrix_diag_v2, matrix_diag_v3):
    _made.shape(lambda diagonal, k, num_rows, num_cols, padding_value, *, c: _diag_shape(diagonal, c))
matrix_diag_v2.kernel(lambda diagonal, k, num_rows, num_cols, padding_value:
                      _diag_kernel(diagonal, k, num_rows, num_cols, padding_value, "LEFT_LEFT"))
matrix_diag_v3.kernel(lambda diagonal, k, num_rows, num_cols, padding_value, *, align:
                      _diag_kernel(diagonal, k, num_rows, num_cols, padding_value, align))
matrix_diag_v2.gradient(lambda op, grad: (_part(grad, op.inputs[1], "LEFT_LEFT"), None, None, None, None))
matrix_diag_v3.gradient(lambda op, grad: (_part(grad, op.inputs[1], op.attrs["align"]), None, None, None, None))


# -- matrix_diag_part --------------------------------------------------------------
matrix_diag_part_op: OpDef = op("MatrixDiagPart", "input: T -> diagonal: T", "T: type")
rules.batching.leading[matrix_diag_part_op] = (0,)
batch_matrix_diag_part = op("BatchMatrixDiagPart", "input: T -> diagonal: T", "T: type")


def _least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


for _made in (matrix_diag_part_op, batch_matrix_diag_part):
    _made.shape(lambda input: None if rank_at_least(input, 2) is None else (*input[:-2], _least(*input[-2:])))
    _made.gradient(lambda op, grad: _part_gradient(op.inputs[0], grad))

    @_made.kernel
    def _made_kernel_2(input):
        _matrix_dims(input)
        return input.diagonal(0, -2, -1)


rules.regions.lower[matrix_diag_part_op] = lambda op, r: [r.diagonal(r.view(op.inputs[0]))]
rules.regions.views.add(matrix_diag_part_op)


def _part_gradient(x: Tensor, grad: Tensor) -> Tensor:
    if x.static_dims is not None and x.static_dims[-1] is not None and x.static_dims[-1] == x.static_dims[-2]:
        return matrix_diag_op(grad)
    return matrix_set_diag_op(get("ZerosLike")(x), grad)


def _part_shape(input: Dims, c: Any) -> Dims:
    rank_at_least(input, 2)
    ks = _static_range(c)
    if input is None or ks is None:
        return None
    rows, cols = input[-2:]
    middle = (ks[1] - ks[0] + 1,) if ks[1] > ks[0] else ()
    if rows is None or cols is None:
        return (*input[:-2], *middle, None)
    band = Band(*ks, rows, cols)
    try:
        band.check()
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None
    return (*input[:-2], *middle, band.longest)


_PART_ARGS = "input: T, k: int32, padding_value: T -> diagonal: T"
matrix_diag_part_v2 = op("MatrixDiagPartV2", _PART_ARGS, "T: type")
matrix_diag_part_v3 = op("MatrixDiagPartV3", _PART_ARGS, _ALIGN)
rules.batching.leading[matrix_diag_part_v3] = (0,)
for _made in (matrix_diag_part_v2, matrix_diag_part_v3):
    _made.shape(lambda input, k, padding_value, *, c: _part_shape(input, c))
matrix_diag_part_v2.kernel(lambda input, k, padding_value: _rows_from(
    input, Band(*_range(k), *_matrix_dims(input)), padding_value.reshape(())))
matrix_diag_part_v3.kernel(lambda input, k, padding_value, *, align: _rows_from(
    input, Band(*_range(k), *_matrix_dims(input), align), padding_value.reshape(())))
matrix_diag_part_v2.gradient(lambda op, grad: _band_part_gradient(op, grad, "LEFT_LEFT"))
matrix_diag_part_v3.gradient(lambda op, grad: _band_part_gradient(op, grad, op.attrs["align"]))


def _band_part_gradient(op: Any, grad: Tensor, align: str) -> tuple:
    x, k = op.inputs[:2]
    return _set(get("ZerosLike")(x), grad, k, align), None, None


def _part(x: Any, k: Any, align: str) -> Tensor:
    zero = convert(0, x.dtype)
    if align == "LEFT_LEFT":
        return matrix_diag_part_v2(x, k, zero)
    return matrix_diag_part_v3(x, k, zero, align=align)


def _set(x: Any, diagonal: Any, k: Any, align: str, name: str | None = None) -> Tensor:
    if align == "LEFT_LEFT":
        return matrix_set_diag_v2(x, diagonal, k, name=name)
    return matrix_set_diag_v3(x, diagonal, k, align=align, name=name)


# -- matrix_set_diag --------------------------------------------------------------
matrix_set_diag_op = op("MatrixSetDiag", "input: T, diagonal: T -> output: T", "T: type")
batch_matrix_set_diag = op("BatchMatrixSetDiag", "input: T, diagonal: T -> output: T", "T: type")


@rules.regions.lower(matrix_set_diag_op)
def _matrix_set_diag_in_region(op, r):
    found = r.copied(r.view(op.inputs[0]))
    r.copy(r.diagonal(found), r.view(op.inputs[1]))
    return [found]


def _set_shape(input: Dims, diagonal: Dims, ks: tuple | None) -> Dims:
    rank_at_least(input, 2)
    rank_at_least(diagonal, 1)
    if input is None or diagonal is None or ks is None or None in input[-2:]:
        return input
    band = Band(*ks, *input[-2:])
    try:
        band.check()
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None
    wanted = (*input[:-2], *([band.count] if band.count > 1 else []), band.longest)
    try:
        merge(diagonal, wanted)
    except ValueError:
        raise ValueError(f"diagonal must have shape {show(wanted)} to be set in {show(input)}, but has "
                         f"{show(diagonal)}") from None
    return input


def _set_kernel(input: torch.Tensor, diagonal: torch.Tensor, band: Band) -> torch.Tensor:
    band.check()
    if not diagonal.dim():
        raise errors.invalid("diagonal must be at least 1-dim, received shape: []")
    wanted = (*input.shape[:-2], *([band.count] if band.count > 1 else []), band.longest)
    if tuple(diagonal.shape) != tuple(wanted):
        raise errors.invalid(f"Either first dimensions of diagonal don't match input.shape[:-2], or its last ones do not "
                             f"match the diagonals: expected shape {arrays.show(wanted)}, but received diagonal shape "
                             f"{arrays.show(diagonal.shape)}")
    if band.lower == band.upper:
        out = input.clone()
        out.diagonal(band.lower, -2, -1).copy_(diagonal)
        return out
    return _matrix_from(diagonal, band, input)


for _made in (matrix_set_diag_op, batch_matrix_set_diag):
    _made.shape(lambda input, diagonal: _set_shape(input, diagonal, (0, 0)))
    _made.kernel(lambda input, diagonal: _set_kernel(input, diagonal, Band(0, 0, *_matrix_dims(input))))
    _made.gradient(lambda op, grad: (matrix_set_diag_op(grad, get("ZerosLike")(op.inputs[1])),
                                     matrix_diag_part_op(grad)))

_SET_ARGS = "input: T, diagonal: T, k: int32 -> output: T"
matrix_set_diag_v2 = op("MatrixSetDiagV2", _SET_ARGS, "T: type")
matrix_set_diag_v3 = op("MatrixSetDiagV3", _SET_ARGS, _ALIGN)
rules.batching.leading[matrix_set_diag_v3] = (0, 1)
for _made in (matrix_set_diag_v2, matrix_set_diag_v3):
    _made.shape(lambda input, diagonal, k, *, c: _set_shape(input, diagonal, _static_range(c)))
matrix_set_diag_v2.kernel(lambda input, diagonal, k: _set_kernel(
    input, diagonal, Band(*_range(k), *_matrix_dims(input))))
matrix_set_diag_v3.kernel(lambda input, diagonal, k, *, align: _set_kernel(
    input, diagonal, Band(*_range(k), *_matrix_dims(input), align)))
matrix_set_diag_v2.gradient(lambda op, grad: _set_gradient(op, grad, "LEFT_LEFT"))
matrix_set_diag_v3.gradient(lambda op, grad: _set_gradient(op, grad, op.attrs["align"]))


def _set_gradient(op: Any, grad: Tensor, align: str) -> tuple:
    diagonal, k = op.inputs[1:]
    return _set(grad, get("ZerosLike")(diagonal), k, align), _part(grad, k, align), None


# -- bands --------------------------------------------------------------
band_part_op = op("MatrixBandPart", "input: T, num_lower: Tindex, num_upper: Tindex -> band: T",
                  "T: type, Tindex: type in {index} = int64", export_as="linalg.band_part", v1_as="matrix_band_part",
                  doc="Matrices with zeros outside of a band around the main diagonal; -1 keeps a whole triangle.")
rules.batching.leading[band_part_op] = (0,)
batch_band_part = op("BatchMatrixBandPart", "input: T, num_lower: int64, num_upper: int64 -> band: T", "T: type")

for _made in (band_part_op, batch_band_part):
    _made.shape(lambda input, num_lower, num_upper: rank_at_least(input, 2))
    _made.gradient(lambda op, grad: (band_part_op(grad, *op.inputs[1:]), None, None))

    @_made.kernel
    def _made_kernel_3(input, num_lower, num_upper):
        rows, cols = _matrix_dims(input)
        lower, upper = int(num_lower), int(num_upper)
        if lower > rows:
            raise errors.invalid(f"num_lower must be negative or less or equal to number of rows ({rows}) got: {lower}")
        if upper > cols:
            raise errors.invalid(f"num_upper must be negative or less or equal to number of columns ({cols}) got: "
                                 f"{upper}")
        band = arrays.signed(input)
        if upper >= 0:
            band = torch.tril(band, upper)
        return arrays.unsigned_as(torch.triu(band, -lower) if lower >= 0 else band, input)


@rules.regions.lower(band_part_op)
def _band_part_in_region(op, r):
    view = r.view(op.inputs[0])
    lower, upper = (int(r.constant(t)) for t in op.inputs[1:])
    rows, cols = view.dims[-2:]
    if lower > rows or upper > cols:
        raise r.Unfit("the op says what is wrong")
    return [r.band(view, lower if lower >= 0 else rows, upper if upper >= 0 else cols)]


# -- the public functions --------------------------------------------------------------
def _plain(k: Any) -> bool:
    return isinstance(k, (int, np.integer)) and k == 0


def _is(value: Any, wanted: int) -> bool:
    return isinstance(value, (int, float, np.number)) and value == wanted


def _diag(diagonal: Any, k: Any, num_rows: Any, num_cols: Any, padding_value: Any, align: str,
          name: str | None) -> Tensor:
    if _plain(k) and _is(num_rows, -1) and _is(num_cols, -1) and _is(padding_value, 0):
        return matrix_diag_op(diagonal, name=name)
    diagonal = convert(diagonal)
    if diagonal.dtype == dtypes.bool and not isinstance(padding_value, Tensor):
        padding_value = bool(padding_value)
    if align == "LEFT_LEFT":
        return matrix_diag_v2(diagonal, k, num_rows, num_cols, padding_value, name=name)
    return matrix_diag_v3(diagonal, k, num_rows, num_cols, padding_value, align=align, name=name)


@export(v1=["linalg.diag", "matrix_diag"])
@dispatched
def matrix_diag(diagonal: Any, name: str | None = "diag", k: Any = 0, num_rows: Any = -1, num_cols: Any = -1,
                padding_value: Any = 0, align: str = "LEFT_LEFT") -> Tensor:
    """Matrices with `diagonal` on the diagonals `k` (one, or the lower and upper of a band), `padding_value` elsewhere.

    >>> tf.linalg.diag([1, 2])    # [[1, 0], [0, 2]]
    """
    return _diag(diagonal, k, num_rows, num_cols, padding_value, align, name)


@export(v2=["linalg.diag"])
@dispatched
def matrix_diag_public_v2(diagonal: Any, name: str | None = "diag", k: Any = 0, num_rows: Any = -1, num_cols: Any = -1,
                          padding_value: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with `diagonal` on the diagonals `k`, and `padding_value` elsewhere.

    Args:
        diagonal: The values: [..., n], or [..., number of diagonals, n] for a band.
        name: A name for the op.
        k: Which diagonal: 0 is the main one, positive ones are above it. A pair is the lowest and the highest of a band.
        num_rows: The rows of a matrix; -1 for the smallest number that fits.
        num_cols: The columns of a matrix; -1 for the smallest number that fits.
        padding_value: The value of all other elements.
        align: On which side diagonals that are shorter than the longest one are padded.

    Returns:
        [..., rows, columns].

    >>> tf.linalg.diag([1, 2]).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    return _diag(diagonal, k, num_rows, num_cols, padding_value, align, name)


def _diag_part(input: Any, k: Any, padding_value: Any, align: str, name: str | None) -> Tensor:
    if _plain(k):
        return matrix_diag_part_op(input, name=name)
    input = convert(input)
    if input.dtype == dtypes.bool and not isinstance(padding_value, Tensor):
        padding_value = bool(padding_value)
    if align == "LEFT_LEFT":
        return matrix_diag_part_v2(input, k, padding_value, name=name)
    return matrix_diag_part_v3(input, k, padding_value, align=align, name=name)


@export(v1=["linalg.diag_part", "matrix_diag_part"])
@dispatched
def matrix_diag_part(input: Any, name: str | None = "diag_part", k: Any = 0, padding_value: Any = 0,
                     align: str = "LEFT_LEFT") -> Tensor:
    """The diagonals `k` (one, or the lower and upper of a band) of matrices.

    >>> tf.linalg.diag_part([[1, 2], [3, 4]])    # [1, 4]
    """
    return _diag_part(input, k, padding_value, align, name)


@export(v2=["linalg.diag_part"])
@dispatched
def matrix_diag_part_public_v2(input: Any, name: str | None = "diag_part", k: Any = 0, padding_value: Any = 0,
                               align: str = "RIGHT_LEFT") -> Tensor:
    """The diagonals `k` of matrices.

    Args:
        input: Matrices [..., rows, columns].
        name: A name for the op.
        k: Which diagonal: 0 is the main one, positive ones are above it. A pair is the lowest and the highest of a band.
        padding_value: What diagonals that are shorter than the longest one are padded with.
        align: On which side they are padded.

    Returns:
        [..., n], or [..., number of diagonals, n] for a band.

    >>> tf.linalg.diag_part([[1, 2], [3, 4]]).numpy().tolist()
    [1, 4]
    """
    return _diag_part(input, k, padding_value, align, name)


@export(v1=["linalg.set_diag", "matrix_set_diag"])
@dispatched
def matrix_set_diag(input: Any, diagonal: Any, name: str | None = "set_diag", k: Any = 0,
                    align: str = "LEFT_LEFT") -> Tensor:
    """Matrices with other diagonals `k` (one, or the lower and upper of a band).

    >>> tf.linalg.set_diag([[1, 2], [3, 4]], [0, 0])    # [[0, 2], [3, 0]]
    """
    return matrix_set_diag_op(input, diagonal, name=name) if _plain(k) else _set(input, diagonal, k, align, name)


@export(v2=["linalg.set_diag"])
@dispatched
def matrix_set_diag_public_v2(input: Any, diagonal: Any, name: str | None = "set_diag", k: Any = 0,
                              align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with other diagonals `k`.

    Args:
        input: Matrices [..., rows, columns].
        diagonal: The new values, of the shape that `diag_part` returns.
        name: A name for the op.
        k: Which diagonal: 0 is the main one, positive ones are above it. A pair is the lowest and the highest of a band.
        align: On which side diagonals that are shorter than the longest one are padded.

    Returns:
        The changed matrices.

    >>> tf.linalg.set_diag([[1, 2], [3, 4]], [0, 0]).numpy().tolist()
    [[0, 2], [3, 0]]
    """
    return matrix_set_diag_op(input, diagonal, name=name) if _plain(k) else _set(input, diagonal, k, align, name)


@export("eye", "linalg.eye")
@dispatched
def eye(num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = dtypes.float32,
        name: str | None = None) -> Tensor:
    """The identity matrix, or a batch of them.

    Args:
        num_rows: Number of rows.
        num_columns: Number of columns, by default as many.
        batch_shape: Shape of the batch of matrices, or None for one.
        dtype: Element type.
        name: Name of the operation.

    Returns:
        Tensor of shape [*batch_shape, num_rows, num_columns].

    >>> tf.eye(2).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        cols = num_rows if num_columns is None else num_columns
        for n in (num_rows, cols):
            if not isinstance(n, (int, np.integer, Tensor)):
                raise TypeError("num_rows and num_columns must be positive integer values.")
        square = num_columns is None or not isinstance(num_rows, Tensor) and not isinstance(cols, Tensor) \
            and num_rows == cols
        _check_bytes(_joined(batch_shape, [num_rows, cols]), dtype)
        if square:
            return matrix_diag_op(ones(_joined(batch_shape, [num_rows]), dtype))
        least = get("Minimum")(num_rows, cols) if isinstance(num_rows, Tensor) or isinstance(cols, Tensor) \
            else min(num_rows, cols)
        kind = dtypes.as_dtype(dtype)
        empty = get("Fill")(_joined(batch_shape, [num_rows, cols]), convert(False if kind == dtypes.bool else 0, kind))
        return matrix_set_diag_v3(empty, ones(_joined(batch_shape, [least]), dtype), 0)


def _check_bytes(dims: Any, dtype: Any) -> None:
    """InvalidArgumentError for matrices that no machine can address, before their diagonal is allocated."""
    if not isinstance(dims, Tensor) and math.prod(dims) * dtypes.as_dtype(dtype).size > _MOST_BYTES:
        raise errors.invalid(f"An identity matrix of shape {dims} would need more than 2**63 - 1 bytes")


def _joined(batch: Any, sizes: list) -> Any:
    """A batch shape followed by sizes: a list, or a tensor where parts are."""
    if isinstance(batch, Tensor):
        return get("ConcatV2")([batch, convert(sizes, batch.dtype)], 0)
    whole = [*(batch if batch is not None else []), *sizes]
    return convert(whole, dtypes.int32) if any(isinstance(s, Tensor) for s in whole) else [int(s) for s in whole]

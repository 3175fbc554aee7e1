"""The base of block operators, whose arguments and results may be lists of blocks.

The argument of a product or a solution is one tensor, or a list with one tensor per block on the diagonal. A list is read as
blocks if its sizes match them.
"""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base import nest
from penstock._src.base.static_shape import Dimension, TensorShape
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.library.linalg import util
from penstock._src.library.linalg.linear_operator import LinearOperator


def _is_blockwise(sizes: list[Dimension], x: Any, axis: int) -> bool:
    """Whether `x` is one value per block, rather than a tensor written as nested lists."""
    if not isinstance(x, (list, tuple)) or len(x) != len(sizes):
        return False
    if not any(nest.is_nested(part) for part in x):
        return True
    given, own = [convert(part).shape.static_dims[axis] for part in x], [s.value for s in sizes]
    alike = all(g == given[0] for g in given)
    if all(s is None for s in own):
        if len(given) > 1 and alike:
            raise ValueError("Parsing of the input structure is ambiguous: the sizes of the blocks are not known. Pass one "
                             "tensor, or a list of tensors.")
        return len(given) > 1
    if all(s is None or s == g for s, g in zip(own, given, strict=True)):
        return True
    if alike and given[0] >= sum(s for s in own if s is not None):
        return False
    raise ValueError(f"Input dimension does not match operator dimension: blocks of {own}, an argument of {given}")


class BlockOperator(LinearOperator):
    """An operator with square or rectangular blocks on its diagonal.

    A derived class has `_diagonal_operators`, `_all_operators`, and products and solutions of lists of blocks.
    """

    _diagonal_operators: list
    _all_operators: list
    operators = property(lambda self: self._operators, doc="The blocks.")

    def _block_range_dimensions(self) -> list[Dimension]:
        return [o.range_dimension for o in self._diagonal_operators]

    def _block_domain_dimensions(self) -> list[Dimension]:
        return [o.domain_dimension for o in self._diagonal_operators]

    def _block_range_dimension_tensors(self) -> list[Tensor]:
        return [o.range_dimension_tensor() for o in self._diagonal_operators]

    def _block_domain_dimension_tensors(self) -> list[Tensor]:
        return [o.domain_dimension_tensor() for o in self._diagonal_operators]

    def _shape(self) -> TensorShape:
        matrix = TensorShape([util.total(self._block_range_dimensions()), util.total(self._block_domain_dimensions())])
        return util.broadcast_batch_shape(self._all_operators).concatenate(matrix)

    def _shape_tensor(self) -> Tensor:
        matrix = tf.stack([util.total(self._block_range_dimension_tensors()),
                           util.total(self._block_domain_dimension_tensors())])
        return tf.concat([util.broadcast_batch_sizes(self._all_operators), matrix], 0)

    # -- arguments ----------------------------------------------------------------------------------------------------
    def _blocks(self, x: Any, rows: bool, axis: int) -> list | None:
        """`x` as one tensor per block, if it is given so; its `axis` fits the rows or the columns of the blocks."""
        sizes = self._block_range_dimensions() if rows else self._block_domain_dimensions()
        if not _is_blockwise(sizes, x, axis):
            return None
        return [part if isinstance(part, LinearOperator) else o._checked(part, "x", -2 if rows else -1, axis)
                for o, part in zip(self._diagonal_operators, x, strict=True)]

    def _split(self, x: Tensor, rows: bool, axis: int) -> list[Tensor]:
        """`x` cut along `axis` into the parts that fit the rows or the columns of the blocks."""
        sizes: list = [s.value for s in (self._block_range_dimensions() if rows else self._block_domain_dimensions())]
        if None in sizes:
            sizes = self._block_range_dimension_tensors() if rows else self._block_domain_dimension_tensors()
        return tf.split(x, sizes, axis=axis)

    @staticmethod
    def _joined(parts: list) -> Tensor:
        return tf.concat(util.broadcast_batch(parts), axis=-2)

    # -- products and solutions ---------------------------------------------------------------------------------------
    def _matmul_blocks(self, x: list, adjoint: bool, adjoint_arg: bool) -> list:
        """The blocks of the product with blocks."""
        raise NotImplementedError

    def _solve_blocks(self, rhs: list, adjoint: bool, adjoint_arg: bool) -> list:
        """The blocks of the solution for blocks."""
        raise NotImplementedError

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        parts = self._split(x, adjoint, -1 if adjoint_arg else -2)
        return self._joined(self._matmul_blocks(parts, adjoint, adjoint_arg))

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        parts = self._split(rhs, not adjoint, -1 if adjoint_arg else -2)
        return self._joined(self._solve_blocks(parts, adjoint, adjoint_arg))

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """The product with a matrix, another operator, or a list with a matrix per block (which returns a list)."""
        blocks = self._blocks(x, adjoint, -1 if adjoint_arg else -2)
        if blocks is None:
            return super().matmul(x, adjoint, adjoint_arg, name)
        with self._name_scope(name):
            return self._matmul_blocks(blocks, adjoint, adjoint_arg)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """The product with a vector, or with a list with a vector per block (which returns a list)."""
        blocks = self._blocks(x, adjoint, -1)
        if blocks is None:
            return super().matvec(x, adjoint, name)
        return [tf.squeeze(y, axis=-1) for y in self.matmul([tf.expand_dims(b, -1) for b in blocks], adjoint, name=name)]

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """The X of `A X = rhs` for a matrix, another operator, or a list with a matrix per block (which returns a list)."""
        self._check_solvable()
        blocks = self._blocks(rhs, not adjoint, -1 if adjoint_arg else -2)
        if blocks is None:
            return super().solve(rhs, adjoint, adjoint_arg, name)
        with self._name_scope(name):
            return self._solve_blocks(blocks, adjoint, adjoint_arg)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """The x of `A x = rhs` for a vector, or for a list with a vector per block (which returns a list)."""
        blocks = self._blocks(rhs, not adjoint, -1)
        if blocks is None:
            return super().solvevec(rhs, adjoint, name)
        return [tf.squeeze(y, axis=-1) for y in self.solve([tf.expand_dims(b, -1) for b in blocks], adjoint, name=name)]

    # -- what only the diagonal decides -------------------------------------------------------------------------------
    def _columns(self, vectors: list[Tensor]) -> Tensor:
        """Vectors of the blocks, with broadcast batch dimensions, in sequence."""
        return tf.squeeze(self._joined([v[..., tf.newaxis] for v in vectors]), axis=-1)

    def _determinant(self) -> Tensor:
        return util.product([o.determinant() for o in self._diagonal_operators])

    def _log_abs_determinant(self) -> Tensor:
        return util.total([o.log_abs_determinant() for o in self._diagonal_operators])

    def _dense_rows(self, rows: list[list[Tensor]]) -> Tensor:
        """The matrix of rows of blocks; the last block of a row is on the diagonal, and zeros fill the rest."""
        flat = iter(util.broadcast_batch([block for row in rows for block in row]))
        width: Any = self.domain_dimension.value
        width = self.domain_dimension_tensor() if width is None else width
        done: list[Tensor] = []
        before: Any = 0
        for row in rows:
            blocks = [next(flat) for _ in row]
            lead = tf.shape(blocks[-1])[:-1]
            inside = sum(tf.shape(block)[-1] for block in blocks[:-1])
            left = tf.zeros(tf.concat([lead, [before - inside]], 0), dtype=self.dtype)
            before = before + tf.shape(blocks[-1])[-1]
            right = tf.zeros(tf.concat([lead, [width - before]], 0), dtype=self.dtype)
            done.append(tf.concat([left, *blocks, right], axis=-1))
        dense = tf.concat(done, axis=-2)
        dense.set_shape(self.shape)
        return dense

"""Of `ops.linalg.sparse.sparse`: sparse matrices, or batches of them, as objects."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.ops.sparse.csr_matrix import matrix_dims

_OPS = tf.raw_ops


class CSRSparseMatrix:
    """A sparse matrix of rank 2, or a batch of rank 3, that is stored row by row.

    >>> CSRSparseMatrix(tf.sparse.from_dense([[0.0, 2.0], [3.0, 0.0]])).to_dense()
    """

    def __init__(self, value: Any, indices: Any = None, name: str | None = None):
        """A matrix of `value`: a SparseTensor, another matrix, or a dense tensor, of which the elements at `indices` (a row
        for each place) are stored, by default those that are not zero."""
        if indices is not None and isinstance(value, (CSRSparseMatrix, tf.SparseTensor)):
            raise ValueError("indices are for dense values; a sparse one has its own")
        with tf.name_scope(name or "CSRSparseMatrix"):
            if isinstance(value, CSRSparseMatrix):
                matrix, dtype = value.csr_matrix, value.dtype
            elif isinstance(value, tf.SparseTensor):
                matrix, dtype = _OPS.SparseTensorToCSRSparseMatrix(
                    indices=value.indices, values=value.values, dense_shape=value.dense_shape), value.dtype
            else:
                value = tf.convert_to_tensor(value)
                places = tf.where(value != 0) if indices is None else tf.convert_to_tensor(indices, tf.int64)
                matrix, dtype = _OPS.DenseToCSRSparseMatrix(dense_input=value, indices=places), value.dtype
        self._csr_matrix, self._type = matrix, dtype

    @classmethod
    def _from_matrix(cls, matrix: Any, dtype: Any) -> CSRSparseMatrix:
        made = cls.__new__(cls)
        made._csr_matrix, made._type = matrix, dtype
        return made

    dtype = property(lambda self: self._type, doc="The type of the elements.")
    csr_matrix = property(lambda self: self._csr_matrix, doc="The matrix as a tensor of dtype variant.")
    graph = property(lambda self: self._csr_matrix.graph, doc="The graph of the matrix.")

    @property
    def shape(self) -> tf.TensorShape:
        """The static shape of the dense matrix."""
        matrix = self._csr_matrix
        return tf.TensorShape(matrix._value.shape if isinstance(matrix, EagerTensor) else matrix_dims(matrix))

    def to_dense(self) -> Any:
        """The matrix as a dense tensor."""
        return _OPS.CSRSparseMatrixToDense(sparse_input=self._csr_matrix, type=self._type)

    def to_sparse_tensor(self) -> tf.SparseTensor:
        """The matrix as a SparseTensor."""
        return tf.SparseTensor(*_OPS.CSRSparseMatrixToSparseTensor(sparse_matrix=self._csr_matrix, type=self._type))

    def nnz(self) -> Any:
        """How many elements are stored, of each matrix of a batch."""
        return _OPS.SparseMatrixNNZ(sparse_matrix=self._csr_matrix)

    def transpose(self) -> CSRSparseMatrix:
        """The transposed matrix."""
        return self._turned(conjugate=False)

    def hermitian_transpose(self) -> CSRSparseMatrix:
        """The conjugated and transposed matrix."""
        return self._turned(conjugate=True)

    def conj(self) -> CSRSparseMatrix:
        """The conjugated matrix."""
        return self.hermitian_transpose().transpose()

    def _turned(self, conjugate: bool) -> CSRSparseMatrix:
        turned = _OPS.SparseMatrixTranspose(input=self._csr_matrix, type=self._type, conjugate=conjugate)
        return self._from_matrix(turned, self._type)


SparseMatrix = CSRSparseMatrix                   # the base class of TensorFlow's, which has no other subclass


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
           adjoint_b: bool = False, name: str | None = None) -> Any:
    """The product of two matrices: sparse if both are, dense if one is dense."""
    sparse_a, sparse_b = isinstance(a, CSRSparseMatrix), isinstance(b, CSRSparseMatrix)
    if sparse_a and sparse_b:
        product = _OPS.SparseMatrixSparseMatMul(
            a=a.csr_matrix, b=b.csr_matrix, type=a.dtype, transpose_a=transpose_a, transpose_b=transpose_b,
            adjoint_a=adjoint_a, adjoint_b=adjoint_b, name=name)
        return CSRSparseMatrix._from_matrix(product, a.dtype)
    if sparse_a:
        return _OPS.SparseMatrixMatMul(
            a=a.csr_matrix, b=tf.convert_to_tensor(b, a.dtype), transpose_a=transpose_a, transpose_b=transpose_b,
            adjoint_a=adjoint_a, adjoint_b=adjoint_b, name=name)
    if sparse_b:                                # the transposed product of both, transposed, in the other order
        return _OPS.SparseMatrixMatMul(
            a=(b.conj() if adjoint_b else b).csr_matrix,
            b=tf.math.conj(a) if adjoint_a else tf.convert_to_tensor(a, b.dtype),
            transpose_a=not (transpose_b or adjoint_b), transpose_b=not (transpose_a or adjoint_a), transpose_output=True,
            name=name)
    return tf.matmul(a, b, transpose_a, transpose_b, adjoint_a, adjoint_b, name=name)

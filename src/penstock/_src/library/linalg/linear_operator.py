"""The base class of linear operators.

A derived class defines `_shape`, `_shape_tensor` and `_matmul`; the defaults of all other methods use these or the dense
matrix. Hints (`is_non_singular`, `is_self_adjoint`, `is_positive_definite`, `is_square`: True,
False or None for unknown) are assertions of the caller that select faster methods; they are not checked, except by the
`assert_` methods.
"""
from __future__ import annotations

import abc
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dimension, TensorShape
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.type_registry import register
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, cholesky_rule, inverse_rule, matmul_rule, solve_rule
from penstock._src.library.linalg.composite import LinearOperatorSpec, noting_arguments, sliced
from penstock._src.state.module import Module


@export("linalg.LinearOperator")
class LinearOperator(CompositeTensor, Module, metaclass=abc.ABCMeta):
    """A (batch of) linear operators: acts like a matrix [B1, ..., Bb, M, N] that is not stored densely.

    >>> op = tf.linalg.LinearOperatorDiag([1., 2.])
    >>> op.matmul(tf.ones([2, 3]))
    """

    _parameters: Any

    _TF_MODULE_IGNORED_PROPERTIES = Module._TF_MODULE_IGNORED_PROPERTIES | {"_given", "_parameters", "_graph_parents"}
    _spec_class: type[LinearOperatorSpec] = LinearOperatorSpec
    _parameter_ndims: dict[str, Any] = {}      # of each component, how many of its dimensions make up one matrix

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = noting_arguments(cls.__init__)  # type: ignore[method-assign]
        cls._spec_class = type(f"{cls.__name__}Spec", (LinearOperatorSpec,), {"value_type": cls, "__slots__": ()})
        if cls.__module__.startswith("penstock."):
            register(f"tf.linalg.{cls.__name__}Spec")(cls._spec_class)

    @property
    def _type_spec(self) -> LinearOperatorSpec:
        return self._spec_class.from_operator(self)

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return self._parameter_ndims

    def __getitem__(self, slices: Any) -> LinearOperator:
        """The operator of a part of the batch."""
        return sliced(self, slices)

    def _gradient_components(self) -> list:
        return [t for t in nest.flatten(self, expand_composites=True) if t.dtype.is_floating or t.dtype.is_complex]

    def _with_gradient_components(self, parts: list) -> Any:
        """An operator whose components are gradients; zeros where there are none."""
        found = iter(parts)
        flat = [t if not (t.dtype.is_floating or t.dtype.is_complex) else next(found)
                for t in nest.flatten(self, expand_composites=True)]
        own = nest.flatten(self, expand_composites=True)
        return nest.pack_sequence_as(self, [tf.zeros_like(t) if g is None else g for t, g in zip(own, flat, strict=True)],
                                     expand_composites=True)

    def __init__(self, dtype: Any, graph_parents: Any = None, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None, parameters: dict | None = None):
        self.__dict__["_parameters"] = parameters
        if is_positive_definite:
            if is_non_singular is False:
                raise ValueError("A positive definite matrix is always non-singular.")
            is_non_singular = True
        for holds, kind in ((is_non_singular, "non-singular"), (is_self_adjoint, "self-adjoint")):
            if holds:
                if is_square is False:
                    raise ValueError(f"A {kind} matrix is always square.")
                is_square = True
        for i, t in enumerate(graph_parents or ()):
            if not (isinstance(t, Tensor) or util.is_variable(t)):
                raise ValueError(f"Graph parent item {i} is not a Tensor; {t}.")
        self._dtype = dtypes.as_dtype(dtype).base_dtype if dtype else dtype
        self._graph_parents = list(graph_parents or ())
        self._is_non_singular, self._is_self_adjoint = is_non_singular, is_self_adjoint
        self._is_positive_definite, self._square_hint = is_positive_definite, is_square
        self._name = name or type(self).__name__

    def _name_scope(self, name: str | None = None) -> Any:
        return name_scope(self.name if name is None else f"{self.name}/{name}")

    # -- properties ---------------------------------------------------------------------------------------------------
    @property
    def parameters(self) -> dict:
        """The arguments it was created with, if the constructor recorded them."""
        return dict(self._parameters or self.__dict__.get("_given", {}))

    dtype = property(lambda self: self._dtype, doc="The element type of the matrix and of its arguments.")
    name = property(lambda self: self._name, doc="The name scope of its ops.")
    graph_parents = property(lambda self: self._graph_parents, doc="The tensors that the operator was created from.")
    is_non_singular = property(lambda self: self._is_non_singular, doc="Hint: the inverse exists.")
    is_self_adjoint = property(lambda self: self._is_self_adjoint, doc="Hint: equal to its adjoint.")
    is_positive_definite = property(lambda self: self._is_positive_definite, doc="Hint: Re(x^H A x) > 0 for x != 0.")

    @property
    def is_square(self) -> bool | None:
        """Hint: as many rows as columns; from the static shape if it was not given."""
        found = self.domain_dimension == self.range_dimension
        if self._square_hint is False and found:
            raise ValueError("User set is_square hint to False, but the operator was square.")
        return found if self._square_hint is None else self._square_hint

    # -- shapes -------------------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def _shape(self) -> TensorShape:
        """The static shape."""

    @abc.abstractmethod
    def _shape_tensor(self) -> Tensor:
        """The shape as a tensor; requested where the static one is not complete."""

    @property
    def shape(self) -> TensorShape:
        """The static shape [B1, ..., Bb, M, N]."""
        return self._shape()

    @property
    def H(self) -> LinearOperator:
        """The adjoint."""
        return self.adjoint()

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape [B1, ..., Bb]."""
        return self.shape[:-2]

    @property
    def tensor_rank(self) -> int | None:
        """b + 2, if known."""
        return self.shape.rank

    def _dimension(self, at: int) -> Dimension:
        dims = self.shape.static_dims
        return Dimension(None if dims is None else dims[at])

    @property
    def domain_dimension(self) -> Dimension:
        """The number of columns."""
        return self._dimension(-1)

    @property
    def range_dimension(self) -> Dimension:
        """The number of rows."""
        return self._dimension(-2)

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """The shape as a tensor."""
        with self._name_scope(name):
            shape = self.shape
            return util.shape_tensor(shape.as_list()) if shape.is_fully_defined() else self._shape_tensor()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The batch shape as a tensor."""
        with self._name_scope(name):
            shape = self.batch_shape
            if shape.is_fully_defined():
                return util.shape_tensor(shape.as_list(), name="batch_shape")
            return self.shape_tensor()[:-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """b + 2 as a tensor."""
        with self._name_scope(name):
            return tf.size(self.shape_tensor()) if self.tensor_rank is None else convert(self.tensor_rank)

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """The number of columns as a tensor."""
        return self._dimension_tensor(-1, name)

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """The number of rows as a tensor."""
        return self._dimension_tensor(-2, name)

    def _dimension_tensor(self, at: int, name: str) -> Tensor:
        with self._name_scope(name):
            size = self._dimension(at).value
            return self.shape_tensor()[at] if size is None else convert(size)

    def _batch_sizes(self) -> Any:
        """The batch shape for use in ops: static where it is known."""
        shape = self.batch_shape
        return shape.as_list() if shape.is_fully_defined() else self.batch_shape_tensor()

    # -- assertions ---------------------------------------------------------------------------------------------------
    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """An op that fails if the condition number is beyond what the precision allows."""
        with self._name_scope(name):
            return self._assert_non_singular()

    def _assert_non_singular(self) -> Any:
        if self._can_use_cholesky():
            return self.assert_positive_definite()
        values = tf.linalg.svd(self.to_dense(), compute_uv=False)
        condition = tf.reduce_max(values, axis=-1) / tf.reduce_min(values, axis=-1)
        size = tf.maximum(self.range_dimension_tensor(), self.domain_dimension_tensor())
        eps = tf.cast(tf.maximum(size, 100), condition.dtype) * np.finfo(self.dtype.as_numpy_dtype).eps
        return tf.compat.v1.assert_less(condition, 1.0 / eps, message="Singular matrix up to precision epsilon.")

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """An op that fails if x^H A x has a real part that is not positive for some x."""
        with self._name_scope(name):
            return self._assert_positive_definite()

    def _assert_positive_definite(self) -> Any:
        if not self.is_self_adjoint:
            raise NotImplementedError("assert_positive_definite is not implemented.")
        diagonal = tf.linalg.diag_part(tf.linalg.cholesky(self.to_dense()))
        return util.assert_positive(tf.math.real(diagonal), "Matrix was not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """An op that fails if the operator is not exactly its own adjoint."""
        with self._name_scope(name):
            return self._assert_self_adjoint()

    def _assert_self_adjoint(self) -> Any:
        dense = self.to_dense()
        return tf.compat.v1.assert_equal(dense, tf.linalg.adjoint(dense),
                                         message="Matrix was not equal to its adjoint.")

    # -- products -----------------------------------------------------------------------------------------------------
    def _checked(self, x: Any, name: str, own: int, other: int) -> Tensor:
        """An argument as a tensor of the right dtype, whose dimension `other` fits this operator's dimension `own`."""
        x = convert(x, name=name)
        if x.dtype.base_dtype != self.dtype:
            raise TypeError(f"Expected argument to have dtype {self.dtype}.  Found: {x.dtype} in tensor {x}")
        size = x.shape.static_dims[other] if x.shape.rank is not None else None
        self._dimension(own).assert_is_compatible_with(Dimension(size))
        return x

    def _pair(self, other: LinearOperator, adjoint: bool, adjoint_arg: bool, name: str) -> tuple:
        left = self.adjoint() if adjoint else self
        right = other.adjoint() if adjoint_arg else other
        if (right.range_dimension == left.domain_dimension) is False:
            raise ValueError(f"Operators are incompatible. Expected `{name}` to have dimension {left.domain_dimension} "
                             f"but got {right.range_dimension}.")
        return left, right

    @abc.abstractmethod
    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        """A x, A^H x, A x^H or A^H x^H."""

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """The product with a matrix [..., N, R], or with another operator (which returns an operator)."""
        if isinstance(x, LinearOperator):
            left, right = self._pair(x, adjoint, adjoint_arg, "x")
            with self._name_scope(name):
                return matmul_rule.apply(left, right)
        with self._name_scope(name):
            x = self._checked(x, "x", -2 if adjoint else -1, -1 if adjoint_arg else -2)
            return self._matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Tensor:
        """The product with a vector [..., N]."""
        with self._name_scope(name):
            return self._matvec(self._checked(x, "x", -2 if adjoint else -1, -1), adjoint=adjoint)

    def _matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return tf.squeeze(self.matmul(tf.expand_dims(x, -1), adjoint=adjoint), axis=-1)

    # -- determinants -------------------------------------------------------------------------------------------------
    def _needs_square(self) -> None:
        if self.is_square is False:
            raise NotImplementedError("Determinant not implemented for an operator that is expected to not be square.")

    def determinant(self, name: str = "det") -> Tensor:
        """The determinant of every matrix in the batch."""
        self._needs_square()
        with self._name_scope(name):
            return self._determinant()

    def _determinant(self) -> Tensor:
        if self._can_use_cholesky():
            return tf.exp(self.log_abs_determinant())
        return tf.linalg.det(self.to_dense())

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """The logarithm of the determinant's absolute value."""
        self._needs_square()
        with self._name_scope(name):
            return self._log_abs_determinant()

    def _log_abs_determinant(self) -> Tensor:
        if self._can_use_cholesky():
            diagonal = tf.linalg.diag_part(tf.linalg.cholesky(self.to_dense()))
            return 2 * tf.reduce_sum(tf.math.log(diagonal), axis=[-1])
        return tf.linalg.slogdet(self.to_dense())[1]

    # -- solutions ----------------------------------------------------------------------------------------------------
    def _check_solvable(self) -> None:
        if self.is_non_singular is False:
            raise NotImplementedError("Exact solve not implemented for an operator that is expected to be singular.")
        if self.is_square is False:
            raise NotImplementedError("Exact solve not implemented for an operator that is expected to not be square.")

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """The X of `A X = rhs` for a matrix [..., M, R], or for another operator (which returns an operator)."""
        self._check_solvable()
        if isinstance(rhs, LinearOperator):
            left, right = self._pair(rhs, adjoint, adjoint_arg, "rhs")
            with self._name_scope(name):
                return solve_rule.apply(left, right)
        with self._name_scope(name):
            rhs = self._checked(rhs, "rhs", -1 if adjoint else -2, -1 if adjoint_arg else -2)
            return self._solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        rhs = util.adjoint_if(rhs, adjoint_arg)
        if self._can_use_cholesky():
            return util.cholesky_solve(tf.linalg.cholesky(self.to_dense()), rhs)
        return util.solve(self.to_dense(), rhs, adjoint=adjoint)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Tensor:
        """The x of `A x = rhs` for a vector [..., M]."""
        with self._name_scope(name):
            return self._solvevec(self._checked(rhs, "rhs", -1 if adjoint else -2, -1), adjoint=adjoint)

    def _solvevec(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return tf.squeeze(self.solve(tf.expand_dims(rhs, -1), adjoint=adjoint), axis=-1)

    # -- other operators ----------------------------------------------------------------------------------------------
    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """The operator A^H."""
        if self.is_self_adjoint is True:
            return self
        with self._name_scope(name):
            return adjoint_rule.apply(self)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """The operator A^-1."""
        if self.is_square is False:
            raise ValueError("Cannot take the Inverse: This operator represents a non square matrix.")
        if self.is_non_singular is False:
            raise ValueError("Cannot take the Inverse: This operator represents a singular matrix.")
        with self._name_scope(name):
            return inverse_rule.apply(self)

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """The lower triangular L of A = L L^H; A must be hinted self-adjoint and positive definite."""
        if not self._can_use_cholesky():
            raise ValueError("Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix.")
        with self._name_scope(name):
            return cholesky_rule.apply(self)

    def _can_use_cholesky(self) -> bool | None:
        return self.is_self_adjoint and self.is_positive_definite

    # -- matrices -----------------------------------------------------------------------------------------------------
    def to_dense(self, name: str = "to_dense") -> Tensor:
        """The dense matrix."""
        with self._name_scope(name):
            return self._to_dense()

    def _to_dense(self) -> Tensor:
        size: Any = self.domain_dimension.value
        size = self.domain_dimension_tensor() if size is None else size
        return self.matmul(tf.eye(size, batch_shape=self._batch_sizes(), dtype=self.dtype))

    def diag_part(self, name: str = "diag_part") -> Tensor:
        """The diagonal, [..., min(M, N)]."""
        with self._name_scope(name):
            return self._diag_part()

    def _diag_part(self) -> Tensor:
        return tf.linalg.diag_part(self.to_dense())

    def trace(self, name: str = "trace") -> Tensor:
        """The sum of the diagonal."""
        with self._name_scope(name):
            return self._trace()

    def _trace(self) -> Tensor:
        return tf.reduce_sum(self.diag_part(), axis=-1)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """A + x."""
        with self._name_scope(name):
            x = convert(x, name="x")
            if x.dtype.base_dtype != self.dtype:
                raise TypeError(f"Expected argument to have dtype {self.dtype}.  Found: {x.dtype} in tensor {x}")
            return self._add_to_tensor(x)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self.to_dense() + x

    def eigvals(self, name: str = "eigvals") -> Tensor:
        """The eigenvalues; the operator must be hinted self-adjoint."""
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        with self._name_scope(name):
            return self._eigvals()

    def _eigvals(self) -> Tensor:
        return tf.linalg.eigvalsh(self.to_dense())

    def cond(self, name: str = "cond") -> Tensor:
        """The condition number: the ratio of the largest and smallest singular values."""
        with self._name_scope(name):
            return self._cond()

    def _cond(self) -> Tensor:
        values = tf.abs(self._eigvals()) if self.is_self_adjoint else tf.linalg.svd(self.to_dense(), compute_uv=False)
        return tf.reduce_max(values, axis=-1) / tf.reduce_min(values, axis=-1)

    # -- operators as arguments of tf.linalg's functions --------------------------------------------------------------
    @staticmethod
    def _dispatch(fn: Any, args: tuple, kwargs: dict) -> Any:
        handler = _FUNCTIONS.get(fn.__name__)
        return NotImplemented if handler is None else handler(*args, **kwargs)


def _inv(input: Any, adjoint: bool = False, name: str = "inverse") -> LinearOperator:
    inverse = input.inverse(name)
    return inverse.adjoint() if adjoint else inverse


def _logdet(matrix: Any, name: str = "log_abs_det") -> Tensor:
    if matrix._can_use_cholesky():
        return matrix.log_abs_determinant(name)
    raise ValueError("Expected matrix to be self-adjoint positive definite.")


def _matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
            adjoint_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False, output_type: Any = None,
            name: str = "matmul") -> Any:
    if transpose_a or transpose_b:
        raise ValueError("Transposes are not supported.")
    if a_is_sparse or b_is_sparse:
        raise ValueError("Sparse arguments are not supported.")
    if isinstance(a, LinearOperator):
        return a.matmul(b, adjoint=adjoint_a, adjoint_arg=adjoint_b, name=name)
    return tf.linalg.adjoint(b.matmul(a, adjoint=not adjoint_b, adjoint_arg=not adjoint_a, name=name))


def _solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
    if not isinstance(matrix, LinearOperator):
        raise ValueError("Passing in `matrix` as a Tensor and `rhs` as a LinearOperator is not supported.")
    return matrix.solve(rhs, adjoint=adjoint, name=name)


_FUNCTIONS: dict[str, Any] = {
    "adjoint": lambda matrix, name="adjoint": matrix.adjoint(name),
    "cholesky": lambda input, name="cholesky": input.cholesky(name),
    "matrix_diag_part": lambda input, *unused, **unused_too: input.diag_part(),
    "matrix_diag_part_public_v2": lambda input, *unused, **unused_too: input.diag_part(),
    "matrix_determinant": lambda input, name="det": input.determinant(name),
    "matrix_inverse": _inv,
    "logdet": _logdet,
    "matmul": _matmul,
    "matrix_solve": _solve,
    "trace": lambda x, name="trace": x.trace(name),
}

"""Conversions, assertions and broadcasting that the operators share."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor

FLOATING = (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


def is_variable(x: Any) -> bool:
    """Whether `x` is a variable, which is kept and read on use."""
    return isinstance(x, tf.Variable) or isinstance(x, tf.compat.v1.Variable)


def tensor_or_variable(value: Any, name: str, dtype: Any = None) -> Any:
    """`value` as a tensor, unless it is a variable."""
    if value is None:
        return None
    if is_variable(value):
        if dtype is not None and value.dtype.base_dtype != dtype:
            raise TypeError(f'The variable must have dtype "{dtypes.as_dtype(dtype).name}" but is '
                            f'"{value.dtype.base_dtype.name}".')
        return value
    return convert(value, dtype, name=name)


def refuse_variable(value: Any, name: str) -> None:
    """TypeError if `value` is a variable, for arguments that fix a shape."""
    if is_variable(value):
        raise TypeError(f"Argument {name} cannot be reference type. Found: {type(value)}")


def shape_tensor(shape: Any, name: str | None = None) -> Tensor:
    """A shape, or a size, as a tensor; an empty one is int32."""
    return convert(shape, dtypes.int32 if isinstance(shape, (list, tuple)) and not shape else None, name=name)


def conj_if(x: Any, adjoint: bool) -> Any:
    """conj(x) for an adjoint, x otherwise."""
    return tf.math.conj(x) if adjoint else x


def adjoint_if(x: Any, adjoint: bool) -> Any:
    """The conjugate transpose of a matrix argument, if requested."""
    return tf.linalg.adjoint(x) if adjoint else x


def after(checks: list, x: Tensor) -> Tensor:
    """`x`, available once the checks have passed."""
    with tf.control_dependencies([c for c in checks if c is not None]):
        return tf.identity(x)


# -- assertions -------------------------------------------------------------------------------------------------------
def assert_nonzero(x: Any, message: str) -> Any:
    """An op that fails if any element has modulus zero."""
    size = tf.abs(x)
    return tf.compat.v1.assert_less(tf.zeros([], size.dtype), size, message=message)


def assert_positive(x: Any, message: str) -> Any:
    """An op that fails if any element is not above zero."""
    return tf.compat.v1.assert_positive(x, message=message)


def assert_real(x: Any, message: str) -> Any:
    """An op that fails if any element has an imaginary part."""
    if not x.dtype.is_complex:
        return tf.no_op()
    imag = tf.math.imag(x)
    return tf.compat.v1.assert_equal(tf.zeros([], imag.dtype), imag, message=message)


def assert_rows(operator: Any, x: Tensor) -> Any:
    """An op that fails unless `x` has as many rows as the operator has columns."""
    return tf.compat.v1.assert_equal(
        tf.shape(x)[-2], operator.domain_dimension_tensor(),
        message="Dimensions are not compatible.  shape[-2] of argument to be the same as this operator")


# -- broadcasting -----------------------------------------------------------------------------------------------------
def broadcast_batch(matrices: list) -> list[Tensor]:
    """The matrices with their batch dimensions broadcast to a common shape."""
    matrices = [convert(m) for m in matrices]
    for m in matrices:
        if m.shape.rank is not None and m.shape.rank < 2:
            raise ValueError(f"Expected [batch] matrix to have at least two dimensions.  Found: {m}")
    if len(matrices) < 2:
        return matrices
    common = matrices[0].shape[:-2]
    for m in matrices[1:]:
        common = tf.broadcast_static_shape(common, m.shape[:-2])
    if common.is_fully_defined():
        return [m if m.shape[:-2] == common else _to_batch(m, common.as_list()) for m in matrices]
    sizes = tf.shape(matrices[0])[:-2]
    for m in matrices[1:]:
        sizes = tf.broadcast_dynamic_shape(sizes, tf.shape(m)[:-2])
    return [_to_batch(m, sizes) for m in matrices]


def _to_batch(matrix: Tensor, batch: Any) -> Tensor:
    inner = matrix.shape[-2:]
    inner = inner.as_list() if inner.is_fully_defined() else tf.shape(matrix)[-2:]
    whole = batch + inner if isinstance(batch, list) and isinstance(inner, list) else tf.concat([batch, inner], 0)
    return tf.broadcast_to(matrix, whole)


def solve(matrix: Tensor, rhs: Tensor, adjoint: bool = False) -> Tensor:
    """tf.linalg.solve with batch dimensions that broadcast."""
    matrix, rhs = broadcast_batch([matrix, rhs])
    return tf.linalg.solve(matrix, rhs, adjoint=adjoint)


def cholesky_solve(factor: Tensor, rhs: Tensor) -> Tensor:
    """tf.linalg.cholesky_solve with batch dimensions that broadcast."""
    return tf.linalg.cholesky_solve(*broadcast_batch([factor, rhs]))


def broadcast_batch_shape(operators: list) -> Any:
    """The static batch shape of several operators together."""
    batch = operators[0].batch_shape
    for operator in operators[1:]:
        batch = tf.broadcast_static_shape(batch, operator.batch_shape)
    return batch


def broadcast_batch_sizes(operators: list) -> Tensor:
    """The batch shape of several operators together, as a tensor."""
    sizes = operators[0].batch_shape_tensor()
    for operator in operators[1:]:
        sizes = tf.broadcast_dynamic_shape(sizes, operator.batch_shape_tensor())
    return sizes


def checked_operators(operators: Any) -> list:
    """A non-empty list of operators of one dtype."""
    tf.debugging.assert_proper_iterable(operators)
    operators = list(operators)
    if not operators:
        raise ValueError(f"Expected a non-empty list of operators (>=1 operators). Found: {operators}")
    if any(o.dtype != operators[0].dtype for o in operators):
        found = "   ".join(str((o.name, o.dtype)) for o in operators)
        raise TypeError(f"Expected all operators to have the same dtype.  Found {found}")
    return operators


def all_hint(operators: list, hint: str, given: bool | None, message: str) -> bool | None:
    """True if a hint holds for all operators; ValueError(message) if it was given as False then."""
    if all(getattr(o, hint) for o in operators):
        if given is False:
            raise ValueError(message)
        return True
    return given


def product(factors: list) -> Any:
    """The product of tensors."""
    out = factors[0]
    for f in factors[1:]:
        out = out * f
    return out


def total(terms: list) -> Any:
    """The sum of tensors."""
    out = terms[0]
    for t in terms[1:]:
        out = out + t
    return out

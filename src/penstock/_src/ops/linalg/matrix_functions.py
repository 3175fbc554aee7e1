"""Functions of matrices: square root, logarithm, exponential."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.linalg.matrices import check_matrix, in_float32, square_shape
from penstock._src.ops.registry import op

# -- square root ------------------------------------------------------------------------------------------------------
matrix_square_root = op("MatrixSquareRoot", "input: T -> output: T",
                        "T: type in {float64 float32 half complex64 complex128}",
                        export_as="linalg.sqrtm matrix_square_root")
rules.batching.leading[matrix_square_root] = (0,)
matrix_square_root.shape(square_shape)


@matrix_square_root.kernel
@in_float32
def _matrix_square_root_kernel(input):
    check_matrix(input)
    root = principal_root(input.to(torch.complex128))
    if input.is_complex():
        return root.to(input.dtype)
    size = root.abs().amax((-2, -1), keepdim=True) if root.numel() else root.real
    real = root.imag.abs() <= 1e-6 * size               # a negative eigenvalue has no real root
    return torch.where(real.all(-1, keepdim=True).all(-2, keepdim=True), root.real, torch.nan).to(input.dtype)


def principal_root(a: torch.Tensor) -> torch.Tensor:
    """The principal square roots of complex128 matrices."""
    if not a.numel():
        return a
    values, vectors = torch.linalg.eig(a)
    inverse, failed = torch.linalg.inv_ex(vectors)
    root = vectors * torch.sqrt(values).unsqueeze(-2) @ inverse
    error = torch.linalg.matrix_norm(root @ root - a)
    good = (failed == 0) & (error <= 1e-10 * torch.linalg.matrix_norm(a))
    return root if bool(good.all()) else torch.where(good[..., None, None], root, _denman_beavers(a))


def _denman_beavers(a: torch.Tensor) -> torch.Tensor:
    """Square roots by Newton's method (Denman and Beavers), for matrices that are not diagonalizable."""
    root, inverse_root = a, torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand_as(a)
    for _ in range(40):
        x, y = torch.linalg.inv_ex(root)[0], torch.linalg.inv_ex(inverse_root)[0]
        new = 0.5 * (root + y)
        inverse_root = 0.5 * (inverse_root + x)
        change = torch.linalg.matrix_norm(new - root)
        root = new
        if bool((change <= 1e-15 * torch.linalg.matrix_norm(root)).all()):
            break
    return root


@matrix_square_root.gradient
def _matrix_square_root_gradient(op, grad):
    # A = R R yields dA = R dR + dR R, so the gradient X solves R^H X + X R^H = grad.
    adjoint = tf.linalg.adjoint(op.outputs[0])
    n = tf.shape(adjoint)[-1]
    eye = tf.eye(n, dtype=adjoint.dtype)
    left = adjoint[..., :, tf.newaxis, :, tf.newaxis] * eye[tf.newaxis, :, tf.newaxis, :]
    right = eye[:, tf.newaxis, :, tf.newaxis] * tf.linalg.matrix_transpose(adjoint)[..., tf.newaxis, :, tf.newaxis, :]
    batch = tf.shape(adjoint)[:-2]
    system = tf.reshape(left + right, tf.concat([batch, [n * n, n * n]], 0))
    flat = tf.reshape(grad, tf.concat([batch, [n * n, 1]], 0))
    return tf.reshape(tf.linalg.solve(system, flat), tf.shape(adjoint))


# -- logarithm --------------------------------------------------------------------------------------------------------
matrix_logarithm = op("MatrixLogarithm", "input: T -> output: T", "T: type in {complex}", export_as="linalg.logm")
matrix_logarithm.shape(square_shape)


@matrix_logarithm.kernel
def _matrix_logarithm_kernel(input):
    check_matrix(input)
    if not input.numel():
        return input
    eye = torch.eye(input.shape[-1], dtype=torch.complex128, device=input.device)
    a, doublings = input.to(torch.complex128), torch.zeros(input.shape[:-2], device=input.device)
    for _ in range(64):                                   # log A = 2^k log A^(1/2^k)
        far = torch.linalg.matrix_norm(a - eye, 1) > 0.25
        if not bool(far.any()):
            break
        a = torch.where(far[..., None, None], principal_root(a), a)
        doublings += far
    away = a - eye
    total = torch.zeros_like(a)
    nodes, weights = (v.tolist() for v in np.polynomial.legendre.leggauss(8))
    for node, weight in zip(nodes, weights, strict=True):      # log(I + Y) = integral of Y (I + t Y)^-1, 0 <= t <= 1
        total += 0.5 * weight * torch.linalg.solve_ex(eye + 0.5 * (node + 1) * away, away)[0]
    return (total * (2.0 ** doublings)[..., None, None]).to(input.dtype)


# -- exponential ------------------------------------------------------------------------------------------------------
_ORDER = {dtypes.float16: 7, dtypes.float32: 7, dtypes.complex64: 7, dtypes.float64: 13, dtypes.complex128: 13}
_LARGEST = {7: 3.925724783138660, 13: 5.371920351148152}       # norms up to which a Pade approximant of an order is exact


def _pade(matrix: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """The odd and the even part of the numerator of the Pade approximant of exp (Higham, 2005)."""
    c = [math.factorial(2 * order - k) * math.factorial(order)
         / (math.factorial(2 * order) * math.factorial(k) * math.factorial(order - k)) for k in range(order + 1)]
    two = tf.matmul(matrix, matrix)
    four = tf.matmul(two, two)
    powers = [tf.eye(tf.shape(matrix)[-1], dtype=matrix.dtype), two, four, tf.matmul(four, two)]

    def part(first: int) -> Tensor:
        low = sum(c[first + 2 * i] * p for i, p in enumerate(powers))
        if order <= 7:
            return low
        high = sum(c[first + 6 + 2 * i] * p for i, p in enumerate(powers[1:], 1))
        return low + tf.matmul(powers[3], high)
    return tf.matmul(matrix, part(1)), part(0)


matrix_exponential_op = op("MatrixExponential", "input: T -> output: T",
                           "T: type in {float64 float32 half complex}").no_gradient()
rules.batching.leading[matrix_exponential_op] = (0,)
matrix_exponential_op.shape(square_shape)


@matrix_exponential_op.kernel
def _matrix_exponential_kernel(input):
    check_matrix(input)
    return torch.linalg.matrix_exp(input) if input.dtype is not torch.float16 else torch.linalg.matrix_exp(input.float()).half()


@export("linalg.expm")
@dispatched
def matrix_exponential(input: Any, name: str | None = None) -> Tensor:
    """The exponential of square matrices: a Pade approximant of the matrix over 2^k, squared k times.

    Args:
        input: Matrices [..., n, n].
        name: Name of the operation.

    Returns:
        Matrices of the same shape.

    >>> tf.linalg.expm(tf.zeros([2, 2])).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    with name_scope(name, "matrix_exponential", [input]):
        matrix = convert(input, name="input")
        order = _ORDER.get(matrix.dtype.base_dtype)
        if order is None:
            raise ValueError(f"tf.linalg.expm does not support matrices of type {matrix.dtype}")
        if matrix.shape.rank is not None and matrix.shape.as_list()[-2:] == [0, 0]:
            return matrix
        norm = tf.reduce_max(tf.reduce_sum(tf.abs(matrix), axis=-2), axis=-1)
        needed = tf.math.ceil(tf.math.log(norm / _LARGEST[order]) / math.log(2.0))
        squarings = tf.stop_gradient(tf.clip_by_value(needed, 0.0, 1100.0))[..., tf.newaxis, tf.newaxis]
        odd, even = _pade(matrix * tf.cast(tf.pow(tf.constant(0.5, norm.dtype), squarings), matrix.dtype), order)
        result = tf.linalg.solve(even - odd, even + odd)

        def square(i: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, tf.where(i < squarings, tf.matmul(r, r), r)
        count = tf.reduce_max(tf.concat([[0], tf.cast(tf.reshape(squarings, [-1]), dtypes.int32)], 0))
        squarings = tf.cast(squarings, dtypes.int32)
        _, result = tf.while_loop(lambda i, r: i < count, square, [tf.constant(0), result])
        result.set_shape(matrix.shape)
        return result

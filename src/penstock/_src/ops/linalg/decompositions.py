"""Decompositions of matrices: QR, singular values, eigenvalues, LU. Kernels and gradients as in ops/linalg/linalg.py."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import merge
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.linalg.linalg import matrix_solve_op, matrix_triangular_solve, when_tall
from penstock._src.ops.linalg.matrices import (
    REAL,
    TYPES,
    adjoint_of,
    check_info,
    check_matrix,
    half_diagonal,
    in_float32,
    lower_part,
    matmul,
    matrix_dims,
    smaller,
    square_dims,
    with_batch,
    with_diag,
)
from penstock._src.ops.registry import get, op

# -- QR ---------------------------------------------------------------------------------------------------------------
qr = op("Qr", "input: T -> q: T, r: T", "full_matrices: bool = False, " + TYPES, export_as="linalg.qr", v1_as="qr")
rules.batching.leading[qr] = (0,)


@qr.shape
def _qr_shape(input, *, full_matrices):
    batch, m, n = matrix_dims(input)
    p = m if full_matrices else smaller(m, n)
    return [with_batch(batch, m, p), with_batch(batch, p, n)]


@qr.kernel
@in_float32
def _qr_kernel(input, *, full_matrices):
    check_matrix(input, square=False)
    q, r = torch.linalg.qr(input, "complete" if full_matrices else "reduced")
    return q, r


@qr.gradient
def _qr_gradient(op, grad_q, grad_r):
    a, (q, r) = op.inputs[0], op.outputs
    rows, columns = (None, None) if a.static_dims is None else a.static_dims[-2:]
    if op.attrs["full_matrices"] and (rows is None or columns is None or rows > columns):
        raise NotImplementedError("QrGrad not implemented when nrows > ncols and full_matrices is true. (The last columns of Q "
                                  f"are arbitrary. The shape is {a.shape}; use full_matrices=False.)")

    def wide():
        # A = [X Y], R = [U V]: X = Q U is a square decomposition, and V = Q^H Y.
        size = get("Shape")(a)[-2] if rows is None else rows
        grad_u, grad_v = grad_r[..., :size], grad_r[..., size:]
        grad_x = _tall_qr_gradient(q, r[..., :size], grad_q + matmul(a[..., size:], grad_v, adjoint_b=True), grad_u)
        return get("ConcatV2")([grad_x, matmul(q, grad_v)], -1)
    return when_tall(a, lambda: _tall_qr_gradient(q, r, grad_q, grad_r), wide)


def _tall_qr_gradient(q: Tensor, r: Tensor, grad_q: Tensor, grad_r: Tensor) -> Tensor:
    def times_inverse_adjoint(x):                       # x R^-H
        return adjoint_of(matrix_triangular_solve(r, adjoint_of(x), lower=False))
    turn = matmul(q, grad_q, adjoint_a=True)
    scale = matmul(r, grad_r, adjoint_b=True)
    lower = lower_part(turn - adjoint_of(turn) + scale - adjoint_of(scale))
    grad = matmul(q, grad_r + times_inverse_adjoint(lower)) + times_inverse_adjoint(grad_q - matmul(q, turn))
    if not q.dtype.is_complex:
        return grad
    diagonal = get("MatrixDiagPart")(scale - adjoint_of(turn))    # the diagonal of R is real: that fixes the phases of Q
    phases = get("MatrixDiag")(diagonal - _complex(get("Real")(diagonal, Tout=_real_of(q.dtype)), q.dtype))
    return grad + times_inverse_adjoint(matmul(q, phases, adjoint_b=True))


def _complex(x: Tensor, dtype: Any) -> Tensor:
    return get("Cast")(x, DstT=dtype)


def _real_of(dtype: Any) -> Any:
    return dtypes.float64 if dtype.base_dtype == dtypes.complex128 else dtypes.float32


# -- singular values --------------------------------------------------------------------------------------------------
svd_op = op("Svd", "input: T -> s: T, u: T, v: T", "compute_uv: bool = True, full_matrices: bool = False, " + TYPES)
rules.batching.leading[svd_op] = (0,)


@svd_op.shape
def _svd_shape(input, *, compute_uv, full_matrices):
    batch, m, n = matrix_dims(input)
    p = smaller(m, n)
    if not compute_uv:
        return [with_batch(batch, p), (0,), (0,)]
    return [with_batch(batch, p), with_batch(batch, m, m if full_matrices else p),
            with_batch(batch, n, n if full_matrices else p)]


@svd_op.kernel
@in_float32
def _svd_kernel(input, *, compute_uv, full_matrices):
    check_matrix(input, square=False)
    if not compute_uv:
        nothing = input.new_empty(0)
        return torch.linalg.svdvals(input).to(input.dtype), nothing, nothing
    u, s, vh = torch.linalg.svd(input, full_matrices=full_matrices)
    return s.to(input.dtype), u, vh.mH


@export("linalg.svd", v1=["svd"])
@dispatched
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values `s`, and left and right singular vectors: tensor = u diag(s) v^H.

    Args:
        tensor: Matrices [..., m, n].
        full_matrices: Whether `u` and `v` are square.
        compute_uv: Whether to return the vectors, too.
        name: Name of the operation.

    Returns:
        `s`, `u` and `v`; or `s` alone.

    >>> tf.linalg.svd([[3., 0.], [0., 4.]], compute_uv=False).numpy().tolist()
    [4.0, 3.0]
    """
    s, u, v = svd_op(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    s = get("Real")(s, Tout=s.dtype.real_dtype) if s.dtype.is_complex else s
    return (s, u, v) if compute_uv else s


@svd_op.gradient
def _svd_gradient(op, grad_s, grad_u, grad_v):
    a = op.inputs[0]
    if not op.attrs["compute_uv"]:
        _, u, v = svd_op(a)
        return matmul(u * get("ExpandDims")(grad_s, -2), v, adjoint_b=True)
    s, u, v = op.outputs
    full = op.attrs["full_matrices"]
    m, n = (merge(a.static_dims[-2:], (_at(grad_u, -2), _at(grad_v, -2))) if a.static_dims is not None
            else (_at(grad_u, -2), _at(grad_v, -2)))
    if full and (m is None or n is None or abs(m - n) > 1):
        raise NotImplementedError("The complete singular vectors have a gradient only if the numbers of rows and columns "
                                  "differ by at most one: otherwise some vectors are arbitrary. "
                                  f"The shape is {a.shape}; use full_matrices=False.")
    # A tall matrix has the gradient of A^H = V S U^H, transposed.
    return when_tall(a, lambda: adjoint_of(_wide_svd_gradient(s, v, u, grad_s, grad_v, grad_u, n, m, full)),
                     lambda: _wide_svd_gradient(s, u, v, grad_s, grad_u, grad_v, m, n, full))


def _at(x: Tensor, i: int) -> int | None:
    return None if x.static_dims is None else x.static_dims[i]


def _wide_svd_gradient(s: Tensor, u: Tensor, v: Tensor, grad_s: Tensor, grad_u: Tensor, grad_v: Tensor, m: int | None,
                       n: int | None, full: bool) -> Tensor:
    """The gradient by a [..., m, n] matrix, m <= n.

    With A = U S V1^H, where V1 is the first m columns of V, the rotations U^H dU and V1^H dV1 are antisymmetric, and
    their elements are combinations of U^H dA V1 over s_j^2 - s_i^2. Equal singular values make the gradient infinite.
    Complex vectors have arbitrary phases, and the gradient holds for functions that do not depend on them.
    """
    expand, diag = get("ExpandDims"), get("MatrixDiag")
    squares = s * s
    gap = expand(squares, -2) - expand(squares, -1)
    gap = with_diag(gap, get("OnesLike")(s))           # nothing infinite, also for second gradients
    over_gap = with_diag(1.0 / gap, get("ZerosLike")(s))
    cut = full and n != m
    v1, grad_v1 = (v[..., :m], grad_v[..., :m]) if cut else (v, grad_v)
    turn_u = over_gap * matmul(u, grad_u, adjoint_a=True)
    both_v = matmul(v1, grad_v1, adjoint_a=True)
    turn_v = over_gap * both_v
    middle = (diag(grad_s) + (turn_u + adjoint_of(turn_u)) * expand(s, -2)
              + expand(s, -1) * (turn_v + adjoint_of(turn_v)))
    if s.dtype.is_complex:
        phases = get("MatrixDiagPart")(both_v)
        middle += diag((get("Conj")(phases) - phases) / (2.0 * s))
    grad = matmul(u, matmul(middle, v1, adjoint_b=True))
    if m == n and m is not None:
        return grad
    outside = adjoint_of(grad_v1) - matmul(matmul(grad_v1, v1, adjoint_a=True), v1, adjoint_b=True)
    if cut:
        outside -= matmul(matmul(v1, grad_v[..., m:], adjoint_a=True), v[..., m:], adjoint_b=True)
    return grad + matmul(u / expand(s, -2), outside)


# -- eigenvalues ------------------------------------------------------------------------------------------------------
self_adjoint_eig_v2 = op("SelfAdjointEigV2", "input: T -> e: T, v: T", "compute_v: bool = True, " + TYPES)
rules.batching.leading[self_adjoint_eig_v2] = (0,)


def _eig_shape(input: Any, *, compute_v: bool) -> list:
    batch, n = square_dims(input)
    return [with_batch(batch, n), with_batch(batch, n, n) if compute_v else (0,)]


self_adjoint_eig_v2.shape(_eig_shape)


@self_adjoint_eig_v2.kernel
@in_float32
def _self_adjoint_eig_v2_kernel(input, *, compute_v):
    check_matrix(input)
    try:
        if not compute_v:
            return torch.linalg.eigvalsh(input).to(input.dtype), input.new_empty(0)
        e, v = torch.linalg.eigh(input)
    except torch.linalg.LinAlgError:
        raise errors.invalid("Self-adjoint eigen decomposition was not successful. The input might not be "
                             "valid.") from None
    return e.to(input.dtype), v


@self_adjoint_eig_v2.gradient
def _self_adjoint_eig_v2_gradient(op, grad_e, grad_v):
    expand, diag = get("ExpandDims"), get("MatrixDiag")
    e = op.outputs[0]
    if op.attrs["compute_v"]:
        v = op.outputs[1]
        gap = with_diag(expand(e, -2) - expand(e, -1), get("OnesLike")(e))
        over_gap = with_diag(1.0 / gap, get("ZerosLike")(e))
        middle = diag(grad_e) + over_gap * matmul(v, grad_v, adjoint_a=True)
    else:
        _, v = self_adjoint_eig_v2(op.inputs[0])
        middle = diag(grad_e)
    grad = matmul(v, matmul(middle, v, adjoint_b=True))
    return half_diagonal(lower_part(grad + adjoint_of(grad)))       # only the lower triangle is read


@export("linalg.eigh", v1=["self_adjoint_eig"])
@dispatched
def eigh(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues, in non-decreasing order, and eigenvectors (columns) of self-adjoint matrices.

    Args:
        tensor: Self-adjoint matrices [..., n, n]; only the lower triangles are read.
        name: Name of the operation.

    Returns:
        Eigenvalues [..., n] and eigenvectors [..., n, n].

    >>> values, vectors = tf.linalg.eigh([[2., 0.], [0., 1.]])
    >>> values.numpy()
    array([1., 2.], dtype=float32)
    """
    e, v = self_adjoint_eig_v2(tensor, name=name)
    return e, v


@export("linalg.eigvalsh", v1=["self_adjoint_eigvals"])
@dispatched
def eigvalsh(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues of self-adjoint matrices.

    Args:
        tensor: Matrices [..., n, n]; only the lower triangles are read.
        name: A name for the op.

    Returns:
        [..., n], in non-decreasing order.

    >>> tf.linalg.eigvalsh([[3.0, 0.0], [0.0, 2.0]]).numpy().tolist()
    [2.0, 3.0]
    """
    return self_adjoint_eig_v2(tensor, compute_v=False, name=name)[0]


self_adjoint_eig = op("SelfAdjointEig", "input: T -> output: T", REAL)


@self_adjoint_eig.shape
def _self_adjoint_eig_shape(input):
    batch, n = square_dims(input)
    return with_batch(batch, None if n is None else n + 1, n)


@self_adjoint_eig.kernel
@in_float32
def _self_adjoint_eig_kernel(input):
    check_matrix(input)
    e, v = torch.linalg.eigh(input)
    return torch.cat([e.unsqueeze(-2), v], -2)


eig_op = op("Eig", "input: T -> e: Tout, v: Tout",
            "compute_v: bool = True, T: type in {float32 float64 complex64 complex128}, Tout: type in {complex}")
eig_op.shape(_eig_shape)


@eig_op.kernel
def _eig_kernel(input, *, compute_v, T, Tout):
    check_matrix(input)
    if Tout.torch is not torch.promote_types(T.torch, torch.complex64):
        raise errors.invalid(f"Invalid output dtype {Tout.name} for an input of {T.name}")
    if not bool(torch.isfinite(input).all()):           # LAPACK would not terminate
        raise errors.invalid("Eigen decomposition was not successful. The input contains infinities or NaNs.")
    if not compute_v:
        return torch.linalg.eigvals(input).to(Tout.torch), input.new_empty(0, dtype=Tout.torch)
    e, v = torch.linalg.eig(input)
    return e.to(Tout.torch), v.to(Tout.torch)


@eig_op.gradient
def _eig_gradient(op, grad_e, grad_v):
    # A V = V diag(e): the gradient is V^-H (diag(ge) + (V^H gv - V^H V diag(Re(V^H gv))) / conj(e_j - e_i)) V^H.
    expand, diag = get("ExpandDims"), get("MatrixDiag")
    e, dtype = op.outputs[0], op.outputs[0].dtype
    if op.attrs["compute_v"]:
        v = op.outputs[1]
        gap = with_diag(expand(e, -2) - expand(e, -1), get("OnesLike")(e))
        over_gap = with_diag(1.0 / get("Conj")(gap), get("ZerosLike")(e))
        turn = matmul(v, grad_v, adjoint_a=True)
        along = diag(_complex(get("Real")(get("MatrixDiagPart")(turn), Tout=_real_of(dtype)), dtype))
        middle = diag(grad_e) + over_gap * (turn - matmul(matmul(v, v, adjoint_a=True), along))
    else:
        _, v = eig_op(op.inputs[0], Tout=dtype)
        middle = diag(grad_e)
    grad = matrix_solve_op(adjoint_of(v), matmul(middle, v, adjoint_b=True))
    source = op.inputs[0].dtype
    return grad if source.is_complex else get("Real")(grad, Tout=source)


def _complex_of(dtype: Any) -> Any:
    return dtypes.complex128 if dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64


@export("linalg.eig", "eig")
@dispatched
def eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and right eigenvectors of general square matrices.

    Args:
        tensor: Matrices [..., n, n].
        name: A name for the op.

    Returns:
        Complex tensors: eigenvalues [..., n] and eigenvectors [..., n, n], one per column.

    >>> values, vectors = tf.linalg.eig([[2.0, 0.0], [0.0, 3.0]])
    >>> tf.math.real(values).numpy().tolist()
    [2.0, 3.0]
    """
    tensor = convert(tensor, name="tensor")
    e, v = eig_op(tensor, Tout=_complex_of(tensor.dtype.base_dtype), name=name)
    return e, v


@export("linalg.eigvals", "eigvals")
@dispatched
def eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues of general square matrices, as complex numbers."""
    tensor = convert(tensor, name="tensor")
    return eig_op(tensor, Tout=_complex_of(tensor.dtype.base_dtype), compute_v=False, name=name)[0]


# -- LU ---------------------------------------------------------------------------------------------------------------
lu = op("Lu", "input: T -> lu: T, p: output_idx_type", TYPES + ", output_idx_type: type in {index} = int32",
        export_as="linalg.lu")
rules.batching.leading[lu] = (0,)


@lu.shape
def _lu_shape(input):
    batch, n = square_dims(input)
    return [with_batch(batch, n, n), with_batch(batch, n)]


@lu.kernel
def _lu_kernel(input, *, output_idx_type):
    check_matrix(input)
    wide = input.float() if input.dtype is torch.float16 else input
    factors, pivots, info = torch.linalg.lu_factor_ex(wide)
    check_info(info, "Input is not invertible.")
    if not input.numel():
        return input, torch.empty(input.shape[:-1], dtype=output_idx_type.torch, device=input.device)
    permutation = torch.lu_unpack(factors, pivots, unpack_data=False)[0].real.argmax(-2)
    return factors.to(input.dtype), permutation.to(output_idx_type.torch)

"""Products of matrices: one by one, in batches, and along any axes (tensordot). Sums over indices are in `einsum`."""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import products
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.aggregate import fuse_product
from penstock._src.ops.math.math import conj, unbroadcast
from penstock._src.ops.registry import get, internal, op

_TYPES = "T: type in {bfloat16 half float32 float64 %s int32 int64 uint8 uint16 uint32 uint64 complex64 complex128}"
_OF_MATRICES, _OF_BATCHES = _TYPES.replace("%s ", ""), _TYPES % "int16"
_TRANSPOSE = "transpose_a: bool = False, transpose_b: bool = False"

mat_mul = op("MatMul", "a: T, b: T -> product: T", f"{_TRANSPOSE}, {_OF_MATRICES}", gpu="floating")
rules.loops.outer[mat_mul] = lambda attrs: attrs["transpose_a"] and not attrs["transpose_b"]
sparse_mat_mul = op("SparseMatMul", "a: Ta, b: Tb -> product: float32",
                    f"{_TRANSPOSE}, a_is_sparse: bool = False, b_is_sparse: bool = False, "
                    "Ta: type in {float32 bfloat16} = float32, Tb: type in {float32 bfloat16} = float32")
_ADJOINT = "adj_x: bool = False, adj_y: bool = False"
batch_mat_mul = op("BatchMatMul", "x: T, y: T -> output: T", f"{_OF_BATCHES}, {_ADJOINT}", gpu="floating")
batch_mat_mul_v2 = op("BatchMatMulV2", "x: T, y: T -> output: T", f"{_OF_BATCHES}, {_ADJOINT}", gpu="floating")


# With a type of results: integers of 8 bits add up in 32.
_WIDE = "bfloat16 half float32 float64 uint8 int8 int16 int32 int64 complex64 complex128"
batch_mat_mul_v3 = op("BatchMatMulV3", "x: Ta, y: Tb -> output: Tout",
                      f"Ta: type in {{{_WIDE}}}, Tb: type in {{{_WIDE}}}, "
                      "Tout: type in {bfloat16 half float32 float64 int16 int32 int64 complex64 complex128}, "
                      f"{_ADJOINT}, grad_x: bool = False, grad_y: bool = False", gpu="floating")


@rules.batching.rule(mat_mul)
def _mat_mul_batching(op, rows, a, b):
    adjoint = {"adj_x": op.attrs["transpose_a"], "adj_y": op.attrs["transpose_b"]}
    if op.attrs["T"].is_complex and True in adjoint.values():
        return None
    if b.stacked or op.attrs["transpose_a"]:
        return [batch_mat_mul_v2(a.tensor, b.tensor, **adjoint)]
    made = mat_mul(rows.merged(a.tensor), b.tensor, transpose_b=op.attrs["transpose_b"])
    return [get("Reshape")(made, get("ConcatV2")([get("Shape")(a.tensor)[:2], get("Shape")(made)[1:]], np.int32(0)))]


@rules.batching.rule(batch_mat_mul, batch_mat_mul_v2, batch_mat_mul_v3)
def _batch_mat_mul_batching(op, rows, x, y):
    made = rows.aligned([x, y])
    if made is None:
        return None
    if op.opdef is batch_mat_mul:
        return [batch_mat_mul_v2(*made, adj_x=op.attrs["adj_x"], adj_y=op.attrs["adj_y"])]
    return rows.again(op, made)



# -- shapes -----------------------------------------------------------------------------------------------------------
def _product_dims(a, b, transpose_a, transpose_b):
    """The shape of a product of two matrices."""
    a, b = shapes.rank_is(a, 2), shapes.rank_is(b, 2)
    rows, inner = a[::-1] if transpose_a else a
    inner_b, cols = b[::-1] if transpose_b else b
    if inner is not None and inner_b is not None and inner != inner_b:
        raise ValueError(f"Dimensions must be equal, but are {inner} and {inner_b}")
    return rows, cols


@rules.costs.flops(mat_mul, sparse_mat_mul, batch_mat_mul, batch_mat_mul_v2)
def _mat_mul_cost(inputs, outputs):
    out, = outputs
    return 2 * math.prod(inputs[0]) * (out[-1] if out else 1)


@mat_mul.shape
@sparse_mat_mul.shape
def _mat_mul_shape(a, b, *, transpose_a, transpose_b):
    return _product_dims(a, b, transpose_a, transpose_b)


def _batch_dims(x, y, adj_x, adj_y, combine):
    shapes.rank_at_least(x, 2)
    shapes.rank_at_least(y, 2)
    if x is None or y is None:
        if x is not None or y is not None:
            _product_dims(x and x[-2:], y and y[-2:], adj_x, adj_y)
        return None
    return combine(x[:-2], y[:-2]) + _product_dims(x[-2:], y[-2:], adj_x, adj_y)


@batch_mat_mul.shape
def _batch_mat_mul_shape(x, y, *, adj_x, adj_y):
    return _batch_dims(x, y, adj_x, adj_y, shapes.merge)


@batch_mat_mul_v3.shape
@batch_mat_mul_v2.shape
def _batch_mat_mul_v2_shape(x, y, *, adj_x, adj_y):
    return _batch_dims(x, y, adj_x, adj_y, shapes.broadcast)


# -- kernels ----------------------------------------------------------------------------------------------------------
def _packs(known, adjoint: str) -> Any:
    """How the second matrix is arranged, if it stays the same: packed, if that pays off; None: not at all."""
    b = known.dims(1)
    if b is None or len(b) != 2 or not products.packs(b[0], b[1], known.op.inputs[1].dtype.torch):
        return None
    return functools.partial(products.packed, transposed=known.attrs[adjoint])


def _second(b: Any, transposed: bool) -> Any:
    """The second matrix of a product; a packed one has been transposed already."""
    return b.t() if transposed and type(b) is not products.PackedMatrix else b


@rules.hoisting.pack(mat_mul)
def _mat_mul_pack(known):
    return _packs(known, "transpose_b")


@mat_mul.kernel
def _mat_mul_kernel(a, b, *, transpose_a, transpose_b):
    return _matrices(a.t() if transpose_a else a, b.t() if transpose_b else b)


@rules.program.prepare(mat_mul)
def _mat_mul_prepare(known):
    a, b, t_a, t_b = known.dims(0), known.dims(1), known.attrs["transpose_a"], known.attrs["transpose_b"]
    if _packs(known, "transpose_b") is not None:
        return lambda a, b: _matrices(a.t() if t_a else a, _second(b, t_b))
    if a is None or b is None:
        return None
    rows, inner = a[::-1] if t_a else a
    columns = b[0] if t_b else b[1]
    if not products.is_plain(rows, inner, columns) or known.attrs["T"] is dtypes.float16:
        return lambda a, b: products.product(a.t() if t_a else a, b.t() if t_b else b)
    if not t_a and not t_b:
        return torch.mm
    return lambda a, b: torch.mm(a.t() if t_a else a, b.t() if t_b else b)


def _matrices(a: torch.Tensor, b: torch.Tensor | products.PackedMatrix) -> torch.Tensor:
    if a.ndim != 2 or b.ndim != 2:
        raise errors.invalid(f"In[0] and In[1] must be matrices, not of shapes {list(a.shape)} and {list(b.shape)}")
    if a.shape[1] != b.shape[0]:
        raise errors.invalid(f"Matrix size-incompatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}")
    return products.product(a, b)


@sparse_mat_mul.kernel
def _sparse_mat_mul_kernel(a, b, *, transpose_a, transpose_b):
    a, b = a.to(torch.float32), b.to(torch.float32)
    return _matrices(a.t() if transpose_a else a, b.t() if transpose_b else b)


def _batch(x: torch.Tensor, y: torch.Tensor, adj_x: bool, adj_y: bool) -> torch.Tensor:
    if x.ndim < 2 or y.ndim < 2:
        raise errors.invalid(f"In[0] and In[1] ndims must be >= 2: {x.ndim} and {y.ndim}")
    if y.ndim == 2 and x.ndim > 2 and not adj_x and x.shape[-1] == y.shape[adj_y]:
        return _of_rows(x, y.mH if adj_y else y)
    if x.ndim > 3 and x.shape[:-2] == y.shape[:-2]:       # copies keep the order of the last axes: transposing them is slow
        batch, x, y = x.shape[:-2], x.flatten(0, -3), y.flatten(0, -3)
    else:
        batch = None
    x, y = x.mH if adj_x else x, y.mH if adj_y else y
    if x.shape[-1] != y.shape[-2]:
        raise errors.invalid(f"Matrix size-incompatible: In[0]: {list(x.shape)}, In[1]: {list(y.shape)}")
    if x.ndim == y.ndim == 3 and len(x) == len(y):
        made = products.batched(x, y)
        return made if batch is None else made.view(*batch, x.shape[-2], y.shape[-1])
    return torch.matmul(x.float(), y.float()).half() if products.in_float32(x) else torch.matmul(x, y)


def _of_rows(x: torch.Tensor, y: torch.Tensor | products.PackedMatrix) -> torch.Tensor:
    """The rows of all matrices of a batch are those of one product."""
    return products.product(x.flatten(0, -2), y).unflatten(0, x.shape[:-1])


@rules.hoisting.pack(batch_mat_mul_v2)
def _batch_mat_mul_v2_pack(known):
    return None if (known.rank(0) or 0) < 3 or known.attrs["adj_x"] else _packs(known, "adj_y")


@rules.program.prepare(batch_mat_mul_v2)
def _batch_mat_mul_v2_prepare(known):
    if _batch_mat_mul_v2_pack(known) is None:
        return None
    adjoint = known.attrs["adj_y"]

    def run(x, y):
        if type(y) is products.PackedMatrix and x.shape[-1] == y.shape[0]:
            return _of_rows(x, y)
        return _batch(x, y, False, adjoint and type(y) is not products.PackedMatrix)
    return run


@batch_mat_mul_v3.kernel
def _batch_mat_mul_v3_kernel(x, y, *, adj_x, adj_y, Tout):
    return _batch(x.to(Tout.torch), y.to(Tout.torch), adj_x, adj_y)


@batch_mat_mul.kernel
def _batch_mat_mul_kernel(x, y, *, adj_x, adj_y):
    if x.shape[:-2] != y.shape[:-2]:
        raise errors.invalid(f"In[0] and In[1] must have compatible batch dimensions: {list(x.shape)} vs. "
                             f"{list(y.shape)}")
    return _batch(x, y, adj_x, adj_y)


@batch_mat_mul_v2.kernel
def _batch_mat_mul_v2_kernel(x, y, *, adj_x, adj_y):
    return _batch(x, y, adj_x, adj_y)


# -- with a bias and an activation ------------------------------------------------------------------------------------
fused_mat_mul = internal("_FusedMatMul", "a: T, b: T, args: num_args * T -> product: T",
                         f"{_TRANSPOSE}, T: type in {{float32 float64 bfloat16 half}}, num_args: int >= 0, "
                         "fused_ops: list(string) = []")
rules.loops.outer[fused_mat_mul] = lambda attrs: rules.loops.outer[mat_mul](attrs) and attrs["fused_ops"] == ["Add"]
rules.pointwise.without_row[fused_mat_mul] = lambda op: None if op.attrs["fused_ops"] != ["BiasAdd"] else (
    mat_mul, op.inputs[:2], {n: op.attrs[n] for n in mat_mul.attrs if n in op.attrs}, op.inputs[2])


@fused_mat_mul.shape
def _fused_mat_mul_shape(a, b, args, *, transpose_a, transpose_b):
    return _product_dims(a, b, transpose_a, transpose_b)


@rules.hoisting.pack(fused_mat_mul)
def _fused_mat_mul_pack(known):
    return _packs(known, "transpose_b") if known.attrs["fused_ops"][0] == "BiasAdd" else None


@fused_mat_mul.kernel
def _fused_mat_mul_kernel(a, b, args, *, transpose_a, transpose_b, fused_ops):
    a, b = a.t() if transpose_a else a, _second(b, transpose_b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        return _matrices(a, b)                   # raises the error
    if a.is_cuda and "Relu" in fused_ops:
        return torch._addmm_activation(args[0], a, b)
    out = products.product(a, b, args[0])
    return out.relu_() if "Relu" in fused_ops else out


def fuse_bias(op, f, value, bias):
    """A bias along the last axis, or a whole matrix, of known size, added to a product that is used nowhere else."""
    made = f.only(value, op)
    if made is not None and made.opdef in rules.arithmetic.takes_shape and not f.on_host(op):
        return _fuse_bias_before_reshape(op, f, made, bias)
    if made is None or made.opdef is not mat_mul or made.attrs["T"] not in (fused_mat_mul.attrs["T"].allowed or ()):
        return None
    if value.static_dims is None or bias.static_dims is None:
        return None
    if len(bias.static_dims) == 1 and bias.static_dims[0] is not None and value.static_dims[-1] == bias.static_dims[0]:
        kind = "BiasAdd"
    elif len(bias.static_dims) == 2 and None not in bias.static_dims and bias.static_dims == value.static_dims:
        kind = "Add"
    else:
        return None
    attrs = {**made.attrs, "num_args": 1, "fused_ops": [kind]}
    return f.make("_FusedMatMul", [*made.inputs, bias], attrs, op, (None, None, 1))


def _fuse_bias_before_reshape(op, f, reshape, bias):
    """The same where leading axes of the product have been restored. On GPUs the product adds the bias as it writes; on CPUs
    the next elementwise op does."""
    made = f.only(reshape.inputs[0], reshape)
    rows = None if made is None or made.opdef is not mat_mul else made.outputs[0].static_dims
    if rows is None or None in rows or bias.static_dims != rows[-1:] or reshape.outputs[0].static_dims is None or \
            reshape.outputs[0].static_dims[-1:] != rows[-1:] or \
            made.attrs["T"] not in (fused_mat_mul.attrs["T"].allowed or ()):
        return None
    attrs = {**made.attrs, "num_args": 1, "fused_ops": ["BiasAdd"]}
    product = f.add(f.make("_FusedMatMul", [*made.inputs, bias], attrs, made, (None, None, 1)))[0]
    return f.make("Reshape", [product, reshape.inputs[1]], reshape.attrs, op)


@rules.fusion.fuse(get("AddV2"), get("Add"))
def _add_v2_fuse(op, f):
    x, y = op.inputs
    return fuse_bias(op, f, x, y) or fuse_bias(op, f, y, x) or fuse_product(op, f)


@rules.regions.lower(mat_mul, fused_mat_mul)
def _mat_mul_in_region(op, r):
    found = r.product(r.view(op.inputs[0]), r.view(op.inputs[1]), op.attrs["transpose_a"], op.attrs["transpose_b"])
    fused = op.attrs.get("fused_ops", ())
    if fused:
        found = r.terms(found.dims, [found, r.view(op.inputs[2])], lambda terms, a, b: _activated(
            terms, terms.step_of("ADD", a, b), fused))
    return [found]


def _activated(terms: Any, x: int, fused: Any) -> int:
    return terms.step_of("RELU", x) if "Relu" in fused else x


@rules.regions.lower(batch_mat_mul, batch_mat_mul_v2)
def _batch_mat_mul_in_region(op, r):
    x, y = (r.view(t) for t in op.inputs)
    batch = op.outputs[0].static_dims[:-2]
    x, y = (r.repeated(v, (*batch, *v.dims[-2:])) for v in (x, y))
    return [r.product(x, y, op.attrs["adj_x"], op.attrs["adj_y"])]


# -- in loops -----------------------------------------------------------------------------------------------------------
turned = internal("_Turned", "b: T -> turned: T", "T: type, begin: int, end: int")


@turned.kernel
def _turned_kernel(b, *, begin, end):
    return b[begin:end].t().contiguous()


def _by_rows(product, loop, begin, end):
    """Makes a product with the transpose of a loop-invariant matrix use some of its rows, transposed once before the loop."""
    b = product.inputs[1]
    if not product.attrs["transpose_b"] or not loop.stays(b) or not b.dtype.is_floating or \
            b.static_dims is None or None in b.static_dims:
        return False
    end = b.static_dims[0] if end is None else end
    product.set_input(1, loop.once("_Turned", b, {"T": b.dtype, "begin": begin, "end": end}, (b.static_dims[1], end - begin)))
    product.attrs = {**product.attrs, "transpose_b": False}
    out = product.outputs[0]
    out.static_dims = (out.static_dims[0], end - begin)
    return True


@rules.loops.improve(mat_mul)
def _mat_mul_in_loop(op, loop):
    _by_rows(op, loop, 0, None)


@rules.loops.improve(get("Split"))
def _split_in_loop(op, loop):
    """A number that is added to a part of what has a bias is added to the bias, once before the loop."""
    axis, (_, value) = loop.constant(op.inputs[0]), op.inputs
    add = loop.only(value, op)
    if add is None or axis is None or value.static_dims is None or len(value.static_dims) != 2 or int(axis) not in (1, -1) or \
            value.dtype not in (dtypes.float32, dtypes.float64) or \
            add.opdef not in rules.algebra.sums and add.opdef is not get("BiasAdd"):
        return
    width = value.static_dims[1]
    at = next((i for i, t in enumerate(add.inputs) if loop.stays(t) and t.static_dims == (width,)), None)
    if at is None or width is None or len(add.inputs) != 2:
        return
    shift = np.zeros(width, value.dtype.as_numpy_dtype)
    for part, room in zip(op.outputs, np.split(shift, len(op.outputs)), strict=True):
        user = loop.used(part)[0] if len(loop.used(part)) == 1 else None
        if user is None or loop.only(part, user) is not op or user.opdef not in rules.algebra.sums or len(user.inputs) != 2:
            continue
        number = next((n for t in user.inputs if t is not part and (n := loop.constant(t)) is not None and not n.ndim), None)
        if number is not None and user.outputs[0].static_dims == part.static_dims:
            room[:] = number
            loop.instead(user.outputs[0], part)
    if shift.any():
        bias = add.inputs[at]
        add.set_input(at, loop.once("AddV2", bias, {"T": bias.dtype}, bias.static_dims, shift))


@rules.loops.improve(get("SplitV"))
def _split_v_in_loop(op, loop):
    """One part of a product with a transpose is the product with some of the rows."""
    product = loop.only(op.inputs[0], op)
    sizes, axis = (loop.constant(t) for t in op.inputs[1:])
    wanted = [i for i, t in enumerate(op.outputs) if loop.needed(t)]
    if product is None or product.opdef is not mat_mul or len(wanted) != 1 or sizes is None or axis is None or \
            int(axis) not in (1, -1) or sizes.min() < 0 or sizes.sum() != product.outputs[0].static_dims[1]:
        return
    at = wanted[0]
    begin = int(sizes[:at].sum())
    if _by_rows(product, loop, begin, begin + int(sizes[at])):
        loop.instead(op.outputs[at], product.outputs[0])


# -- gradients --------------------------------------------------------------------------------------------------------
def _factors(grad: Any, a: Any, b: Any, t_a: bool, t_b: bool, product: Any) -> tuple:
    """The gradients of op(a) op(b), by product(x, y, x_transposed, y_transposed)."""
    grad_a = product(b, grad, t_b, True) if t_a else product(grad, b, False, not t_b)
    grad_b = product(grad, a, True, t_a) if t_b else product(a, grad, not t_a, False)
    return grad_a, grad_b


@mat_mul.gradient
def _mat_mul_gradient(op, grad):
    return _factors(grad, conj(op.inputs[0]), conj(op.inputs[1]), op.attrs["transpose_a"], op.attrs["transpose_b"],
                    lambda x, y, t_x, t_y: mat_mul(x, y, transpose_a=t_x, transpose_b=t_y))


@sparse_mat_mul.gradient
def _sparse_mat_mul_gradient(op, grad):
    a, b = op.inputs
    sparse = {id(a): op.attrs["a_is_sparse"], id(b): op.attrs["b_is_sparse"]}

    def product(x, y, t_x, t_y):
        return sparse_mat_mul(x, y, transpose_a=t_x, transpose_b=t_y, a_is_sparse=sparse.get(id(x), False),
                              b_is_sparse=sparse.get(id(y), False))
    grads = _factors(grad, a, b, op.attrs["transpose_a"], op.attrs["transpose_b"], product)
    return [g if g.dtype == t.dtype.base_dtype else get("Cast")(g, DstT=t.dtype.base_dtype)
            for g, t in zip(grads, (a, b))]


@batch_mat_mul.gradient
@batch_mat_mul_v2.gradient
def _batch_mat_mul_gradient(op, grad):
    x, y = op.inputs
    return _of_batches(x, y, grad, op.attrs["adj_x"], op.attrs["adj_y"])


@batch_mat_mul_v3.gradient
def _batch_mat_mul_v3_gradient(op, grad):
    """Computed in the type of the results; factors of integers have no gradient."""
    kinds = [t.dtype.base_dtype for t in op.inputs]
    if not all(k.is_floating or k.is_complex for k in kinds):
        return None, None
    x, y = [t if k is grad.dtype.base_dtype else get("Cast")(t, DstT=grad.dtype.base_dtype)
            for t, k in zip(op.inputs, kinds, strict=True)]
    found = _of_batches(x, y, grad, op.attrs["adj_x"], op.attrs["adj_y"])
    return [g if g.dtype.base_dtype is k else get("Cast")(g, DstT=k) for g, k in zip(found, kinds, strict=True)]


def _of_batches(x: Any, y: Any, grad: Any, adj_x: bool, adj_y: bool) -> tuple:
    """The gradients of a product of batches."""
    if _one_for_all(x, y) and not adj_x:             # one product over all rows, in place of a sum of products
        rows, of_rows = _rows(x), _rows(grad)
        return batch_mat_mul_v2(grad, y, adj_y=not adj_y), \
            mat_mul(of_rows, rows, transpose_a=True) if adj_y else mat_mul(rows, of_rows, transpose_a=True)
    gx, gy = _factors(grad, x, y, adj_x, adj_y, lambda x, y, t_x, t_y: batch_mat_mul_v2(x, y, adj_x=t_x, adj_y=t_y))
    return unbroadcast(gx, x, y, trailing=2), unbroadcast(gy, y, x, trailing=2)


def _one_for_all(x: Any, y: Any) -> bool:
    """Whether all matrices of a batch are multiplied by one real matrix of known sizes."""
    batch, one = x.static_dims, y.static_dims
    return batch is not None and one is not None and len(batch) > 2 and len(one) == 2 and None not in one and \
        batch[-1] is not None and x.dtype.is_floating


def _rows(x: Any) -> Any:
    """The rows of all matrices of a batch."""
    return get("Reshape")(x, np.array([-1, x.static_dims[-1]], np.int32))


# -- public functions -------------------------------------------------------------------------------------------------
@export("linalg.matmul", "matmul")
@dispatched
def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
           adjoint_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False, output_type: Any = None,
           grad_a: bool = False, grad_b: bool = False, name: str | None = None) -> Tensor:
    """The product of two matrices, or of batches of matrices in the last two dimensions. With `output_type`, factors of other
    types (int8, bfloat16) are multiplied and summed in that type. `grad_a` and `grad_b` only mark factors that are gradients.

    Args:
        a: Tensor of rank 2 or more; leading axes are a batch.
        b: Tensor of the type of `a`. Its batch axes broadcast with those of `a`.
        transpose_a: Whether to transpose the last two axes of `a`.
        transpose_b: Whether to transpose the last two axes of `b`.
        adjoint_a: Whether to transpose and conjugate `a`.
        adjoint_b: Whether to transpose and conjugate `b`.
        a_is_sparse: Hint that `a` has many zeros.
        b_is_sparse: Hint that `b` has many zeros.
        output_type: Element type of the product, for factors of another type.
        grad_a: Marks `a` as a gradient.
        grad_b: Marks `b` as a gradient.
        name: Name of the operation.

    Returns:
        A tensor of shape [..., rows of a, columns of b].

    Raises:
        ValueError: if the inner sizes differ, or an operand is both transposed and adjoint.

    >>> tf.matmul([[1., 2.]], [[3.], [4.]]).numpy()
    array([[11.]], dtype=float32)
    >>> tf.matmul([[1., 2.]], [[3., 4.]], transpose_b=True).numpy()
    array([[11.]], dtype=float32)
    """
    with name_scope(name, "MatMul", [a, b]) as scope:
        if transpose_a and adjoint_a:
            raise ValueError("Only one of transpose_a and adjoint_a can be True.")
        if transpose_b and adjoint_b:
            raise ValueError("Only one of transpose_b and adjoint_b can be True.")
        a = convert(a, name="a")
        b = convert(b, name="b", preferred_dtype=a.dtype.base_dtype)
        if output_type is not None:
            wide = dtypes.as_dtype(output_type)
            a, b = (t if t.dtype.base_dtype == wide else get("Cast")(t, DstT=wide) for t in (a, b))
        ranks = [None if t.static_dims is None else len(t.static_dims) for t in (a, b)]
        kinds = {a.dtype.base_dtype, b.dtype.base_dtype}
        sparse = (a_is_sparse or b_is_sparse or len(kinds) == 2) and kinds <= {dtypes.float32, dtypes.bfloat16}
        if not sparse and any(r is None or r > 2 for r in ranks):
            return batch_mat_mul_v2(conj(a) if transpose_a else a, conj(b) if transpose_b else b,
                                    adj_x=transpose_a or adjoint_a, adj_y=transpose_b or adjoint_b, name=scope)
        a, b = conj(a) if adjoint_a else a, conj(b) if adjoint_b else b
        turn = {"transpose_a": transpose_a or adjoint_a, "transpose_b": transpose_b or adjoint_b}
        if sparse:
            out = sparse_mat_mul(a, b, **turn, a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse, name=scope)
            return get("Cast")(out, DstT=dtypes.bfloat16) if kinds == {dtypes.bfloat16} else out
        return mat_mul(a, b, **turn, name=scope)


@export(v1=["sparse_matmul"])
@dispatched
def sparse_matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, a_is_sparse: bool = False,
                  b_is_sparse: bool = False, name: str | None = None) -> Tensor:
    """The product of two matrices that may hold many zeros, in float32."""
    return sparse_mat_mul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, a_is_sparse=a_is_sparse,
                          b_is_sparse=b_is_sparse, name=name)


@export("linalg.matvec")
@dispatched
def matvec(a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, a_is_sparse: bool = False,
           b_is_sparse: bool = False, name: str | None = None) -> Tensor:
    """The product of a matrix and a vector, or of batches of them.

    Args:
        a: Matrices [..., m, n].
        b: Vectors [..., n].
        transpose_a: Whether `a` is transposed before.
        adjoint_a: Whether `a` is transposed and conjugated before.
        a_is_sparse: Whether `a` has many zeros.
        b_is_sparse: Whether `b` has many zeros.
        name: Name of the operation.

    Returns:
        Vectors [..., m].

    >>> tf.linalg.matvec([[1., 2.], [3., 4.]], [1., 1.]).numpy().tolist()
    [3.0, 7.0]
    """
    with name_scope(name, "MatVec", [a, b]):
        out = matmul(a, get("ExpandDims")(b, -1), transpose_a=transpose_a, adjoint_a=adjoint_a,
                     a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse)
        return get("Squeeze")(out, squeeze_dims=[-1])


# -- tensordot --------------------------------------------------------------------------------------------------------
@export("tensordot", "linalg.tensordot")
@dispatched
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Sums of products of `a` and `b` over some axes of each, in the order they are given.

    Args:
        a: Tensor.
        b: Tensor of the same type.
        axes: A number n: the last n axes of `a` and the first n of `b`; or two lists of axes, of `a` and of `b`.
        name: Name of the operation.

    Returns:
        A tensor with the other axes of `a`, then those of `b`.

    >>> a, b = tf.constant([[1., 2.], [3., 4.]]), tf.constant([[1., 0.], [0., 2.]])
    >>> tf.tensordot(a, b, axes=1).numpy()        # the matrix product
    array([[1., 4.],
           [3., 8.]], dtype=float32)
    >>> tf.tensordot(a, b, axes=2).numpy()        # the sum of the products of elements
    np.float32(9.0)
    """
    with name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a = convert(a, name="a")
        b = convert(b, name="b", preferred_dtype=a.dtype.base_dtype)
        a_axes, b_axes = _contracted(a, axes)
        left, a_free = _as_matrix(a, a_axes, last=True)
        right, b_free = _as_matrix(b, b_axes, last=False)
        product = matmul(left, right)
        if isinstance(a_free, list) and isinstance(b_free, list) and None not in a_free + b_free:
            shape = convert(np.array(a_free + b_free, np.int32))
            if product.static_dims == tuple(a_free + b_free):
                return product
            return get("Reshape")(product, shape, name=scope)
        shape = get("ConcatV2")([_sizes(a, a_axes), _sizes(b, b_axes)], 0)
        out = get("Reshape")(product, shape, name=scope)
        if isinstance(a_free, list) and isinstance(b_free, list):
            out.set_shape(a_free + b_free)
        return out


def _axes(axes: Any) -> Any:
    if isinstance(axes, (list, tuple, np.ndarray)) and not any(isinstance(i, Tensor) for i in axes):
        return list(map(int, axes))
    return convert(axes, dtypes.int32)


def _contracted(a: Tensor, axes: Any) -> tuple[Any, Any]:
    """The axes of a and of b that are summed over: lists of ints, or tensors."""
    if isinstance(axes, (int, np.integer)):
        if axes < 0:
            raise ValueError(f"`axes` must be at least 0. Received: {axes}.")
        if a.static_dims is not None:
            if axes > len(a.static_dims):
                raise ValueError(f"`axes` must not be larger than the number of dimensions of tensor {a}. "
                                 f"Received {axes}, vs tensor dimensions {len(a.static_dims)}.")
            return list(range(len(a.static_dims) - axes, len(a.static_dims))), list(range(axes))
        rank = get("Rank")(a)
        return get("Range")(rank - axes, rank, 1), list(range(axes))
    if isinstance(axes, (list, tuple)):
        if len(axes) != 2:
            raise ValueError(f"`axes` must be an integer or have length 2. Received {axes}.")
        first, second = axes
        if isinstance(first, (int, np.integer)) and isinstance(second, (int, np.integer)):
            first, second = [first], [second]
        if hasattr(first, "__len__") and hasattr(second, "__len__") and not isinstance(first, Tensor) \
                and len(first) != len(second):
            raise ValueError(f"`a` and `b` must have the same number of contraction axes, {len(first)} != {len(second)}.")
        return _axes(first), _axes(second)
    axes = convert(axes, dtypes.int32, "axes")
    known = constant_value(axes)
    if known is not None:
        return known[0].reshape(-1).tolist(), known[1].reshape(-1).tolist()
    return axes[0], axes[1]


def _as_matrix(t: Tensor, axes: Any, last: bool) -> tuple[Tensor, Any]:
    """`t` as a matrix [free, summed] (or the other way round), and its free sizes (None: not even their number)."""
    if isinstance(axes, list) and t.static_dims is not None:
        rank = len(t.static_dims)
        for i in axes:
            if not -rank <= i < rank:
                raise IndexError(f"axis {i} is out of range for a tensor of rank {rank}")
        axes = [i % rank for i in axes]
        free = [i for i in range(rank) if i not in axes]
        perm = free + axes if last else axes + free
        sizes = [t.static_dims[i] for i in free]
        moved = t if perm == list(range(rank)) else get("Transpose")(t, convert(np.array(perm, np.int32)))
        if len(free) == 1 and len(axes) == 1:
            return moved, sizes
        return get("Reshape")(moved, _matrix_shape(t, [t.static_dims[i] for i in axes], sizes, axes, last)), sizes
    perm, matrix = _dynamic(t, axes, last)
    return get("Reshape")(get("Transpose")(t, perm), matrix), None


def _matrix_shape(t: Tensor, summed: list, sizes: list, axes: list, last: bool) -> Tensor:
    pair = [_size(sizes), _size(summed)]
    if None in pair:
        if pair != [None, None] and 0 not in pair:
            pair = [-1 if n is None else n for n in pair]
        else:
            return _dynamic(t, axes, last)[1]
    return convert(np.array(pair if last else pair[::-1], np.int32))


def _size(sizes: list) -> int | None:
    return None if None in sizes else int(np.prod(sizes, dtype=np.int64))


def _free_axes(t: Tensor, axes: Any) -> tuple[Tensor, Tensor]:
    """The axes that are summed over, from 0, and the others: constants if they are known."""
    if isinstance(axes, list) and t.static_dims is not None:
        n = len(t.static_dims)
        summed = [i % n for i in axes]
        free = [i for i in range(n) if i not in summed]
        return convert(np.array(summed, np.int32)), convert(np.array(free, np.int32))
    rank = get("Rank")(t)
    axes = convert(np.array(axes, np.int32)) if isinstance(axes, list) else axes
    axes = (axes + rank) % rank
    return axes, get("ListDiff")(get("Range")(0, rank, 1), axes)[0]


def _dynamic(t: Tensor, axes: Any, last: bool) -> tuple[Tensor, Tensor]:
    """The permutation and the matrix shape, when they are known only at run time."""
    axes, free = _free_axes(t, axes)
    shape = get("Shape")(t)
    order = [free, axes] if last else [axes, free]
    sizes = [get("Prod")(get("GatherV2")(shape, which, 0), [0]) for which in order]
    return get("ConcatV2")(order, 0), get("Pack")(sizes)


def _sizes(t: Tensor, axes: Any) -> Tensor:
    """The sizes of the axes that are not summed over."""
    return get("GatherV2")(get("Shape")(t), _free_axes(t, axes)[1], 0)


# -- vectors of three, and the diagonal -------------------------------------------------------------------------------
cross = op("Cross", "a: T, b: T -> product: T", "T: type in {half bfloat16 float32 float64 int8 int16 int32 int64 uint8}",
           export_as="linalg.cross", v1_as="cross")
rules.batching.leading[cross] = (0, 1)


@cross.shape
def _cross_shape(a, b):
    out = shapes.merge(a, b)
    shapes.rank_at_least(out, 1)
    if out is not None and out[-1] not in (None, 3):
        raise ValueError(f"Cross-products are only defined for 3-element vectors, not {shapes.show(out)}")
    return out


@cross.kernel
def _cross_kernel(a, b):
    if a.shape != b.shape:
        raise errors.invalid(f"Both inputs must be of same shape: {list(a.shape)} vs. {list(b.shape)}")
    if a.ndim < 1 or a.shape[-1] != 3:
        raise errors.invalid(f"Cross-products are only defined for 3-element vectors, not {list(a.shape)}")
    return torch.linalg.cross(a, b)


@cross.gradient
def _cross_gradient(op, grad):
    a, b = op.inputs
    return cross(b, grad), cross(grad, a)


@export("linalg.trace", v1=["trace"])
@dispatched
def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of the main diagonal of each matrix.

    Args:
        x: Matrices [..., m, n].
        name: Name of the operation.

    Returns:
        Tensor without the two last dimensions.

    >>> tf.linalg.trace([[1, 2], [3, 4]]).numpy().item()
    5
    """
    with name_scope(name, "Trace", [x]) as scope:
        return get("Sum")(get("MatrixDiagPart")(convert(x, name="x")), [-1], name=scope)

"""Small parts of `tf.nn`: dense layers in one call, the fraction of zeros, and maps between data formats."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.array.array import size_internal
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.reduction import count_nonzero_v2
from penstock._src.ops.nn.bias import bias_add_op
from penstock._src.ops.registry import get, op


@export(v1=["nn.xw_plus_b"])
@dispatched
def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """matmul(x, weights) + biases.

    Args:
        x: Matrix [batch, in].
        weights: Matrix [in, out].
        biases: Vector [out].
        name: Name of the operation.

    Returns:
        A matrix [batch, out].

    >>> tf.nn.xw_plus_b([[1., 2.]], [[3.], [4.]], [0.5]).numpy()
    array([[11.5]], dtype=float32)
    """
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return bias_add_op(_product(x, weights), convert(biases, name="biases"), name=scope)


@export(v1=["nn.relu_layer"])
@dispatched
def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(matmul(x, weights) + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return get("Relu")(bias_add_op(_product(x, weights), convert(biases, name="biases")), name=scope)


def _product(x: Any, weights: Any) -> Tensor:
    return get("MatMul")(convert(x, name="x"), convert(weights, name="weights"))


@export("math.zero_fraction", "nn.zero_fraction")
@dispatched
def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The fraction of elements that are zero, a float32.

    Args:
        value: Tensor of numbers.
        name: Name of the operation.

    Returns:
        A scalar.

    >>> tf.nn.zero_fraction([0., 0., 1., 2.]).numpy()
    np.float32(0.5)
    """
    with name_scope(name, "zero_fraction", [value]):
        value = convert(value, name="value")
        size = convert(size_internal(value, out_type=dtypes.int64))
        zeros = size - count_nonzero_v2(value, dtype=dtypes.int64)
        cast = get("Cast")
        fraction = cast(zeros, DstT=dtypes.float32) / cast(size, DstT=dtypes.float32)
        return get("Identity")(fraction, name="fraction")


# -- data formats ----------------------------------------------------------------------------------------------------
_FORMATS = "T: type in {index} = int32, src_format: string = 'NHWC', dst_format: string = 'NCHW'"
dim_map = op("DataFormatDimMap", "x: T -> y: T", _FORMATS).no_gradient()
vec_permute = op("DataFormatVecPermute", "x: T -> y: T", _FORMATS).no_gradient()
dim_map.shape(lambda x: x)


def _check_formats(src: str, dst: str) -> None:
    if not 4 <= len(src) <= 5:
        raise errors.invalid(f"Source format must be of length 4 or 5, received src_format = {src}")
    if sorted(src) != sorted(dst) or len(set(src)) != len(src):
        raise errors.invalid(f"Destination and source format must determine a permutation, got {src} and {dst}")


@dim_map.kernel
def _dim_map_kernel(x, *, src_format, dst_format):
    _check_formats(src_format, dst_format)
    rank = len(src_format)
    if x.numel() and (int(x.min()) < -rank or int(x.max()) >= rank):
        raise errors.invalid(f"Dimension indices must be in [{-rank}, {rank})")
    table = torch.tensor([dst_format.index(ch) for ch in src_format], dtype=x.dtype, device=x.device)
    return table[torch.remainder(x, rank).to(torch.int64)]


@vec_permute.shape
def _vec_permute_shape(x):
    x = shapes.rank_at_most(shapes.rank_at_least(x, 1), 2)
    if x is not None and len(x) == 2:
        shapes.merge(x[1:], (2,))
    return x


@vec_permute.kernel
def _vec_permute_kernel(x, *, src_format, dst_format):
    _check_formats(src_format, dst_format)
    if x.ndim not in (1, 2) or x.ndim == 2 and x.shape[1] != 2:
        raise errors.invalid(f"input must be a vector or 2D tensor with 2 columns, but got shape {list(x.shape)}")
    if x.shape[0] == len(src_format) - 2:
        src_format, dst_format = (f.replace("N", "").replace("C", "") for f in (src_format, dst_format))
    if x.shape[0] != len(src_format):
        raise errors.invalid(f"1D input must be of size {len(src_format)}, but got shape {list(x.shape)}")
    return x[[src_format.index(ch) for ch in dst_format]]

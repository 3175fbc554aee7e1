"""Sums of many tensors of the same shape."""
from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, internal, op

add_n_op = op("AddN", "inputs: N * T -> sum: T", "N: int >= 1, T: type in {numeric quantized variant}",
              commutative=True)
rules.batching.elementwise.add(add_n_op)
rules.algebra.sums.add(add_n_op)
rules.small.text[add_n_op] = "{} + {}"
rules.pointwise.instruction[add_n_op] = rules.regions.each[add_n_op] = "ADD"
accumulate_nv2 = op("AccumulateNV2", "inputs: N * T -> sum: T",
                    "N: int >= 1, T: type in {numeric quantized}, shape: shape", commutative=True)
rules.batching.elementwise.add(accumulate_nv2)


@add_n_op.shape
def _add_n_shape(inputs):
    return functools.reduce(shapes.merge, inputs)


@accumulate_nv2.shape
def _accumulate_nv2_shape(inputs, *, shape):
    return functools.reduce(shapes.merge, inputs, shape.static_dims)


def _sum_tensors(inputs: list) -> torch.Tensor:
    first = inputs[0]
    for t in inputs[1:]:
        if t.shape != first.shape:
            raise errors.invalid(f"Inputs to operation must have the same size and shape. Input 0: "
                                 f"{list(first.shape)} != input: {list(t.shape)}")
    if len(inputs) == 1:
        return first
    total = torch.add(first, inputs[1])
    for t in inputs[2:]:
        total.add_(t)
    return total


add_n_op.kernel(_sum_tensors)
add_n_op.kernel(unsigned.wrapping(_sum_tensors), types=unsigned.TYPES)


@rules.loops.improve(add_n_op)
def _add_n_in_loop(op, loop):
    if len(op.inputs) != 2 or op.control_inputs:
        return
    for total, part in (op.inputs, op.inputs[::-1]):
        made = loop.only(part, op)
        if made is not None and not made.control_inputs and made.opdef in rules.loops.adds_to_part and \
                rules.loops.adds_to_part[made.opdef](op, total, made, loop):
            return


@rules.program.prepare(add_n_op)
def _add_n_prepare(known):
    alike = all(known.dims(i) is not None and known.dims(i) == known.dims(0) for i in range(known.attrs["N"]))
    return (lambda inputs: torch.add(*inputs)) if known.attrs["N"] == 2 and alike and known.floating() else None


joined_rows = internal("_JoinedRows", "values: N * T -> output: T", "N: int >= 1, T: type")
joined_rows.kernel(torch.cat)


add_product = internal("_AddProduct", "x: T, a: T, b: T -> z: T", "T: type in {float32 float64}")
add_product.kernel(torch.addcmul)
rules.program.overwrites(add_product, 0, torch.Tensor.addcmul_)
rules.algebra.elementwise.add(add_product)
rules.pointwise.instruction[add_product] = "ADD_PRODUCT"
_FEW = 1024                     # elements below which step/optimize/small.py is faster


def fuse_product(op, f):
    """x + a * b of tensors of one known shape is one op."""
    dims = op.outputs[0].static_dims
    if len(op.inputs) != 2 or dims is None or None in dims or math.prod(dims) < _FEW or \
            op.inputs[0].dtype not in (dtypes.float32, dtypes.float64):
        return None
    for x, product in (op.inputs, op.inputs[::-1]):
        made = f.only(product, op)
        if made is not None and made.opdef in rules.algebra.multiplies and \
                all(t.static_dims == dims for t in (x, *made.inputs)):
            return f.make("_AddProduct", [x, *made.inputs], {"T": x.dtype}, op)
    return None


@rules.fusion.fuse(add_n_op)
def _add_n_fuse(op, f):
    return fuse_product(op, f) or _fuse_rows(op, f)


def _fuse_rows(op, f):
    """A sum of tensors that are each nonzero only in adjacent, disjoint rows is the concatenation of these rows."""
    pieces = []
    for t in op.inputs:
        made = f.only(t, op)
        if made is None or made.opdef not in rules.fusion.among_zeros or not t.dtype.is_floating:
            return None
        place = rules.fusion.among_zeros[made.opdef](made, f.step.fed)
        if place is None:
            return None
        pieces.append((*place, made.inputs[-1]))
    pieces.sort(key=lambda p: p[:2])
    ends = [0, *(end for _, end, _ in pieces)]
    if [begin for begin, _, _ in pieces] != ends[:-1] or ends[-1] != op.outputs[0].static_dims[0]:
        return None
    return f.make("_JoinedRows", [t for _, _, t in pieces], {"N": len(pieces), "T": op.attrs["T"]}, op, (len(pieces),))


accumulate_nv2.kernel(_sum_tensors)
accumulate_nv2.kernel(unsigned.wrapping(_sum_tensors), types=unsigned.TYPES)


@add_n_op.kernel(types="variant")
def _add_n_kernel_variant(inputs):
    return functools.reduce(_add_variants, inputs)


def _add_variants(a: Any, b: Any) -> Any:
    """Adds variants by type: lists of tensors element by element, numbers in messages as numbers."""
    if isinstance(a, np.ndarray):
        out = np.empty(a.shape, object)
        out[...] = np.frompyfunc(_add_variants, 2, 1)(a, b)
        return out
    if hasattr(a, "add"):
        return a.add(b)
    kind = {"int": np.int32, "float": np.float32, "double": np.float64}.get(getattr(a, "type_name", ""))
    if kind is None or a.type_name != b.type_name:
        raise errors.invalid("No binary variant ADD function for these variants")
    total = np.frombuffer(a.metadata, kind) + np.frombuffer(b.metadata, kind)
    return type(a)(type_name=a.type_name, metadata=total.tobytes())


add_n_op.gradient(lambda op, grad: [grad] * len(op.inputs))
accumulate_nv2.gradient(lambda op, grad: [grad] * len(op.inputs))


@export("math.add_n", "add_n")
@dispatched
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of tensors (or IndexedSlices) of the same shape.

    Args:
        inputs: List of tensors of one type and shape; or one tensor, whose rows are added.
        name: Name of the operation.

    Returns:
        A tensor. A list of one tensor returns that tensor.

    Raises:
        ValueError: if the list is empty or the shapes differ.

    >>> tf.add_n([tf.constant([1, 2]), tf.constant([3, 4]), tf.constant([5, 6])]).numpy()
    array([ 9, 12], dtype=int32)
    """
    if isinstance(inputs, (Tensor, np.ndarray)) and inputs.ndim:
        inputs = list(inputs)
    if isinstance(inputs, Iterable) and not isinstance(inputs, (Tensor, IndexedSlices, str, bytes, Mapping, np.ndarray)):
        inputs = list(inputs)
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError(_ADDENDS)
    inputs = [x if isinstance(x, (Tensor, IndexedSlices)) else _addend(x, inputs) for x in inputs]
    if len(inputs) == 1:
        value = convert(inputs[0]) if isinstance(inputs[0], IndexedSlices) else inputs[0]
        return get("Identity")(value, name=name) if name else value
    return add_n_op([convert(x) if isinstance(x, IndexedSlices) else x for x in inputs], name=name)


_ADDENDS = "inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape"


def _addend(x: Any, inputs: Any) -> Tensor:
    wanted = next((t.dtype.base_dtype for t in inputs if isinstance(t, (Tensor, IndexedSlices))), None)
    try:
        return convert(x, wanted)
    except (TypeError, ValueError):
        raise ValueError(_ADDENDS) from None


@export("math.accumulate_n", v1=["accumulate_n"])
@dispatched
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """The sum of tensors of the same shape, which may become available one by one."""
    error = ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise error
    try:
        inputs = [convert(x) for x in inputs]
    except (TypeError, ValueError):
        raise error from None
    if any(x.dtype != inputs[0].dtype for x in inputs):
        raise error
    dims = shapes.as_dims(shape)
    for x in inputs:
        dims = shapes.merge(dims, x.static_dims)
    if tensor_dtype is not None and dtypes.as_dtype(tensor_dtype) != inputs[0].dtype.base_dtype:
        raise TypeError(f"tensor_dtype is {dtypes.as_dtype(tensor_dtype).name}, but input is of type "
                        f"{inputs[0].dtype.name}")
    if len(inputs) == 1:
        return inputs[0] if name is None else get("Identity")(inputs[0], name=name)
    if context.executing_eagerly():
        return add_n(inputs, name=name)
    return accumulate_nv2(inputs, shape=dims, name=name)

"""Strings: formatting, joining, splitting, substrings, parsing, base64.

Functions with ragged results (tf.strings.split and others) are in `ragged_strings`; hashes in `string_hash`,
regular expressions in `regex`, Unicode in `unicode`.
"""
from __future__ import annotations

import base64
import binascii
import itertools
import math
import re
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.kernels import arrays, bridge, strings
from penstock._src.kernels.host_threads import compiled
from penstock._src.kernels.summarize import summarize_ends
from penstock._src.ops import rules
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

# -- numbers and text -----------------------------------------------------------------------------------------------
as_string_op = op("AsString", "input: T -> output: string",
                  "T: type in {numeric bool string}, precision: int = -1, scientific: bool = False, "
                  "shortest: bool = False, width: int = -1, fill: string = ''").no_gradient()
as_string_op.shape(lambda input: input)


@as_string_op.kernel(device="cpu")
def _as_string_kernel(input, *, T, precision, scientific, shortest, width, fill):
    form = _number_format(T, precision, scientific, shortest, width, fill)
    count = input.size if isinstance(input, np.ndarray) else input.numel()
    strings.check_bytes(count * (max(width, 0) + max(precision, 0)), "AsString")
    array = bridge.to_numpy(input)
    if T == dtypes.bool:
        return strings.pack([b"true" if v else b"false" for v in array.ravel().tolist()], array.shape)
    flat = array.astype(np.float32) if T == dtypes.bfloat16 else array
    if T.is_complex:
        items = [f"({_printed(form, v.real)},{_printed(form, v.imag)})".encode() for v in flat.ravel().tolist()]
    elif T == dtypes.string:
        items = [form.encode() % v for v in flat.ravel().tolist()]
    else:
        items = [_printed(form, v).encode() for v in flat.ravel().tolist()]
    return strings.pack(items, array.shape)


def _number_format(T: Any, precision: int, scientific: bool, shortest: bool, width: int, fill: Any) -> str:
    """The printf format of AsString."""
    floating = T.is_floating or T.is_complex
    if T == dtypes.string:
        scientific = shortest = False                               # which change nothing in a string
        precision = precision if width >= 0 else -1                 # cuts strings that have a width
    if not floating and (scientific or shortest):
        raise errors.invalid(f"scientific and shortest format not supported for datatype {T.name}")
    if not floating and precision >= 0 and T != dtypes.string:
        raise errors.invalid(f"precision not supported for datatype {T.name}")
    if len(fill) > 1:
        raise errors.invalid("Fill string must be one or fewer characters")
    if scientific and shortest:
        raise errors.invalid("Cannot select both scientific and shortest notation")
    if fill and fill not in " +-0#":
        raise errors.invalid(f'Fill argument not supported: "{fill}"')
    if fill in ("+", " ") and T.is_unsigned:
        fill = ""
    kind = "s" if T == dtypes.string else "d" if not floating else "g" if shortest else "e" if scientific else "f"
    return "%" + fill + (f"{width}" if width > -1 else "") + (f".{precision}" if precision > -1 else "") + kind


def _printed(form: str, value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        form = form.replace("%0", "%", 1)          # only numbers are padded with zeros
    return form % value


@export("strings.as_string", "as_string", v1=["dtypes.as_string"])
@dispatched
def as_string(input: Any, precision: int = -1, scientific: bool = False, shortest: bool = False, width: int = -1,
              fill: str = "", name: str | None = None) -> Tensor:
    """Numbers as text, formatted like printf.

    Args:
        input: Tensor of numbers or booleans.
        precision: Digits after the point; -1 for the shortest form that is exact.
        scientific: Whether to write an exponent.
        shortest: Whether to use the shorter of both forms.
        width: The least number of characters.
        fill: What fills up to `width`: a space, `"0"`, `"-"` or `"+"`.
        name: Name of the operation.

    Returns:
        Tensor of strings of the shape of `input`.

    Raises:
        InvalidArgumentError: for a type that has no such form, or a wrong fill.

    >>> tf.strings.as_string([3.14159], precision=2).numpy().tolist()
    [b'3.14']
    """
    return as_string_op(input, precision=precision, scientific=scientific, shortest=shortest, width=width, fill=fill,
                        name=name)


string_to_number_op = op("StringToNumber", "string_tensor: string -> output: out_type",
                         "out_type: type in {float32 float64 int32 int64 uint32 uint64} = float32").no_gradient()
string_to_number_op.shape(lambda string_tensor: string_tensor)

_SPACE = b" \t\n\v\f\r"
_DECIMAL = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_HEXADECIMAL = re.compile(rb"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?", re.IGNORECASE)
_INTEGER = re.compile(rb"[+-]?\d+")


def parse_float(text: bytes) -> float | None:
    """Parses `text` as a number, allowing surrounding spaces; None if it is not one."""
    text = text.strip(_SPACE)
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text.decode())
        except OverflowError:
            return -math.inf if text.startswith(b"-") else math.inf
    return None


def parse_int(text: bytes, bits: int, signed: bool = True) -> int | None:
    """Parses `text` as an integer of that many bits; None if it is not one."""
    text = text.strip(_SPACE)
    if len(text) > 4300 or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    low, end = _range(bits, signed)
    return value if low <= value < end else None


def _range(bits: int, signed: bool) -> tuple[int, int]:
    """The smallest integer of a type, and the one after the largest."""
    return (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)


_PLAIN_INTEGERS = re.compile(rb"(?:[+-]?[0-9]{1,18}\n)*")
_PLAIN_DECIMALS = re.compile(rb"(?:[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?\n)*")


def _decimals(texts: list[bytes]) -> torch.Tensor | None:
    """Plain decimal numbers by a compiled kernel; None if there is none, or if a text is something else."""
    kernels, out = compiled("_text"), torch.empty(len(texts), dtype=torch.float64)
    return out if kernels is not None and kernels.decimals(texts, out.data_ptr()) else None


def _numbers(texts: list[bytes], out_type: Any) -> list:
    """Parses each text as a number; None for those that are not. Plain numbers are checked all at once."""
    joined = b"\n".join([*texts, b""])
    one_each = joined.count(b"\n") == len(texts)
    if out_type.is_floating:
        if one_each and _PLAIN_DECIMALS.fullmatch(joined):
            return list(map(float, texts))
        return [parse_float(s) for s in texts]
    bits, signed = out_type.size * 8, not out_type.is_unsigned
    low, end = _range(bits, signed)
    if one_each and _PLAIN_INTEGERS.fullmatch(joined):
        values = list(map(int, texts))
        if not values or low <= min(values) and max(values) < end:
            return values
    return [parse_int(s, bits, signed) for s in texts]


@string_to_number_op.kernel(device="cpu")
def _string_to_number_kernel(string_tensor, *, out_type):
    flat = string_tensor.ravel().tolist()
    if out_type.is_floating and (found := _decimals(flat)) is not None:
        return found.to(out_type.torch).reshape(string_tensor.shape)
    values = _numbers(flat, out_type)
    if None in values:
        raise errors.invalid("StringToNumberOp could not correctly convert string: "
                             f"{strings.show(flat[values.index(None)])}")
    return arrays.vector(values, len(values), out_type.torch).reshape(string_tensor.shape)


rules.columns.rows[string_to_number_op] = string_to_number_op.kernel_for("cpu")


@export(v1=["strings.to_number", "string_to_number"])
@dispatched
def string_to_number(string_tensor: Any = None, out_type: Any = dtypes.float32, name: str | None = None,
                     input: Any = None) -> Tensor:
    """The numbers in strings.

    Args:
        string_tensor: Tensor of strings.
        out_type: `tf.float32`, `tf.float64`, `tf.int32`, `tf.int64`, `tf.uint32` or `tf.uint64`.
        name: Name of the operation.
        input: Another name of `string_tensor`.

    Returns:
        A tensor of numbers of the same shape.

    Raises:
        InvalidArgumentError: if a string is not a number.

    >>> tf.string_to_number(["1.5", "-2"]).numpy()
    array([ 1.5, -2. ], dtype=float32)
    """
    return string_to_number_op(renamed("input", input, "string_tensor", string_tensor), out_type=out_type, name=name)


@export(v2=["strings.to_number"])
@dispatched
def string_to_number_v2(input: Any, out_type: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """The numbers in strings.

    Args:
        input: Strings of any shape.
        out_type: Type of the numbers: float32, float64, int32 or int64.
        name: Name of the operation.

    Returns:
        Numbers of the shape of `input`.

    >>> tf.strings.to_number(["1.5", "-2"]).numpy().tolist()
    [1.5, -2.0]
    """
    return string_to_number_op(input, out_type=out_type, name=name)


string_format_op = op("StringFormat", "inputs: T -> output: string",
                      "T: list(type) >= 0, template: string = '%s', placeholder: string = '%s', summarize: int = 3"
                      ).no_gradient()


def _pieces(template: Any, placeholder: Any, count: int) -> list[bytes]:
    holder = strings.raw(placeholder)
    pieces = strings.raw(template).split(holder) if holder else [strings.raw(template)]
    if len(pieces) - 1 != count:
        raise ValueError(f"num placeholders in template and num inputs must match: {len(pieces) - 1} vs. {count}")
    return pieces


@string_format_op.shape
def _string_format_shape(inputs, *, template, placeholder):
    _pieces(template, placeholder, len(inputs))
    return ()


@string_format_op.kernel(device="cpu")
def _string_format_kernel(inputs, *, template, placeholder, summarize):
    first, *rest = _pieces(template, placeholder, len(inputs))
    shown = [summarize_ends(x, summarize) + piece for x, piece in zip(inputs, rest, strict=True)]
    return strings.pack([first + b"".join(shown)], ())


@export("strings.format")
@dispatched
def string_format(template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3,
                  name: str | None = None) -> Tensor:
    """`template` with each placeholder replaced by the value of a tensor.

    Args:
        template: Text with placeholders.
        inputs: A tensor, or a list of them: one for each placeholder.
        placeholder: What is replaced.
        summarize: How many elements of each dimension are shown at both ends.
        name: Name of the operation.

    Returns:
        A string.

    >>> tf.strings.format("x is {}", tf.constant([1, 2])).numpy()
    b'x is [1 2]'
    """
    if isinstance(inputs, Tensor) or getattr(inputs, "_is_tensor_like", False):
        inputs = [inputs]
    if template.count(placeholder) != len(inputs):
        raise ValueError(f"The template expects {template.count(placeholder)} tensors, but the inputs only has {len(inputs)}. "
                         "Please ensure the number of placeholders in template matches inputs length.")
    return string_format_op(list(inputs), template=template, placeholder=placeholder, summarize=summarize, name=name)


# -- elementwise ----------------------------------------------------------------------------------------------------
string_strip = op("StringStrip", "input: string -> output: string").no_gradient()
string_strip.shape(lambda input: input)
string_strip.kernel(lambda input: strings.each(lambda s: s.strip(_SPACE), input), device="cpu")

string_lower = op("StringLower", "input: string -> output: string", "encoding: string = ''").no_gradient()
string_upper = op("StringUpper", "input: string -> output: string", "encoding: string = ''").no_gradient()
string_lower.shape(lambda input: input)
string_upper.shape(lambda input: input)
string_lower.kernel(lambda input, *, encoding: _cased(input, encoding, bytes.lower, str.lower), device="cpu")
string_upper.kernel(lambda input, *, encoding: _cased(input, encoding, bytes.upper, str.upper), device="cpu")
for _elementwise in (as_string_op, string_strip, string_lower, string_upper):
    rules.columns.rows[_elementwise] = _elementwise.kernel_for("cpu")


def _cased(input: np.ndarray, encoding: str, of_bytes: Any, of_text: Any) -> np.ndarray:
    if encoding in ("", b""):
        return strings.each(of_bytes, input)
    if encoding != "utf-8":
        raise errors.invalid(f"only utf-8 or '' (no encoding) is supported, received {encoding}")
    return strings.each(lambda s: of_text(s.decode("utf-8", "replace")).encode(), input)


@export("strings.strip", v1=["string_strip"])
@dispatched
def strip(input: Any, name: str | None = None) -> Tensor:
    """Strings without leading and trailing whitespace.

    Args:
        input: Strings of any shape.
        name: Name of the operation.

    Returns:
        Strings of the shape of `input`.

    >>> tf.strings.strip(["  a b "]).numpy().tolist()
    [b'a b']
    """
    return string_strip(input, name=name)


@export("strings.lower")
@dispatched
def lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Strings in lower case: ASCII letters, or all of them with encoding="utf-8".

    Args:
        input: Strings of any shape.
        encoding: `""` for ASCII, or `"utf-8"`.
        name: Name of the operation.

    Returns:
        Strings of the shape of `input`.

    >>> tf.strings.lower(["One", "TWO"]).numpy().tolist()
    [b'one', b'two']
    """
    return string_lower(input, encoding=encoding, name=name)


@export("strings.upper")
@dispatched
def upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Strings in upper case: ASCII letters, or all of them with encoding="utf-8".

    Args:
        input: Strings of any shape.
        encoding: `""` for ASCII, or `"utf-8"`.
        name: Name of the operation.

    Returns:
        Strings of the shape of `input`.

    >>> tf.strings.upper(["One", "two"]).numpy().tolist()
    [b'ONE', b'TWO']
    """
    return string_upper(input, encoding=encoding, name=name)


_UNIT = "unit: string in {BYTE UTF8_CHAR} = 'BYTE'"
string_length_op = op("StringLength", "input: string -> output: int32", _UNIT).no_gradient()
string_length_op.shape(lambda input: input)


@string_length_op.kernel(device="cpu")
def _string_length_kernel(input, *, unit):
    measure = len if unit == "BYTE" else strings.utf8_length
    return arrays.vector(map(measure, input.ravel().tolist()), input.size, torch.int32).reshape(input.shape)


rules.columns.rows[string_length_op] = string_length_op.kernel_for("cpu")


@export(v1=["strings.length"])
@dispatched
def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """The lengths of strings, in bytes or in UTF-8 characters.

    >>> tf.strings.length(["Hello", ""])
    """
    return string_length_op(input, unit=unit, name=name)


@export(v2=["strings.length"])
@dispatched
def string_length_v2(input: Any, unit: str = "BYTE", name: str | None = None) -> Tensor:
    """The lengths of strings, in bytes or in UTF-8 characters.

    Args:
        input: Strings of any shape.
        unit: `"BYTE"` or `"UTF8_CHAR"`.
        name: Name of the operation.

    Returns:
        Integers of the shape of `input`.

    >>> tf.strings.length(["one", "é"]).numpy().tolist()
    [3, 2]
    >>> tf.strings.length(["one", "é"], unit="UTF8_CHAR").numpy().tolist()
    [3, 1]
    """
    return string_length_op(input, unit=unit, name=name)


substr_op = op("Substr", "input: string, pos: T, len: T -> output: string",
               "T: type in {index}, " + _UNIT).no_gradient()


@substr_op.shape
def _substr_shape(input, pos, len):
    if not shapes.compatible(pos, len):
        raise ValueError(f"pos and len shapes must match: {shapes.show(pos)} vs. {shapes.show(len)}")
    return shapes.broadcast(input, shapes.merge(pos, len))


@substr_op.kernel(device="cpu")
def _substr_kernel(input, pos, len, *, unit):
    if pos.shape != len.shape:
        raise errors.invalid(f"pos and len shapes must match: {list(pos.shape)} vs. {list(len.shape)}")
    try:
        texts, starts, sizes = np.broadcast_arrays(input, pos.cpu().numpy(), len.cpu().numpy())
    except ValueError:
        raise errors.invalid(f"Incompatible shapes: {list(input.shape)} vs. {list(pos.shape)}") from None
    cut = _cut_bytes if unit == "BYTE" else _cut_characters
    out = [cut(s, p, n) for s, p, n in zip(texts.ravel().tolist(), starts.ravel().tolist(), sizes.ravel().tolist(),
                                            strict=True)]
    if None in out:
        at = out.index(None)
        where = f"({', '.join(map(str, np.unravel_index(at, texts.shape)))})" if texts.ndim > 1 else at
        text = f" b'{strings.show(texts.ravel()[at])}'" if unit == "BYTE" else ""
        raise errors.invalid(f"pos {starts.ravel()[at]} out of range for string{text} at index {where}")
    return strings.pack(out, texts.shape)


def _cut_bytes(text: bytes, pos: int, size: int) -> bytes | None:
    start = pos + len(text) if pos < 0 else pos
    if not 0 <= start <= len(text):
        return None
    return text[start:start + size] if size >= 0 else text[start:]


def _cut_characters(text: bytes, pos: int, size: int) -> bytes | None:
    starts = strings.utf8_starts(text) if text else [0]
    count = len(starts) - 1
    start = pos + count if pos < 0 else pos
    if not 0 <= start <= count or pos < 0 and size < 0:
        return None
    return text[starts[start]:starts[min(start + max(size, 0), count)]]


@export(v1=["strings.substr", "substr"])
@dispatched
def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Parts of strings, from `pos` (negative: from the end), up to `len` bytes or characters long.

    >>> tf.strings.substr(["hello", "world"], 1, 3)
    """
    return substr_op(input, pos, len, unit=unit, name=name)


@export(v2=["strings.substr"])
@dispatched
def substr_v2(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None) -> Tensor:
    """Parts of strings, from `pos` (negative: from the end), up to `len` bytes or characters long.

    Args:
        input: Strings of any shape.
        pos: Where parts begin: one number, or one for each string.
        len: How long they are at most.
        unit: `"BYTE"` or `"UTF8_CHAR"`.
        name: Name of the operation.

    Returns:
        Strings of the shape of `input`.

    >>> tf.strings.substr(["hello", "world"], 1, 3).numpy().tolist()
    [b'ell', b'orl']
    """
    return substr_op(input, pos, len, unit=unit, name=name)


# -- joining --------------------------------------------------------------------------------------------------------
string_join_op = op("StringJoin", "inputs: N * string -> output: string", "N: int >= 1, separator: string = ''"
                    ).no_gradient()


@string_join_op.shape
def _string_join_shape(inputs):
    if all(s == () for s in inputs):
        return ()
    out = None
    for s in inputs:
        if s:
            out = shapes.merge(out, s)
    return out


@string_join_op.kernel(device="cpu")
def _string_join_kernel(inputs, *, separator):
    dims = next((x.shape for x in inputs if x.ndim), ())
    columns = []
    for x in inputs:
        if x.ndim and x.shape != dims:
            raise errors.invalid("Input shapes do not match: expected shape matching previous input shape "
                                 f"{list(dims)}, but got {list(x.shape)}")
        columns.append(np.broadcast_to(x, dims).ravel().tolist())
    return strings.pack(list(map(strings.raw(separator).join, zip(*columns, strict=True))), dims)


@export("strings.join", v1=["string_join"])
@dispatched
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """Strings of several tensors joined elementwise; scalars are broadcast.

    Args:
        inputs: List of string tensors of one shape; scalars are broadcast.
        separator: Text between them.
        name: Name of the operation.

    Returns:
        Strings of that shape.

    >>> tf.strings.join(["/", ["a", "b"]]).numpy().tolist()
    [b'/a', b'/b']
    """
    if isinstance(inputs, (list, tuple)) and not inputs:
        return convert("", name=name)
    return string_join_op(inputs, separator=separator, name=name)


reduce_join_op = op("ReduceJoin", "inputs: string, reduction_indices: int32 -> output: string",
                    "keep_dims: bool = False, separator: string = ''").no_gradient()


@reduce_join_op.shape
def _reduce_join_shape(inputs, reduction_indices, *, keep_dims, c):
    shapes.rank_at_most(reduction_indices, 1)
    if inputs is None:
        return None
    axes = c.const("reduction_indices")
    if axes is None:
        return (None,) * len(inputs) if keep_dims else None
    axes = [int(a) for a in axes.reshape(-1)]
    for a in axes:
        if not -len(inputs) <= a < len(inputs):
            raise ValueError(f"Invalid reduction dimension {a} for input with {len(inputs)} dimension(s)")
    gone = {a % len(inputs) for a in axes}
    return tuple(1 if i in gone else d for i, d in enumerate(inputs) if keep_dims or i not in gone)


@reduce_join_op.kernel(device="cpu")
def _reduce_join_kernel(inputs, reduction_indices, *, keep_dims, separator):
    rank, axes = inputs.ndim, []
    for a in reduction_indices.reshape(-1).tolist():
        if not -rank <= a < rank:
            raise errors.OutOfRangeError(
                None, None, f"Invalid reduction dimension {a} for input with {rank} dimension(s)")
        if a % rank in axes:
            raise errors.invalid(f"Duplicate reduction dimension {a}")
        axes.append(a % rank)
    kept = [i for i in range(rank) if i not in axes]
    dims = [inputs.shape[i] for i in kept]
    strings.check_elements(math.prod(dims), "ReduceJoin")
    # The first reduction index varies fastest.
    rows = inputs.transpose(kept + axes[::-1]).reshape(math.prod(dims), math.prod(inputs.shape[i] for i in axes))
    out = [strings.raw(separator).join(row) for row in rows.tolist()]
    return strings.pack(out, [1 if i in axes else d for i, d in enumerate(inputs.shape)] if keep_dims else dims)


@export(v1=["strings.reduce_join", "reduce_join"])
@dispatched
def reduce_join(inputs: Any, axis: Any = None, keep_dims: bool | None = None, separator: str = "",
                name: str | None = None, reduction_indices: Any = None, keepdims: bool | None = None) -> Tensor:
    """Strings joined along dimensions, in the order in which these are given.

    >>> tf.strings.reduce_join([["a", "b"], ["c", "d"]], axis=0)     # ["ac", "bd"]
    """
    keepdims = renamed("keepdims", keepdims, "keep_dims", keep_dims)
    axis = renamed("axis", axis, "reduction_indices", reduction_indices)
    return reduce_join_v2(inputs, axis, bool(keepdims), separator, name)


@export(v2=["strings.reduce_join"])
@dispatched
def reduce_join_v2(inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "",
                   name: str | None = None) -> Tensor:
    """Strings joined along dimensions, in the order in which these are given; all by default, row by row.

    Args:
        inputs: Strings of any shape.
        axis: Dimensions to join; all by default.
        keepdims: Whether these stay, with size 1.
        separator: Text between the strings.
        name: Name of the operation.

    Returns:
        Strings without these dimensions.

    >>> tf.strings.reduce_join([["a", "b"], ["c", "d"]], axis=1, separator="-").numpy().tolist()
    [b'a-b', b'c-d']
    """
    with name_scope(None, "ReduceJoin", [inputs, axis]):
        inputs = convert(inputs)
        if axis is None:
            rank = inputs._rank()
            axis = get("Range")(get("Rank")(inputs) - 1, -1, -1) if rank is None else \
                convert(np.arange(rank - 1, -1, -1, dtype=np.int32))
        return reduce_join_op(inputs, axis, keep_dims=keepdims, separator=separator, name=name)


unsorted_segment_join = op(
    "UnsortedSegmentJoin", "inputs: string, segment_ids: Tindices, num_segments: Tnumsegments -> output: string",
    "separator: string = '', Tindices: type in {index}, Tnumsegments: type in {index} = int32").no_gradient()


@unsorted_segment_join.shape
def _unsorted_segment_join_shape(inputs, segment_ids, num_segments, *, c):
    shapes.rank_is(num_segments, 0)
    if inputs is None or segment_ids is None:
        return None
    shapes.merge(inputs[:len(segment_ids)], segment_ids)
    count = c.const("num_segments")
    if count is not None and count < 0:
        raise ValueError(f"num_segments must not be negative: {count}")
    return (None if count is None else int(count), *inputs[len(segment_ids):])


@unsorted_segment_join.kernel(device="cpu")
def _unsorted_segment_join_kernel(inputs, segment_ids, num_segments, *, separator):
    if num_segments.ndim:
        raise errors.invalid("num_segments must be a scalar")
    count, k = int(num_segments), segment_ids.ndim
    if not k:
        raise errors.invalid("Segment_id cannot have rank 0")
    if inputs.shape[:k] != tuple(segment_ids.shape):
        raise errors.invalid(f"Segment_ids of shape {list(segment_ids.shape)} are not the outer dimensions of inputs "
                             f"of shape {list(inputs.shape)}")
    if count < 0:
        raise errors.invalid(f"Number of segments must be non-negative but got {count}")
    ids = segment_ids.reshape(-1).tolist()
    if any(not 0 <= i < count for i in ids):
        raise errors.invalid("segment_ids are not allowed to exceed num_segments or to have negative values.")
    inner = inputs.shape[k:]
    width, sep = math.prod(inner), strings.raw(separator)
    strings.check_elements(count * width, "UnsortedSegmentJoin")
    parts: dict[int, list[list[bytes]]] = {}
    for i, row in zip(ids, inputs.reshape(len(ids), width).tolist(), strict=True):
        parts.setdefault(i, []).append(row)
    out = np.full((count, width), b"", dtype=object)
    for i, rows in parts.items():
        out[i] = strings.pack([_joined_after_first(sep, column) for column in zip(*rows, strict=True)])
    return out.reshape(count, *inner)


def _joined_after_first(separator: bytes, items: tuple) -> bytes:
    """Joined, except that no separator follows while there is no text yet."""
    first = next((i for i, s in enumerate(items) if s), len(items))
    return separator.join(items[first:])


@export("strings.unsorted_segment_join")
@dispatched
def unsorted_segment_join_function(inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "",
                                   name: str | None = None) -> Tensor:
    """Strings of the same segment joined, in order.

    >>> tf.strings.unsorted_segment_join(["this", "a", "is"], [0, 1, 0], 2, separator=" ")
    """
    return unsorted_segment_join(inputs, segment_ids, num_segments, separator=separator, name=name)


# -- splitting ------------------------------------------------------------------------------------------------------
string_split_op = op("StringSplit", "input: string, delimiter: string -> indices: int64, values: string, shape: int64",
                     "skip_empty: bool = True").no_gradient()
string_split_v2_op = op("StringSplitV2", "input: string, sep: string -> indices: int64, values: string, shape: int64",
                        "maxsplit: int = -1").no_gradient()


def _split_shape(input, separator):
    shapes.rank_is(input, 1)
    shapes.rank_is(separator, 0)
    return [(None, 2), (None,), (2,)]


string_split_op.shape(_split_shape)
string_split_v2_op.shape(_split_shape)


def _rows(input: np.ndarray, what: str) -> list[bytes]:
    if input.ndim != 1:
        raise errors.invalid(f"{what} must be a vector, got shape: {list(input.shape)}")
    return input.tolist()


def _sparse_rows(rows: list[list[bytes]]) -> tuple:
    """Lists of strings as indices, values and shape of a sparse matrix."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = strings.pack(list(itertools.chain.from_iterable(rows)))
    places = np.empty((values.size, 2), np.int64)
    places[:, 0] = np.repeat(np.arange(len(rows)), lengths)
    places[:, 1] = np.arange(values.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    shape = np.array([len(rows), lengths.max() if rows else 0], np.int64)
    return torch.from_numpy(places), values, torch.from_numpy(shape)


@string_split_op.kernel(device="cpu")
def _string_split_kernel(input, delimiter, *, skip_empty):
    delim = strings.scalar(delimiter, "delimiter")
    return _sparse_rows([_split_any(s, delim, skip_empty) for s in _rows(input, "input")])


def _split_any(text: bytes, delimiters: bytes, skip_empty: bool) -> list[bytes]:
    """Split at any of the bytes in `delimiters`; at every byte if there are none."""
    if not text:
        return []
    if not delimiters:
        return [text[i:i + 1] for i in range(len(text))]
    if len(delimiters) > 1:
        text = text.translate(bytes.maketrans(delimiters, delimiters[:1] * len(delimiters)))
    parts = text.split(delimiters[:1])
    return [p for p in parts if p] if skip_empty else parts


@string_split_v2_op.kernel(device="cpu")
def _string_split_v2_kernel(input, sep, *, maxsplit):
    separator = strings.scalar(sep, "sep")
    texts = _rows(input, "input")
    if separator and maxsplit < 0:
        return _sparse_rows([text.split(separator) for text in texts])
    return _sparse_rows([_split_like_python(text, separator, maxsplit) for text in texts])


def _split_like_python(text: bytes, separator: bytes, maxsplit: int) -> list[bytes]:
    if maxsplit == 0:
        return [text]
    maxsplit = maxsplit if maxsplit > 0 else -1
    if separator:
        return text.split(separator, maxsplit)
    parts = text.split(None, maxsplit)
    return [*parts, b""] if len(parts) == maxsplit else parts      # the rest is a part, even if it is empty


def split_to_sparse(source: Any, sep: Any = None, maxsplit: int = -1) -> SparseTensor:
    """A vector of strings split as Python's str.split does, as a sparse matrix."""
    parts = string_split_v2_op(convert(source, dtypes.string), "" if sep is None else sep, maxsplit=maxsplit)
    return SparseTensor(*parts)


@export(v1=["string_split"])
@dispatched
def string_split(source: Any, sep: Any = None, skip_empty: bool = True, delimiter: Any = None,
                 result_type: str = "SparseTensor", name: str | None = None) -> Any:
    """Strings split at any of the characters of `sep` (default: a space).

    Args:
        source: Vector of strings.
        sep: Characters, each of which separates; `""` splits into bytes.
        skip_empty: Whether empty parts are left out.
        delimiter: Old name of `sep`.
        result_type: `"SparseTensor"` or `"RaggedTensor"`.
        name: Name of the operation.

    Returns:
        Parts per string.

    >>> words = tf.string_split(["hello world", "a b c"])
    >>> words.values.numpy()
    array([b'hello', b'world', b'a', b'b', b'c'], dtype=object)
    """
    with name_scope(name, "StringSplit", [source]):
        sep = renamed("sep", sep, "delimiter", delimiter)
        parts = SparseTensor(*string_split_op(convert(source, dtypes.string), " " if sep is None else sep,
                                              skip_empty=skip_empty))
        if result_type == "SparseTensor":
            return parts
        if result_type == "RaggedTensor":
            from penstock._src.ops.strings.ragged_strings import ragged_rows
            return ragged_rows(parts)
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")


# -- n-grams --------------------------------------------------------------------------------------------------------
_NARROW = 8                  # words of a run that is made for all rows at once
string_n_grams = op(
    "StringNGrams", "data: string, data_splits: Tsplits -> ngrams: string, ngrams_splits: Tsplits",
    "separator: string, ngram_widths: list(int) >= 0, left_pad: string, right_pad: string, pad_width: int, "
    "preserve_short_sequences: bool, Tsplits: type in {index} = int64").no_gradient()


@string_n_grams.shape
def _string_n_grams_shape(data, data_splits):
    shapes.rank_is(data, 1)
    return [(None,), shapes.rank_is(data_splits, 1)]


@string_n_grams.kernel(device="cpu")
def _string_n_grams_kernel(data, data_splits, *, separator, ngram_widths, left_pad, right_pad, pad_width,
                           preserve_short_sequences):
    words, places = _rows(data, "data"), data_splits.reshape(-1).numpy()
    if any(w <= 0 for w in ngram_widths):
        raise errors.invalid("ngram_widths must contain positive values")
    if ((places < 0) | (places > len(words))).any():
        raise errors.invalid(f"Invalid split value, must be in [0, {len(words)}]")
    lengths = np.diff(places)
    if (lengths < 0).any() or places.size and (places[0] != 0 or places[-1] != len(words)):
        raise errors.invalid("data_splits must be increasing, from 0 to the number of strings")
    pads, sep, splits = (strings.raw(left_pad), strings.raw(right_pad)), strings.raw(separator), places.tolist()
    widest, text = max(ngram_widths, default=0), sum(map(len, words)) + len(words) * len(sep)
    if splits and 0 < widest <= _NARROW and widest * text <= strings.MAX_BYTES and (pad_width == 0 or widest == 1) and \
            not (preserve_short_sequences and ((lengths > 0) & (lengths < min(ngram_widths))).any()):
        packed, counts = _runs(words, places, ngram_widths, sep) or _unpadded_ngrams(words, places, lengths, ngram_widths, sep)
        return packed, torch.from_numpy(counts).to(data_splits.dtype)
    out: list[bytes] = []
    ends = [0] if splits else []
    for start, end in zip(splits, splits[1:], strict=False):
        row = words[start:end]
        made = [g for w in ngram_widths for g in _ngrams(row, w, pad_width, pads, sep)]
        if not made and row and preserve_short_sequences:
            if pad_width < 0:
                raise errors.invalid("Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths "
                                     f"are not provided, got {pad_width}")
            made = _ngrams(row, len(row) + 2 * pad_width, pad_width, pads, sep)
        out.extend(made)
        ends.append(len(out))
    return strings.pack(out), torch.tensor(ends, dtype=data_splits.dtype)


def _runs(words: list[bytes], splits: np.ndarray, widths: list[int], separator: bytes) -> tuple[np.ndarray, np.ndarray] | None:
    """`_unpadded_ngrams` by a compiled kernel; None if there is none."""
    kernels, places = compiled("_text"), np.ascontiguousarray(splits, np.int64)
    if kernels is None:
        return None
    ends = np.empty_like(places)
    made = kernels.runs(words, places.ctypes.data, len(places) - 1, tuple(widths), separator, ends.ctypes.data)
    return strings.pack(made), ends


def _unpadded_ngrams(words: list[bytes], splits: np.ndarray, lengths: np.ndarray, widths: list[int],
                     separator: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The runs of words of all rows at once, and where those of each row end."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    ends, first = splits[1:][row], np.arange(len(words))
    made, rows = [], []
    for width in widths:
        fit = np.flatnonzero(first + width <= ends)
        runs = map(separator.join, zip(*(words[i:] for i in range(width)), strict=False))       # over the ends of rows, too
        made.append(strings.pack(list(runs))[fit])
        rows.append(row[fit])
    order = np.argsort(np.concatenate(rows), kind="stable")
    counts = np.bincount(np.concatenate(rows), minlength=len(lengths))
    return np.concatenate(made)[order], np.concatenate([[0], np.cumsum(counts)])


def _ngrams(row: list[bytes], width: int, pad_width: int, pads: tuple[bytes, bytes], separator: bytes) -> list[bytes]:
    """All runs of `width` words of a row that is padded on both sides."""
    pad = width - 1 if pad_width < 0 else min(pad_width, width - 1)
    if len(row) + 2 * pad > (1 << 31) - 1:
        raise errors.invalid(f"Pad width could lead to integer overflow, got pad_width = {pad_width}")
    count = len(row) + 2 * pad - width + 1
    if count <= 0:
        return []
    longest = max(map(len, (*row, *pads))) + len(separator)
    strings.check_bytes(count * width * max(longest, 1), "StringNGrams")
    padded = [pads[0]] * pad + row + [pads[1]] * pad
    return [separator.join(padded[i:i + width]) for i in range(count)]


# -- base64 ---------------------------------------------------------------------------------------------------------
encode_base64_op = op("EncodeBase64", "input: string -> output: string", "pad: bool = False").no_gradient()
decode_base64_op = op("DecodeBase64", "input: string -> output: string").no_gradient()
encode_base64_op.shape(lambda input: input)
decode_base64_op.shape(lambda input: input)
decode_base64_op.kernel(lambda input: strings.each(_decoded, input), device="cpu")
_BASE64 = re.compile(rb"[A-Za-z0-9_-]*")


@encode_base64_op.kernel(device="cpu")
def _encode_base64_kernel(input, *, pad):
    encode = base64.urlsafe_b64encode
    return strings.each(encode if pad else lambda s: encode(s).rstrip(b"="), input)


rules.columns.rows[encode_base64_op] = encode_base64_op.kernel_for("cpu")
rules.columns.rows[decode_base64_op] = decode_base64_op.kernel_for("cpu")


def _decoded(text: bytes) -> bytes:
    if len(text) % 4 == 0 and text.endswith(b"="):
        text = text[:-2] if text.endswith(b"==") else text[:-1]
    if len(text) % 4 == 1:
        raise errors.invalid("Base64 string length cannot be 1 modulo 4.")
    if not _BASE64.fullmatch(text):
        raise errors.invalid("Invalid character found in base64.")
    try:
        return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error as e:
        raise errors.invalid(f"Invalid base64: {e}") from None


@export("io.encode_base64", v1=["encode_base64"])
@dispatched
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Strings in web-safe base64, without padding unless `pad`."""
    return encode_base64_op(input, pad=pad, name=name)


@export("io.decode_base64", v1=["decode_base64"])
@dispatched
def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """Strings from web-safe base64, padded or not."""
    return decode_base64_op(input, name=name)

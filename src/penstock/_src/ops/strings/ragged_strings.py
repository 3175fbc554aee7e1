"""String functions whose results have rows of different lengths: split, bytes_split, ngrams, unicode_*."""
from __future__ import annotations

from typing import Any

from penstock._src.base import api, dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get
from penstock._src.ops.strings.strings import split_to_sparse, string_n_grams, string_split_op
from penstock._src.ops.strings.unicode import unicode_decode as unicode_decode_op
from penstock._src.ops.strings.unicode import unicode_decode_with_offsets as unicode_decode_with_offsets_op
from penstock._src.ops.strings.unicode import unicode_encode_op


def _ragged_tensor() -> Any:
    """The class RaggedTensor."""
    return api.resolve("v2", "RaggedTensor")


def _is_ragged(value: Any) -> bool:
    return hasattr(value, "ragged_rank")


def _dense_or_ragged(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor or a ragged tensor from anything that represents one."""
    if hasattr(value, "row_splits") and not hasattr(value, "with_values"):         # a RaggedTensorValue
        return _ragged_tensor().from_row_splits(_dense_or_ragged(value.values, dtype), value.row_splits)
    if _is_ragged(value):
        return value
    return convert(value, dtype, name)


def _rank(value: Any, what: str) -> int:
    rank = value.shape.rank
    if rank is None:
        raise ValueError(f"Rank of {what} must be known. It is not known statically.")
    return rank


def ragged_rows(parts: Any) -> Any:
    """The rows of a sparse matrix that are filled from the left, as a ragged tensor."""
    return _ragged_tensor().from_value_rowids(parts.values, parts.indices[:, 0], nrows=parts.dense_shape[0],
                                              validate=False)


# -- splitting --------------------------------------------------------------------------------------------------------
@export(v2=["strings.split"])
@dispatched
def split_v2(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Strings split at `sep`, or at whitespace, into a ragged tensor with one dimension more.

    Args:
        input: Strings of any shape.
        sep: Text between the parts; whitespace by default.
        maxsplit: How often to split at most; −1 for no limit.
        name: Name of the operation.

    Returns:
        A ragged tensor with one dimension more; a vector for a single string.

    >>> tf.strings.split(["hello world", "a b c"]).to_list()
    [[b'hello', b'world'], [b'a', b'b', b'c']]
    """
    with name_scope(name, "StringSplit"):
        return _split(_dense_or_ragged(input, dtypes.string, "input"), sep, maxsplit)


def _split(input: Any, sep: Any, maxsplit: int) -> Any:
    if _is_ragged(input):
        return input.with_flat_values(_split(input.flat_values, sep, maxsplit))
    rank = input.shape.rank
    if rank == 0:
        return split_to_sparse(get("Reshape")(input, [1]), sep, maxsplit).values
    if rank is None or rank == 1:
        return ragged_rows(split_to_sparse(input, sep, maxsplit))
    return _split(_ragged_tensor().from_tensor(input), sep, maxsplit)


@export(v1=["strings.split"])
@dispatched
def split(input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor",
          source: Any = None, name: str | None = None) -> Any:
    """Strings split at `sep`, or at whitespace, into a SparseTensor or a RaggedTensor."""
    input = renamed("input", input, "source", source)
    with name_scope(name, "StringSplit"):
        input = _dense_or_ragged(input, dtypes.string, "input")
        if result_type not in ("SparseTensor", "RaggedTensor"):
            raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")
        if input.shape.rank == 0:
            input = get("Reshape")(input, [1])                 # one row, unlike in strings.split of TensorFlow 2
        if result_type == "SparseTensor" and input.shape.rank == 1:
            return split_to_sparse(input, sep, maxsplit)
        parts = _split(input, sep, maxsplit)
        return parts.to_sparse() if result_type == "SparseTensor" else parts


@export("strings.bytes_split")
@dispatched
def string_bytes_split(input: Any, name: str | None = None) -> Any:
    """Strings as ragged rows of single bytes.

    Args:
        input: Strings of any shape.
        name: Name of the operation.

    Returns:
        A ragged tensor with one dimension more.

    >>> tf.strings.bytes_split(["ab", "c"]).to_list()
    [[b'a', b'b'], [b'c']]
    """
    with name_scope(name, "StringsByteSplit"):
        return _bytes_split(_dense_or_ragged(input, name="input"))


def _bytes_split(input: Any) -> Any:
    if _is_ragged(input):
        return input.with_flat_values(_bytes_split(input.flat_values))
    rank = input.shape.rank
    if rank is None:
        raise ValueError("input must have a statically-known rank.")
    if rank > 1:
        return _bytes_split(_ragged_tensor().from_tensor(input))
    parts = string_split_op(get("Reshape")(input, [1]) if rank == 0 else input, "", skip_empty=False)
    if rank == 0:
        return parts.values
    return _ragged_tensor().from_value_rowids(parts.values, parts.indices[:, 0], nrows=parts.shape[0], validate=False)


# -- n-grams ----------------------------------------------------------------------------------------------------------
@export("strings.ngrams")
@dispatched
def ngrams(data: Any, ngram_width: Any, separator: str = " ", pad_values: Any = None, padding_width: int | None = None,
           preserve_short_sequences: bool = False, name: str | None = None) -> Any:
    """Runs of `ngram_width` strings (of each width in a list) along the last dimension, joined.

    Args:
        data: Strings; ragged or not.
        ngram_width: How many strings are joined: a number, or a list of them.
        separator: Text between them.
        pad_values: What stands before and after each row: a string, or a pair of them.
        padding_width: How often these are repeated; one less than the width by default.
        preserve_short_sequences: Whether rows that are too short give one run.
        name: Name of the operation.

    Returns:
        A tensor of the rank of `data`.

    >>> tf.strings.ngrams(["A", "B", "C"], 2).numpy().tolist()
    [b'A B', b'B C']
    """
    pads = pad_values if isinstance(pad_values, (list, tuple)) else (pad_values, pad_values)
    if pad_values is not None and not all(isinstance(p, (str, bytes)) for p in pads[:2]):
        raise TypeError("pad_values must be a string, tuple of strings, or None.")
    if padding_width is not None and padding_width < 1:
        raise ValueError("padding_width must be greater than 0.")
    if padding_width is not None and pad_values is None:
        raise ValueError("pad_values must be provided if padding_width is set.")
    widths = list(ngram_width) if isinstance(ngram_width, (list, tuple)) else [ngram_width]
    if any(w < 1 for w in widths):
        raise ValueError(f"All ngram_widths must be greater than 0. Got {ngram_width}")
    attrs = {"separator": separator, "ngram_widths": widths, "left_pad": pads[0] or "", "right_pad": pads[1] or "",
             "pad_width": 0 if pad_values is None else -1 if padding_width is None else padding_width,
             "preserve_short_sequences": preserve_short_sequences}
    with name_scope(name, "StringNGrams"):
        data = _dense_or_ragged(data, dtypes.string, "data")
        return _ragged_ngrams(data, attrs) if _is_ragged(data) else _dense_ngrams(data, attrs)


def _dense_ngrams(data: Tensor, attrs: dict[str, Any]) -> Tensor:
    if _rank(data, "data") == 0:
        raise ValueError("Data must have rank>0")
    shape = get("Shape")(data)
    width, rows = shape[-1], get("Prod")(shape[:-1], [0])
    splits = get("Range")(0, rows + 1, 1) * width
    made = string_n_grams(get("Reshape")(data, [-1]), splits, **attrs).ngrams
    return get("Reshape")(made, get("ConcatV2")([shape[:-1], [-1]], 0))


def _ragged_ngrams(data: Any, attrs: dict[str, Any]) -> Any:
    if data.ragged_rank > 1:
        return data.with_values(_ragged_ngrams(data.values, attrs))
    made = string_n_grams(data.flat_values, data.row_splits, **attrs)
    return _ragged_tensor().from_row_splits(made.ngrams, made.ngrams_splits, validate=False)


# -- Unicode ----------------------------------------------------------------------------------------------------------
@export("strings.unicode_encode")
@dispatched
def unicode_encode(input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533,
                   name: str | None = None) -> Any:
    """Strings from code points, joined along the last dimension.

    Args:
        input: Code points, of at least one dimension; may be ragged.
        output_encoding: `"UTF-8"`, `"UTF-16-BE"` or `"UTF-32-BE"`.
        errors: For numbers that are not code points: `"replace"`, `"ignore"` or `"strict"`, which raises.
        replacement_char: The code point that replaces them.
        name: A name for the op.

    Returns:
        Strings, with one dimension less than `input`.

    >>> tf.strings.unicode_encode([72, 105], "UTF-8").numpy()
    b'Hi'
    """
    attrs = {"output_encoding": output_encoding, "errors": errors, "replacement_char": replacement_char}
    with name_scope(name, "UnicodeEncode"):
        return _encode(_dense_or_ragged(input), attrs)


def _encode(input: Any, attrs: dict[str, Any]) -> Any:
    rank = _rank(input, "input_tensor")
    if _is_ragged(input):
        if input.flat_values.shape.rank > 1:
            return input.with_flat_values(_encode(input.flat_values, attrs))
        if input.ragged_rank > 1:
            return input.with_values(_encode(input.values, attrs))
        return unicode_encode_op(input.values, input.row_splits, **attrs)
    if rank == 0:
        raise ValueError("input_tensor's rank must be at least 1.")
    shape = get("Shape")(input)
    splits = get("Range")(0, get("Prod")(shape[:-1], [0]) + 1, 1) * shape[-1]
    return get("Reshape")(unicode_encode_op(get("Reshape")(input, [-1]), splits, **attrs), shape[:-1])


@export("strings.unicode_decode")
@dispatched
def unicode_decode(input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD,
                   replace_control_characters: bool = False, name: str | None = None) -> Any:
    """The code points of strings, with one ragged dimension more.

    Args:
        input: Strings of any shape.
        input_encoding: Their encoding, such as `"UTF-8"`.
        errors: For bytes that are not valid: `"replace"`, `"ignore"` or `"strict"`, which raises.
        replacement_char: The code point that replaces them.
        replace_control_characters: Whether control characters are replaced, too.
        name: A name for the op.

    Returns:
        A RaggedTensor of int32, or a vector for a single string.

    >>> tf.strings.unicode_decode(["Hi", "é"], "UTF-8").to_list()
    [[72, 105], [233]]
    """
    with name_scope(name, "UnicodeDecode"):
        return _decode(unicode_decode_op, input, input_encoding=input_encoding, errors=errors,
                       replacement_char=replacement_char, replace_control_characters=replace_control_characters)[0]


@export("strings.unicode_decode_with_offsets")
@dispatched
def unicode_decode_with_offsets(input: Any, input_encoding: str, errors: str = "replace",
                                replacement_char: int = 0xFFFD, replace_control_characters: bool = False,
                                name: str | None = None) -> tuple:
    """The code points of strings, and the byte positions at which they start."""
    with name_scope(name, "UnicodeDecodeWithOffsets"):
        return _decode(unicode_decode_with_offsets_op, input, input_encoding=input_encoding, errors=errors,
                       replacement_char=replacement_char, replace_control_characters=replace_control_characters)


@export("strings.unicode_split")
@dispatched
def unicode_split(input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD,
                  name: str | None = None) -> Any:
    r"""The characters of strings, with one ragged dimension more.

    Args:
        input: Strings of any shape.
        input_encoding: Their encoding, such as `"UTF-8"`.
        errors: For bytes that are not valid: `"replace"`, `"ignore"` or `"strict"`, which raises.
        replacement_char: The code point that replaces them.
        name: A name for the op.

    Returns:
        A RaggedTensor, or a vector for a single string.

    >>> tf.strings.unicode_split("né", "UTF-8").numpy().tolist()
    [b'n', b'\xc3\xa9']
    """
    with name_scope(name, "UnicodeSplit"):
        points, = _decode(unicode_decode_op, input, input_encoding=input_encoding, errors=errors,
                          replacement_char=replacement_char, replace_control_characters=False)
        return _characters(points, input_encoding, errors, replacement_char)


@export("strings.unicode_split_with_offsets")
@dispatched
def unicode_split_with_offsets(input: Any, input_encoding: str, errors: str = "replace",
                               replacement_char: int = 0xFFFD, name: str | None = None) -> tuple:
    """The characters of strings, and the byte positions at which they start."""
    with name_scope(name, "UnicodeSplitWithOffsets"):
        points, offsets = _decode(unicode_decode_with_offsets_op, input, input_encoding=input_encoding, errors=errors,
                                  replacement_char=replacement_char, replace_control_characters=False)
        return _characters(points, input_encoding, errors, replacement_char), offsets


def _characters(points: Any, encoding: str, errors: str, replacement_char: int) -> Any:
    """Each code point as a separate string."""
    flat = points.flat_values if _is_ragged(points) else points
    chars = _encode(get("ExpandDims")(flat, -1),
                    {"output_encoding": encoding, "errors": errors, "replacement_char": replacement_char})
    return points.with_flat_values(chars) if _is_ragged(points) else chars


def _decode(decode: Any, input: Any, **attrs: Any) -> tuple:
    """Values of the decoding op, put back under the dimensions of `input`."""
    input = _dense_or_ragged(input, name="input")
    rank = _rank(input, "`input`")
    if rank > 1 and not _is_ragged(input):
        input = _ragged_tensor().from_tensor(input, ragged_rank=rank - 1)
    elif rank > 1 and input.ragged_rank < rank - 1:
        inner = _ragged_tensor().from_tensor(input.flat_values, ragged_rank=rank - input.ragged_rank - 1)
        input = input.with_flat_values(inner)
    flat = get("Reshape")(input.flat_values if _is_ragged(input) else input, [-1])
    row_splits, *results = decode(flat, **attrs)
    if rank == 0:
        return tuple(results)
    rows = [_ragged_tensor().from_row_splits(r, row_splits, validate=False) for r in results]
    return tuple(input.with_flat_values(r) for r in rows) if rank > 1 else tuple(rows)

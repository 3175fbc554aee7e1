"""Unicode: code points from text and back, other encodings, scripts. Functions that return ragged tensors are in
ragged_strings."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.kernels import strings, unicode_data, unicode_text
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

_ERRORS = "errors: string in {strict replace ignore} = 'replace', replacement_char: int = 65533"
_DECODING = f"input_encoding: string, {_ERRORS}, replace_control_characters: bool = False"
_OUTPUT = "output_encoding: string in {UTF-8 UTF-16-BE UTF-32-BE}"
_SPLITS = "Tsplits: type in {index} = int64"

unicode_decode = op("UnicodeDecode", "input: string -> row_splits: Tsplits, char_values: int32",
                    f"{_DECODING}, {_SPLITS}").no_gradient()
unicode_decode_with_offsets = op(
    "UnicodeDecodeWithOffsets",
    "input: string -> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64",
    f"{_DECODING}, {_SPLITS}").no_gradient()


def _check_replacement(char: int) -> None:
    if not 0 <= char <= unicode_text.LAST:
        raise errors.invalid("replacement_char out of unicode codepoint range")


def _decoded_rows(input: np.ndarray, encoding: str, policy: str, char: int, control: bool, dtype: Any) -> tuple:
    """Row splits, code points and byte positions of all strings, in sequence."""
    _check_replacement(char)
    unicode_text.encoding_name(encoding)
    points, at, sizes = unicode_text.all_code_points(input.ravel().tolist(), encoding)
    malformed = points == unicode_text.MALFORMED
    if policy == "strict" and malformed.any():
        raise errors.invalid("Invalid formatting on input string")
    handled = malformed | (points <= 0x1F) if control else malformed
    splits = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if policy == "ignore":
        splits -= np.concatenate([np.zeros(1, np.int64), np.cumsum(handled)])[splits]
        points, at = points[~handled], at[~handled]
    else:
        points = np.where(handled, np.int32(char), points)
    return torch.from_numpy(splits).to(dtype.torch), torch.from_numpy(points), torch.from_numpy(at)


@unicode_decode.kernel(device="cpu")
def _unicode_decode_kernel(input, *, input_encoding, errors, replacement_char, replace_control_characters, Tsplits):
    return _decoded_rows(input, input_encoding, errors, replacement_char, replace_control_characters, Tsplits)[:2]


@unicode_decode_with_offsets.kernel(device="cpu")
def _unicode_decode_with_offsets_kernel(input, *, input_encoding, errors, replacement_char, replace_control_characters,
                                        Tsplits):
    return _decoded_rows(input, input_encoding, errors, replacement_char, replace_control_characters, Tsplits)


def _splits_shape(input: Any) -> tuple:
    count = shapes.num_elements(input)
    return (None if count is None else count + 1,)


unicode_decode.shape(lambda input: [_splits_shape(input), (None,)])
unicode_decode_with_offsets.shape(lambda input: [_splits_shape(input), (None,), (None,)])

unicode_encode_op = op("UnicodeEncode", "input_values: int32, input_splits: Tsplits -> output: string",
                       f"{_ERRORS}, {_OUTPUT}, {_SPLITS}").no_gradient()


@unicode_encode_op.shape
def _unicode_encode_shape(input_values, input_splits):
    shapes.rank_is(input_values, 1)
    count = shapes.rank_is(input_splits, 1)[0]
    return (None if count is None else max(count - 1, 0),)


@unicode_encode_op.kernel(device="cpu")
def _unicode_encode_kernel(input_values, input_splits, *, errors, output_encoding, replacement_char):
    values, splits = input_values.cpu().numpy(), input_splits.reshape(-1).tolist()
    _check_replacement(replacement_char)
    _check_splits(splits, values.size)
    outside = (values < 0) | (values > unicode_text.LAST) | unicode_text.is_surrogate(values)
    if errors == "strict" and outside.any():
        raise _out_of_range()
    values = np.where(outside, replacement_char, values)
    out = []
    for start, end in zip(splits, splits[1:], strict=False):
        row = values[start:end]
        out.append(unicode_text.encoded(row[~outside[start:end]] if errors == "ignore" else row, output_encoding))
    return strings.pack(out)


def _out_of_range() -> errors.OpError:
    return errors.invalid("Code point is out of range for Unicode, or is a surrogate.")


def _check_splits(splits: list[int], size: int) -> None:
    if not splits:
        raise errors.invalid("Input_splits should contain elements, but given input_values has 0 elements")
    if splits[0] != 0:
        raise errors.invalid("First value in input_splits must be zero.")
    if any(a > b for a, b in zip(splits, splits[1:], strict=False)):
        raise errors.invalid("Values in input_splits must be equal or in ascending order.")
    if splits[-1] != size:
        raise errors.invalid("Last value in input_splits must be equal to length of input_tensor.")


unicode_transcode_op = op(
    "UnicodeTranscode", "input: string -> output: string",
    f"input_encoding: string, {_OUTPUT}, {_ERRORS}, replace_control_characters: bool = False").no_gradient()
unicode_transcode_op.shape(lambda input: input)


@unicode_transcode_op.kernel(device="cpu")
def _unicode_transcode_kernel(input, *, input_encoding, output_encoding, errors, replacement_char, replace_control_characters):
    _check_replacement(replacement_char)
    unicode_text.encoding_name(input_encoding)

    def convert(text: bytes) -> bytes:
        points, _ = unicode_text.code_points(text, input_encoding)
        handled = points == unicode_text.MALFORMED
        if replace_control_characters:
            handled |= points <= 0x1F
        if handled.any():
            if errors == "strict":
                raise _malformed()
            points = points[~handled] if errors == "ignore" else np.where(handled, np.int32(replacement_char), points)
        return unicode_text.encoded(points, output_encoding)
    return strings.each(convert, input)


def _malformed() -> errors.OpError:
    return errors.invalid("Invalid formatting on input string")


@export("strings.unicode_transcode")
@dispatched
def unicode_transcode(input: Any, input_encoding: str, output_encoding: str, errors: str = "replace",
                      replacement_char: int = 65533, replace_control_characters: bool = False,
                      name: str | None = None) -> Tensor:
    """Strings in another encoding: UTF-8, UTF-16-BE or UTF-32-BE.

    >>> tf.strings.unicode_transcode(["Hello"], "UTF-8", "UTF-16-BE")
    """
    return unicode_transcode_op(
        input, input_encoding=input_encoding, output_encoding=output_encoding, errors=errors,
        replacement_char=replacement_char, replace_control_characters=replace_control_characters, name=name)


unicode_script_op = op("UnicodeScript", "input: int32 -> output: int32").no_gradient()
unicode_script_op.shape(lambda input: input)


@unicode_script_op.kernel(device="cpu")
def _unicode_script_kernel(input):
    codes = unicode_data.script_codes(input.reshape(-1).cpu().numpy())
    return torch.from_numpy(codes).reshape(input.shape).to(input.device)


@export("strings.unicode_script")
@dispatched
def unicode_script(input: Any, name: str | None = None) -> Tensor:
    """The scripts of code points, by ICU's numbers (-1 for invalid code points).

    >>> tf.strings.unicode_script([1, 31, 38])
    """
    return unicode_script_op(input, name=name)

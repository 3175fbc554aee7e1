"""Of `layers.utils`: arguments of layers, brought into one form."""
from __future__ import annotations

from typing import Any

from penstock._src.compat.programs.inside.ops import smart_cond, smart_constant_value  # noqa: F401

constant_value = smart_constant_value


def convert_data_format(data_format: str, ndim: int) -> str:
    """The data format of an op for the one of a layer: channels_last of 4 dimensions is NHWC."""
    formats = {("channels_last", 3): "NWC", ("channels_last", 4): "NHWC", ("channels_last", 5): "NDHWC",
               ("channels_first", 3): "NCW", ("channels_first", 4): "NCHW", ("channels_first", 5): "NCDHW"}
    if (data_format, ndim) not in formats:
        raise ValueError(f"Invalid data_format or number of dimensions: {data_format}, {ndim}")
    return formats[data_format, ndim]


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """An integer, or a sequence of `n` of them, as a tuple."""
    result = (value,) * n if isinstance(value, int) else tuple(value)
    if len(result) != n or not all(isinstance(v, int) for v in result):
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value}")
    return result


def normalize_data_format(value: str) -> str:
    """channels_first or channels_last, in small letters."""
    if value.lower() not in ("channels_first", "channels_last"):
        raise ValueError(f"The `data_format` argument must be 'channels_first' or 'channels_last'. Received: {value}")
    return value.lower()


def normalize_padding(value: str) -> str:
    """valid or same, in small letters."""
    if value.lower() not in ("valid", "same"):
        raise ValueError(f"The `padding` argument must be 'valid' or 'same'. Received: {value}")
    return value.lower()


def conv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1) -> int | None:
    """How long the output of a convolution is along one axis."""
    if input_length is None:
        return None
    span = (filter_size - 1) * dilation
    length = {"same": input_length, "valid": input_length - span, "full": input_length + span}[padding]
    return (length + stride - 1) // stride

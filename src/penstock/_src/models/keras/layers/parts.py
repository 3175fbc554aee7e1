"""Shared by layers: reading and describing their arguments, choices by the learning phase, sizes of convolutions.

An argument of a layer is read, and described in its configuration, by its name: `activation`, `kernel_initializer`,
`bias_regularizer`, `gamma_constraint` may be given as objects, names or configurations.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.models.keras import activations, constraints, initializers, regularizers
from penstock._src.models.keras import backend as K
from penstock.compat import v1 as tf

_KINDS = {"activation": activations, "initializer": initializers, "regularizer": regularizers, "constraint": constraints}


def _kind(name: str) -> Any:
    return _KINDS.get(name.rsplit("_", 1)[-1])


def read(layer: Any, **arguments: Any) -> None:
    """Sets arguments as attributes, the objects that they name."""
    for name, value in arguments.items():
        kind = _kind(name)
        setattr(layer, name, value if kind is None else kind.get(value))


def described(layer: Any, base: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """A configuration: the base's, and the attributes of these names as plain data."""
    own = {}
    for name in names:
        value, kind = getattr(layer, name), _kind(name)
        own[name] = value if kind is None else kind.serialize(value)
    return {**base, **own}


def named(name: str) -> Callable:
    """A decorator: the name by which configurations know a class, where the class of the other API has it in the module."""
    def rename(cls: Any) -> Any:
        cls.__name__ = name
        return cls
    return rename


def when(training: Any, yes: Callable, no: Callable) -> Any:
    """`yes()` while training, else `no()`; decided now if possible, else by a tensor."""
    if training is None:
        training = K.learning_phase()
    if isinstance(training, Tensor) or K.is_variable(training):
        known = None if K.is_variable(training) else tf.get_static_value(training)
        if known is None:
            return tf.cond(tf.cast(training, tf.bool), yes, no)
        training = bool(known)
    return yes() if training else no()


def numbers(value: Any, n: int, name: str) -> tuple:
    """An integer for each of n axes."""
    if isinstance(value, int):
        return (value,) * n
    try:
        found = tuple(value)
    except TypeError:
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value}") from None
    if len(found) != n:
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value}")
    for v in found:
        try:
            int(v)
        except (ValueError, TypeError):
            raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value} including element "
                             f"{v} of type {type(v)}") from None
    return found


def padding_of(value: Any, *more: str) -> str:
    """'valid' or 'same' (or one of `more`)."""
    allowed = ("valid", "same", *more)
    found = value.lower()
    if found not in allowed:
        raise ValueError(f'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", only for '
                         f"`Conv1D). Received: {found}")
    return found


def data_format_of(value: Any) -> str:
    """'channels_last' or 'channels_first', the default one if None."""
    value = K.image_data_format() if value is None else value
    found = value.lower()
    if found not in ("channels_first", "channels_last"):
        raise ValueError(f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {value}')
    return found


def output_length(length: int | None, window: int, padding: str, stride: int, dilation: int = 1) -> int | None:
    """The output length of a convolution or a pool for `length` elements."""
    if length is None:
        return None
    if padding not in ("same", "valid", "full", "causal"):
        raise ValueError(f"Invalid padding: {padding}")
    wide = window + (window - 1) * (dilation - 1)
    if padding == "valid":
        length = length - wide + 1
    elif padding == "full":
        length = length + wide - 1
    return (length + stride - 1) // stride


def transposed_length(length: Any, window: int, padding: str, stride: int, output_padding: int | None = None,
                      dilation: int = 1) -> Any:
    """The output length of a transposed convolution for `length` elements (a number or a tensor)."""
    if length is None:
        return None
    wide = window + (window - 1) * (dilation - 1)
    if output_padding is None:
        if padding == "valid":
            return length * stride + max(wide - stride, 0)
        return length * stride
    cut = wide // 2 if padding == "same" else 0
    return (length - 1) * stride + wide - 2 * cut + output_padding


def dims_of(shape: Any) -> list:
    """A shape as a list of integers and None."""
    return tf.TensorShape(shape).as_list()


def checked_axes(axis: Any, rank: int) -> list[int]:
    """One axis or several of a tensor, counted from the first; ValueError for one that is out of range or repeated."""
    axes = [a + rank if a < 0 else a for a in ([axis] if isinstance(axis, int) else axis)]
    for a in axes:
        if not 0 <= a < rank and context.eager_outside_functions():
            raise ValueError("Invalid value for `axis` argument. Expected 0 <= axis < inputs.rank (with inputs.rank="
                             f"{rank}). Received: axis={tuple(axes)}")
        if not 0 <= a < rank:
            raise ValueError(f"Invalid axis: {a}")
    if len(axes) != len(set(axes)):
        raise ValueError(f"Duplicate axis: {tuple(axes)}")
    return axes


def passed(names: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an `__init__` (its `locals()`), as keywords for the `__init__` of the base."""
    own = {k: v for k, v in names.items() if k not in ("self", "kwargs", "__class__")}
    return {**own, **names.get("kwargs", {})}

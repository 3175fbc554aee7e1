"""slim.summaries: summaries named after their tensors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.slim.summaries.{name}"])


def _name(tensor: Any, name: str | None = None, prefix: str | None = None, postfix: str | None = None) -> str:
    return "/".join(part for part in (prefix, name or tensor.op.name, postfix) if part)


def _printed(made: Any, tensor: Any, name: str, print_summary: bool) -> Any:
    if print_summary:
        made = tf.Print(made, [tensor], name)
        tf.add_to_collection(tf.GraphKeys.SUMMARIES, made)
    return made


@_export("add_histogram_summary")
def add_histogram_summary(tensor: Any, name: str | None = None, prefix: str | None = None) -> Any:
    """A histogram."""
    return tf.summary.histogram(_name(tensor, name, prefix), tensor)


@_export("add_image_summary")
def add_image_summary(tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False) -> Any:
    """Images."""
    full = _name(tensor, name, prefix)
    made = tf.summary.image(name=full, tensor=tensor, collections=[] if print_summary else None)
    return _printed(made, tensor, full, print_summary)


@_export("add_scalar_summary")
def add_scalar_summary(tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False) -> Any:
    """A number."""
    full = _name(tensor, name, prefix)
    made = tf.summary.scalar(name=full, tensor=tensor, collections=[] if print_summary else None)
    return _printed(made, tensor, full, print_summary)


@_export("add_zero_fraction_summary")
def add_zero_fraction_summary(tensor: Any, name: str | None = None, prefix: str | None = None,
                              print_summary: bool = False) -> Any:
    """How much of a tensor is zero."""
    full = _name(tensor, name, prefix, "Fraction_of_Zero_Values")
    return add_scalar_summary(tf.nn.zero_fraction(tensor), full, print_summary=print_summary)


def _each(one: Callable, name: str) -> None:
    def all_(tensors: Any, prefix: str | None = None, **kwargs: Any) -> list:
        return [one(tensor, prefix=prefix, **kwargs) for tensor in tensors]
    all_.__name__, all_.__doc__ = name, f"{one.__name__} for each tensor."
    _export(name)(all_)


_each(add_histogram_summary, "add_histogram_summaries")
_each(add_image_summary, "add_image_summaries")
_each(add_scalar_summary, "add_scalar_summaries")
_each(add_zero_fraction_summary, "add_zero_fraction_summaries")

"""Regular expressions in RE2's syntax: full matches and replacements. How they run is in `kernels/re2.py`."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import LazyModule, export
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays, strings
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

re2 = LazyModule("penstock._src.kernels.re2")

regex_replace_op = op("RegexReplace", "input: string, pattern: string, rewrite: string -> output: string",
                      "replace_global: bool = True").no_gradient()
static_regex_replace = op("StaticRegexReplace", "input: string -> output: string",
                          "pattern: string, rewrite: string, replace_global: bool = True").no_gradient()
regex_full_match_op = op("RegexFullMatch", "input: string, pattern: string -> output: bool").no_gradient()
static_regex_full_match = op("StaticRegexFullMatch", "input: string -> output: bool", "pattern: string").no_gradient()


@regex_replace_op.shape
def _regex_replace_shape(input, pattern, rewrite):
    shapes.rank_is(pattern, 0)
    shapes.rank_is(rewrite, 0)
    return input


@regex_full_match_op.shape
def _regex_full_match_shape(input, pattern):
    shapes.rank_is(pattern, 0)
    return input


static_regex_replace.shape(lambda input: input)
static_regex_full_match.shape(lambda input: input)


def _scalar(value: Any, what: str) -> bytes:
    if value.ndim:
        raise errors.invalid(f"{what} must be scalar, but received {list(value.shape)}")
    return value.item()


@regex_replace_op.kernel(device="cpu")
def _regex_replace_kernel(input, pattern, rewrite, *, replace_global):
    return _replaced(input, _scalar(pattern, "Pattern"), _scalar(rewrite, "Rewrite"), replace_global)


@static_regex_replace.kernel(device="cpu")
def _static_regex_replace_kernel(input, *, pattern, rewrite, replace_global):
    return _replaced(input, strings.raw(pattern), strings.raw(rewrite), replace_global)


def _replaced(input: Any, pattern: bytes, rewrite: bytes, everywhere: bool) -> Any:
    compiled, new = re2.compiled(pattern), re2.Rewrite(rewrite)
    return strings.pack(compiled.replace_all(input.ravel().tolist(), new, everywhere), input.shape)


@regex_full_match_op.kernel(device="cpu")
def _regex_full_match_kernel(input, pattern):
    return _matched(input, _scalar(pattern, "Pattern"))


@static_regex_full_match.kernel(device="cpu")
def _static_regex_full_match_kernel(input, *, pattern):
    return _matched(input, strings.raw(pattern))


for _elementwise in (regex_replace_op, static_regex_replace, regex_full_match_op, static_regex_full_match):
    rules.columns.rows[_elementwise] = _elementwise.kernel_for("cpu")


def _matched(input: Any, pattern: bytes) -> torch.Tensor:
    compiled = re2.compiled(pattern)
    return arrays.vector(map(compiled.full_match, input.ravel().tolist()), input.size, torch.bool).reshape(input.shape)


@export("strings.regex_replace", v1=["regex_replace"])
@dispatched
def regex_replace(input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None) -> Tensor:
    r"""Strings with the matches of a pattern replaced.

    Args:
        input: Strings of any shape.
        pattern: A regular expression in RE2's syntax.
        rewrite: What a match is replaced with; ``\1`` represents the first group.
        replace_global: Whether to replace all matches, or only the first one.
        name: A name for the op.

    Returns:
        Strings of the shape of `input`.

    Raises:
        InvalidArgumentError: if the pattern is not valid.

    >>> tf.strings.regex_replace("a<br />b", "<[^>]+>", " ").numpy()
    b'a b'
    """
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return static_regex_replace(input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name)
    return regex_replace_op(input, pattern, rewrite, replace_global=replace_global, name=name)


@export("strings.regex_full_match")
@dispatched
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether strings match `pattern` from beginning to end.

    Args:
        input: Strings of any shape.
        pattern: Regular expression, in the syntax of RE2.
        name: Name of the operation.

    Returns:
        Booleans of the shape of `input`.

    >>> tf.strings.regex_full_match(["TF lib", "lib TF"], ".*lib$").numpy().tolist()
    [True, False]
    """
    if isinstance(pattern, (str, bytes)):
        return static_regex_full_match(input, pattern=pattern, name=name)
    return regex_full_match_op(input, pattern, name=name)

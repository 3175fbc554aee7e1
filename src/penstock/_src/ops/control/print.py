"""Printing the values of tensors while a program runs: tf.print and the older tf.Print."""
from __future__ import annotations

import logging
import os
import pprint
import sys
import threading
import time
from typing import Any

import torch

from penstock._src.base import dtypes, errors, nest, tf_logging
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.io import confine
from penstock._src.kernels import strings
from penstock._src.kernels.summarize import summarize as summarize_value
from penstock._src.ops.registry import get, op
from penstock._src.ops.strings.strings import string_format_op

_STREAMS = ("stdout", "stderr", "log(info)", "log(warning)", "log(error)")
_LEVELS = {"log(info)": logging.INFO, "log(warning)": logging.WARNING, "log(error)": logging.ERROR}
_FILE = "file://"
_file_lock = threading.Lock()

# -- tf.Print ---------------------------------------------------------------------------------------------------------
print_op = op("Print", "input: T, data: U -> output: T",
              "T: type, U: list(type) >= 0, message: string = '', first_n: int = -1, summarize: int = 3", stateful=True)
print_op.shape(lambda input, data: input)


@print_op.kernel
def _print_kernel(input, data, *, message, first_n, summarize, ctx, node):
    if first_n < 0 or _among_first(ctx, node, first_n):
        shown = "".join(f"[{summarize_value(d, summarize)}]" for d in data)
        _write("stderr", strings.show(strings.raw(message)) + shown + "\n")
    return input


class _Calls:
    """How often a Print node has printed in a session."""

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0

    def take(self, limit: int) -> bool:
        """Whether this call is among the first `limit`."""
        with self._lock:
            self._count += 1
            return self._count <= limit


def _among_first(ctx: Any, node: Any, limit: int) -> bool:
    if getattr(node, "graph", None) is None:           # eager execution: each call is a separate op
        return limit > 0
    return ctx.resources.get_or_create("", node.name, _Calls, _Calls).take(limit)


@print_op.gradient
def _print_gradient(op, grad):
    return [grad, *[None] * (len(op.inputs) - 1)]


@export(v1=["Print"])
def print_v1(input_: Any, data: Any, message: Any = None, first_n: int | None = None, summarize: int | None = None,
             name: str | None = None) -> Tensor:
    """`input_`; prints `data` to stderr whenever it is computed.

    Args:
        input_: Tensor to return.
        data: Tensors to print.
        message: Text before them.
        first_n: How many times to print; always by default.
        summarize: How many elements of each tensor to print.
        name: Name of the operation.

    Returns:
        `input_`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x = tf.Print(tf.constant([1., 2.]), [tf.constant("seen")], message="to stderr: ")
    ...     print(sess.run(x))
    [1. 2.]
    """
    return print_op(input_, data, message=message, first_n=first_n, summarize=summarize, name=name)


# -- tf.print ---------------------------------------------------------------------------------------------------------
print_v2_op = op("PrintV2", "input: string ->", r"output_stream: string = 'stderr', end: string = '\n'",
                 stateful=True).no_gradient()


@print_v2_op.shape
def _print_v2_shape(input):
    shapes.rank_is(input, 0)
    return []


@print_v2_op.kernel
def _print_v2_kernel(input, *, output_stream, end):
    if output_stream not in _STREAMS and not output_stream.startswith(_FILE):
        raise errors.invalid(f"Unknown output stream: {output_stream}, Valid streams are: {' '.join(_STREAMS)}, or "
                             "file://<filename>")
    _write(output_stream, strings.show(strings.scalar(input, "input")) + strings.show(strings.raw(end)))


def _write(stream: str, text: str) -> None:
    if stream.startswith(_FILE):
        confine.check(stream[len(_FILE):])
        try:
            with _file_lock, open(stream[len(_FILE):], "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as e:
            raise errors.NotFoundError(None, None, f"Cannot print to {stream}: {e}") from None
    elif stream in _LEVELS:
        logger = tf_logging.get_logger()               # printed regardless of the logger's level
        logger.handle(logger.makeRecord(logger.name, _LEVELS[stream], __file__, 0, text.rstrip("\n"), (), None))
    else:
        target = sys.stdout if stream == "stdout" else sys.stderr
        target.write(text)
        target.flush()


def _stream_name(stream: Any) -> str:
    """The name of an output stream that was given as a file, a logging function or level, or a path."""
    if isinstance(stream, str) and stream.startswith(_FILE):
        return stream
    known = [(sys.stdout, "stdout"), (sys.stderr, "stderr")]
    for place in filter(None, (tf_logging, logging, sys.modules.get("absl.logging"))):      # absl has other levels
        known += [(place.INFO, "log(info)"), (place.info, "log(info)"), (place.WARN, "log(warning)"),
                  (place.warning, "log(warning)"), (place.ERROR, "log(error)"), (place.error, "log(error)")]
    known += [(tf_logging.warn, "log(warning)"), (logging.warn, "log(warning)")]
    for value, name in known:
        if stream is value or isinstance(stream, int) and stream == value:
            return name
    raise ValueError(f"Unsupported output stream, logging level, or file.{stream}. Supported streams are sys.stdout, "
                     "sys.stderr, tf.logging.info, tf.logging.warning, tf.logging.error. File needs to be in the form of "
                     "'file://<filepath>'.")


class _Placeholder:
    """A placeholder for a tensor in a printed structure; its repr is replaced by the value at run time."""

    def __init__(self, text: str):
        self._text = text

    def __repr__(self) -> str:
        return self._text


@export("print")
def print_v2(*inputs: Any, output_stream: Any = None, name: str | None = None, summarize: int | None = 3,
             sep: str = " ", end: str = os.linesep) -> Operation | None:
    """Prints tensors, strings and structures of them, to stderr by default. In graphs, returns an op that must be run.

    >>> tf.print("tensors:", x, {2: x * 2}, output_stream=sys.stdout)
    """
    stream = _stream_name(sys.stderr if output_stream is None else output_stream)
    only = inputs[0] if len(inputs) == 1 else None
    if isinstance(only, Tensor) and only.static_dims == () and only.dtype.base_dtype == dtypes.string:
        text = only
    else:
        text = _formatted(inputs, summarize, sep, f"{name}_format" if name else None)
    return print_v2_op(text, output_stream=stream, end=end, name=name)


def _formatted(inputs: tuple, summarize: int | None, sep: str, name: str | None) -> Tensor:
    tensors: list = []
    texts: set[int] = set()            # which of them show a ragged tensor: they go into the text without quotes
    plain = nest.map_structure(lambda x: "" if _tensors_of(x) else x, list(inputs))
    holder = _unused_placeholder(" ".join(pprint.pformat(x) for x in plain))

    def held(x: Any) -> Any:
        found = _tensors_of(x, summarize)
        if not found:
            return x
        tensors.extend(found)
        if hasattr(x, "ragged_rank"):
            texts.add(len(tensors) - 1)
            return _Placeholder(holder)
        if isinstance(x, SparseTensor):
            return _Placeholder(f"'SparseTensor(indices={holder}, values={holder}, shape={holder})'")
        return _Placeholder(holder)

    shown = [x if isinstance(x, str) else pprint.pformat(nest.map_structure(held, x)) for x in inputs]
    if not texts:
        return string_format_op(tensors, template=sep.join(shown), placeholder=holder, summarize=summarize, name=name)
    pieces = sep.join(shown).split(holder)
    parts = [t if i in texts else string_format_op([t], template=holder, placeholder=holder, summarize=summarize)
             for i, t in enumerate(tensors)]
    return get("StringJoin")([x for pair in zip(pieces, [*parts, ""], strict=True) for x in pair], name=name)


def _tensors_of(x: Any, summarize: int | None = 3) -> list:
    """The tensors to print for `x`: itself, or its parts; empty if it is not a tensor."""
    if isinstance(x, SparseTensor):
        return [x.indices, x.values, x.dense_shape]
    if hasattr(x, "ragged_rank"):
        return [x._text(summarize)]
    return [x] if isinstance(x, Tensor) or getattr(x, "_is_tensor_like", False) else []


def _unused_placeholder(text: str) -> str:
    """A placeholder that does not occur in `text`."""
    holder, i = "{}", 0
    while holder in text:
        holder, i = f"{{}}{i}", i + 1
    return holder


# -- time -------------------------------------------------------------------------------------------------------------
timestamp_op = op("Timestamp", "-> ts: float64", stateful=True).no_gradient()
timestamp_op.shape(lambda: ())
timestamp_op.kernel(lambda: torch.tensor(time.time(), dtype=torch.float64))


@export("timestamp")
def timestamp(name: str | None = None) -> Tensor:
    """Seconds since 1970, when the op runs."""
    return timestamp_op(name=name)

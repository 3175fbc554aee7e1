"""tf.summary of the 1.x kind: ops that make serialized summaries, collected in the graph and merged."""
from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.messages import SummaryDescription, SummaryMetadata
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.strategies import beyond_first_replica
from penstock._src.ops.registry import get

_ILLEGAL = re.compile(r"[^-/\w\.]")


def clean_tag(name: Any) -> Any:
    """A name without characters that tags may not have."""
    if name is None:
        return None
    cleaned = _ILLEGAL.sub("_", name).lstrip("/")
    if cleaned != name:
        logging.info("Summary name %s is illegal; using %s instead.", name, cleaned)
    return cleaned


@contextlib.contextmanager
def summary_scope(name: str, family: str | None = None, default_name: str | None = None,
                  values: Any = None) -> Iterator[tuple[str, str]]:
    """A name scope for a summary op; returns the tag and the scope's name."""
    name, family = clean_tag(name), clean_tag(family)
    with name_scope(name if family is None else f"{family}/{name}", default_name, values) as scope:
        own = scope.rstrip("/")
        yield own if family is None else f"{family}/{own}", scope


def _collected(value: Any, collections: Any, default: list) -> Any:
    if not context.executing_eagerly() and not beyond_first_replica():
        for key in default if collections is None else collections:
            context.current_graph().add_to_collection(key, value)
    return value


@export(v1=["summary.scalar"])
def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Any:
    """A summary of one number.

    Args:
        name: Name of the chart.
        tensor: Scalar.
        collections: Collections to add the result to, instead of the default one.
        family: Prefix that groups summaries in TensorBoard.

    Returns:
        A scalar string with a serialized `Summary`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     record = sess.run(tf.summary.scalar("loss", 0.5))
    ...     print(tf.Summary.FromString(record).value[0].simple_value)
    0.5
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        return _collected(get("ScalarSummary")(tag, tensor, name=scope), collections, [GraphKeys.SUMMARIES])


@export(v1=["summary.image"])
def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Any:
    """A summary of the first images of a batch, [n, height, width, channels].

    Args:
        name: Name of the chart.
        tensor: Images [n, height, width, 1, 3 or 4]; floats are scaled to the range of a byte.
        max_outputs: How many images to write.
        collections: Collections to add the result to, instead of the default one.
        family: Prefix that groups summaries in TensorBoard.

    Returns:
        A scalar string with a serialized `Summary`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     record = sess.run(tf.summary.image("input", tf.zeros([2, 8, 8, 3])))
    ...     print([v.tag for v in tf.Summary.FromString(record).value])
    ['input/image/0', 'input/image/1']
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        made = get("ImageSummary")(tag, tensor, max_images=max_outputs, name=scope)
        return _collected(made, collections, [GraphKeys.SUMMARIES])


@export(v1=["summary.histogram"])
def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Any:
    """A summary of how values are distributed.

    Args:
        name: Name of the chart.
        values: Tensor of any shape.
        collections: Collections to add the result to, instead of the default one.
        family: Prefix that groups summaries in TensorBoard.

    Returns:
        A scalar string with a serialized `Summary`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     record = sess.run(tf.summary.histogram("weights", [1., 2., 2.]))
    ...     print(tf.Summary.FromString(record).value[0].histo.num)
    3.0
    """
    with summary_scope(name, family, "HistogramSummary", [values]) as (tag, scope):
        return _collected(get("HistogramSummary")(tag, values, name=scope), collections, [GraphKeys.SUMMARIES])


@export(v1=["summary.audio"])
def audio(name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None,
          family: str | None = None) -> Any:
    """A summary of the first clips of a batch, [n, frames] or [n, frames, channels]."""
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        rate = convert(sample_rate, dtypes.float32, "sample_rate")
        made = get("AudioSummaryV2")(tag, tensor, rate, max_outputs=max_outputs, name=scope)
        return _collected(made, collections, [GraphKeys.SUMMARIES])


@export(v1=["summary.text"])
def text(name: str, tensor: Any, collections: Any = None) -> Any:
    """A summary of text, in Markdown."""
    if tensor.dtype != dtypes.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return tensor_summary(name, tensor, summary_metadata=metadata, collections=collections)


@export(v1=["summary.tensor_summary"])
def tensor_summary(name: str, tensor: Any, summary_description: Any = None, collections: Any = None,
                   summary_metadata: Any = None, family: str | None = None, display_name: str | None = None) -> Any:
    """A summary of any tensor, for a plugin of TensorBoard."""
    metadata = SummaryMetadata() if summary_metadata is None else summary_metadata
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        made = get("TensorSummaryV2")(tag, tensor, metadata.SerializeToString(), name=scope)
        return _collected(made, collections, [GraphKeys.SUMMARIES])


_NOT_EAGER = "Merging tf.summary.* ops is not compatible with eager execution. Use the summaries of penstock.summary instead."


@export(v1=["summary.merge"])
def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Any:
    """One summary of several.

    Args:
        inputs: Summaries: tensors of serialized messages.
        collections: Collections to add the result to, instead of the default one.
        name: Name of the operation.

    Returns:
        A scalar string.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     both = tf.summary.merge([tf.summary.scalar("loss", 0.5), tf.summary.scalar("rate", 0.1)])
    ...     print([v.tag for v in tf.Summary.FromString(sess.run(both)).value])
    ['loss', 'rate']
    """
    if context.executing_eagerly():
        raise RuntimeError(_NOT_EAGER)
    name = clean_tag(name)
    with name_scope(name, "Merge", inputs):
        return _collected(get("MergeSummary")(inputs, name=name), collections, [])


@export(v1=["summary.merge_all"])
def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Any:
    """One summary of all that the graph has collected; None if there are none.

    Args:
        key: Collection with the summaries.
        scope: Pattern that the names must begin with.
        name: Name of the operation.

    Returns:
        A scalar string, or None.

    Raises:
        RuntimeError: in eager execution.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     both = tf.summary.scalar("loss", 0.5), tf.summary.scalar("rate", 0.1)
    ...     record = sess.run(tf.summary.merge_all())
    ...     print([v.tag for v in tf.Summary.FromString(record).value])
    ['loss', 'rate']
    """
    if context.executing_eagerly():
        raise RuntimeError(_NOT_EAGER)
    found = context.current_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


@export(v1=["summary.get_summary_description"])
def get_summary_description(node_def: Any) -> Any:
    """The SummaryDescription that a TensorSummary node has."""
    from google.protobuf import json_format
    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    return json_format.Parse(node_def.attr["description"].s.decode(), SummaryDescription())

"""Writers of summaries as resources, and the ops that write through them: the ops of tf.summary in 2.x."""
from __future__ import annotations

import time
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.graph.message_names import message_class
from penstock._src.io import paths
from penstock._src.io.events import EventsWriter, event_class
from penstock._src.io.system_errors import reported
from penstock._src.kernels import strings
from penstock._src.ops.io.summary import audio_message, histogram_message, image_message, parse_metadata, tensor_message
from penstock._src.ops.registry import op


class SummaryWriterResource:
    """A summary writer at run time; it has no file until it is initialized with a directory."""

    def __init__(self, name: str):
        self.name = name
        self.events: EventsWriter | None = None

    def opened(self) -> EventsWriter:
        """The event file; NotFoundError before there is one."""
        if self.events is None:
            raise errors.NotFoundError(None, None, f"Resource {self.name} does not exist: the summary writer was not "
                                       "initialized, or is closed.")
        return self.events

    def close(self) -> None:
        """Closes the file."""
        events, self.events = self.events, None
        if events is not None:
            events.close()

    def __del__(self) -> None:
        with reported():
            self.close()


summary_writer = op("SummaryWriter", "-> writer: resource", "shared_name: string = '', container: string = ''", stateful=True,
                    per_session=True).no_gradient()
summary_writer.shape(lambda: ())


@summary_writer.kernel
def _summary_writer_kernel(*, shared_name, container, ctx, node):
    name = shared_name or node.name
    if node.graph is None and not shared_name:
        return SummaryWriterResource(name)
    return ctx.resources.get_or_create(container, name, SummaryWriterResource, lambda: SummaryWriterResource(name))


def _declare(name: str, inputs: str, attrs: str = "") -> Any:
    made = op(name, f"writer: resource{inputs} ->", attrs, stateful=True).no_gradient()
    made.shape(lambda *shapes: [])
    return made


create_summary_file_writer = _declare("CreateSummaryFileWriter", ", logdir: string, max_queue: int32, flush_millis: int32, "
                                      "filename_suffix: string")
flush_summary_writer = _declare("FlushSummaryWriter", "")
close_summary_writer = _declare("CloseSummaryWriter", "")
write_summary = _declare("WriteSummary", ", step: int64, tensor: T, tag: string, summary_metadata: string", "T: type")
write_raw_proto_summary = _declare("WriteRawProtoSummary", ", step: int64, tensor: string")
import_event = _declare("ImportEvent", ", event: string")
write_scalar_summary = _declare("WriteScalarSummary", ", step: int64, tag: string, value: T", "T: type in {real}")
write_histogram_summary = _declare("WriteHistogramSummary", ", step: int64, tag: string, values: T",
                                   "T: type in {real} = float32")
write_image_summary = _declare("WriteImageSummary", ", step: int64, tag: string, tensor: T, bad_color: uint8",
                               "max_images: int >= 1 = 3, T: type in {uint8 float32 half} = float32")
write_audio_summary = _declare("WriteAudioSummary", ", step: int64, tag: string, tensor: float32, sample_rate: float32",
                               "max_outputs: int >= 1 = 3")
write_graph_summary = _declare("WriteGraphSummary", ", step: int64, tensor: string")


def _number(value: torch.Tensor, what: str) -> int:
    if value.numel() != 1:
        raise errors.invalid(f"{what} must be a scalar, got shape {list(value.shape)}")
    return int(value)


def _text(value: Any, what: str) -> str:
    return strings.show(strings.scalar(value, what))


def _summary() -> Any:
    return message_class("Summary")()


def _held(writer: Any) -> SummaryWriterResource:
    return errors.expect(writer, SummaryWriterResource, "a summary writer")


@create_summary_file_writer.kernel
def _create_summary_file_writer_kernel(writer, logdir, max_queue, flush_millis, filename_suffix):
    settings = _number(max_queue, "max_queue"), _number(flush_millis, "flush_millis") / 1000
    if _held(writer).events is None:
        folder = paths.as_text(strings.scalar(logdir, "logdir"))
        writer.events = EventsWriter(folder, *settings, _text(filename_suffix, "filename_suffix"))


@flush_summary_writer.kernel
def _flush_summary_writer_kernel(writer):
    if _held(writer).events is not None:
        writer.events.flush()


@close_summary_writer.kernel
def _close_summary_writer_kernel(writer):
    _held(writer).close()


@write_summary.kernel
def _write_summary_kernel(writer, step, tensor, tag, summary_metadata, *, T):
    out = _summary()
    value = out.value.add(tag=_text(tag, "tag"))
    tensor_message(value, tensor, T)
    data = strings.scalar(summary_metadata, "summary_metadata")
    if data:
        parse_metadata(data, value)
    _held(writer).opened().add_summary(out, _number(step, "step"))


@write_raw_proto_summary.kernel
def _write_raw_proto_summary_kernel(writer, step, tensor):
    from google.protobuf.message import DecodeError
    out = _summary()
    for data in tensor.ravel().tolist():
        try:
            out.MergeFromString(data)
        except DecodeError:
            raise errors.DataLossError(None, None, "Bad tf.compat.v1.Summary binary proto tensor string") from None
    _held(writer).opened().add_summary(out, _number(step, "step"))


@import_event.kernel
def _import_event_kernel(writer, event):
    from google.protobuf.message import DecodeError

    data = strings.scalar(event, "event")
    try:
        event_class().FromString(data)
    except DecodeError:
        raise errors.DataLossError(None, None, "Bad tf.Event binary proto tensor string") from None
    _held(writer).opened().write(data)


@write_scalar_summary.kernel
def _write_scalar_summary_kernel(writer, step, tag, value):
    if value.numel() != 1:
        raise errors.invalid(f"the value of a scalar summary must be a scalar, got shape {list(value.shape)}")
    out = _summary()
    out.value.add(tag=_text(tag, "tag"), simple_value=float(value))
    _held(writer).opened().add_summary(out, _number(step, "step"))


@write_histogram_summary.kernel
def _write_histogram_summary_kernel(writer, step, tag, values):
    _held(writer).opened().add_summary(histogram_message(_text(tag, "tag"), values), _number(step, "step"))


@write_image_summary.kernel
def _write_image_summary_kernel(writer, step, tag, tensor, bad_color, *, max_images):
    summary = image_message(_text(tag, "tag"), tensor, max_images, bad_color.numpy())
    _held(writer).opened().add_summary(summary, _number(step, "step"))


@write_audio_summary.kernel
def _write_audio_summary_kernel(writer, step, tag, tensor, sample_rate, *, max_outputs):
    out = audio_message(_text(tag, "tag"), tensor, float(sample_rate), max_outputs)
    _held(writer).opened().add_summary(out, _number(step, "step"))


@write_graph_summary.kernel
def _write_graph_summary_kernel(writer, step, tensor):
    graph = strings.scalar(tensor, "tensor")
    _held(writer).opened().add(event_class()(wall_time=time.time(), step=_number(step, "step"), graph_def=graph))

"""Readers: records of the files in a queue. The state is in `io.readers`."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.io import lmdb_file, readers
from penstock._src.io.readers import Reader
from penstock._src.io.record import TFRecordOptions
from penstock._src.io.record_input import RecordInput as Records
from penstock._src.kernels import strings
from penstock._src.ops.registry import OpDef, get, op
from penstock._src.ops.state.queue import fake, queue_of, shared

_SHARED = "container: string = '', shared_name: string = ''"


# -- making readers ---------------------------------------------------------------------------------------------------
def _maker(name: str, source: Callable, attrs: str = "", single: bool = False, check: Callable | None = None,
           kinds: int = 2) -> OpDef:
    """Declares the ops that create a kind of reader (references, handles); its source gets the attributes in `attrs`."""
    names = [a.split(":")[0].strip() for a in attrs.split(",") if a]
    for n, handle in ((name, "Ref(string)"), (name + "V2", "resource"))[:kinds]:
        declared = attrs if n != name else attrs.replace(", encoding: string = ''", "")
        made = op(n, f"-> reader_handle: {handle}", ", ".join(filter(None, [declared, _SHARED])), stateful=True,
                  per_session=True).no_gradient()
        made.shape((lambda: (2,)) if n == name else (lambda: ()))

        @made.kernel
        def _made_kernel(*, container, shared_name, ctx, node):
            given = {a: node.attrs[a] for a in names if a in node.attrs}
            if check is not None:
                check(**given)
            return shared(ctx, node, container, shared_name, Reader,
                          lambda own: Reader(f"{name} '{own}'", functools.partial(source, **given), single, container))
    return made


def _lines(work: bytes, skip_header_lines: int) -> Any:
    return readers.text_lines(work, skip_header_lines)


def _fixed(work: bytes, header_bytes: int, record_bytes: int, footer_bytes: int, hop_bytes: int, encoding: str = "") -> Any:
    return readers.fixed_length(work, header_bytes, record_bytes, footer_bytes, hop_bytes or record_bytes, encoding)


def _records(work: bytes, compression_type: str) -> Any:
    return readers.records(work, compression_type)


def _not_negative(encoding: str = "", **sizes: int) -> None:
    for name, value in sizes.items():
        if value < 0:
            raise errors.invalid(f"{name} must be >= 0 not {value}")
    if sizes.get("record_bytes") == 0 and not sizes["hop_bytes"]:
        raise errors.invalid("record_bytes or hop_bytes must be > 0: empty records would never end")
    if encoding not in ("", "ZLIB", "GZIP"):
        raise errors.invalid(f"encoding must be '', ZLIB or GZIP, not {encoding}")


def _known_compression(compression_type: str) -> None:
    if compression_type not in ("", "ZLIB", "GZIP"):
        raise errors.invalid(f"compression_type must be '', ZLIB or GZIP, not {compression_type}")


whole_file = _maker("WholeFileReader", readers.whole_file, single=True)
identity = _maker("IdentityReader", readers.identity, single=True)
text_line = _maker("TextLineReader", _lines, "skip_header_lines: int = 0", check=_not_negative)
fixed_length = _maker("FixedLengthRecordReader", _fixed, "header_bytes: int = 0, record_bytes: int, footer_bytes: int = 0, "
                      "hop_bytes: int = 0, encoding: string = ''", check=_not_negative)
lmdb = _maker("LMDBReader", lmdb_file.pairs, kinds=1)
tf_record = _maker("TFRecordReader", _records, "compression_type: string = ''", check=_known_compression)


# -- using readers ----------------------------------------------------------------------------------------------------
def _user(name: str, args: str, blocking: bool = False) -> tuple[OpDef, OpDef]:
    """Declares an op on readers: with references, and with resource handles."""
    old = op(name, args.replace("resource", "Ref(string)"), foldable=False, blocking=blocking).no_gradient()
    return old, op(name + "V2", args, stateful=True, blocking=blocking).no_gradient()


read = _user("ReaderRead", "reader_handle: resource, queue_handle: resource -> key: string, value: string", blocking=True)
read_up_to = _user("ReaderReadUpTo", "reader_handle: resource, queue_handle: resource, num_records: int64 -> keys: string, "
                   "values: string", blocking=True)
records_produced = _user("ReaderNumRecordsProduced", "reader_handle: resource -> records_produced: int64")
units_completed = _user("ReaderNumWorkUnitsCompleted", "reader_handle: resource -> units_completed: int64")
serialize_state = _user("ReaderSerializeState", "reader_handle: resource -> state: string", blocking=True)
restore_state = _user("ReaderRestoreState", "reader_handle: resource, state: string ->", blocking=True)
reset = _user("ReaderReset", "reader_handle: resource ->", blocking=True)


def _reader(handle: Any) -> readers.Reader:
    return errors.expect(handle, readers.Reader, "a reader")


def _read(reader_handle, queue_handle, *, ctx):
    key, value = _reader(reader_handle).next(queue_of(queue_handle), ctx)
    return strings.pack([key], ()), strings.pack([value], ())


def _read_up_to(reader_handle, queue_handle, num_records, *, ctx):
    if num_records.dim() or int(num_records) <= 0:
        raise errors.invalid(f"num_records must be a positive scalar, got {num_records.tolist()}")
    found = _reader(reader_handle).next_many(int(num_records), queue_of(queue_handle), ctx)
    return strings.pack([k for k, _ in found]), strings.pack([v for _, v in found])


def _restore_shape(reader_handle, state):
    shapes.rank_is(state, 0)
    return []


def _restore(reader_handle, state, *, ctx):
    _reader(reader_handle).restore(strings.scalar(state, "Reader state"), ctx)


for _ops, _kernel, _shape in (
        (read, _read, lambda reader_handle, queue_handle: [(), ()]),
        (read_up_to, _read_up_to, lambda reader_handle, queue_handle, num_records: [(None,), (None,)]),
        (records_produced, lambda reader_handle: torch.tensor(_reader(reader_handle).produced), lambda reader_handle: ()),
        (units_completed, lambda reader_handle: torch.tensor(_reader(reader_handle).finished), lambda reader_handle: ()),
        (serialize_state, lambda reader_handle, *, ctx: strings.pack([_reader(reader_handle).state(ctx)], ()),
         lambda reader_handle: ()),
        (restore_state, _restore, _restore_shape),
        (reset, lambda reader_handle, *, ctx: _reader(reader_handle).reset(ctx), lambda reader_handle: [])):
    for _op in _ops:
        _op.kernel(_kernel)
        _op.shape(_shape)


# -- the classes ------------------------------------------------------------------------------------------------------
@export(v1=["ReaderBase"])
class ReaderBase:
    """The base of readers: records of the files whose names come from a queue of strings."""

    def __init__(self, reader_ref: Any, supports_serialize: bool = False):
        if context.executing_eagerly():
            raise RuntimeError("Readers are not supported when eager execution is enabled. Instead, please use tf.data to get "
                               "data into your model.")
        self._reader_ref, self._supports_serialize = reader_ref, supports_serialize

    reader_ref = property(lambda self: self._reader_ref, doc="The handle.")
    supports_serialize = property(lambda self: self._supports_serialize, doc="Whether the reader can tell where it is.")

    def _op(self, pair: tuple) -> OpDef:
        return pair[1] if self._reader_ref.dtype == dtypes.resource else pair[0]

    def _queue(self, queue: Any) -> Any:
        handle = queue if isinstance(queue, Tensor) else queue.queue_ref
        return fake(handle) if self._reader_ref.dtype != dtypes.resource and handle.dtype == dtypes.resource else handle

    def read(self, queue: Any, name: str | None = None) -> Any:
        """The next record: (key, value). Takes the next file from `queue` when the last one is at its end."""
        return self._op(read)(self._reader_ref, self._queue(queue), name=name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """At most `num_records` records of one file: (keys, values)."""
        return self._op(read_up_to)(self._reader_ref, self._queue(queue), num_records, name=name)

    def num_records_produced(self, name: str | None = None) -> Any:
        """How many records were read."""
        return self._op(records_produced)(self._reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Any:
        """How many files were read to their end."""
        return self._op(units_completed)(self._reader_ref, name=name)

    def serialize_state(self, name: str | None = None) -> Any:
        """The position of the reader, as a string; not all readers support it."""
        return self._op(serialize_state)(self._reader_ref, name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Any:
        """An op that restores the position `state`."""
        return self._op(restore_state)(self._reader_ref, state, name=name)

    def reset(self, name: str | None = None) -> Any:
        """An op that resets the reader."""
        return self._op(reset)(self._reader_ref, name=name)


@export(v1=["WholeFileReader"])
class WholeFileReader(ReaderBase):
    """Files as records; keys are their names."""

    def __init__(self, name: str | None = None):
        super().__init__(whole_file(name=name), supports_serialize=True)


@export(v1=["TextLineReader"])
class TextLineReader(ReaderBase):
    """Lines of text files; keys are file:line number.

    Args:
        skip_header_lines: How many lines at the beginning of each file are skipped.
        name: Name of the operation.

    >>> with open("a.csv", "w") as f:
    ...     print("header\\n1,2", file=f)
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     names = tf.train.string_input_producer(["a.csv"])
    ...     key, line = tf.TextLineReader(skip_header_lines=1).read(names)
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run(line))
    ...     coord.request_stop()
    ...     coord.join(threads)
    b'1,2'
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None):
        super().__init__(text_line(skip_header_lines=skip_header_lines or 0, name=name))


@export(v1=["FixedLengthRecordReader"])
class FixedLengthRecordReader(ReaderBase):
    """Records of `record_bytes` from files with an optional header and footer; `encoding` is "", "ZLIB" or "GZIP".

    Args:
        record_bytes: Bytes of a record.
        header_bytes: Bytes skipped at the beginning of each file.
        footer_bytes: Bytes skipped at the end of each file.
        hop_bytes: Bytes from the start of a record to that of the next; by default `record_bytes`.
        name: Name of the operation.
        encoding: `""`, `"ZLIB"` or `"GZIP"`.

    >>> with open("a.bin", "wb") as f:
    ...     _ = f.write(b"onetwo")
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     names = tf.train.string_input_producer(["a.bin"])
    ...     key, record = tf.FixedLengthRecordReader(record_bytes=3).read(names)
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run(record), sess.run(record))
    ...     coord.request_stop()
    ...     coord.join(threads)
    b'one' b'two'
    """

    def __init__(self, record_bytes: int, header_bytes: int | None = None, footer_bytes: int | None = None,
                 hop_bytes: int | None = None, name: str | None = None, encoding: str | None = None):
        super().__init__(fixed_length(record_bytes=record_bytes, header_bytes=header_bytes or 0, footer_bytes=footer_bytes or 0,
                                      hop_bytes=hop_bytes or 0, encoding=encoding or "", name=name))


@export(v1=["TFRecordReader"])
class TFRecordReader(ReaderBase):
    """Records of TFRecord files; keys are file:offset.

    Args:
        name: Name of the operation.
        options: `TFRecordOptions` with the compression.

    >>> with tf.io.TFRecordWriter("a.tfrecord") as writer:
    ...     writer.write(b"one")
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     names = tf.train.string_input_producer(["a.tfrecord"])
    ...     key, record = tf.TFRecordReader().read(names)
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run(record))
    ...     coord.request_stop()
    ...     coord.join(threads)
    b'one'
    """

    def __init__(self, name: str | None = None, options: Any = None):
        super().__init__(tf_record(compression_type=TFRecordOptions.get_compression_type_string(options), name=name))


@export(v1=["LMDBReader"])
class LMDBReader(ReaderBase):
    """The pairs of LMDB databases (files, or folders with `data.mdb`), in the order of their keys."""

    def __init__(self, name: str | None = None, options: Any = None):
        super().__init__(lmdb(name=name))


@export(v1=["IdentityReader"])
class IdentityReader(ReaderBase):
    """The strings of the queue themselves as records."""

    def __init__(self, name: str | None = None):
        super().__init__(identity(name=name), supports_serialize=True)


# -- all records of many files ----------------------------------------------------------------------------------------
record_input = op("RecordInput", "-> records: string", "file_pattern: string, file_random_seed: int = 301, "
                  "file_shuffle_shift_ratio: float = 0.0, file_buffer_size: int = 10000, file_parallelism: int = 16, "
                  "batch_size: int = 32, compression_type: string = ''", stateful=True).no_gradient()
record_input.shape(lambda *, batch_size: (batch_size,))


@record_input.kernel
def _record_input_kernel(*, file_pattern, file_random_seed, file_shuffle_shift_ratio, file_buffer_size, file_parallelism,
                         batch_size, compression_type, ctx, node):
    strings.check_elements(batch_size, "RecordInput")
    _known_compression(compression_type)
    state = ctx.resources.get_or_create("", node.name, Records, lambda: Records(
        file_pattern, file_random_seed, file_shuffle_shift_ratio, file_buffer_size, file_parallelism, compression_type))
    return strings.pack(state.take(batch_size))


class RecordInput:
    """Batches of records of all files that match a pattern, in random order, infinitely.

    >>> batch = RecordInput("/data/train-*", batch_size=32, buffer_size=10000, parallelism=4).get_yield_op()
    """

    def __init__(self, file_pattern: str, batch_size: int = 1, buffer_size: int = 1, parallelism: int = 1,
                 shift_ratio: float = 0, seed: int = 0, name: str | None = None, batches: int | None = None,
                 compression_type: Any = None):
        self._batch_size, self._batches, self._name = batch_size * (batches or 1), batches, name
        self._attrs = {"file_pattern": file_pattern, "file_random_seed": seed, "file_shuffle_shift_ratio": shift_ratio,
                       "file_buffer_size": buffer_size, "file_parallelism": parallelism,
                       "compression_type": TFRecordOptions.get_compression_type_string(compression_type)}

    def get_yield_op(self) -> Any:
        """The next batch: a vector of strings, or `batches` lists of scalars."""
        made = record_input(batch_size=self._batch_size, name=self._name, **self._attrs)
        if self._batches is None:
            return made
        with name_scope(self._name):
            singles = get("Unpack")(made, num=self._batch_size)
            return [list(singles[i::self._batches]) for i in range(self._batches)]

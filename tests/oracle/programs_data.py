"""Programs of input pipelines: datasets and iterators, readers, parsing, checkpoints."""
from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.ops.registry import get
from tests.oracle.programs import PROGRAMS, after, program

raw = tf.raw_ops
data = tf.data.Dataset
experimental = tf.data.experimental
AUTOTUNE = experimental.AUTOTUNE


def _file(name: str, contents: bytes) -> str:
    path = os.path.join(tempfile.gettempdir(), f"penstock_oracle_{name}")
    with open(path, "wb") as f:
        f.write(contents)
    return path


def taken(dataset: Any, count: int) -> list:
    """The first elements of a dataset, in sequence."""
    iterator = tf.data.make_initializable_iterator(dataset)
    before: Any = [iterator.initializer]
    out: list = []
    for _ in range(count):
        with after(*before):
            element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        before = element
        out += element
    return out


def dataset(count: int, name: str, make: Callable[[], Any]) -> None:
    """Adds a program: the first elements of a dataset."""
    def build() -> list:
        return taken(make(), count)
    build.__name__ = f"dataset_{name}"
    PROGRAMS.append(build)


dataset(3, "range", lambda: data.range(1, 7, 2))
dataset(2, "tensors", lambda: data.from_tensors((tf.constant([1., 2.]), tf.constant("a"))).repeat(2))
dataset(2, "slices", lambda: data.from_tensor_slices({"x": [[1, 2], [3, 4]], "y": ["a", "b"]}))
dataset(2, "sparse", lambda: data.from_sparse_tensor_slices(tf.SparseTensor([[0, 0], [1, 1]], [4., 5.], [2, 3])))
dataset(2, "batch", lambda: data.range(5).batch(2))
dataset(2, "padded", lambda: data.range(1, 4).map(lambda n: tf.fill([n], n)).padded_batch(2, [None]))
dataset(4, "map", lambda: data.range(4).map(lambda x: x * x))
dataset(4, "parallel_map", lambda: data.range(4).map(lambda x: x + 1, num_parallel_calls=2))
dataset(4, "flat_map", lambda: data.range(1, 4).flat_map(lambda n: data.range(n)))
dataset(6, "interleave", lambda: data.range(3).interleave(lambda n: data.from_tensors(n).repeat(2), cycle_length=2))
dataset(6, "parallel_interleave", lambda: data.range(3).interleave(lambda n: data.from_tensors(n).repeat(2), cycle_length=2,
                                                                   num_parallel_calls=2))
dataset(6, "sloppy_interleave", lambda: data.range(3).apply(experimental.parallel_interleave(
    lambda n: data.from_tensors(n).repeat(2), cycle_length=2, sloppy=False)))
dataset(3, "filter", lambda: data.range(9).filter(lambda x: tf.equal(x % 3, 0)))
dataset(3, "take_skip_shard", lambda: data.range(20).skip(2).take(15).shard(3, 1))
dataset(3, "zip_concatenate", lambda: data.zip((data.range(2).concatenate(data.range(5, 7)), data.range(10, 20))))
dataset(1, "shuffled", lambda: data.range(5).shuffle(10, seed=1).batch(5).map(tf.sort))
dataset(1, "shuffled_repeats", lambda: data.range(3).apply(experimental.shuffle_and_repeat(10, 2, seed=1)).batch(6)
        .map(tf.sort))
dataset(3, "cache_prefetch", lambda: data.range(3).cache().prefetch(2))
dataset(2, "window", lambda: data.range(6).window(2, 1).flat_map(lambda d: d.batch(2)))
dataset(3, "unbatch", lambda: data.from_tensor_slices([[1, 2], [3, 4]]).apply(experimental.unbatch()))
dataset(3, "unique", lambda: data.from_tensor_slices([1, 1, 2, 1, 3]).map(lambda x: tf.cast(x, tf.int64))
        .apply(experimental.unique()))
dataset(3, "scan", lambda: data.range(4).apply(experimental.scan(np.int64(0), lambda s, x: (s + x, s + x))))
dataset(2, "take_while", lambda: data.range(9).apply(experimental.take_while(lambda x: x < 2)))
dataset(2, "map_and_batch", lambda: data.range(4).apply(experimental.map_and_batch(lambda x: x * 2, 2)))
dataset(2, "group_by_window", lambda: data.range(8).apply(experimental.group_by_window(
    lambda x: x % 2, lambda k, d: d.batch(3), window_size=3)))
dataset(2, "group_by_reducer", lambda: data.range(6).apply(experimental.group_by_reducer(
    lambda x: x % 2, experimental.Reducer(lambda _: np.int64(0), lambda s, x: s + x, lambda s: s))))
dataset(2, "ignore_errors", lambda: data.from_tensor_slices([1., float("nan"), 2.]).map(
    lambda x: tf.check_numerics(x, "no number")).apply(experimental.ignore_errors()))
dataset(2, "sparse_batch", lambda: data.range(1, 5).map(lambda n: tf.fill([n], n)).apply(
    experimental.dense_to_sparse_batch(2, [5])))
dataset(4, "chosen", lambda: experimental.choose_from_datasets([data.range(3), data.range(10, 13)],
                                                              data.from_tensor_slices(np.array([0, 1, 1, 0]))))
dataset(3, "text_lines", lambda: tf.data.TextLineDataset(_file("lines.txt", b"one\ntwo\nthree\n")))
dataset(2, "fixed_length", lambda: tf.data.FixedLengthRecordDataset(_file("fixed", b"HHaabbccF"), 2, 2, 1))
dataset(2, "csv", lambda: experimental.CsvDataset(_file("table.csv", b"1,a,0.5\n2,b,1.5\n"), [tf.int32, tf.string, tf.float32]))
dataset(1, "files", lambda: data.list_files(_file("listed.txt", b""), shuffle=False))
dataset(2, "random", lambda: experimental.RandomDataset(seed=4))
dataset(2, "counter", lambda: experimental.Counter(3, 2))


def _records() -> str:
    path = os.path.join(tempfile.gettempdir(), "penstock_oracle_records")
    with tf.python_io.TFRecordWriter(path) as writer:
        for text in (b"first", b"second", b""):
            writer.write(text)
    return path


dataset(3, "records", lambda: tf.data.TFRecordDataset(_records()))


@program
def one_shot_iterator() -> list:
    iterator = tf.data.make_one_shot_iterator(data.range(3).map(lambda x: x + 1))
    first = iterator.get_next()
    with after(first):
        return [first, iterator.get_next()]


@program
def iterator_by_handle() -> list:
    chosen = tf.data.make_initializable_iterator(data.range(5, 9), shared_name="handled")
    again = tf.data.Iterator.from_string_handle(chosen.string_handle(), tf.int64, [])
    with after(chosen.initializer):
        return [again.get_next()]


@program
def single_element() -> list:
    return [experimental.get_single_element(data.range(10).batch(4).take(1)),
            data.range(5).reduce(np.int64(1), lambda s, x: s + x), experimental.cardinality(data.range(10).batch(4))]


@program
def optionals() -> list:
    some = experimental.Optional.from_value(tf.constant([1., 2.]))
    none = raw.OptionalNone()
    iterator = tf.data.make_initializable_iterator(data.range(1))
    with after(iterator.initializer):
        got = experimental.get_next_as_optional(iterator)
    return [some.has_value(), some.get_value(), raw.OptionalHasValue(optional=none), got.has_value(), got.get_value()]


@program
def old_datasets() -> list:
    types, shapes = [tf.int64], [[]]
    base = raw.RangeDataset(start=np.int64(0), stop=np.int64(6), step=np.int64(1), output_types=types, output_shapes=shapes)
    batched = raw.BatchDataset(input_dataset=base, batch_size=np.int64(4), output_types=types, output_shapes=[[None]])
    padded = raw.PaddedBatchDataset(input_dataset=batched, batch_size=np.int64(2), padded_shapes=[np.array([-1])],
                                    padding_values=[np.int64(-1)], output_shapes=[[None, None]])
    return list(raw.DatasetToSingleElement(dataset=padded, output_types=types, output_shapes=[[None, None]]))


@program
def datasets_that_pass_on() -> list:
    kept = {"output_types": [tf.int64], "output_shapes": [[]]}
    made = raw.RangeDataset(start=np.int64(3), stop=np.int64(9), step=np.int64(2), **kept)
    made = raw.NonSerializableDataset(input_dataset=made, **kept)
    double = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec([], tf.int64))
    made = raw.ParallelMapDataset(input_dataset=made, other_arguments=[], num_parallel_calls=2, f=double, **kept)
    made = raw.BatchDatasetV2(input_dataset=made, batch_size=np.int64(9), drop_remainder=False, output_types=[tf.int64],
                              output_shapes=[[None]])
    return list(raw.DatasetToSingleElement(dataset=made, output_types=[tf.int64], output_shapes=[[None]]))


KEPT = {"output_types": [tf.int64], "output_shapes": [[]]}
_SETTINGS = {
    "threads": lambda d: raw.PrivateThreadPoolDataset(input_dataset=d, num_threads=np.int64(2), **KEPT),
    "parallelism": lambda d: raw.MaxIntraOpParallelismDataset(input_dataset=d, max_intra_op_parallelism=np.int64(1), **KEPT),
    "model": lambda d: raw.ModelDataset(input_dataset=d, **KEPT),
    "optimize": lambda d: raw.OptimizeDataset(input_dataset=d, optimizations=tf.constant([], tf.string), **KEPT)}


def _with_setting(name: str) -> Callable[[], list]:
    def build() -> list:
        iterator = raw.IteratorV2(shared_name=f"with_{name}", container="", **KEPT)
        source = raw.RangeDataset(start=np.int64(3), stop=np.int64(9), step=np.int64(2), **KEPT)
        with after(raw.MakeIterator(dataset=_SETTINGS[name](source), iterator=iterator)):
            return list(raw.IteratorGetNext(iterator=iterator, **KEPT))
    build.__name__ = f"dataset_with_{name}"
    return build


PROGRAMS.extend(map(_with_setting, _SETTINGS))


@program
def datasets_of_files() -> list:
    fixed = raw.FixedLengthRecordDataset(filenames=_file("fixed2", b"aabb"), header_bytes=np.int64(0), record_bytes=np.int64(4),
                                         footer_bytes=np.int64(0), buffer_size=np.int64(0))
    matching = raw.MatchingFilesDataset(patterns=tf.constant([_file("matched.txt", b"")]))
    kept = {"output_types": [tf.string], "output_shapes": [[]]}
    path = os.path.join(tempfile.mkdtemp(), "written")
    text = raw.TensorSliceDataset(components=[tf.constant(["x", "y"])], output_shapes=[[]])
    written = raw.DatasetToTFRecord(input_dataset=text, filename=path, compression_type="")
    with after(written):
        contents = raw.ReadFile(filename=path)
    return [*raw.DatasetToSingleElement(dataset=fixed, **kept), *raw.DatasetToSingleElement(dataset=matching, **kept), contents]


def _database() -> str:
    path = os.path.join(tempfile.gettempdir(), "penstock_oracle.sqlite")
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("create table t (a integer, b text, c real)")
        db.executemany("insert into t values (?, ?, ?)", [(1, "x", 0.5), (2, "y", 1.5)])
        db.commit()
    return path


dataset(2, "sql", lambda: experimental.SqlDataset("sqlite", _database(), "select a, b, c from t order by a",
                                                  (tf.int32, tf.string, tf.float64)))


# -- readers -----------------------------------------------------------------------------------------------------------
def _queue_of(path: str, old: bool, name: str) -> tuple:
    made = get("FIFOQueue" if old else "FIFOQueueV2")(component_types=[tf.string], shapes=[[]], capacity=5, shared_name=name)
    put = get("QueueEnqueueMany" if old else "QueueEnqueueManyV2")(made, [tf.constant([path])])
    with after(put):
        return made, get("QueueClose" if old else "QueueCloseV2")(made)


def reader(kind: str, make: Callable[[], str], count: int, **attrs: Any) -> None:
    """Adds a program for a kind of reader, with references and with handles."""
    def build_with(old: bool) -> Callable[[], list]:
        def build() -> list:
            v2 = "" if old else "V2"
            r = get(kind + v2)(shared_name=f"{kind}{v2}", **attrs)
            q, ready = _queue_of(make(), old, f"{kind}{v2}_queue")
            out: list = []
            before: list = [ready]
            for _ in range(count - 1):
                with after(*before):
                    before = list(get("ReaderRead" + v2)(r, q))
                out += before
            with after(*before):
                before = list(get("ReaderReadUpTo" + v2)(r, q, 1))
            out += before
            with after(*before):
                out += [get("ReaderNumRecordsProduced" + v2)(r), get("ReaderNumWorkUnitsCompleted" + v2)(r)]
            with after(*out[-2:]):
                reset = get("ReaderReset" + v2)(r)
            with after(reset):
                return [*out, get("ReaderNumRecordsProduced" + v2)(r)]
        build.__name__ = f"{kind}{'_old' if old else ''}"
        return build
    PROGRAMS.extend([build_with(True), build_with(False)])


reader("TextLineReader", lambda: _file("read.txt", b"one\ntwo\n"), 2)
reader("WholeFileReader", lambda: _file("read.txt", b"one\ntwo\n"), 1)
reader("FixedLengthRecordReader", lambda: _file("read_fixed", b"aabbcc"), 3, record_bytes=2)
reader("TFRecordReader", _records, 2)
reader("IdentityReader", lambda: "an element", 1)


@program
def reader_state() -> list:
    out = []
    for old in (True, False):
        v2 = "" if old else "V2"
        r = get("IdentityReader" + v2)(shared_name=f"state{v2}")
        q, ready = _queue_of("work", old, f"state_queue{v2}")
        with after(ready):
            read = get("ReaderRead" + v2)(r, q)
        with after(*read):
            state = get("ReaderSerializeState" + v2)(r)
        with after(state):
            restored = get("ReaderRestoreState" + v2)(r, state)
        with after(restored):
            out.append(get("ReaderNumRecordsProduced" + v2)(r))
    return out


# -- parsing -----------------------------------------------------------------------------------------------------------
def _example(**features: Any) -> bytes:
    made = tf.train.Example()
    for name, values in features.items():
        kind = made.features.feature[name]
        if isinstance(values[0], bytes):
            kind.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            kind.float_list.value.extend(values)
        else:
            kind.int64_list.value.extend(values)
    return made.SerializeToString()


FEATURES = {"x": [1.0, 2.0], "n": [3], "s": [b"a", b"b"]}


@program
def parsed_examples() -> list:
    serialized = tf.constant([_example(**FEATURES), _example(x=[5.0, 6.0], n=[7])])
    found = tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([2], tf.float32), "n": tf.io.VarLenFeature(tf.int64),
                                             "s": tf.io.VarLenFeature(tf.string),
                                             "d": tf.io.FixedLenFeature([], tf.int64, default_value=9)})
    one = tf.io.parse_single_example(serialized[0], {"x": tf.io.FixedLenFeature([2], tf.float32),
                                                     "s": tf.io.VarLenFeature(tf.string)})
    return tf.nest.flatten([found, one], expand_composites=True)


@program
def parsed_examples_by_vectors() -> list:
    serialized = tf.constant([_example(**FEATURES), _example(x=[5.0, 6.0], n=[7])])
    return tf.nest.flatten(raw.ParseExampleV2(
        serialized=serialized, names=tf.constant([], tf.string), sparse_keys=tf.constant(["n"]), dense_keys=tf.constant(["x"]),
        ragged_keys=tf.constant(["s"]), dense_defaults=[tf.constant([], tf.float32)], num_sparse=1, sparse_types=[tf.int64],
        ragged_value_types=[tf.string], ragged_split_types=[tf.int64], dense_shapes=[[2]]))


@program
def parsed_sequences() -> list:
    made = tf.train.SequenceExample()
    made.context.feature["c"].int64_list.value.append(4)
    for values in ([1.0], [2.0]):
        made.feature_lists.feature_list["f"].feature.add().float_list.value.extend(values)
    text = tf.constant(made.SerializeToString())
    given = ({"c": tf.io.FixedLenFeature([], tf.int64)}, {"f": tf.io.FixedLenSequenceFeature([1], tf.float32)})
    return tf.nest.flatten([tf.io.parse_single_sequence_example(text, *given),
                            tf.io.parse_sequence_example(tf.stack([text, text]), *given)], expand_composites=True)


# -- checkpoints -------------------------------------------------------------------------------------------------------
@program
def checkpoint() -> list:
    prefix = os.path.join(tempfile.mkdtemp(), "model")
    parts = [raw.ShardedFilename(basename=prefix, shard=i, num_shards=2) for i in range(2)]
    values = [tf.reshape(tf.range(6.), [2, 3]), tf.constant(["text"])]
    saved = [raw.SaveV2(prefix=p, tensor_names=[n], shape_and_slices=[""], tensors=[v])
             for p, n, v in zip(parts, ("a", "b"), values, strict=True)]
    with after(*saved):
        merged = raw.MergeV2Checkpoints(checkpoint_prefixes=tf.stack(parts), destination_prefix=prefix)
    with after(merged):
        found = raw.RestoreV2(prefix=prefix, tensor_names=["a", "b", "a"], shape_and_slices=["", "", "2 3 0,2:1,2"],
                              dtypes=[tf.float32, tf.string, tf.float32])
    return [*found, tf.strings.substr(parts[1], -19, 19), tf.strings.substr(raw.ShardedFilespec(basename=prefix, num_shards=2),
                                                                           -14, 14)]


@program
def old_checkpoint() -> list:
    name = os.path.join(tempfile.mkdtemp(), "model")
    with after(raw.Save(filename=name, tensor_names=["a", "b"], data=[tf.constant([1., 2.]), tf.constant([3])])):
        first = [raw.Restore(file_pattern=name, tensor_name="a", dt=tf.float32),
                 raw.RestoreSlice(file_pattern=name, tensor_name="b", shape_and_slice="", dt=tf.int32)]
    sliced = raw.SaveSlices(filename=name + "2", tensor_names=["c"], shapes_and_slices=["4 0,2"], data=[tf.constant([7., 8.])])
    with after(sliced):
        return [*first, raw.RestoreSlice(file_pattern=name + "2", tensor_name="c", shape_and_slice="4 0,2", dt=tf.float32)]

"""Positions of iterators: saved at every element of many pipelines, and restored into another iterator."""
import numpy as np
import pytest
import torch

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.base import errors
from penstock._src.data.pipelines import codec
from penstock._src.ops.registry import get

D = tf.data.Dataset
text = tf.strings.as_string
PIPELINES = {
    "range": lambda tmp: D.range(9),
    "tensors": lambda tmp: D.from_tensors(3).repeat(4),
    "slices": lambda tmp: D.from_tensor_slices({"a": np.arange(6.), "b": [b"x"] * 6}),
    "map": lambda tmp: D.range(9).map(lambda x: x * 2),
    "strings": lambda tmp: D.range(9).map(lambda x: text(x)),
    "filter": lambda tmp: D.range(9).filter(lambda x: x % 3 > 0),
    "parallel": lambda tmp: D.range(9).map(lambda x: text(x), num_parallel_calls=3),
    "flat": lambda tmp: D.range(5).flat_map(lambda x: D.range(x)),
    "interleave": lambda tmp: D.range(1, 5).interleave(lambda x: D.from_tensors(x).repeat(x), 2, 2),
    "threads": lambda tmp: D.range(1, 5).interleave(lambda x: D.from_tensors(x).repeat(x), 2, 2, num_parallel_calls=2),
    "batch": lambda tmp: D.range(9).batch(2).unbatch().padded_batch(2, []),
    "window": lambda tmp: D.range(9).window(3, 2).flat_map(lambda w: w.batch(3)),
    "shuffle": lambda tmp: D.range(9).shuffle(4, seed=5).repeat(2),
    "shuffle strings": lambda tmp: D.range(9).map(lambda x: text(x)).shuffle(4, seed=5).repeat(2),
    "again": lambda tmp: D.range(5).apply(tf.data.experimental.shuffle_and_repeat(3, 2, seed=1)),
    "choose": lambda tmp: D.zip((D.range(9).skip(2), D.range(9).shard(2, 1).repeat())).concatenate(D.range(2).enumerate()),
    "scan": lambda tmp: D.range(6).scan(np.int64(0), lambda s, x: (s + x, s + x)).take_while(lambda x: x < 9),
    "groups": lambda tmp: D.range(12).group_by_window(lambda x: x % 3, lambda k, w: w.batch(2), 3),
    "directed": lambda tmp: D.choose_from_datasets([D.range(3), D.range(10, 14)], D.range(2).repeat(3)),
    "unique": lambda tmp: D.from_tensor_slices([1, 2, 1, 3, 2, 4]).unique(),
    "prefetch": lambda tmp: D.range(9).map(lambda x: text(x)).prefetch(2),
    "cache": lambda tmp: D.range(5).map(lambda x: text(x)).cache().repeat(2),
    "file cache": lambda tmp: D.range(5).cache(str(tmp / "cache")),
    "random": lambda tmp: D.random(seed=4).take(6),
    "ragged": lambda tmp: D.from_tensor_slices(tf.ragged.constant([[1, 2], [3], []])).shuffle(3, seed=1).map(
        lambda r: tf.reduce_sum(r)),
    "lines": lambda tmp: tf.data.TextLineDataset([_file(tmp, "a", b"1\n22\r\n333"), _file(tmp, "b", b"x\ny\n")]),
    "fixed": lambda tmp: tf.data.FixedLengthRecordDataset([_file(tmp, "c", b"H" + b"aabbcc" + b"F")], 2, 1, 1),
    "records": lambda tmp: tf.data.TFRecordDataset([_records(tmp)]),
    "csv": lambda tmp: tf.data.experimental.CsvDataset(_file(tmp, "d", b'a,1\n"b\n",2\nc,3\n'), [tf.string, [0]]),
}


def _file(tmp, name, data):
    (tmp / name).write_bytes(data)
    return str(tmp / name)


def _records(tmp):
    with tf.io.TFRecordWriter(str(tmp / "r")) as w:
        for i in range(5):
            w.write(b"x" * i)
    return str(tmp / "r")


def _plain(x):
    return [np.asarray(v.numpy()).tolist() for v in tf.nest.flatten(x)]


@pytest.mark.parametrize("name", PIPELINES)
def test_every_position(name, tmp_path):
    ds = PIPELINES[name](tmp_path)
    whole = [_plain(x) for x in ds]
    assert whole
    for at in range(len(whole) + 1):
        fresh = tmp_path / str(at)
        fresh.mkdir()
        it = iter(PIPELINES[name](fresh))
        got = [_plain(next(it)) for _ in range(at)]
        saved = get("IteratorPosition")(it._iterator_resource)
        del it
        other = iter(PIPELINES[name](fresh))
        get("SetIteratorPosition")(other._iterator_resource, saved)
        assert got + [_plain(x) for x in other] == whole, (name, at)


def test_saver_restores_without_initializing(tmp_path):
    for first in (True, False):
        with tf1.Graph().as_default(), tf1.Session() as sess:
            it = tf1.data.make_initializable_iterator(tf1.data.Dataset.range(10).shuffle(5, seed=3))
            x = it.get_next()
            tf1.add_to_collection(tf1.GraphKeys.SAVEABLE_OBJECTS, tf1.data.experimental.make_saveable_from_iterator(it))
            saver = tf1.train.Saver()
            if first:
                sess.run(it.initializer)
                head = [sess.run(x) for _ in range(4)]
                path = saver.save(sess, str(tmp_path / "model"))
            else:
                saver.restore(sess, path)
                tail = [sess.run(x) for _ in range(6)]
    assert sorted(head + tail) == list(range(10))


@pytest.mark.parametrize("make", [lambda d: d.map(lambda x: tf.random.uniform(()) + tf.cast(x, tf.float32)),
                                  lambda d: d.flat_map(lambda x: D.range(2).map(lambda y: tf.random.uniform(()))),
                                  lambda d: d.map(lambda x: x + tf1.get_variable("v", (), tf.int64, use_resource=True))])
def test_state_outside_of_a_pipeline_is_not_lost_unnoticed(make, tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as sess:
        it = tf1.data.make_initializable_iterator(make(tf1.data.Dataset.range(3)))
        sess.run(tf1.global_variables_initializer())
        sess.run(it.initializer)
        save = tf1.data.experimental.make_saveable_from_iterator
        with pytest.raises(errors.FailedPreconditionError, match="external_state_policy"):
            tf1.train.Saver([save(it)]).save(sess, str(tmp_path / "a"))
        assert tf1.train.Saver([save(it, "ignore")]).save(sess, str(tmp_path / "b"))
        with pytest.raises(ValueError, match="must be one of"):
            save(it, "never")


def test_positions_that_cannot_be_saved():
    it = iter(D.from_generator(lambda: iter([1]), tf.int32))
    next(it)
    with pytest.raises(errors.FailedPreconditionError, match="cannot be saved"):
        get("IteratorPosition")(it._iterator_resource)


def test_codec_refuses_other_bytes():
    rng = np.random.default_rng(0)
    data = codec.encode({"a": [1, 2**80, -0.5, None, True, "é", b"x"], 3: (torch.arange(4.), np.array([b"q"], object)),
                         "z": torch.zeros([2, 0], dtype=torch.bfloat16), "c": torch.tensor(1 + 2j)})
    back = codec.decode(data)
    assert back["a"] == [1, 2**80, -0.5, None, True, "é", b"x"] and back[3][0].tolist() == [0, 1, 2, 3] and back["c"] == 1 + 2j
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(changed))] = rng.integers(256)
        try:
            codec.decode(bytes(changed[:rng.integers(len(changed) + 1)]) if rng.random() < 0.3 else bytes(changed))
        except errors.DataLossError:
            pass


def test_positions_of_another_dataset_are_refused():
    a, b = iter(D.range(3)), iter(D.range(9).shuffle(3).map(lambda x: text(x)))
    with pytest.raises(errors.OpError):
        get("SetIteratorPosition")(b._iterator_resource, get("IteratorPosition")(a._iterator_resource))
    with pytest.raises(errors.DataLossError):
        get("SetIteratorPosition")(a._iterator_resource, "nonsense")


@pytest.mark.parametrize("name", PIPELINES)
def test_a_dataset_as_a_function_that_makes_it(name, tmp_path):
    if name == "ragged":
        pytest.skip("its slices hold ragged values, which no graph can hold")
    ds = PIPELINES[name](tmp_path)
    whole = [_plain(x) for x in ds]
    made = ds._made(ds._trace_variant_creation()(), ds.element_spec)
    assert [_plain(x) for x in made] == whole


def test_a_dataset_as_a_graph():
    written = tf1.GraphDef.FromString(D.range(10).map(lambda x: x + 1).batch(3)._as_serialized_graph().numpy())
    assert {"RangeDataset", "MapDataset"} < {n.op for n in written.node} and len(written.library.function) == 1
    with pytest.raises(errors.FailedPreconditionError, match="stateful"):
        D.range(10).map(lambda _: tf.random.uniform([]))._as_serialized_graph()
    table = tf.Variable(3, dtype=tf.int64)
    with pytest.raises(errors.FailedPreconditionError):
        D.range(3).map(lambda x: x + table)._as_serialized_graph()

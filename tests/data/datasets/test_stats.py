"""Statistics of input pipelines: what aggregators gather from them, and that elements are the same."""
import re

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.base import errors
from penstock._src.graph.messages import Summary

D = tf1.data.Dataset
X = tf1.data.experimental


def measured(ds, prefix=""):
    """A dataset with its own aggregator."""
    options = tf1.data.Options()
    options.experimental_stats.aggregator = X.StatsAggregator()
    options.experimental_stats.prefix = prefix
    return ds.with_options(options), options.experimental_stats.aggregator


def values(aggregator):
    return {v.tag: v for v in Summary.FromString(aggregator.get_summary().numpy()).value}


def found(aggregator, pattern):
    one, = (v for tag, v in values(aggregator).items() if re.fullmatch(pattern, tag))
    return one


def test_latency_and_bytes_of_each_element():
    ds, aggregator = measured(D.range(5).map(lambda x: tf.tile([x], [x])).apply(X.bytes_produced_stats("bytes"))
                              .apply(X.latency_stats("latency")), "p")
    for i, x in enumerate(ds, 1):
        assert x.numpy().tolist() == [i - 1] * (i - 1)
        assert found(aggregator, "p::bytes").histo.num == found(aggregator, "p::latency").histo.num == i
    size, latency = found(aggregator, "p::bytes").histo, found(aggregator, "p::latency").histo
    assert (size.sum, size.min, size.max) == (8 * 10, 0, 32)
    assert sum(size.bucket) == 5 and 0 < latency.min <= latency.max
    np.testing.assert_allclose(size.sum_squares, sum((8 * i) ** 2 for i in range(5)), rtol=1e-6)


def test_nobody_listens():
    assert list(D.range(3).apply(X.latency_stats("a")).apply(X.bytes_produced_stats("b")).as_numpy_iterator()) == [0, 1, 2]


def test_filters_count():
    ds, aggregator = measured(D.range(10).filter(lambda x: x % 3 == 0))
    for n, x in enumerate(ds):
        assert x.numpy() == 3 * n
        assert found(aggregator, r"FilterDataset/_\d+::filtered_elements").simple_value == n + 1
    assert found(aggregator, r"FilterDataset/_\d+::dropped_elements").simple_value == 6
    assert found(aggregator, r".*::execution_time").histo.num == 10


def test_buffers_say_how_full_they_are():
    ds, aggregator = measured(D.range(10).prefetch(2).map(lambda x: x + 1).prefetch(1))
    assert [int(x) for x in ds] == list(range(1, 11))
    by = values(aggregator)
    assert by["PrefetchDataset/_5::buffer_capacity"].simple_value == 2
    assert by["PrefetchDataset/_8::buffer_capacity"].simple_value == by["PrefetchDataset/_8::buffer_size"].simple_value == 1
    histo = by["PrefetchDataset/_8::buffer_utilization"].histo
    assert histo.num == 10 and 0 < histo.min <= histo.max <= 1


@pytest.mark.parametrize("name, make", [
    ("ParallelMapDataset", lambda: D.range(6).map(lambda x: x * 2, num_parallel_calls=2)),
    ("ParallelInterleaveDatasetV.", lambda: D.range(2).interleave(lambda x: D.range(3), cycle_length=2, num_parallel_calls=2)),
    ("MapAndBatchDataset", lambda: D.range(6).apply(X.map_and_batch(lambda x: x * 2, 2)))])
def test_threads(name, make):
    ds, aggregator = measured(make())
    assert [x.numpy().tolist() for x in ds] == [x.numpy().tolist() for x in make()]
    histo = found(aggregator, rf"{name}/_\d+::thread_utilization").histo
    assert histo.num == 6 and 0 <= histo.min <= histo.max <= 1


def test_in_graphs_and_over_several_iterators():
    with tf1.Graph().as_default(), tf1.Session() as sess:
        ds, aggregator = measured(D.range(4).apply(X.latency_stats("a")))
        iterators = [tf1.data.make_initializable_iterator(ds) for _ in range(2)]
        total = iterators[0].get_next() + iterators[1].get_next()
        sess.run([it.initializer for it in iterators])
        assert [sess.run(total) for _ in range(4)] == [0, 2, 4, 6]
        message = Summary.FromString(sess.run(aggregator.get_summary()))
        assert [(v.tag, v.histo.num) for v in message.value] == [("a", 8)]


def test_positions_are_not_saved_with_an_aggregator(tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as sess:
        it = tf1.data.make_initializable_iterator(measured(D.range(4))[0])
        sess.run(it.initializer)
        with pytest.raises(errors.UnimplementedError, match="does not support checkpointing"):
            tf1.train.Saver([X.make_saveable_from_iterator(it)]).save(sess, str(tmp_path / "a"))


def test_aggregators_of_2x_write_events():
    options = tf.data.Options()
    aggregator = options.experimental_stats.aggregator = tf.data.experimental.StatsAggregator()
    ds = tf.data.Dataset.range(3).apply(tf.data.experimental.latency_stats("a")).with_options(options)
    assert len(list(ds)) == 3
    aggregator._summary_writer.close()
    import pathlib
    file, = pathlib.Path(aggregator._logdir).iterdir()
    events = [tf1.Event.FromString(r) for r in tf1.io.tf_record_iterator(str(file))]
    assert [e.summary.value[0].histo.num for e in events[1:]] == [1, 2, 3]


def test_other_objects_are_no_aggregators():
    with pytest.raises(TypeError, match="aggregator"):
        tf1.data.Options().experimental_stats.aggregator = 3

"""Distributed variables, moving averages and summaries: what replicas write, and what is read across them."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.graph import context


def copies(v):
    return [c.numpy().tolist() for c in v.values]


def replica_id():
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("aggregation, expected", [("SUM", 3.0), ("MEAN", 1.5), ("ONLY_FIRST_REPLICA", 1.0)])
def test_writes_in_replicas_are_aggregated(mirrored, traced, aggregation, expected):
    with mirrored.scope():
        v = tf.Variable(10.0, aggregation=tf.VariableAggregation[aggregation])

    def run(method):
        def step():
            getattr(v, method)(replica_id() + 1.0)
            return v.read_value()
        return mirrored.run(step)
    run = tf.function(run) if traced else run
    run("assign_add")
    assert copies(v) == [10.0 + expected] * 2
    run("assign_sub")
    assert copies(v) == [10.0] * 2
    inside = mirrored.experimental_local_results(run("assign"))
    assert copies(v) == [expected] * 2 == [float(x) for x in inside]


def test_writes_without_aggregation_change_the_copy_of_the_replica(mirrored):
    with mirrored.scope():
        v = tf.Variable(1.0, name="v")
    mirrored.run(lambda: v.assign_add(1.0 + replica_id()))
    assert copies(v) == [2.0, 3.0]
    with pytest.raises(ValueError, match="`NONE` variable synchronization mode is not supported"), mirrored.scope():
        tf.Variable(1.0, synchronization=tf.VariableSynchronization.NONE)


def test_writes_without_aggregation_are_refused_in_the_1x_api(mirrored, monkeypatch):
    with mirrored.scope():
        v = tf.Variable(1.0, name="v")
    monkeypatch.setattr(context.process, "eager", False)
    with pytest.raises(ValueError, match="You must specify an aggregation method.*assign_add of 'v:0'"):
        mirrored.run(lambda: v.assign_add(1.0))


def test_writes_of_a_shared_variable_without_aggregation_are_refused():
    shared = tf.distribute.experimental.CentralStorageStrategy(["/cpu:0", "/cpu:1"], "/cpu:0")
    with shared.scope():
        v = tf.Variable(1.0, name="v")
    with pytest.raises(ValueError, match="You must specify an aggregation method.*assign_add of 'v:0'"):
        shared.run(lambda: v.assign_add(1.0))


def test_writes_across_replicas(mirrored):
    with mirrored.scope():
        v = tf.Variable([1.0, 2.0, 3.0])
        v.assign_add([1.0, 1.0, 1.0])
    assert copies(v) == [[2.0, 3.0, 4.0]] * 2
    v.scatter_update(tf.IndexedSlices(tf.constant([9.0]), tf.constant([1])))
    v[2:].assign([7.0])
    tf1.scatter_add(v, [0], [1.0])
    assert copies(v) == [[3.0, 9.0, 7.0]] * 2
    mirrored.extended.update(v, lambda copy, x: copy.assign(x), args=(tf.zeros([3]),))
    assert copies(v) == [[0.0] * 3] * 2 and v.numpy().tolist() == [0.0] * 3


def test_sync_on_read(mirrored):
    with mirrored.scope():
        total, mean = (tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ,
                                   aggregation=tf.VariableAggregation[a]) for a in ("SUM", "MEAN"))

    def step():
        total.assign_add(replica_id() + 1.0)
        mean.assign(replica_id() + 1.0)
        return total.read_value()
    inside = mirrored.experimental_local_results(mirrored.run(step))
    assert [float(x) for x in inside] == [1.0, 2.0]
    assert float(total.read_value()) == 3.0 and float(mean.read_value()) == 1.5 and not total.trainable
    total.assign(8.0)
    assert copies(total) == [4.0, 4.0] and float(total.read_value()) == 8.0
    with pytest.raises(ValueError, match="does not support `assign_add` in cross-replica context"):
        total.assign_add(1.0)


def test_all_replicas_must_make_the_same_variables(mirrored):
    made = []

    def step():
        if tf.distribute.get_replica_context()._local_index == 0 or len(made) > 2:
            made.append(tf.Variable(1.0, name="mine"))
        else:
            made.append(tf.Variable(1.0, name="other"))
    with pytest.raises(RuntimeError, match="Tried to create variable other with mismatching name on device 1"):
        mirrored.run(step)


def test_get_variable_is_shared(mirrored):
    with tf1.Graph().as_default(), mirrored.scope():
        def step():
            with tf1.variable_scope("layer"):
                v = tf1.get_variable("w", [2], initializer=tf1.zeros_initializer())
            return v.name, tf1.constant(1.0, name="c").op.name
        names = mirrored.run(step)
        assert mirrored.experimental_local_results(names[0]) == ("layer/w:0",) * 2 or names[0] == "layer/w:0"
        assert mirrored.experimental_local_results(names[1]) == ("c", "replica_1/c")
        assert [v.name for v in tf1.global_variables()] == ["layer/w:0"]


def test_moving_average(mirrored):
    with tf1.Graph().as_default(), mirrored.scope():
        v = tf1.get_variable("v", initializer=0.0, use_resource=True)
        from penstock._src.training.train.moving_averages import assign_moving_average

        def step():
            return assign_moving_average(v, replica_id() * 2.0 + 1.0, 0.5, zero_debias=False)
        moved = mirrored.run(step)
        with tf1.Session() as sess:
            sess.run(tf1.global_variables_initializer())
            sess.run(list(mirrored.experimental_local_results(moved)))
            assert sess.run(list(v.values)) == [1.0, 1.0]


def test_summaries_of_the_first_replica(mirrored, tmp_path):
    with tf1.Graph().as_default(), mirrored.scope():
        mirrored.run(lambda: tf1.summary.scalar("x", replica_id()))
        assert len(tf1.get_collection(tf1.GraphKeys.SUMMARIES)) == 1
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        mirrored.run(lambda: tf.summary.scalar("y", replica_id() + 5.0, step=1))
    writer.close()
    (path,) = tmp_path.iterdir()
    seen = [tf.make_ndarray(v.tensor) for e in tf1.train.summary_iterator(str(path)) for v in e.summary.value]
    np.testing.assert_allclose(seen, [5.0], rtol=1e-6)


def test_batches_in_turn(mirrored):
    """Datasets from a function: each replica takes a batch; the last ones get none, with no rows."""
    made = mirrored.distribute_datasets_from_function(
        lambda c: tf.data.Dataset.range(10).batch(c.get_per_replica_batch_size(8)))
    seen = [[v.numpy().tolist() for v in mirrored.experimental_local_results(b)] for b in made]
    assert seen == [[[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9], []]]
    with pytest.raises(ValueError, match="7 is not divisible by `num_replicas_in_sync` 2"):
        mirrored.distribute_datasets_from_function(lambda c: tf.data.Dataset.range(9).batch(c.get_per_replica_batch_size(7)))
    with pytest.raises(ValueError, match="Perhaps your input dataset is not batched"):
        mirrored.experimental_distribute_dataset(tf.data.Dataset.range(4))


def test_loops_over_datasets_in_functions(mirrored):
    with mirrored.scope():
        count = tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    @tf.function
    def run(dataset):
        total = tf.constant(0.0)
        for batch in dataset:
            mirrored.run(lambda x: count.assign_add(1.0), args=(batch,))
            total += tf.cast(mirrored.reduce("SUM", batch, axis=0), tf.float32)
        return total
    cut = mirrored.experimental_distribute_dataset(tf.data.Dataset.range(9).batch(4))
    turns = mirrored.distribute_datasets_from_function(lambda c: tf.data.Dataset.range(9).batch(2))
    assert float(run(cut)) == 36.0 and float(count.read_value()) == 3.0
    assert float(run(turns)) == 36.0 and float(count.read_value()) == 6.0


@pytest.mark.parametrize("traced", [False, True])
def test_functions_in_replicas_use_the_copies_of_their_replica(mirrored, traced):
    """Also functions that are traced inside of a function: each replica has a separate trace."""
    with mirrored.scope():
        w = tf.Variable(2.0)
        seen = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ,
                           aggregation=tf.VariableAggregation.SUM, trainable=False)

    @tf.function
    def inner(x):
        seen.assign_add(x)
        return w * x

    @tf.function
    def squared(x):
        return inner(x) ** 2

    def step():
        with tf.GradientTape() as tape:
            loss = squared(replica_id() + 1.0)
        return tape.gradient(loss, w)

    def run():
        return mirrored.run(step)
    gradients = (tf.function(run) if traced else run)()
    assert [float(g) for g in mirrored.experimental_local_results(gradients)] == [4.0, 16.0]
    assert copies(seen) == [1.0, 2.0]


def test_tables_are_saved_with_and_without_copies(mirrored, tmp_path):
    """Functions of objects that a SavedModel calls, such as those that fill tables, are found again."""
    class Tabled(tf.Module):
        def __init__(self, scale):
            super().__init__()
            self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), -1.0)
            self.scale = scale

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def f(self, x):
            return self.table.lookup(x) * self.scale

    with mirrored.scope():
        scale = tf.Variable(3.0)
    for copies in (False, True):
        module = Tabled(scale if copies else 3.0)
        for turn in range(2):                                            # loaded ones are saved again
            path = str(tmp_path / f"{copies}{turn}")
            tf.saved_model.save(module, path)
            module = tf.saved_model.load(path)
            assert module.f(tf.constant(["b", "c", "a"])).numpy().tolist() == [6.0, -3.0, 3.0]


@pytest.mark.parametrize("called", [False, True])
def test_saved_functions_change_their_variables_once(mirrored, called, tmp_path):
    """A SavedModel has one copy of each variable: functions are traced for it, also if they were called before."""
    class Counts(tf.Module):
        def __init__(self):
            super().__init__()
            self.mirrored = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM, trainable=False)
            self.mean = tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ,
                                    aggregation=tf.VariableAggregation.MEAN, trainable=False)

        @tf.function(input_signature=[tf.TensorSpec([])])
        def add(self, x):
            self.mirrored.assign_add(x)
            self.mean.assign_add(x)
            return self.mirrored + 10.0 * self.mean

    with mirrored.scope():
        module = Counts()
    start = 11.0
    if called:
        start = float(module.add(1.0))
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert [float(loaded.add(1.0)), float(loaded.add(1.0))] == [start + 11.0, start + 22.0]
    assert float(loaded.signatures["serving_default"](x=tf.constant(1.0))["output_0"]) == start + 33.0
    assert float(module.add(1.0)) == start + 11.0 and copies(module.mirrored) == [2.0 + called] * 2

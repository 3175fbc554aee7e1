"""Strategies, replicas and merge calls: contexts and results."""
import threading

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

DEVICES = ["/cpu:0", "/cpu:1"]
STRATEGIES = {
    "one_device": lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
    "mirrored_1": lambda: tf.distribute.MirroredStrategy(["/cpu:0"]),
    "mirrored_2": lambda: tf.distribute.MirroredStrategy(DEVICES),
    "mirrored_3": lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1", "/cpu:2"]),
    "central": lambda: tf.distribute.experimental.CentralStorageStrategy(DEVICES, "/cpu:0"),
}


@pytest.fixture(params=STRATEGIES)
def strategy(request):
    return STRATEGIES[request.param]()


def values(strategy, x):
    return [float(v) for v in strategy.experimental_local_results(x)]


def test_contexts(strategy):
    assert not tf.distribute.has_strategy()
    assert tf.distribute.get_replica_context() is not None
    with strategy.scope():
        assert tf.distribute.get_strategy() is strategy
        assert tf.distribute.in_cross_replica_context() and tf.distribute.get_replica_context() is None

        def replica():
            assert not tf.distribute.in_cross_replica_context()
            return tf.distribute.get_replica_context().replica_id_in_sync_group
        ids = strategy.experimental_local_results(strategy.run(replica))
        assert [int(i) for i in ids] == list(range(strategy.num_replicas_in_sync))
    assert not tf.distribute.has_strategy()


def test_run_in_order_without_overlap(strategy):
    """Replicas take turns: between two merge calls, each runs alone, in its order."""
    seen, running = [], []

    def step():
        context = tf.distribute.get_replica_context()
        i = int(context.replica_id_in_sync_group)
        for phase in range(3):
            running.append(i)
            assert len(running) == 1
            seen.append((phase, i))
            running.pop()
            context.merge_call(lambda s, phase: seen.append((phase, "merge")), args=(phase,))
    strategy.run(step)
    n = strategy.num_replicas_in_sync
    assert seen == [(p, who) for p in range(3) for who in (*range(n), "merge")]


@pytest.mark.parametrize("traced", [False, True])
def test_all_reduce(strategy, traced):
    n = strategy.num_replicas_in_sync

    def step():
        context = tf.distribute.get_replica_context()
        x = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
        total, mean = context.all_reduce(tf.distribute.ReduceOp.SUM, x), context.all_reduce("mean", {"a": x})
        return total, mean["a"]

    def run():
        return strategy.run(step)
    total, mean = (tf.function(run) if traced else run)()
    assert values(strategy, total) == [n * (n + 1) / 2] * n
    assert values(strategy, mean) == [(n + 1) / 2] * n


def test_all_reduce_has_a_gradient(strategy):
    n = strategy.num_replicas_in_sync

    def step():
        context = tf.distribute.get_replica_context()
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = context.all_reduce("sum", x) * 2.0
        return tape.gradient(y, x)
    assert values(strategy, strategy.run(step)) == [2.0 * n] * n


def test_reduce(strategy):
    n = strategy.num_replicas_in_sync

    def step():
        return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32) * tf.ones([2])
    per_replica = strategy.run(step)
    np.testing.assert_allclose(strategy.reduce("SUM", per_replica, axis=None), [n * (n - 1) / 2] * 2, rtol=1e-6)
    np.testing.assert_allclose(strategy.reduce("MEAN", per_replica, axis=0), (n - 1) / 2, rtol=1e-6)
    np.testing.assert_allclose(strategy.reduce("SUM", per_replica, axis=0), n * (n - 1), rtol=1e-6)


def test_mean_over_an_axis_counts_rows(mirrored):
    """Replicas with more rows count for more."""
    dataset = mirrored.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(np.arange(3.0)).batch(3))
    batch = next(iter(dataset))
    assert [len(v) for v in mirrored.experimental_local_results(batch)] == [2, 1]
    np.testing.assert_allclose(mirrored.reduce("MEAN", batch, axis=0), 1.0, rtol=1e-6)


def test_arguments_and_results_are_per_replica(mirrored):
    made = mirrored.experimental_distribute_values_from_function(lambda c: tf.constant(float(c.replica_id_in_sync_group)))
    out = mirrored.run(lambda x, scale: {"y": x * scale, "same": scale}, args=(made,), kwargs={"scale": tf.constant(2.0)})
    assert values(mirrored, out["y"]) == [0.0, 2.0]
    assert float(out["same"]) == 2.0
    np.testing.assert_allclose(mirrored.gather(tf.nest.map_structure(lambda x: x, mirrored.run(
        lambda x: tf.reshape(x, [1]), args=(made,))), axis=0), [0.0, 1.0], rtol=1e-6)


def test_errors_come_out_and_threads_end(mirrored):
    before = threading.active_count()

    def fails_in_one():
        context = tf.distribute.get_replica_context()
        if int(context.replica_id_in_sync_group) == 1:
            raise KeyError("in the second replica")
        context.merge_call(lambda s: None)
    with pytest.raises(KeyError, match="second replica"):
        mirrored.run(fails_in_one)

    def fails_in_merge():
        def merge(strategy):
            raise LookupError("in the merge")
        tf.distribute.get_replica_context().merge_call(merge)
    with pytest.raises(LookupError, match="in the merge"):
        mirrored.run(fails_in_merge)
    assert threading.active_count() == before
    assert not tf.distribute.has_strategy()


def test_different_programs_are_refused(mirrored):
    def one_more_merge():
        context = tf.distribute.get_replica_context()
        if int(context.replica_id_in_sync_group) == 0:
            context.all_reduce("sum", tf.constant(1.0))
    with pytest.raises(RuntimeError, match=r"different number of .*merge_call.*replicas \[0\] wait.*replicas \[1\] have ended"):
        mirrored.run(one_more_merge)

    def different_structures():
        i = int(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return {"a": tf.ones([2])} if i == 0 else {"a": tf.ones([2]), "b": tf.zeros([3], tf.int32)}
    with pytest.raises(ValueError, match=r"same structure.* 0: \{a: tensor float32\(2,\)\}; .* 1: .*b: tensor int32\(3,\)"):
        mirrored.run(different_structures)

    def different_shapes():
        i = int(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return tf.distribute.get_replica_context().all_reduce("sum", tf.ones([2 + i]))
    with pytest.raises(ValueError, match=r"reduced \(SUM\): replica 0 has float32\(2,\).*; replica 1 has float32\(3,\)"):
        mirrored.run(different_shapes)


def test_shapes_in_graphs_are_named_with_their_ops(mirrored):
    with tf1.Graph().as_default(), mirrored.scope():
        def step():
            i = tf.distribute.get_replica_context()._local_index
            return tf.distribute.get_replica_context().all_reduce("sum", tf.fill([2 + i], 1.0, name="filled"))
        with pytest.raises(ValueError, match=r"\(2,\) by Fill 'filled'; replica 1 has .*\(3,\) by Fill 'replica_1/filled'"):
            mirrored.run(step)


def test_scopes_do_not_mix():
    a, b = (tf.distribute.MirroredStrategy(DEVICES) for _ in range(2))
    with a.scope(), a.scope():
        with pytest.raises(RuntimeError, match="Mixing different tf.distribute.Strategy objects"), b.scope():
            pass
    with pytest.raises(RuntimeError, match="Mixing different"), a.scope():
        b.run(lambda: None)
    with pytest.raises(ValueError, match="has duplicates"):
        tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])


def test_another_graph_has_no_strategy(mirrored):
    with mirrored.scope():
        with tf1.Graph().as_default():
            assert not tf.distribute.has_strategy()
        assert tf.distribute.has_strategy()


def test_set_strategy(mirrored):
    tf.distribute.experimental_set_strategy(mirrored)
    assert tf.distribute.get_strategy() is mirrored
    assert len(tf.Variable(1.0).values) == 2
    tf.distribute.experimental_set_strategy(None)
    assert not tf.distribute.has_strategy() and not hasattr(tf.Variable(1.0), "values")
    with mirrored.scope(), pytest.raises(RuntimeError, match="Must not be called inside"):
        tf.distribute.experimental_set_strategy(None)


def test_graph_and_session(strategy):
    """A step of a session: variables, gradients and updates of all replicas, in a graph."""
    n = strategy.num_replicas_in_sync
    with tf1.Graph().as_default(), strategy.scope():
        dataset = tf1.data.Dataset.from_tensor_slices(np.arange(12, dtype=np.float32).reshape(12, 1)).batch(6)
        iterator = strategy.make_dataset_iterator(dataset)

        def step(x):
            w = tf1.get_variable("w", [1, 1], initializer=tf1.ones_initializer())
            loss = tf.reduce_sum(x @ w) / 6.0
            return tf1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=tf1.train.get_or_create_global_step())
        train = strategy.group(strategy.experimental_run(step, iterator))
        w = tf1.trainable_variables()
        assert len(w) == 1 and w[0].name == "w:0"
        with tf1.Session() as sess:
            sess.run([tf1.global_variables_initializer(), iterator.initialize()])
            sess.run(train)
            np.testing.assert_allclose(sess.run(w[0]), [[1 - 0.1 * 2.5]], rtol=1e-6)
            sess.run(train)
            for copy in strategy.experimental_local_results(w[0]):
                np.testing.assert_allclose(sess.run(copy), [[1 - 0.1 * (2.5 + 8.5)]], rtol=1e-6)
            assert sess.run(tf1.train.get_global_step()) == 2
            with pytest.raises(tf.errors.OutOfRangeError):
                sess.run(train)
    assert n in (1, 2, 3)


def test_a_dataset_for_each_replica(mirrored):
    options = tf.distribute.InputOptions(experimental_fetch_to_device=False,
                                         experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA)
    seen = []

    def dataset_fn(c):
        seen.append((c.num_input_pipelines, c.input_pipeline_id, c.num_replicas_in_sync))
        return tf.data.Dataset.range(6).shard(c.num_input_pipelines, c.input_pipeline_id).batch(1)
    made = mirrored.distribute_datasets_from_function(dataset_fn, options)
    assert [[x.numpy().tolist() for x in mirrored.experimental_local_results(e)] for e in made] == [
        [[0], [1]], [[2], [3]], [[4], [5]]] and seen == [(2, 0, 2), (2, 1, 2)]
    with pytest.raises(NotImplementedError, match="PER_REPLICA"):
        mirrored.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2), options)
    assert tf.distribute.InputOptions() == (True, tf.distribute.InputReplicationMode.PER_WORKER, False, 1)


def test_the_average_loss_of_whole_numbers_is_not_rounded(mirrored):
    """As TensorFlow 2.21 returns them: float64 for integers, 0 for a batch of nothing."""
    average = tf.nn.compute_average_loss
    whole = average([1, 2, 3, 4, 5], global_batch_size=10)
    assert whole.dtype == tf.float64 and float(whole) == 1.5
    assert float(average([1, 2], sample_weight=[0.5, 0.5], global_batch_size=4)) == 0.25
    empty = average([1.0, 2.0], global_batch_size=0)
    assert empty.dtype == tf.float32 and float(empty) == 0.0
    half = average(tf.constant([1.0, 2.0], tf.float16), sample_weight=[1.0, 2.0], global_batch_size=4)
    assert half.dtype == tf.float16 and float(half) == 1.25
    each = mirrored.run(lambda: average([2, 4]))
    assert values(mirrored, each) == [1.5, 1.5]


def test_all_reduce_of_the_running_replica():
    strategy = tf.distribute.get_strategy()
    summed = strategy.extended._replica_ctx_all_reduce(tf.distribute.ReduceOp.SUM, [tf.constant(2.0)])
    assert [x.numpy() for x in summed] == [2.0]


@pytest.mark.parametrize("cut", [True, False])
def test_an_optional_ends_a_loop_in_a_function(mirrored, cut):
    """Of eleven rows in global batches of four, the last batch has three: its second replica gets one."""
    rows = tf.data.Dataset.range(11)
    data = mirrored.experimental_distribute_dataset(rows.batch(4)) if cut else \
        mirrored.distribute_datasets_from_function(lambda _: rows.batch(2))

    @tf.function
    def total(iterator):
        found, batches = tf.constant(0, tf.int64), 0
        for _ in tf.range(10):
            batch = iterator.get_next_as_optional()
            if not batch.has_value():
                break
            found += mirrored.reduce("SUM", mirrored.run(tf.reduce_sum, args=(batch.get_value(),)), axis=None)
            batches += 1
        return found, batches
    assert [int(x) for x in total(iter(data))] == [55, 3]

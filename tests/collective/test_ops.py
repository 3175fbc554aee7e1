"""Collective ops in graphs, on the logical devices of one task."""
import threading

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.collective.algorithms import ALGORITHMS
from penstock._src.ops.comm import collective
from tests.checks import eventually


def session(graph, cpus=2, **options):
    return tf.Session(graph=graph, config=tf.ConfigProto(device_count={"CPU": cpus}, **options))


def reduced(inputs, hint="auto", merge="Add", final="Div", runs=1):
    n = len(inputs)
    with tf.Graph().as_default() as graph:
        out = []
        for i, x in enumerate(inputs):
            with tf.device(f"/CPU:{i}"):
                out.append(collective.all_reduce(tf.constant(x), n, 1, 1, merge, final, communication_hint=hint))
        with session(graph, n) as sess:
            for _ in range(runs):
                results = sess.run(out)
    return results


@pytest.mark.parametrize("hint", ["auto", "nccl", "gloo", *sorted(ALGORITHMS)])
@pytest.mark.parametrize("n", [2, 3])
def test_reduce(hint, n):
    inputs = [np.linspace(0, 1, 9, dtype=np.float32) * (i + 1) for i in range(n)]
    for result in reduced(inputs, hint, runs=2):
        np.testing.assert_allclose(result, np.mean(inputs, axis=0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("merge, numpy", [("Add", np.add), ("Mul", np.multiply), ("Min", np.minimum), ("Max", np.maximum)])
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int64])
def test_merge_ops_and_types(merge, numpy, dtype):
    inputs = [np.array([[1, 5], [3, -2]], dtype), np.array([[2, 4], [3, 7]], dtype)]
    for result in reduced(inputs, merge=merge, final="Id"):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, numpy(*inputs))


def test_a_scalar_and_nothing():
    assert reduced([0.25, 0.75]) == [0.5, 0.5]
    assert [r.shape for r in reduced([np.zeros((0, 3), np.float32)] * 2)] == [(0, 3)] * 2


def test_several_at_once_on_one_device():
    with tf.Graph().as_default() as graph:
        out = []
        for i in range(2):
            with tf.device(f"/CPU:{i}"):
                x = tf.constant([1.0 + i, 2.0])
                out += [collective.all_reduce(x * k, 2, 1, k, "Add", "Id") for k in range(1, 4)]
        with session(graph) as sess:
            for _ in range(3):
                results = sess.run(out)
    np.testing.assert_array_equal(results, [[3., 4.], [6., 8.], [9., 12.]] * 2)


def test_in_a_loop():
    with tf.Graph().as_default() as graph:
        def body(a, b, i):
            with tf.device("/CPU:0"):
                a = collective.all_reduce(tf.identity(a), 2, 1, 20, "Add", "Id")
            with tf.device("/CPU:1"):
                b = collective.all_reduce(tf.identity(b), 2, 1, 20, "Add", "Id")
            return a, b, i + 1
        out = tf.while_loop(lambda a, b, i: i < 4, body, [tf.constant(1.0), tf.constant(1.0), tf.constant(0)])
        with session(graph) as sess:
            assert list(sess.run(out)) == [16.0, 16.0, 4]


def test_gather_and_broadcast():
    with tf.Graph().as_default() as graph:
        gathered, sent = [], []
        for i in range(3):
            with tf.device(f"/CPU:{i}"):
                x = tf.constant(np.arange(4).reshape(2, 2) + 10 * i)
                gathered.append(collective.all_gather(x, 3, 1, 1))
                if i == 1:
                    sent.append(collective.broadcast_send(x, x.shape, x.dtype, 3, 1, 2))
                else:
                    sent.append(collective.broadcast_recv(x.shape, x.dtype, 3, 1, 2))
        assert gathered[0].shape == (6, 2)
        with session(graph, 3) as sess:
            for _ in range(2):
                for got in sess.run(gathered):
                    np.testing.assert_array_equal(got, np.concatenate([np.arange(4).reshape(2, 2) + 10 * i for i in range(3)]))
                for got in sess.run(sent):
                    np.testing.assert_array_equal(got, [[10, 11], [12, 13]])


def test_second_versions_take_their_keys_as_tensors():
    raw = tf.raw_ops
    with tf.Graph().as_default() as graph:
        key = tf.placeholder(tf.int32, [])
        out = []
        for i in range(2):
            with tf.device(f"/CPU:{i}"):
                x = tf.constant([1.0, 2.0]) + i
                out.append(raw.CollectiveReduceV2(input=x, group_size=2, group_key=1, instance_key=key, ordering_token=[],
                                                  merge_op="Max", final_op="Id"))
                out.append(raw.CollectiveGatherV2(input=x, group_size=2, group_key=1, instance_key=key + 1, ordering_token=[]))
                if i:
                    out.append(raw.CollectiveBcastRecvV2(group_size=2, group_key=1, instance_key=key + 2, shape=[2],
                                                         T=tf.float32))
                else:
                    out.append(raw.CollectiveBcastSendV2(input=x, group_size=2, group_key=1, instance_key=key + 2))
        assert out[1].shape == [4]
        assert out[5].shape == [2]
        with session(graph) as sess:
            results = sess.run(out, {key: 7})
    for i in (0, 3):
        np.testing.assert_array_equal(results[i], [2.0, 3.0])
        np.testing.assert_array_equal(results[i + 1], [1.0, 2.0, 2.0, 3.0])
        np.testing.assert_array_equal(results[i + 2], [1.0, 2.0])


def test_different_shapes_are_an_error_that_names_them_and_the_next_step_works():
    with tf.Graph().as_default() as graph:
        with tf.device("/CPU:0"):
            a = collective.all_gather(tf.constant([1, 2, 3, 4]), 2, 1, 1)
        with tf.device("/CPU:1"):
            b = collective.all_gather(tf.constant([5, 6, 7, 8]), 2, 1, 1)
            c = collective.all_gather(tf.constant([9, 10]), 2, 1, 1)
        with session(graph) as sess:
            for _ in range(2):
                np.testing.assert_array_equal(sess.run([a, b])[0], [1, 2, 3, 4, 5, 6, 7, 8])
                with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch") as info:
                    sess.run([a, c])
                assert "[4]" in info.value.message and "[2]" in info.value.message
                assert "CPU:0" in info.value.message and "CPU:1" in info.value.message


@pytest.mark.parametrize("hint", ["auto", "ring", "gloo"])
def test_different_collectives_and_types_are_an_error(hint):
    with tf.Graph().as_default() as graph:
        with tf.device("/CPU:0"):
            a = collective.all_reduce(tf.constant([1.0, 2.0]), 2, 1, 1, "Add", "Id", communication_hint=hint)
        with tf.device("/CPU:1"):
            b = collective.all_reduce(tf.constant([1.0, 2.0]), 2, 1, 1, "Max", "Id", communication_hint=hint)
            c = collective.all_reduce(tf.constant([1, 2]), 2, 1, 1, "Add", "Id", communication_hint=hint)
        with session(graph) as sess:
            with pytest.raises(tf.errors.InvalidArgumentError, match="Different collectives.*Max"):
                sess.run([a, b])
            with pytest.raises(tf.errors.InvalidArgumentError, match="float32.*int32|int32.*float32"):
                sess.run([a, c])


def test_a_member_that_never_comes_is_named_in_time():
    with tf.Graph().as_default() as graph:
        with tf.device("/CPU:0"):
            a = collective.all_reduce(tf.constant([1.0, 2.0]), 2, 1, 1, "Add", "Id", communication_hint="ring")
        with tf.device("/CPU:1"):
            b = collective.all_reduce(tf.constant([1.0, 2.0]), 2, 1, 1, "Add", "Id", communication_hint="ring")
        with session(graph, operation_timeout_in_ms=300) as sess:
            with pytest.raises(tf.errors.DeadlineExceededError, match=r"group 1 needs 2 members, and only \S+CPU:0 came"):
                sess.run(a)
            options = tf.RunOptions(timeout_in_ms=30000)
            np.testing.assert_array_equal(sess.run([a, b], options=options), [[2.0, 4.0]] * 2)
            with pytest.raises(tf.errors.DeadlineExceededError) as info:
                sess.run(a)
            for word in ("CollectiveReduce", "instance 1", "[2]", "CPU:1 did not enter it"):
                assert word in info.value.message
            with pytest.raises(tf.errors.OpError):          # it was given up by the other: then both continue
                sess.run(b)
            np.testing.assert_array_equal(sess.run([a, b], options=options), [[2.0, 4.0]] * 2)


def test_cancelling():
    with tf.Graph().as_default() as graph:
        with tf.device("/CPU:0"):
            a = collective.all_reduce(tf.constant([1.0, 2.0]), 2, 1, 1, "Add", "Id")
        sess = session(graph)
        error = []

        def run():
            try:
                sess.run(a)
            except tf.errors.OpError as e:
                error.append(e)
        thread = threading.Thread(target=run)
        thread.start()
        assert eventually(sess.running_steps)
        sess.close()
        thread.join(60)
        assert not thread.is_alive()
        assert isinstance(error[0], tf.errors.CancelledError)


def test_arguments_are_checked():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Device assignment required"):
            collective.all_reduce(tf.constant(1.0), 2, 1, 1, "Add", "Id")
        with tf.device("/CPU:0"):
            x = tf.constant([1.0])
            with pytest.raises(ValueError, match="at least 2"):
                collective.all_gather(x, 1, 1, 1)
            with pytest.raises(ValueError, match="Shape of broadcast_send"):
                collective.broadcast_send(x, [2], tf.float32, 2, 1, 1)
            with pytest.raises(ValueError, match="Type of broadcast_send"):
                collective.broadcast_send(x, x.shape, tf.int32, 2, 1, 1)
            bad = collective.all_reduce(x, 2, 1, 1, "Add", "Id", communication_hint="pigeon")
        with session(None) as sess, pytest.raises(tf.errors.InvalidArgumentError, match="Unknown reduction algorithm 'pigeon'"):
            sess.run(bad)                                   # at once: the other member never comes


def test_a_group_has_one_size():
    with tf.Graph().as_default() as graph:
        with tf.device("/CPU:0"):
            a = collective.all_gather(tf.constant([1]), 2, 1, 1)
        with tf.device("/CPU:1"):
            b = collective.all_gather(tf.constant([1]), 3, 1, 1)
        with session(graph) as sess, pytest.raises(tf.errors.InvalidArgumentError, match="group 1"):
            sess.run([a, b])



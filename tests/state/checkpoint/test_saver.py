"""tf.train.Saver: round trips, names, shards, old checkpoints, damage, saving during training."""
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.base.waits import Locks
from penstock._src.ops.state.state import VariableResource


@pytest.fixture(autouse=True)
def graph():
    tf.disable_v2_behavior()
    with tf.Graph().as_default() as g:
        yield g


def files(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2])
def test_round_trip(tmp_path, resource, sharded, version):
    a = tf.get_variable("a", initializer=np.arange(6.0).reshape(2, 3), use_resource=resource)
    b = tf.get_variable("b/c", initializer=np.array([1, 2], np.int64), use_resource=resource)
    saver = tf.train.Saver(sharded=sharded, write_version=version)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "m"), global_step=3)
        sess.run([a.assign(tf.zeros_like(a)), b.assign(b * 0)])
        saver.restore(sess, path)
        assert sess.run(a).tolist() == [[0, 1, 2], [3, 4, 5]] and sess.run(b).tolist() == [1, 2]
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    assert tf.train.list_variables(path) == [("a", [2, 3]), ("b/c", [2])]
    assert tf.train.load_variable(str(tmp_path), "b/c").tolist() == [1, 2]


def test_partitioned_variables_are_saved_as_one(tmp_path):
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(3)):
        v = tf.get_variable("v", [7, 2], tf.float64)
    with tf.Session() as sess:
        sess.run(v.assign(np.arange(14.0).reshape(7, 2)))
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    assert tf.train.load_variable(path, "v").tolist() == np.arange(14.0).reshape(7, 2).tolist()
    with tf.Graph().as_default(), tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)), tf.Session() as sess:
        v = tf.get_variable("v", [7, 2], tf.float64)
        tf.train.Saver().restore(sess, path)
        assert sess.run(v.as_tensor()).tolist() == np.arange(14.0).reshape(7, 2).tolist()


def test_names_can_be_mapped_and_parts_restored(tmp_path):
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = tf.train.Saver({"x": a, "y": b}).save(sess, str(tmp_path / "m"))
        sess.run([a.assign(0.0), b.assign(0.0)])
        tf.train.Saver({"y": a}).restore(sess, path)
        assert sess.run([a, b]) == [2.0, 0.0]
        with pytest.raises(errors.NotFoundError, match="(?s)Restoring from checkpoint failed.*Key xx not found"):
            tf.train.Saver({"xx": a}).restore(sess, path)


def test_old_checkpoints_go(tmp_path):
    tf.Variable(1.0)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(5):
            saver.save(sess, str(tmp_path / "m"), global_step=i)
    suffixes = (".data-00000-of-00001", ".index", ".meta")
    assert files(tmp_path) == ["checkpoint", *(f"m-{i}{s}" for i in (3, 4) for s in suffixes)]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [os.path.basename(p) for p in state.all_model_checkpoint_paths] == ["m-3", "m-4"]


def test_a_damaged_checkpoint_restores_nothing(tmp_path):
    a, b = tf.Variable(tf.ones([100]), name="a"), tf.Variable(tf.ones([100]), name="b")
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "m"))
        data = tmp_path / "m.data-00000-of-00001"
        whole = bytearray(data.read_bytes())
        whole[-1] ^= 1
        data.write_bytes(whole)
        sess.run([a.assign(a * 0), b.assign(b * 0)])
        with pytest.raises(errors.DataLossError, match="bytes of b"):
            saver.restore(sess, path)
        assert not sess.run(a).any() and not sess.run(b).any()


def test_asynchronous_saves_hold_the_values_of_their_moment(tmp_path):
    v = tf.Variable(tf.zeros([1000, 100]))
    saver, update = tf.train.Saver(), v.assign_add(tf.ones([1000, 100]))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found = []
        for i in range(5):
            found.append(saver.save(sess, str(tmp_path / "m"), global_step=i, asynchronous=True))
            sess.run(update)
        saver.wait()
        for i, path in enumerate(found):
            assert (tf.train.load_variable(path, "Variable") == i).all()
    assert tf.train.latest_checkpoint(str(tmp_path)) == found[-1]


def test_errors_of_asynchronous_saves_come_with_the_next_call(tmp_path):
    tf.Variable(1.0)
    saver = tf.train.Saver()
    (tmp_path / "file").write_text("")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saver.save(sess, str(tmp_path / "file" / "m"), asynchronous=True, write_meta_graph=False)
        with pytest.raises(errors.FailedPreconditionError):
            saver.wait()
        saver.save(sess, str(tmp_path / "m"))


def test_a_consistent_save_is_of_one_moment(tmp_path):
    """Threads move amounts from one variable to others, in several steps; the sum of what is saved is never off."""
    variables = [tf.Variable(tf.zeros([200, 100])) for _ in range(4)]
    order = tf.no_op()
    for v in variables:                                  # each waits for the one before: values never increase in order
        with tf.control_dependencies([order]):
            order = v.assign_add(tf.ones_like(v)).op
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        stop = threading.Event()

        def train():
            while not stop.is_set():
                sess.run(order)
        thread = threading.Thread(target=train)
        thread.start()
        try:
            for i in range(15):
                path = saver.save(sess, str(tmp_path / "m"), global_step=i, write_meta_graph=False, consistent=True)
                names = sorted(n for n, _ in tf.train.list_variables(path))
                values = [np.unique(tf.train.load_variable(path, n)) for n in ["Variable", "Variable_1", "Variable_2",
                                                                               "Variable_3"]]
                assert len(names) == 4 and all(len(v) == 1 for v in values)
                levels = [int(v[0]) for v in values]
                assert levels == sorted(levels, reverse=True) and levels[0] - levels[-1] <= 1, levels
        finally:
            stop.set()
            thread.join()


class Recorded:
    """A lock that notes when it is acquired."""

    def __init__(self, order):
        self._order, self._lock = order, threading.RLock()

    def acquire(self, **options):
        self._order.append(id(self))
        return self._lock.acquire(**options)

    def release(self):
        self._lock.release()

    __enter__ = acquire
    __exit__ = lambda self, *error: self.release()  # noqa: E731


def test_a_consistent_save_locks_variables_in_the_order_of_updates(tmp_path):
    """Another order than that of a step could make both wait for each other."""
    order = []
    locks = sorted([Recorded(order) for _ in range(6)], key=id, reverse=True)
    variables = [tf.get_variable(f"v{i}", [2], use_resource=True) for i in range(6)]
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        held = [sess._resources.lookup("", v.op.name, VariableResource) for v in variables]
        for resource, lock in zip(held, locks, strict=True):
            resource.lock = lock
        order.clear()
        saver.save(sess, str(tmp_path / "m"), write_meta_graph=False, consistent=True)
        assert order[:6] == sorted(map(id, locks))
        order.clear()
        with Locks(held * 2):
            assert order == sorted(map(id, locks))


def test_locks_are_released_after_an_interrupt():
    class Broken:
        lock = Recorded([])
    Broken.lock.acquire = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    others = [SimpleNamespace(lock=threading.Lock()) for _ in range(20)]
    with pytest.raises(KeyboardInterrupt), Locks([*others, Broken()]):
        pass
    assert not any(other.lock.locked() for other in others)


def test_a_meta_graph_brings_everything_back(tmp_path):
    x = tf.placeholder(tf.float32, [None], name="x")
    w = tf.Variable([2.0], name="w")
    y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w), [0, x])[1]
    tf.add_to_collection("y", y)
    tf.add_to_collection("text", "hello")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    with tf.Graph().as_default() as g, tf.Session() as sess:
        saver = tf.train.import_meta_graph(path + ".meta", import_scope="there")
        saver.restore(sess, path)
        y = tf.get_collection("y")[0]
        assert sess.run(y, {"there/x:0": [1.0, 3.0]}).tolist() == [8.0, 24.0]
        assert g.get_collection("text") == ["there/hello"]
        gradient = tf.gradients(y, tf.trainable_variables())[0]
        assert sess.run(gradient, {"there/x:0": [1.0]}).tolist() == [12.0]


def test_memory_file_system():
    v = tf.Variable(3.0)
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, "memory://saver/m", global_step=1)
        sess.run(v.assign(0.0))
        assert tf.train.latest_checkpoint("memory://saver") == path == "memory://saver/m-1"
        saver.restore(sess, path)
        assert sess.run(v) == 3.0


def test_shard_numbers_are_scalars():
    with tf.Graph().as_default(), tf.Session() as sess:
        count = tf.placeholder(tf.int32)
        names = [tf.raw_ops.ShardedFilename(basename="a", shard=1, num_shards=count),
                 tf.raw_ops.ShardedFilespec(basename="a", num_shards=count)]
        assert sess.run(names, {count: 3}) == [b"a-00001-of-00003", b"a-?????-of-00003"]
        for name in names:
            with pytest.raises(tf.errors.InvalidArgumentError, match="must be a scalar"):
                sess.run(name, {count: [3]})

"""Supervisors, and the devices of replicas."""
import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster.device_setter import GreedyLoadBalancingStrategy, byte_size_load_fn


def test_a_supervised_session_saves_and_goes_on(tmp_path):
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        more = tf.assign_add(step, 1)
        sv = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0)
        with sv.managed_session() as sess:
            for _ in range(3):
                sess.run(more)
            sv.saver.save(sess, sv.save_path, global_step=sv.global_step)
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        with tf.train.Supervisor(logdir=str(tmp_path)).managed_session() as sess:
            assert sess.run(step) == 3
    assert (tmp_path / "graph.pbtxt").exists()


def test_an_exception_of_the_loop_comes_out(tmp_path):
    with tf.Graph().as_default():
        tf.constant(1.0)
        sv = tf.train.Supervisor(logdir=str(tmp_path))
        with pytest.raises(ValueError, match="in the loop"), sv.managed_session():
            raise ValueError("in the loop")
        assert sv.should_stop()


def test_variables_go_to_parameter_servers_in_turn():
    cluster = tf.train.ClusterSpec({"ps": ["a:1", "b:1"], "worker": ["c:1"]})
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
        first, second, third = (tf.get_variable(n, [4]) for n in "abc")
        total = first + second
    assert [v.device for v in (first, second, third)] == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]
    assert total.device == "/job:worker"


def test_variables_go_where_there_is_room():
    strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(2, ps_strategy=strategy)):
        sizes = (("a", 100, False), ("b", 10, True), ("c", 10, False))
        made = [tf.get_variable(n, [size], use_resource=r) for n, size, r in sizes]
    assert [v.device for v in made] == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1"]

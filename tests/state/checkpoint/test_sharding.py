"""Checkpoints in several data files, divided by a policy: the files of TensorFlow 2.21, and the values back."""
import os

import numpy as np
import pytest

import penstock as tf

POLICY = tf.train.experimental.MaxShardSizePolicy


def saved(folder, policy, **variables):
    checkpoint = tf.train.Checkpoint(**variables)
    path = checkpoint.write(str(folder / "ck"), options=tf.train.CheckpointOptions(experimental_sharding_callback=policy))
    return checkpoint, path, sorted(f for f in os.listdir(folder) if ".data-" in f)


@pytest.mark.parametrize("size, files", [(16, 9), (40, 4), (100, 2), (1000, 1)])       # recorded from TensorFlow 2.21
def test_files_have_at_most_the_size(tmp_path, size, files):
    v = tf.Variable(np.arange(24, dtype=np.float32).reshape(4, 6))
    w, s = tf.Variable(np.arange(3)), tf.Variable(["ab", "cdefgh"])
    checkpoint, path, made = saved(tmp_path, POLICY(size), v=v, w=w, s=s)
    assert len(made) == files
    for variable in (v, w, s):
        variable.assign(tf.zeros_like(variable))
    checkpoint.read(path).assert_consumed()
    np.testing.assert_array_equal(v.numpy(), np.arange(24).reshape(4, 6))
    assert w.numpy().tolist() == [0, 1, 2] and s.numpy().tolist() == [b"ab", b"cdefgh"]


def test_rows_larger_than_a_shard_get_their_own(tmp_path):
    v = tf.Variable(tf.reshape(tf.range(12, dtype=tf.float64), (3, 4)))
    checkpoint, path, made = saved(tmp_path, POLICY(4), v=v)
    assert len(made) > 2
    v.assign(tf.zeros_like(v))
    checkpoint.read(path)
    np.testing.assert_array_equal(v.numpy(), np.arange(12.0).reshape(3, 4))


def test_one_task_has_one_shard(tmp_path):
    _, _, made = saved(tmp_path, tf.train.experimental.ShardByTaskPolicy(), a=tf.Variable(1.0), b=tf.Variable(2.0))
    assert made == ["ck.data-00000-of-00001"]


class Custom(tf.train.experimental.ShardingCallback):
    description = "for tests"

    def __init__(self, change):
        self.change = change

    def __call__(self, tensors):
        return self.change([{t.checkpoint_key: {t.slice_spec: t.tensor}} for t in tensors])


def test_a_policy_of_the_program(tmp_path):
    v = tf.Variable([1.0, 2.0])
    checkpoint, path, made = saved(tmp_path, Custom(lambda shards: shards), v=v)
    assert len(made) == 2
    v.assign([0.0, 0.0])
    checkpoint.read(path)
    assert v.numpy().tolist() == [1.0, 2.0]


def each(change):
    return lambda shards: [{k: {p: change(t) for p, t in v.items()} for k, v in s.items()} for s in shards]


@pytest.mark.parametrize("change", [
    lambda s: s[1:], lambda s: [*s, {"new": {"": tf.constant(1.0)}}], each(lambda t: tf.zeros([1, 1, 7], t.dtype)),
    each(lambda t: tf.zeros(t.shape, tf.int32))])
def test_a_policy_may_not_change_what_is_saved(tmp_path, change):
    with pytest.raises(RuntimeError, match="sharding callback"):
        saved(tmp_path, Custom(change), v=tf.Variable([1.0, 2.0]))

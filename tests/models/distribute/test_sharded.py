"""Variables in shards: values, slices, updates, lookups, checkpoints with other numbers of shards."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.models.distribute.sharded import ShardedVariable

WHOLE = np.arange(14, dtype=np.float32).reshape(7, 2)


def cut(*rows, whole=WHOLE):
    ends = np.cumsum(rows)
    return ShardedVariable([tf.Variable(whole[e - n:e]) for n, e in zip(rows, ends, strict=True)], "table")


def test_the_whole():
    v = cut(3, 2, 2)
    assert v.shape.as_list() == [7, 2] and v.dtype == tf.float32 and len(v.variables) == 3 and len(list(v)) == 3
    np.testing.assert_array_equal(v.numpy(), WHOLE)
    np.testing.assert_array_equal(tf.convert_to_tensor(v).numpy(), WHOLE)
    np.testing.assert_array_equal((2.0 * v + v - 1.0).numpy(), 3 * WHOLE - 1)
    np.testing.assert_array_equal(tf.matmul(v, tf.ones([2, 1])).numpy(), WHOLE @ np.ones((2, 1)))
    np.testing.assert_array_equal(tf.function(lambda: v @ tf.ones([2, 1]))().numpy(), WHOLE @ np.ones((2, 1)))
    assert (v > 3.0).numpy().sum() == (WHOLE > 3).sum() and (-v).numpy()[1, 0] == -2.0


@pytest.mark.parametrize("index", [0, 6, -1, -7, slice(None), slice(1, 6), slice(3, 5), slice(5, 2), slice(-3, None),
                                   slice(None, None, 2), slice(1, None, 3), slice(None, None, -1), (slice(2, 6), 1), (4, 1),
                                   (slice(None), slice(0, 1))], ids=str)
def test_slices_are_those_of_arrays(index):
    np.testing.assert_array_equal(cut(3, 2, 2)[index].numpy(), WHOLE[index])


def test_a_slice_reads_only_its_shards(monkeypatch):
    v = cut(3, 2, 2)
    read = []
    for i, shard in enumerate(v.variables):
        monkeypatch.setattr(shard, "_read_variable_op", lambda i=i, old=shard._read_variable_op: read.append(i) or old())
    v[3:5]
    assert set(read) == {1}
    with pytest.raises(IndexError, match="Row 7"):
        v[7]


def test_updates():
    v = cut(3, 2, 2)
    assert v.assign(WHOLE + 1) is v
    v.assign_add(np.ones_like(WHOLE))
    v.assign_sub(tf.ones([7, 2]) * 2.0)
    np.testing.assert_array_equal(v.numpy(), WHOLE)
    expected = WHOLE.copy()
    v.scatter_add(tf.IndexedSlices(tf.ones([3, 2]), [6, 0, 4]))
    expected[[6, 0, 4]] += 1
    v.scatter_update(tf.IndexedSlices([[9.0, 8.0]], [2]))
    expected[2] = [9, 8]
    v.batch_scatter_update(tf.IndexedSlices([[5.0, 6.0], [3.0, 4.0]], [5, 1]))
    expected[[5, 1]] = [[5, 6], [3, 4]]
    v.scatter_max(tf.IndexedSlices([[100.0, 0.0]], [3]))
    expected[3] = [100, 7]
    np.testing.assert_array_equal(v.numpy(), expected)
    with pytest.raises(ValueError, match="incompatible"):
        v.assign(np.zeros((6, 2), np.float32))
    with pytest.raises(ValueError, match="1D"):
        v.scatter_add(tf.IndexedSlices(tf.ones([1, 1, 2]), [[1]]))
    with pytest.raises(TypeError, match="IndexedSlices"):
        v.scatter_sub(tf.ones([2]))


def test_lookups_and_their_gradients():
    v = cut(3, 2, 2)
    ids = tf.constant([[6, 0], [3, 6]])
    np.testing.assert_array_equal(tf.nn.embedding_lookup(v, ids).numpy(), WHOLE[ids.numpy()])
    np.testing.assert_array_equal(v.sparse_read([5, 1]).numpy(), WHOLE[[5, 1]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.embedding_lookup(v, ids) ** 2)
    found = np.concatenate([tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, v.variables)])
    expected = np.zeros_like(WHOLE)
    np.add.at(expected, ids.numpy().ravel(), 2 * WHOLE[ids.numpy().ravel()])
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(NotImplementedError, match="do not divide the rows evenly"):
        cut(1, 6).sparse_read([0])


def test_the_whole_has_no_gradient():
    v = cut(3, 4)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.convert_to_tensor(v))
    with pytest.raises(AttributeError, match=r"no attribute 'handle'.*variable\.variables"):
        tape.gradient(loss, [v])


def test_mistakes():
    with pytest.raises(TypeError, match="non-empty list"):
        ShardedVariable([])
    with pytest.raises(ValueError, match="same dtype"):
        ShardedVariable([tf.Variable([1.0]), tf.Variable([1])])
    with pytest.raises(ValueError, match="first axis"):
        ShardedVariable([tf.Variable([[1.0]]), tf.Variable([[1.0, 2.0]])])
    with pytest.raises(ValueError, match="SaveSliceInfo"):
        ShardedVariable(cut(3, 4).variables)


@pytest.mark.parametrize("before, after", [((3, 2, 2), (7,)), ((4, 3), (3, 2, 2)), ((7,), (4, 3)), (None, (4, 3)),
                                           ((4, 3), None)])
def test_checkpoints_with_other_numbers_of_shards(tmp_path, before, after):
    saved = tf.Variable(WHOLE) if before is None else cut(*before)
    path = tf.train.Checkpoint(v=saved).save(str(tmp_path / "c"))
    key = "v/.ATTRIBUTES/VARIABLE_VALUE"
    assert dict(tf.train.list_variables(path))[key] == [7, 2]
    np.testing.assert_array_equal(tf.train.load_checkpoint(path).get_tensor(key), WHOLE)
    zeros = np.zeros_like(WHOLE)
    restored = tf.Variable(zeros) if after is None else cut(*after, whole=zeros)
    tf.train.Checkpoint(v=restored).restore(path).assert_consumed()
    np.testing.assert_array_equal(restored.numpy(), WHOLE)

"""Maps of tensors: values of dtype variant, with gradients."""
import pytest

import penstock as tf

ops = tf.raw_ops


def two():
    m = ops.TensorMapInsert(input_handle=ops.EmptyTensorMap(), key=1.0, value=[2.0])
    return ops.TensorMapInsert(input_handle=m, key=2.0, value=[3.0])


def test_maps_are_values():
    m = two()
    other = ops.TensorMapErase(input_handle=m, key=1.0, value_dtype=tf.float32)
    assert int(ops.TensorMapSize(input_handle=m)) == 2 and int(ops.TensorMapSize(input_handle=other)) == 1
    assert not bool(ops.TensorMapHasKey(input_handle=other, key=1.0))
    assert ops.TensorMapLookup(input_handle=m, key=1.0, value_dtype=tf.float32).numpy().tolist() == [2.0]
    assert ops.TensorMapStackKeys(input_handle=m, key_dtype=tf.float32).numpy().tolist() == [1.0, 2.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-existent key"):
        ops.TensorMapLookup(input_handle=other, key=1.0, value_dtype=tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="requested dtype"):
        ops.TensorMapLookup(input_handle=m, key=1.0, value_dtype=tf.int32)


@pytest.mark.parametrize("traced", [False, True])
def test_gradients_go_through_maps(traced):
    def f(a, b):
        m = ops.TensorMapInsert(input_handle=ops.EmptyTensorMap(), key="a", value=a)
        m = ops.TensorMapInsert(input_handle=m, key="b", value=b)
        x = ops.TensorMapLookup(input_handle=m, key="a", value_dtype=tf.float32)
        y = ops.TensorMapLookup(input_handle=m, key="b", value_dtype=tf.float32)
        return x * y * x
    f = tf.function(f) if traced else f
    a, b = tf.constant(3.0), tf.constant(5.0)
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        out = f(a, b)
    assert [float(g) for g in tape.gradient(out, [a, b])] == [30.0, 9.0]

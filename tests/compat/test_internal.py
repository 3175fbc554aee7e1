"""What libraries of TensorFlow's ecosystem ask for beyond the public API, without those libraries."""
import numpy as np
import pytest

import penstock as tf


class Celsius(tf.__internal__.types.Tensor):
    """A class of a library that converts itself."""

    def __init__(self, value):
        self.value = value

    def __tf_tensor__(self, dtype=None, name=None):
        return tf.convert_to_tensor(self.value, dtype, name=name)


def test_objects_convert_themselves():
    x = Celsius([1.5, 2.5])
    assert tf.is_tensor(x)
    np.testing.assert_array_equal(tf.convert_to_tensor(x), [1.5, 2.5])
    np.testing.assert_array_equal(x.value + tf.constant([1.0, 1.0]), [2.5, 3.5])
    assert tf.add(x, x).dtype == tf.float32
    assert tf.convert_to_tensor(Celsius(3), tf.float64).dtype == tf.float64

    @tf.function
    def doubled():
        return tf.multiply(Celsius(4.0), 2.0)
    assert doubled() == 8.0


def test_what_converts_itself_must_give_a_tensor():
    class Wrong:
        def __tf_tensor__(self, dtype=None, name=None):
            return "text"
    with pytest.raises(RuntimeError, match="non-Tensor"):
        tf.convert_to_tensor(Wrong())


def test_matmul_in_a_wider_type():
    a = tf.constant(np.full((2, 300), 100), tf.int8)
    product = tf.matmul(a, a, transpose_b=True, output_type=tf.int32)
    assert product.dtype == tf.int32
    np.testing.assert_array_equal(product, np.full((2, 2), 3_000_000))


def test_composites_have_one_base():
    base = tf.__internal__.CompositeTensor
    sparse = tf.sparse.from_dense([[0, 1], [2, 0]])
    ragged = tf.ragged.constant([[1], [2, 3]])
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    assert all(isinstance(x, base) for x in (sparse, ragged, slices))
    assert not isinstance(tf.constant(1), base)
    assert len(tf.nest.flatten(sparse, expand_composites=True)) == 3


def test_plain_variables_belong_to_no_distributed_one():
    assert not hasattr(tf.Variable(1.0), "_distributed_container")
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        assert hasattr(tf.Variable(1.0).values[0], "_distributed_container")


def test_updates_in_a_replica_meet_in_a_merge_call():
    for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0"])):
        with strategy.scope():
            v = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)

        def step(v=v, strategy=strategy):
            strategy.extended.update(v, lambda copy, x: copy.assign_add(x), args=(tf.constant(2.0),))
        tf.function(strategy.run)(step)
        assert v.numpy() == 3.0
        assert tf.__internal__.distribute.strategy_supports_no_merge_call() is True


def test_maybe_merge_call_without_a_strategy_calls_at_once():
    strategy = tf.distribute.get_strategy()
    assert tf.__internal__.distribute.interim.maybe_merge_call(lambda s, x: (s, x), strategy, 5) == (strategy, 5)


def test_tpu_names_are_types_that_raise_when_used():
    assert not isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
    assert issubclass(tf.distribute.TPUStrategy, tf.distribute.Strategy)
    with pytest.raises(tf.errors.UnimplementedError, match="no TPUs"):
        tf.distribute.TPUStrategy()
    with pytest.raises(tf.errors.UnimplementedError):
        tf.tpu.experimental.embedding.TableConfig(10, 4)
    with pytest.raises(ValueError):
        tf.distribute.cluster_resolver.TPUClusterResolver()


def test_nest_of_libraries():
    nest = tf.__internal__.nest
    assert nest.list_to_tuple([1, [2, {"a": [3]}]]) == (1, (2, {"a": (3,)}))
    assert nest.sequence_like({"b": 1, "a": 2}, [3, 4]) == {"b": 4, "a": 3}
    assert nest.is_mapping({}) and not nest.is_mapping([])
    assert nest.flatten_up_to([0, 0], [[1, 2], [3]]) == [[1, 2], [3]]


def test_tracking_of_libraries():
    class Holder(tf.__internal__.tracking.AutoTrackable):
        @tf.__internal__.tracking.no_automatic_dependency_tracking
        def __init__(self):
            self.plain = [1]
    holder = Holder()
    assert type(holder.plain) is list
    holder.parts = [tf.Variable(1.0)]
    assert type(holder.parts) is not list and len(holder._checkpoint_dependencies) == 1

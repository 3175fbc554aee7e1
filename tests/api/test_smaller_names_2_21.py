"""Small functions of TensorFlow 2.21: their results and errors."""
from __future__ import annotations

import io

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1


def test_tables_from_datasets():
    words = tf.data.Dataset.from_tensor_slices(["a", "b", "c"])
    keys = tf.constant(["c", "a", "x"])
    table = tf.data.experimental.index_table_from_dataset(words)
    assert table.lookup(keys).numpy().tolist() == [2, 0, -1]
    assert tf.data.experimental.index_table_from_dataset(words, vocab_size=2).lookup(keys).numpy().tolist() == [-1, 0, -1]
    bucket = tf.data.experimental.index_table_from_dataset(words, num_oov_buckets=1)
    assert bucket.lookup(keys).numpy().tolist() == [2, 0, 3]
    pairs = tf.data.Dataset.zip((words, tf.data.Dataset.from_tensor_slices(["x", "y", "z"])))
    assert tf.data.experimental.table_from_dataset(pairs, default_value="n/a").lookup(keys).numpy().tolist() == [
        b"z", b"x", b"n/a"]
    for bad in ({"num_oov_buckets": -1}, {"vocab_size": 0}):
        with pytest.raises(ValueError, match="num_oov_buckets|vocab_size"):
            tf.data.experimental.table_from_dataset(pairs, **bad)
    with pytest.raises(ValueError, match="size 2"):
        tf.data.experimental.table_from_dataset(words)


def test_hints_of_shards_are_filled():
    dataset = tf.data.Dataset.range(6).shard(tf.data.experimental.SHARD_HINT, tf.data.experimental.SHARD_HINT).map(
        lambda x: x + 10)
    with pytest.raises(tf.errors.FailedPreconditionError, match="HINT"):
        next(iter(dataset))
    filled = tf.raw_ops.AutoShardDataset(input_dataset=dataset._variant_tensor, num_workers=2, index=1, auto_shard_policy=3,
                                         output_types=[tf.int64], output_shapes=[tf.TensorShape([])])
    found = tf.data.experimental.from_variant(filled, tf.TensorSpec([], tf.int64))
    assert [int(x) for x in found] == [11, 13, 15]


def test_numpy_iterators():
    found = tf.data.Dataset.range(2).as_numpy_iterator()
    assert isinstance(found, tf.data.NumpyIterator) and iter(found) is found
    assert [int(x) for x in found] == [0, 1]


def test_options_of_datasets():
    options = tf.data.Options()
    options.autotune.autotune_algorithm = tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB
    options.experimental_service.pinned = True
    assert isinstance(options.experimental_service, tf.data.experimental.ServiceOptions)
    assert [int(x) for x in tf.data.Dataset.range(2).with_options(options)] == [0, 1]


def test_configuration():
    config = tf.config.experimental
    assert config.get_device_policy() == "silent"
    config.set_device_policy("warn")
    with pytest.raises(tf.errors.UnimplementedError, match="explicit"):
        config.set_device_policy("explicit")
    with pytest.raises(ValueError, match="device_policy"):
        config.set_device_policy("loud")
    config.set_synchronous_execution(False)
    assert not config.get_synchronous_execution()
    config.set_synchronous_execution(None)
    assert config.get_synchronous_execution()


def test_device_filters_choose_the_tasks_of_a_cluster():
    from penstock._src.models.distribute.connect import _within
    filters = tf.config.experimental.ClusterDeviceFilters()
    filters.set_device_filters("worker", 0, ["/job:ps", "/job:worker/replica:0/task:0"])
    spec = tf.train.ClusterSpec({"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1"]})
    own = tf.train.ClusterSpec({"ps": {0: "a:1", 1: "b:1"}, "worker": {0: "c:1"}})
    assert _within(spec, filters.of_task("worker", 0)) == own
    assert _within(spec, filters.of_task("worker", 1)) == spec
    with pytest.raises(TypeError, match="strings"):
        filters.set_device_filters("worker", 0, [1])
    with pytest.raises(ValueError, match="ClusterDeviceFilters"):
        tf.config.experimental_connect_to_cluster(spec, cluster_device_filters="ps")


def test_state_of_eager_execution():
    eager = tf.__internal__.eager_context
    with tf.device("/cpu:0"):
        assert "cpu:0" in eager.get_device_name().lower()
    assert eager.get_config().allow_soft_placement == bool(tf.config.get_soft_device_placement())
    assert not eager.get_executor().is_async()
    assert tf.__internal__.get_enclosing_xla_context() is None and not tf.__internal__.is_tfrt_enabled()
    assert isinstance(tf.data.Dataset.range(1), tf.__internal__.types.data.Dataset)
    tf.test.experimental.sync_devices()
    with tf1.Graph().as_default(), pytest.raises(RuntimeError, match="Eager"):
        tf.test.experimental.sync_devices()


def test_types_of_functions():
    double = tf.function(lambda x: 2 * x)
    concrete = double.get_concrete_function(tf.TensorSpec([], tf.float32))
    for f in (double, concrete):
        assert isinstance(f, tf.types.experimental.Callable) and not isinstance(f, tf.types.experimental.AtomicFunction)
    assert not isinstance(len, tf.types.experimental.Callable)


def test_devices_of_variables_in_saved_models(tmp_path):
    module = tf.Module()
    module.v = tf.Variable(1.0)
    policy = tf.saved_model.experimental.VariablePolicy
    assert policy.from_obj("SAVE_VARIABLE_DEVICES") is policy.SAVE_VARIABLE_DEVICES and policy.from_obj(None) is policy.NONE
    with pytest.raises(ValueError, match="VariablePolicy"):
        policy.from_obj("all")
    devices = []
    for name in (None, "save_variable_devices"):
        tf.saved_model.save(module, str(tmp_path / str(name)), options=tf.saved_model.SaveOptions(
            experimental_variable_policy=name))
        graph = tf.__internal__.saved_model.parse_saved_model(str(tmp_path / str(name))).meta_graphs[0]
        devices += [node.variable.device for node in graph.object_graph_def.nodes if node.WhichOneof("kind") == "variable"]
    assert devices[0] == "" and devices[1].endswith("CPU:0")


def test_structures_as_messages():
    message = tf.__internal__.saved_model.encode_structure({"a": (1, tf.TensorShape([2, None]))})
    assert tf.__internal__.saved_model.decode_proto(message) == {"a": (1, tf.TensorShape([2, None]))}


def test_webp_images():
    from PIL import Image
    pixels = (np.arange(60) * 4 % 256).astype(np.uint8).reshape(4, 5, 3)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "WEBP", lossless=True)
    for channels in (0, 3):
        np.testing.assert_array_equal(tf.io.decode_webp(data.getvalue(), channels=channels), pixels[None])
    for channels in (1, 4):
        with pytest.raises(tf.errors.InvalidArgumentError, match="channels"):
            tf.image.decode_webp(data.getvalue(), channels=channels)
    with pytest.raises(tf.errors.InvalidArgumentError, match="WEBP"):
        tf.io.decode_webp(b"abc")


def test_quantization_with_a_gradient_inside_of_the_range():
    x, low, high = tf.constant([[-1.5, 0.2, 3.0], [0.1, 2.0, -0.3]]), tf.constant(-1.0), tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch([x, low, high])
        y = tf.quantization.quantize_and_dequantize_v2(x, low, high, range_given=True)
    np.testing.assert_allclose(y, [[-1.496063, 0.2047244, 2.0], [0.09448819, 2.0, -0.2992126]], rtol=1e-6)   # TensorFlow's
    found = tape.gradient(y, [x, low, high])
    np.testing.assert_array_equal(found[0], [[0, 1, 0], [1, 1, 1]])
    assert float(found[1]) == float(found[2]) == 0.0


def test_products_with_a_type_of_results():
    x, y = tf.constant([[100, 100]], tf.int8), tf.constant([[100], [100]], tf.int8)
    assert tf.raw_ops.BatchMatMulV3(x=x, y=y, Tout=tf.int32).numpy().tolist() == [[20000]]


def test_crops_chosen_by_a_seed():
    common = {"image_size": [40, 50, 3], "bounding_boxes": [[[0.1, 0.2, 0.6, 0.9]]], "min_object_covered": 0.9}
    first, again, other = (tf.image.stateless_sample_distorted_bounding_box(seed=s, **common) for s in ([1, 2], [1, 2], [1, 3]))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    top, left, bottom, right = first[2].numpy()[0, 0]
    inside = (min(bottom, 0.6) - max(top, 0.1)) * (min(right, 0.9) - max(left, 0.2))
    assert inside >= 0.9 * 0.5 * 0.7 - 1e-6


def test_truncated_normal_numbers_by_a_seed():
    found = tf.raw_ops.StatelessParameterizedTruncatedNormal(
        shape=[2000, 2], seed=[1, 2], means=[0.0, 5.0], stddevs=[1.0, 2.0], minvals=[-1.0, 4.0], maxvals=[1.0, 9.0]).numpy()
    assert found.min(0)[0] >= -1 and found.max(0)[0] <= 1 and found.min(0)[1] >= 4 and found.max(0)[1] <= 9
    np.testing.assert_allclose(found.mean(0), [0.0, 5.891], atol=0.1)         # of the distributions
    with pytest.raises(tf.errors.InvalidArgumentError, match="must end with"):
        tf.raw_ops.StatelessParameterizedTruncatedNormal(shape=[2, 3], seed=[1, 2], means=[0.0, 1.0], stddevs=1.0, minvals=-1.0,
                                                         maxvals=1.0)

"""What libraries take from TensorFlow's private modules: lists of tensors, sets of tensors, types of variables, messages."""
import gc
import importlib
import inspect
import os
import sys
import types

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import penstock as tf
from penstock._src.compat.programs import guess, importer, message_pool, standalone_keras


@pytest.fixture(autouse=True)
def in_place():
    with importer.in_place("v2"):
        yield


def _module(name):
    return importlib.import_module(f"tensorflow.python.{name}")


def test_lists_of_tensors():
    list_ops = _module("ops.list_ops")
    made = list_ops.empty_tensor_list([2], tf.float32)
    made = list_ops.tensor_list_push_back(made, [1.0, 2.0])
    made = list_ops.tensor_list_push_back(made, [3.0, 4.0])
    assert list_ops.tensor_list_length(made).numpy() == 2
    np.testing.assert_array_equal(list_ops.tensor_list_stack(made, tf.float32), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(list_ops.tensor_list_concat(made, tf.float32, [2]), [1, 2, 3, 4])
    made = list_ops.tensor_list_set_item(made, 0, [9.0, 9.0])
    np.testing.assert_array_equal(list_ops.tensor_list_get_item(made, 0, tf.float32), [9, 9])
    np.testing.assert_array_equal(list_ops.tensor_list_gather(made, [1, 0], tf.float32), [[3, 4], [9, 9]])
    rest, last = list_ops.tensor_list_pop_back(made, tf.float32)
    np.testing.assert_array_equal(last, [3, 4])
    assert list_ops.tensor_list_length(rest).numpy() == 1


def test_lists_of_tensors_from_tensors():
    list_ops = _module("ops.list_ops")
    rows = list_ops.tensor_list_from_tensor([[1.0], [2.0]], tf.TensorShape([None]))
    np.testing.assert_array_equal(list_ops.tensor_list_stack(rows, tf.float32), [[1], [2]])
    parts = list_ops.tensor_list_split([1.0, 2.0, 3.0], [None], [1, 2])
    np.testing.assert_array_equal(list_ops.tensor_list_get_item(parts, 1, tf.float32), [2, 3])
    placed = list_ops.tensor_list_scatter([[5.0], [6.0]], [1, 0], [1])
    np.testing.assert_array_equal(list_ops.tensor_list_stack(placed, tf.float32), [[6], [5]])
    placed = list_ops.tensor_list_scatter([[7.0]], [0], input_handle=placed)
    np.testing.assert_array_equal(list_ops.tensor_list_stack(placed, tf.float32), [[7], [5]])
    reserved = list_ops.tensor_list_reserve(None, 3, tf.int32)
    assert list_ops.tensor_list_length(reserved).numpy() == 3


def test_sets_compare_by_identity():
    identity = _module("util.object_identity")
    a, b = tf.constant([1, 2]), tf.constant([1, 2])
    found = identity.ObjectIdentitySet([a])
    assert a in found and b not in found
    found.add(a)
    found.update([b])
    assert len(found) == 2 and any(x is b for x in found)
    found.discard(a)
    assert list(found) == [b] and len(identity.ObjectIdentitySet([a, b]).difference([a])) == 1
    known = identity.ObjectIdentityDictionary()
    known[a], known[b] = "a", "b"
    assert known[a] == "a" and len(known) == 2 and a.ref() == identity.Reference(a)
    del known[a]
    assert a not in known


def test_weak_sets_keep_nothing_alive():
    identity = _module("util.object_identity")

    class Thing:
        pass
    kept, lost = Thing(), Thing()
    found = identity.ObjectIdentityWeakSet([kept, lost])
    known = identity.ObjectIdentityWeakKeyDictionary()
    known[kept], known[lost] = 1, 2
    assert lost in found and known[lost] == 2
    del lost
    gc.collect()
    assert list(found) == [kept] and len(known) == 1 and known[kept] == 1


def test_type_of_a_variable():
    spec_class = _module("ops.resource_variable_ops").VariableSpec
    v = tf.Variable([1.0, 2.0])
    spec = spec_class.from_value(v)
    assert repr(spec) == "VariableSpec(shape=(2,), dtype=tf.float32, trainable=True, alias_id=None)"
    assert spec == spec_class([2], tf.float32) and spec != spec_class([2], trainable=False)
    assert spec.is_compatible_with(v) and not spec.is_compatible_with(tf.constant([1.0, 2.0]))
    assert tf.nest.flatten([spec, v], expand_composites=True)[0] is spec
    same = spec._from_components(spec._to_components(v))
    same.assign([3.0, 4.0])
    np.testing.assert_array_equal(v.numpy(), [3, 4])

    @tf.function
    def add():
        return spec._from_components([v.handle]).assign_add([1.0, 1.0])
    np.testing.assert_array_equal(add(), [4, 5])
    np.testing.assert_array_equal(v.numpy(), [4, 5])


def test_structures_of_saved_models():
    assert tf.io.decode_proto is not None                  # another function of this name is loaded
    coder = _module("saved_model.nested_structure_coder")
    spec = {"a": tf.TensorSpec([None, 2], tf.int32, "x")}
    assert coder.decode_proto(coder.encode_structure(spec)) == spec


def test_small_functions_of_framework_ops():
    ops = _module("framework.ops")
    assert len({ops.uid() for _ in range(5)}) == 5
    assert ops.name_from_scope_name("a/b/") == "a/b" and ops.name_from_scope_name("a") == "a"
    assert ops.numpy_text(tf.constant([1, 2]), is_repr=True) == "array([1, 2], dtype=int32)"
    sparse = tf.sparse.from_dense([0, 1])
    assert ops.convert_to_tensor_or_composite(sparse) is sparse
    assert ops.convert_to_tensor_or_composite([1.5]).dtype == tf.float32
    read = _module("util.variable_utils").convert_variables_to_tensors({"v": tf.Variable(2.0), "n": 3})
    assert isinstance(read["v"], tf.Tensor) and read["n"] == 3


def test_names_of_ragged_types():
    registry = _module("framework.type_spec_registry")
    assert registry.get_name(tf.RaggedTensorSpec) == "tf.RaggedTensorSpec"
    assert registry.lookup("tf.TensorArraySpec") is tf.TensorArraySpec
    partition = _module("ops.ragged.row_partition").RowPartitionSpec
    assert registry.get_name(partition) == "tf.RowPartitionSpec"


def _generated_file():
    """What protoc writes for a library: a message with fields of two of TensorFlow's messages, and one of the library's."""
    file = descriptor_pb2.FileDescriptorProto(name="penstock_test/request.proto", package="tensorflow.penstock_test",
                                              syntax="proto3")
    file.dependency.extend(["tensorflow/core/framework/tensor.proto", "tensorflow/core/framework/types.proto",
                            "tensorflow/core/example/example.proto"])
    part = file.message_type.add(name="Part")
    part.field.add(name="text", number=1, type=9, label=1)
    message = file.message_type.add(name="Request")
    message.field.add(name="tensor", number=1, type=11, label=1, type_name=".tensorflow.TensorProto")
    message.field.add(name="dtype", number=2, type=14, label=1, type_name=".tensorflow.DataType")
    message.field.add(name="part", number=3, type=11, label=1, type_name=".tensorflow.penstock_test.Part")
    message.field.add(name="examples", number=4, type=11, label=3, type_name=".tensorflow.Example")
    return file.SerializeToString()


def test_generated_messages_have_fields_of_ours(monkeypatch):
    monkeypatch.setattr(descriptor_pool, "Default", descriptor_pool.Default)      # restored afterwards
    importlib.import_module("tensorflow.core.framework.tensor_pb2")
    pool = descriptor_pool.Default()
    message_pool.prepare()
    assert descriptor_pool.Default() is pool
    file = pool.AddSerializedFile(_generated_file())
    request = message_factory.GetMessageClass(file.message_types_by_name["Request"])()
    request.tensor.CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    request.part.text, request.dtype = "x", tf.int32.as_datatype_enum
    request.examples.add().features.feature["a"].int64_list.value.append(3)
    again = type(request).FromString(request.SerializeToString())
    np.testing.assert_array_equal(tf.make_ndarray(again.tensor), [1, 2])
    assert again.part.text == "x" and again.dtype == 3
    example = tf.train.Example.FromString(again.examples[0].SerializeToString())
    assert list(example.features.feature["a"].int64_list.value) == [3]


def test_keras_may_be_the_installed_tf_keras(monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_KERAS", "2")
    made = {}
    inner = [f"tf_keras.api._v{n}{rest}" for n in (1, 2) for rest in ("", ".keras", ".keras.layers")]
    for name in ("tf_keras", "tf_keras.api", *inner):
        made[name] = types.ModuleType(name)
        made[name].__path__ = []
        monkeypatch.setitem(sys.modules, name, made[name])
    two, one = made["tf_keras.api._v2.keras"], made["tf_keras.api._v1.keras"]
    two.layers, one.layers = made["tf_keras.api._v2.keras.layers"], made["tf_keras.api._v1.keras.layers"]
    two.layers.Dense = one.layers.Dense = object
    theirs = importlib.import_module("tensorflow")
    assert theirs.keras is two and theirs.compat.v1.keras is one
    assert importlib.import_module("tensorflow.keras.layers").Dense is object
    assert importlib.import_module("tensorflow.compat.v1.keras.layers").Dense is object


def test_modules_of_ragged_functions():
    ragged = _module("ops.ragged.ragged_factory_ops").constant([[1, 2], [3]])
    assert _module("ops.ragged.ragged_math_ops").reduce_sum(ragged, axis=1).numpy().tolist() == [3, 3]
    mapped = _module("ops.ragged.ragged_map_ops").map_fn(tf.reduce_sum, ragged, fn_output_signature=tf.int32)
    assert mapped.numpy().tolist() == [3, 3]


@pytest.mark.parametrize("legacy, chosen", [("1", "2"), ("0", "")])
def test_program_that_imports_both_kerases(tmp_path, monkeypatch, legacy, chosen):
    program = tmp_path / "program.py"
    program.write_text("import tensorflow as tf\nimport tf_keras\nmodel = tf.keras.Sequential()\n")
    monkeypatch.setenv("PENSTOCK_RUN_KERAS", "")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
    (tmp_path / "installed" / "tf_keras").mkdir(parents=True)
    (tmp_path / "installed" / "tf_keras" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "installed")
    standalone_keras.share(guess.guess(program).two_kerases)
    assert os.environ["PENSTOCK_RUN_KERAS"] == chosen


def test_decorated_function_has_the_arguments_that_are_declared():
    make = _module("util.tf_decorator").make_decorator
    spec = inspect.FullArgSpec(["x", "training"], "rest", "more", (False,), ["k"], {"k": 3}, {})

    def target(x):
        return x
    made = make(target, lambda *args, **kwargs: (args, kwargs), decorator_argspec=spec)
    assert str(inspect.signature(made)) == "(x, training=False, *rest, k=3, **more)"

    class Layer:
        def call(self, x):
            return x
    bound = inspect.FullArgSpec(["self", "x", "training"], None, None, (True,), [], None, {})
    made = make(Layer().call, lambda x, training=True: x, decorator_argspec=bound)
    assert str(inspect.signature(made)) == "(x, training=True)"
    assert tf.function(made)(tf.constant(2.0)).numpy() == 2


def test_combinations_of_strategies():
    combinations, strategies = _module("distribute.combinations"), _module("distribute.strategy_combinations")
    assert combinations.generate is tf.__internal__.distribute.combinations.generate
    assert combinations.combine(a=[1, 2]) == tf.__internal__.test.combinations.combine(a=[1, 2])
    assert strategies.one_device_strategy is tf.__internal__.distribute.combinations.one_device_strategy


def test_graph_that_is_given_is_checked_first():
    get = _module("framework.ops")._get_graph_from_inputs
    with tf.Graph().as_default() as first:
        a = tf.constant(1.0)
    with tf.Graph().as_default() as second:
        b = tf.constant(1.0)
    assert get([a], first) is get([a]) is first
    for graph in (first, second):
        with pytest.raises(ValueError, match="not from the passed-in graph"):
            get([a, b], graph)


def test_counts_at_thresholds():
    impl = _module("ops.metrics_impl")
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        values, updates = impl._confusion_matrix_at_thresholds([True, False, True], [0.9, 0.8, 0.1], [0.5, 0.85],
                                                               includes=("tp", "fp"))
        total = impl.metric_variable([], tf.float32, name="total")
        quotients = impl._safe_scalar_div(6.0, 3.0, "q"), impl._safe_scalar_div(6.0, 0.0, "q")
        session.run(v1.local_variables_initializer())
        assert {k: v.tolist() for k, v in session.run(updates).items()} == {"tp": [1, 1], "fp": [1, 0]}
        assert {k: v.tolist() for k, v in session.run(values).items()} == {"tp": [1, 1], "fp": [1, 0]}
        assert session.run(impl._aggregate_variable(total, ["some"])) == 0 and len(v1.get_collection("some")) == 1
        assert session.run(quotients) == (2, 0)


def test_the_number_of_tpu_shards_is_known_inside_of_their_context():
    module = _module("tpu.tpu_function")
    assert module.get_tpu_context().number_of_shards is None                  # as libraries that run anywhere ask
    with module.tpu_shard_context(4):
        assert module.get_tpu_context().number_of_shards == 4
        with pytest.raises(NotImplementedError, match="cannot be nested"), module.tpu_shard_context(2):
            pass
    assert module.get_tpu_context().number_of_shards is None
    assert module.on_device_training_loop(loop := lambda: 1) is loop

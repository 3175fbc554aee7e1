"""Smaller private parts of TensorFlow that libraries import: what each does, not only that it is there."""
import importlib
import json

import numpy as np
import pytest

import penstock as tf
from penstock._src.compat.programs import importer

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def in_place():
    with importer.in_place("v2"):
        yield


def _module(name):
    return importlib.import_module(f"tensorflow.python.{name}")


A, B = np.array([[0, 2j, 1], [3, 0, 0]], np.complex64), np.array([[1, 0], [0, 2 - 1j], [4j, 0]], np.complex64)
TURNS = {"": lambda m: m, "transpose": lambda m: m.T, "adjoint": lambda m: m.conj().T}


@pytest.mark.parametrize("turn_a", TURNS)
@pytest.mark.parametrize("turn_b", TURNS)
@pytest.mark.parametrize("dense", ["", "a", "b"])
def test_products_of_sparse_matrices(turn_a, turn_b, dense):
    sparse = _module("ops.linalg.sparse.sparse")
    a, b = (TURNS[turn](m) if turn != "transpose" else m.T for turn, m in ((turn_a, A), (turn_b, B)))
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    options = {f"{turn}_{which}": True for turn, which in ((turn_a, "a"), (turn_b, "b")) if turn}
    product = sparse.matmul(a if dense == "a" else sparse.CSRSparseMatrix(a), b if dense == "b" else sparse.CSRSparseMatrix(b),
                            **options)
    assert isinstance(product, sparse.CSRSparseMatrix) == (not dense)
    np.testing.assert_allclose(tf.convert_to_tensor(product if dense else product.to_dense()), A @ B, rtol=1e-5)


def test_sparse_matrices():
    sparse = _module("ops.linalg.sparse.sparse")
    made = sparse.CSRSparseMatrix(tf.sparse.from_dense(A))
    assert (made.shape, made.dtype, made.nnz()) == ([2, 3], tf.complex64, 3)
    np.testing.assert_array_equal(made.hermitian_transpose().to_dense(), A.conj().T)
    np.testing.assert_array_equal(made.conj().to_dense(), A.conj())
    np.testing.assert_array_equal(tf.sparse.to_dense(made.transpose().to_sparse_tensor()), A.T)
    np.testing.assert_array_equal(sparse.CSRSparseMatrix(A, [[1, 0]]).to_dense(), [[0, 0, 0], [3, 0, 0]])
    generated = _module("ops.linalg.sparse.sparse_csr_matrix_ops")
    assert generated.sparse_matrix_nnz(sparse.CSRSparseMatrix(made).csr_matrix) == 3

    @tf.function
    def in_a_graph():
        return tf.constant(sparse.CSRSparseMatrix(A).transpose().shape.as_list())
    np.testing.assert_array_equal(in_a_graph(), [3, 2])
    with pytest.raises(ValueError, match="indices are for dense values"):
        sparse.CSRSparseMatrix(made, [[0, 0]])


def test_gradient_of_a_sparse_product():
    sparse = _module("ops.linalg.sparse.sparse")
    values, x = tf.Variable([2.0, 3.0]), tf.Variable([[1.0], [4.0]])
    with tf.GradientTape() as tape:
        matrix = sparse.CSRSparseMatrix(tf.SparseTensor([[0, 1], [1, 0]], values, [2, 2]))
        y = tf.reduce_sum(sparse.matmul(matrix, x))
    by_values, by_x = tape.gradient(y, [values, x])
    np.testing.assert_array_equal(by_values, [4, 1])
    np.testing.assert_array_equal(by_x, [[3], [2]])


def test_slices_of_variables_are_assigned():
    v = tf.Variable([1.0, 2.0, 3.0])
    _module("ops.tensor_getitem_override")._slice_helper_var(v, slice(1, None)).assign([5.0, 6.0])
    np.testing.assert_array_equal(v, [1, 5, 6])
    np.testing.assert_array_equal(_module("ops.array_ops")._slice_helper(v.value(), (0,)), 1)


def test_tapes_say_what_they_watch():
    should_record = _module("eager.record").should_record_backprop
    x, y = tf.constant(1.0), tf.constant(2.0)
    assert not should_record([x])
    with tf.GradientTape() as tape:
        tape.watch(x)
        assert should_record([y, x * 2]) and not should_record([y])
        with tape.stop_recording():
            assert not should_record([x])


def test_function_from_a_graph_def():
    with tf.Graph().as_default() as graph:
        x, scale = v1.placeholder(tf.float32, [None], "x"), v1.placeholder(tf.float32, [], "scale")
        tf.multiply(x, scale, name="y")
    make = _module("eager.wrap_function").function_from_graph_def
    scaled = make(graph.as_graph_def(), ["x:0", "scale:0"], ["y:0"])
    np.testing.assert_array_equal(scaled(tf.constant([1.0, 2.0]), tf.constant(3.0))[0], [3, 6])
    captured = make(graph.as_graph_def(), "x:0", "y:0", {"scale": tf.constant(5.0)})
    np.testing.assert_array_equal(captured(tf.constant([1.0, 2.0])), [5, 10])


def test_small_parts_of_framework_ops():
    ops, variable = _module("framework.ops"), tf.Variable(1.0)
    with ops.NullContextmanager("anything", key=1):
        assert ops.is_dense_tensor_like(variable) and ops.is_dense_tensor_like(tf.constant(1))
    assert not ops.is_dense_tensor_like(np.ones(2)) and not ops.is_dense_tensor_like(tf.sparse.from_dense([1]))
    assert ops.internal_convert_to_tensor(1, preferred_dtype=tf.float64).dtype == tf.float64
    assert _module("ops.control_flow_util").ENABLE_CONTROL_FLOW_V2 is True
    _module("eager.context").ensure_initialized()
    assert isinstance(tf.constant(1.0), _module("types.core").TensorLike)
    v1.experimental.output_all_intermediates(True)
    with pytest.raises(ValueError, match="must be True, False or None"):
        v1.experimental.output_all_intermediates("yes")


def test_tables_of_dtypes():
    dtypes = _module("framework.dtypes")
    assert dtypes._TF_TO_NP[tf.float16.as_datatype_enum] is np.float16 and dtypes._TF_TO_NP[103] is np.int32
    assert dtypes._NP_TO_TF[np.float64] is tf.float64
    assert tf.int8 in dtypes.TF_VALUE_DTYPES and not any(d._is_ref_dtype for d in dtypes.TF_VALUE_DTYPES)


def test_values_that_json_lacks():
    values = {"a": np.float32(1.5), "b": np.arange(3), "c": tf.float32, "d": tf.TensorShape([1, None]), "e": len,
              "f": tf.keras.layers.Activation("relu", name="act", dtype="float32")}
    found = json.loads(json.dumps(values, default=_module("util.serialization").get_json_type))
    assert found["a"] == 1.5 and found["b"] == [0, 1, 2] and found["c"] == "float32" and found["d"] == [1, None]
    assert found["e"] == "len" and found["f"]["class_name"] == "Activation" and found["f"]["config"]["name"] == "act"
    with pytest.raises(TypeError, match="no form in JSON"):
        _module("util.serialization").get_json_type({1})


def test_arguments_of_queues():
    queues = _module("ops.data_flow_ops")
    assert queues._as_type_list(tf.float32) == [tf.float32] and queues._as_name_list("a", [1]) == ["a"]
    assert queues._as_shape_list(None, [1]) is None and queues._as_name_list(None, [1]) is None
    assert queues._as_shape_list([2], [1]) == [tf.TensorShape([2])]
    assert queues._as_shape_list([[2], [3, 4]], [1, 2]) == [tf.TensorShape([2]), tf.TensorShape([3, 4])]
    with pytest.raises(ValueError, match="fully defined"):
        queues._as_shape_list([None, 2], [1])
    assert queues._as_shape_list([None, 2], [1], unknown_dim_allowed=True)[0].as_list() == [None, 2]
    with pytest.raises(ValueError, match="2 names, 1 types"):
        queues._as_name_list(["a", "b"], [1])


@pytest.mark.parametrize("parameters", [[("a", 1, 2), ("b", 3, 4)], {"a": (1, 2), "b": {"x": 3, "y": 4}}])
def test_benchmarks_with_parameters(parameters):
    def benchmark_sum(self, x, y):
        return x + y
    made = tf.__internal__.test.ParameterizedBenchmark(
        "Made", (tf.test.Benchmark,), {"_benchmark_parameters": parameters, "benchmark_sum": benchmark_sum, "other": 5})
    assert (made().benchmark_sum__a(), made().benchmark_sum__b(), made.other) == (3, 7, 5)
    assert not hasattr(made, "benchmark_sum")
    assert _module("platform.benchmark").ParameterizedBenchmark is tf.__internal__.test.ParameterizedBenchmark


def test_store_of_get_variable():
    scope = _module("ops.variable_scope")
    with tf.Graph().as_default():
        mine = scope._VariableStore()
        with scope.with_variable_store(mine):
            assert scope._get_default_variable_store() is mine
            v1.get_variable("v", [2])
        assert list(mine._vars) == ["v"] and scope._get_default_variable_store() is not mine


def test_steps_in_a_run_are_a_variable_of_the_graph():
    make = _module("training.basic_session_run_hooks").get_or_create_steps_per_run_variable
    with tf.Graph().as_default() as graph, v1.Session() as session:
        steps = make()
        assert make() is steps and v1.local_variables() == [steps] and not v1.trainable_variables()
        session.run(v1.local_variables_initializer())
        assert session.run(steps) == 1 and steps.graph is graph


def test_initial_values_of_checkpoints(tmp_path):
    class Lazy(tf.Module):
        def make(self):
            position = self._preload_simple_restoration("v")
            self.v = tf.Variable(7.0 if position is None else position)
    first, second = Lazy(), Lazy()
    first.v = tf.Variable(3.0)
    path = tf.train.Checkpoint(module=first).save(str(tmp_path / "c"))
    tf.train.Checkpoint(module=second).restore(path)
    second.make()
    assert second.v.numpy() == 3.0
    position = _Position(4.0)
    value = _module("trackable.base").CheckpointInitialValue(position)
    assert value.wrapped_value == 4.0 and value.checkpoint_position is position


class _Position:
    def __init__(self, value):
        self.value = value

    def value_tensors(self):
        return {"VARIABLE_VALUE": tf.constant(self.value)}


def test_configuration_of_virtual_cpus():
    make = _module("distribute.strategy_combinations").set_virtual_cpus_to_at_least
    with pytest.raises(ValueError, match="at least 1"):
        make(0)
    tf.constant(1.0) + 1
    make(1)                                    # there is one
    with pytest.raises(RuntimeError, match="before the first operation"):
        make(64)


def test_sums_over_replicas_without_a_tpu():
    function = _module("tpu.tpu_function")
    assert v1.tpu.cross_replica_sum(tf.constant(2.0)) == 2.0
    with function.tpu_shard_context(2), pytest.raises(tf.errors.UnimplementedError, match="all_reduce"):
        v1.tpu.cross_replica_sum(tf.constant(2.0))
    assert v1.estimator.tpu.TPUEstimator is v1.contrib.tpu.TPUEstimator
    assert v1.tpu.CrossShardOptimizer is v1.contrib.tpu.CrossShardOptimizer


def test_writers_of_events_under_earlier_names(tmp_path):
    io = _module("training.summary_io")
    with tf.Graph().as_default():
        writer = io.SummaryWriterCache.get(str(tmp_path))
        assert isinstance(writer, io.SummaryWriter) and io.SummaryWriterCache.get(str(tmp_path)) is writer
        io.SummaryWriterCache.clear()


def test_variable_of_variable_scopes():
    with tf.Graph().as_default():
        made = _module("ops.variable_scope").variable(initial_value=2.0, trainable=False, collections=["mine"], name="v")
        assert isinstance(made, v1.Variable) and v1.get_collection("mine") == [made] and not v1.trainable_variables()


def test_converters_freeze_models_of_any_size():
    """What tf2onnx calls for models of more than 2 GiB."""
    module, weight = _module("framework.convert_to_constants"), tf.Variable([[2.0]])
    concrete = tf.function(lambda x: x @ weight).get_concrete_function(tf.TensorSpec([None, 1]))
    for name in ("_FunctionConverterData", "_FunctionConverterDataInEager", "_FunctionConverterDataInGraph"):
        data = getattr(module, name)(func=concrete, lower_control_flow=False, aggressive_inlining=True)
        graph_def, variables = module._replace_variables_by_constants(converter_data=data)
        assert not variables and "MatMul" in {n.op for n in graph_def.node}
        assert not {n.op for n in graph_def.node} & {"ReadVariableOp", "VarHandleOp"}

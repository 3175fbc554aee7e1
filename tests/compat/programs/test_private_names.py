"""Private modules of TensorFlow that libraries reach into: registries, tapes, the folders of Keras."""
import functools
import importlib

import numpy as np
import pytest

import penstock as tf
from penstock._src.base import api
from penstock._src.compat.programs import importer, missing, private_names
from penstock._src.compat.programs.folders import PLACES
from penstock._src.compat.programs.inside import eager, registries, tapes


@pytest.fixture(autouse=True)
def in_place():
    with importer.in_place("v2"):
        yield


def _module(name):
    return importlib.import_module(f"tensorflow.python.{name}")


def test_gradient_functions_are_replaced_for_a_while():
    found = _module("framework.ops")._gradient_registry._registry
    x = tf.constant([1.0, 2.0])

    def slope():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.relu(x)
        return tape.gradient(y, x).numpy().tolist()
    kept = found["Relu"]["type"]
    found["Relu"]["type"] = lambda op, grad: 7.0 * grad
    try:
        assert slope() == [7, 7]
    finally:
        found["Relu"]["type"] = kept
    assert slope() == [1, 1]


def test_entry_that_was_replaced_comes_back_when_it_is_deleted():
    found = registries._gradient_registry._registry
    before = found["Relu"]["type"]
    found["Relu"] = {"type": None, "location": ()}
    assert found["Relu"]["type"] is None
    del found["Relu"]
    assert found["Relu"]["type"] is before
    assert "NoSuchOp" not in found
    with pytest.raises(LookupError):
        registries._gradient_registry.lookup("NoSuchOp")


def test_statistics_of_a_kind_of_op():
    ops, graph_util = _module("framework.ops"), _module("framework.graph_util")
    with tf.Graph().as_default() as graph:
        tf.math.erf(tf.zeros([3, 4]), name="e")
        node = graph.get_operation_by_name("e").node_def
        assert ops.get_stats_for_node_def(graph, node, "flops").value is None

        @ops.RegisterStatistics("Erf", "flops")
        def flops(graph, node):
            size = graph_util.tensor_shape_from_node_def_name(graph, node.input[0]).num_elements()
            return ops.OpStats("flops", 5 * size)
        try:
            assert ops.get_stats_for_node_def(graph, node, "flops").value == 60
            options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
            assert tf.compat.v1.profiler.profile(graph, options=options).total_float_ops == 60
            with pytest.raises(KeyError, match="Erf"):
                ops.RegisterStatistics("Erf", "flops")(flops)
        finally:
            del registries.RegisterStatistics.__call__.__globals__["REGISTERED"]["Erf,flops"]


def test_counts_per_element():
    registry = _module("profiler.internal.flops_registry")
    with tf.Graph().as_default() as graph:
        total = tf.compat.v1.reduce_sum(tf.zeros([3, 4]), axis=1, name="total")
        product = tf.multiply(total, 2.0, name="product")
    assert registry._reduction_op_flops(graph, total.op.node_def, 1, 0).value == 12 - 3
    assert registry._binary_per_element_op_flops(graph, product.op.node_def, 2).value == 6
    assert registry._unary_op_flops(graph, total.op.node_def).value == 12


def test_operation_recorded_by_hand():
    assert _module("eager.tape").record_operation is tapes.record_operation
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tapes.stop_recording():
            y = x * x
        tapes.record_operation("square", [y], [x], lambda grad: [grad * 100.0])
    assert float(tape.gradient(y, x)) == 100


def test_gradient_of_an_executed_op_recorded_by_its_type():
    x = tf.constant([2.0, -1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tapes.stop_recording():
            y = tf.nn.relu(x)
        eager.record_gradient("Relu", [x], ("T", x.dtype), [y])
    np.testing.assert_array_equal(tape.gradient(y, x), [1, 0])


def test_files_of_keras_have_no_modules_below_them():
    assert getattr(_module("keras.backend"), "symbolic", None) is None
    assert _module("keras.engine.base_layer").TensorFlowOpLayer.__name__ == "TensorFlowOpLayer"
    assert issubclass(tf.keras.layers.Conv2D, _module("keras.layers.convolutional").Conv)


def test_columns_as_dictionaries():
    columns = _module("feature_column.feature_column_lib")
    column = tf.feature_column.numeric_column("a")
    assert columns.deserialize_feature_columns(columns.serialize_feature_columns([column])) == [column]
    assert columns.is_feature_column_v2([column])


def test_shape_that_is_not_folded():
    with tf.Graph().as_default():
        assert _module("ops.array_ops").shape_internal(tf.zeros([2, 3]), optimize=False).op.type == "Shape"


def test_context_that_is_reset_takes_other_devices():
    context = _module("eager.context")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.constant(1.0)
    try:
        context._reset_context()
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        assert len(tf.config.list_logical_devices("CPU")) == 2
    finally:
        context._reset_context()
    assert len(tf.config.list_logical_devices("CPU")) == 1


def test_function_below_a_custom_gradient():
    @tf.custom_gradient
    def f(x):
        return x, lambda grad: 5.0 * grad
    value, gradient = f.__original_wrapped__(tf.constant(2.0))
    assert (float(value), float(gradient(1.0))) == (2, 5)


def test_type_of_numpy_as_the_signature_of_a_map():
    assert tf.map_fn(lambda x: tf.cast(x, tf.float64), tf.constant([1, 2]), fn_output_signature=np.float64).dtype == tf.float64


def test_modules_of_ops_at_the_top():
    from tensorflow.python import control_flow_ops, math_ops
    assert float(math_ops.cast(2, tf.float32)) == 2 and callable(control_flow_ops.group)


def test_fans_of_a_kernel():
    assert _module("ops.init_ops_v2")._compute_fans([3, 3, 2, 5]) == (18, 45)


def test_export_decorators():
    exports = _module("util.tf_export")

    class named(exports.api_export):  # noqa: N801
        """As tensorflow_estimator extends it."""

    def f():
        pass
    assert named("estimator.f", api_name="estimator")(f) is f is exports.tf_export("g", v1=["h"])(f)
    assert f._estimator_api_names == ("estimator.f",) and (f._tf_api_names, f._tf_api_names_v1) == (("g",), ("h",))
    assert functools.partial(exports.api_export, api_name="keras")("keras.f")(len) is len


def test_classes_of_distributed_variables():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        v = tf.Variable(1.0)
    assert isinstance(v, _module("distribute.values").DistributedVariable)
    assert issubclass(_module("distribute.ps_values").AggregatingVariable, tf.Variable)


def test_slices_at_positions_that_are_tensors():
    xla = importlib.import_module("tensorflow.compiler.tf2xla.python.xla")
    x = np.arange(12).reshape(3, 4)
    start = tf.constant([1, 3])                       # moved to [1, 2]: a part of two columns begins there at the latest
    assert xla.dynamic_slice(x, start, [2, 2]).numpy().tolist() == x[1:3, 2:4].tolist()
    expected = x.copy()
    expected[1:3, 2:4] = -1
    update = tf.function(lambda s: xla.dynamic_update_slice(x, -tf.ones([2, 2], tf.int64), s))
    np.testing.assert_array_equal(update(start), expected)


@pytest.mark.parametrize("place", ["saved_model", "keras.saving.saved_model", "keras.saving.legacy.saved_model"])
def test_layers_read_the_options_of_the_load_in_progress(place):
    module = _module(f"{place}.load_context")
    with tf.__internal__.load_context("options"):
        assert module.get_load_options() == "options"
    assert module.get_load_options() is None


def test_what_keras_asks_of_devices_and_contexts():
    class Asked:
        device = None

        def _set_device_from_string(self, device):
            self.device = device

    with tf.Graph().as_default() as graph:
        nothing, found = Asked(), Asked()
        graph._apply_device_functions(nothing)
        with tf.device("/job:worker/CPU:0"), tf.device("/task:1"):
            graph._apply_device_functions(found)
    assert nothing.device is None
    assert found.device == "/job:worker/task:1/device:CPU:0"
    assert _module("ops.control_flow_ops").get_enclosing_xla_context() is None
    with tf.device("CPU:0"):
        assert _module("eager.context").get_device_name().endswith("CPU:0")
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    data = tf.data.Dataset.range(4).batch(2)
    assert isinstance(strategy.experimental_distribute_dataset(data), _module("distribute.input_lib").DistributedDataset)


@pytest.mark.parametrize("spec, wanted", [
    (tf.TensorSpec([2, 3], tf.int32), tf.TensorSpec([None, None], tf.int32)),
    (tf.TensorSpec(None), tf.TensorSpec(None)),
    (tf.SparseTensorSpec([2, None], tf.string), tf.SparseTensorSpec([None, None], tf.string)),
    (tf.RaggedTensorSpec([2, None, 4], ragged_rank=1), tf.RaggedTensorSpec([None, None, None], ragged_rank=1)),
])
def test_types_with_ranks_alone(spec, wanted):
    assert spec._with_tensor_ranks_only() == wanted


@pytest.mark.parametrize("around", [lambda spec: spec, tf.data.DatasetSpec, tf.OptionalSpec])
def test_types_without_names(around):
    named, plain = around(tf.TensorSpec([2, None], tf.int32, "x")), around(tf.TensorSpec([2, None], tf.int32))
    assert named != plain and named._without_tensor_names() == plain == plain._without_tensor_names()


def test_function_definitions_become_graphs_again():
    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([])])
    def f(x, y):
        return tf.cond(y > 0, lambda: x * y, lambda: x - y)
    with tf.Graph().as_default() as graph:
        f(tf.zeros([2, 3]), tf.constant(1.0))
        kept = {name: function.definition for name, function in graph._functions.items()}
        to_graph = _module("framework.function_def_to_graph").function_def_to_graph
        outer = next(d for d in kept.values() if any("If" in n.op for n in d.node_def))
        kept_shapes = to_graph(outer, input_shapes=[tf.TensorShape([5, 3]), None])
        assert [t.shape.as_list() for t in kept_shapes.inputs] == [[None, 3], []]
        open_shapes = type(outer)()
        open_shapes.CopyFrom(outer)
        open_shapes.ClearField("arg_attr")
        body = to_graph(open_shapes, input_shapes=[tf.TensorShape([5, 3]), None])
        assert [t.shape.as_list() for t in body.inputs[:1]] == [[5, 3]] and body.inputs[1].shape.rank is None
        with pytest.raises(ValueError, match="takes 2 arguments, got 1"):
            to_graph(outer, input_shapes=[None])
        plain = to_graph(outer)
    assert {n.name for n in outer.node_def} <= {op.name for op in plain.get_operations()}
    assert [t.dtype for t in plain.outputs] == [tf.float32]
    with plain.as_default(), tf.compat.v1.Session() as session:
        found = session.run(plain.outputs[0], {plain.inputs[0].name: np.ones((1, 3)), plain.inputs[1].name: 2.0})
    np.testing.assert_array_equal(found, [[2, 2, 2]])


def test_calls_of_keras_models_are_traced():
    traced = _module("keras.saving.saving_utils").trace_model_call
    a, b = tf.keras.Input([3], name="a"), tf.keras.Input([2], name="b")
    model = tf.keras.Model([a, b], [tf.keras.layers.Dense(2, name="x")(a), tf.keras.layers.Dense(1, name="y")(b)])
    values = [tf.ones([4, 3]), tf.ones([4, 2])]
    own = traced(model).get_concrete_function()
    assert [t.name for t in own.inputs[:2]] == ["a:0", "b:0"] and sorted(own.structured_outputs) == ["x", "y"]
    given = traced(model, [tf.TensorSpec([4, 3]), tf.TensorSpec([4, 2])])
    for found in (own(*values), given(*values)):
        np.testing.assert_allclose(found["x"], model(values)[0], rtol=1e-6)
        np.testing.assert_allclose(found["y"], model(values)[1], rtol=1e-6)

    class Subclassed(tf.keras.Model):
        def call(self, inputs, training=None):
            return 2 * inputs
    late = Subclassed()
    with pytest.raises(ValueError, match="not known"):
        traced(late)
    late(tf.ones([2, 3]))
    assert traced(late)(tf.ones([5, 3]))["output_1"].numpy().tolist() == [[2.0] * 3] * 5


def test_barrier_of_data_flow_ops():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        barrier = _module("ops.data_flow_ops").Barrier((tf.float32, tf.string), shapes=((), ()))
        session.run([barrier.insert_many(0, ["a", "b"], [1.0, 2.0]), barrier.insert_many(1, ["a", "b"], ["x", "y"])])
        assert sorted(session.run(barrier.take_many(2).keys)) == [b"a", b"b"]


def test_sums_of_linear_operators():
    """The sum has the narrowest kind that contains it."""
    add = _module("ops.linalg.linear_operator_addition").add_operators
    kinds = [tf.linalg.LinearOperatorIdentity(2), tf.linalg.LinearOperatorScaledIdentity(2, 3.0),
             tf.linalg.LinearOperatorDiag([1.0, 2.0]), tf.linalg.LinearOperatorLowerTriangular([[1.0, 0.0], [2.0, 3.0]]),
             tf.linalg.LinearOperatorFullMatrix([[1.0, 5.0], [2.0, 3.0]])]
    for i, x in enumerate(kinds):
        for j, y in enumerate(kinds):
            total, = add([x, y])
            assert type(total) is type(kinds[max(i, j, 1)])
            np.testing.assert_allclose(total.to_dense(), x.to_dense() + y.to_dense(), rtol=1e-6)
    total, = add(kinds, operator_name="all")
    assert total.name == "all"
    np.testing.assert_allclose(total.to_dense(), [[7, 5], [4, 12]], rtol=1e-6)
    with pytest.raises(TypeError, match="LinearOperatorZeros"):
        add([kinds[0], tf.linalg.LinearOperatorZeros(2)])


def test_convolution_to_be_called():
    """Layers of TensorFlow Probability keep one."""
    made = _module("ops.nn_ops").Convolution([None, 5, 5, 1], [3, 3, 1, 2], "VALID", strides=[2, 2], data_format="NHWC")
    x = tf.reshape(tf.range(25.0), [1, 5, 5, 1])
    kernel = tf.ones([3, 3, 1, 2])
    np.testing.assert_array_equal(made(x, kernel), tf.nn.conv2d(x, kernel, 2, "VALID"))
    with pytest.raises(ValueError, match="1 to 3 dimensions"):
        _module("ops.nn_ops").Convolution([None, 5, 5, 1], [3, 1, 2], "VALID")


def test_function_that_converts_to_a_composite_tensor():
    class Rows:
        """Has a conversion."""
    tf.register_tensor_conversion_function(Rows, lambda value, *_, **__: tf.ragged.constant([[1, 2], [3]]))
    found = _module("framework.ops").convert_to_tensor_or_composite(Rows())
    assert isinstance(found, tf.RaggedTensor) and found.to_list() == [[1, 2], [3]]
    with pytest.raises(RuntimeError, match="returned non-Tensor"):
        tf.convert_to_tensor(Rows())


def test_seeds_of_distributions():
    util = _module("ops.distributions.util")
    assert util.gen_new_seed(None, "salt") is None
    assert util.gen_new_seed(0, "salt") == util.gen_new_seed(0, "salt") != util.gen_new_seed(0, "pepper")
    assert _module("ops.control_flow_util").GetContainingXLAContext(None) is None


def test_public_names_are_found_in_the_modules_that_define_them():
    wrong = []
    for name in sorted(private_names._modules()):
        module = _module(name)
        for inner, (version, public) in private_names.exported(name).items():
            try:
                wanted = api.resolve(version, public)
            except AttributeError:
                continue                                  # not here under its public name either
            found = getattr(module, inner, None)
            if found is None or isinstance(found, missing.Missing) or found is not wanted and "@" not in PLACES.get(name, ""):
                wrong.append(f"{name}.{inner}: {found} instead of {public}")
    assert wrong == []


def test_names_of_two_versions_are_those_of_the_program():
    from tensorflow.python.checkpoint.checkpoint import Checkpoint
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.distribute import distribute_lib, sharded_variable
    assert Checkpoint is tf.train.Checkpoint
    assert dataset_ops.Dataset is tf.data.Dataset
    assert dataset_ops.DatasetV1 is tf.compat.v1.data.Dataset
    assert isinstance(tf.distribute.get_strategy(), distribute_lib.Strategy)
    assert sharded_variable.FixedShardsPartitioner is tf.distribute.experimental.partitioners.FixedShardsPartitioner
    with importer.in_place("v1"):
        assert _module("data.ops.dataset_ops").Dataset is tf.compat.v1.data.Dataset

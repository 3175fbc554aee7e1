"""What libraries of TensorFlow's ecosystem request beyond the public API, without those libraries."""
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
    with pytest.raises(tf.errors.UnimplementedError, match="TPUs are not supported"):
        tf.distribute.TPUStrategy()
    with pytest.raises(tf.errors.UnimplementedError):
        tf.tpu.experimental.embedding.TPUEmbeddingV0(None, None)
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


class Symbol:
    """A symbolic tensor of a library: it has the operators of tf.Tensor, and a dispatcher records what is done with it."""

    def __init__(self, *made_by):
        self.made_by = made_by

    def __array__(self, dtype=None, copy=None):
        raise TypeError("a symbol has no value")


for _operator in tf.Tensor.OVERLOADABLE_OPERATORS - {"__eq__", "__ne__"}:
    setattr(Symbol, _operator, getattr(tf.Tensor, _operator))


class Recorder(tf.__internal__.dispatch.GlobalOpDispatcher):
    """Computes every function of symbols: a symbol that says how it was created."""

    def handle(self, op, args, kwargs):
        if any(isinstance(x, Symbol) for x in tf.nest.flatten([args, kwargs])):
            return Symbol(op, args)
        return self.NOT_SUPPORTED


@pytest.fixture
def recorder():
    from penstock._src.base import dispatch
    Recorder().register()
    yield
    dispatch._GLOBAL.pop()


def test_dispatchers_get_public_functions_and_operators(recorder):
    x = Symbol()
    for made, op in ((tf.nn.relu(x), tf.nn.relu), (x + 1, tf.__operators__.add), (2 * x, tf.math.multiply),
                     (x @ x, tf.linalg.matmul), (-x, tf.math.negative), (x < 1, tf.math.less),
                     (x[:, 0], tf.__operators__.getitem), (tf.concat([x, x], 0), tf.concat),
                     (tf.constant(1.0) - x, tf.math.subtract)):
        assert made.made_by[0] is op
    assert (2 - x).made_by[1] == (2, x)
    with pytest.raises((TypeError, ValueError)):
        tf.nn.relu(object())


def test_a_dispatcher_of_one_function():
    @tf.__internal__.dispatch.add_dispatch_support
    def half(x):
        return tf.convert_to_tensor(x) / 2

    class Halves(tf.__internal__.dispatch.OpDispatcher):
        def handle(self, args, kwargs):
            return "half" if isinstance(args[0], Symbol) else self.NOT_SUPPORTED
    Halves().register(half)
    assert half(Symbol()) == "half" and half(3.0) == 1.5
    with pytest.raises((TypeError, ValueError)):
        half(object())


def test_dispatchers_get_the_operators_of_ragged_tensors(recorder):
    x, ragged = Symbol(), tf.RaggedTensor
    for made, op in ((ragged.__add__(x, 1), tf.math.add), (ragged.__rsub__(x, 1), tf.math.subtract),
                     (ragged.__neg__(x), tf.math.negative), (ragged.__getitem__(x, 0), tf.__operators__.ragged_getitem)):
        assert isinstance(made, Symbol) and made.made_by[0] is op
    rows = tf.ragged.constant([[1, 2], [3]])
    assert (10 - rows).to_list() == [[9, 8], [7]] and (-rows)[0].numpy().tolist() == [-1, -2]


def test_every_test_of_a_class_is_decorated():
    from penstock._src.compat.programs.inside import test_util

    def adding(amount):
        return lambda test: lambda self: test(self) + amount

    @test_util.for_all_test_methods(adding, 5)
    class Tests:
        def test_one(self):
            return 1

        def other(self):
            return 1
    assert Tests().test_one() == 6 and Tests().other() == 1


def test_types_of_libraries_come_back_from_saved_models(tmp_path):
    class Revived(tf.__internal__.tracking.AutoTrackable):
        pass
    load = tf.__internal__.saved_model.load
    load.register_revived_type("penstock_test_type", lambda obj: isinstance(obj, Revived), versions=[
        load.VersionedTypeRegistration(lambda proto: Revived(), version=1, min_producer_version=1, min_consumer_version=1)])
    root, root_part = tf.Module(), Revived()
    root_part.v = tf.Variable(4.0)
    root.part = root_part
    tf.saved_model.save(root, str(tmp_path / "model"))
    again = tf.saved_model.load(str(tmp_path / "model"))
    assert type(again.part) is Revived and again.part.v.numpy() == 4.0
    assert "penstock_test_type" in load.registered_identifiers()


def test_children_that_a_class_gives_itself_are_saved(tmp_path):
    class Given(tf.__internal__.tracking.AutoTrackable):
        def _trackable_children(self, save_type="checkpoint", **kwargs):
            return {**super()._trackable_children(save_type, **kwargs), "extra": self.hidden[0]}

        @tf.__internal__.tracking.no_automatic_dependency_tracking
        def __init__(self, value):
            self.hidden = [tf.Variable(value)]
    path = tf.train.Checkpoint(root=Given(3.0)).save(str(tmp_path / "ckpt"))
    assert "extra/.ATTRIBUTES/VARIABLE_VALUE" in dict(tf.train.list_variables(path))
    given = Given(1.0)
    assert tf.train.TrackableView(given).descendants() == [given, given.hidden[0]]


def test_none_is_an_element_of_datasets():
    dataset = tf.data.Dataset.from_tensor_slices(([1, 2, 3], [4, 5, 6])).map(lambda a, b: (a, None, b)).batch(2)
    assert [(x.numpy().tolist(), none, y.numpy().tolist()) for x, none, y in dataset] == [
        ([1, 2], None, [4, 5]), ([3], None, [6])]


def test_ranges_of_floats_are_divided_in_their_precision():
    assert tf.range(0.1, 1.1, 0.1).shape == [10]
    assert tf.range(0.1, 1.1, 0.1, dtype=tf.float64).shape == np.arange(0.1, 1.1, 0.1).shape


def test_inside_function():
    assert not tf.inside_function()
    assert tf.function(lambda: tf.constant(tf.inside_function()))().numpy()


def test_names_of_type_specs():
    from penstock._src.graph import type_registry
    assert type_registry.lookup(type_registry.get_name(tf.TensorSpec)) is tf.TensorSpec
    with pytest.raises(ValueError, match="project_name"):
        type_registry.register("nodots")
    with pytest.raises(ValueError, match="No TypeSpec"):
        type_registry.lookup("absent.Spec")


def test_profiles_name_blocks(tmp_path):
    with tf.profiler.experimental.Profile(str(tmp_path)), tf.profiler.experimental.Trace("train", step_num=1):
        tf.ones([2]).numpy()
    assert list(tmp_path.rglob("*.trace.json.gz"))
    with pytest.raises(tf.errors.UnavailableError):
        tf.profiler.experimental.stop()


def test_parameterized_truncated_normal_has_the_mean_of_the_distribution():
    parameters = {"means": 1.0, "stddevs": 2.0, "minvals": 3.0, "maxvals": 9.0}
    x = tf.random.stateless_parameterized_truncated_normal([20000], [1, 2], **parameters)
    assert 3.0 <= x.numpy().min() and x.numpy().max() <= 9.0
    np.testing.assert_allclose(x.numpy().mean(), 4.0492, atol=0.03)      # the mean of N(1, 2) between 3 and 9
    again = tf.random.stateless_parameterized_truncated_normal([20000], [1, 2], **parameters)
    np.testing.assert_array_equal(x, again)


def test_argument_lists_are_seen_through_decorators():
    from penstock._src.compat.programs.inside import inspection
    spec = inspection.getfullargspec(tf.rank)
    assert (spec.args, spec.defaults, spec.annotations) == (["input", "name"], (None,), {})
    assert inspection.isfunction(tf.rank)


class Reading:
    """A class of a library that layers take and return: a tensor, and how it came about."""

    def __init__(self, value, source):
        self.value, self.source = value, source

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)

    def __tf_tensor__(self, dtype=None, name=None):
        return tf.convert_to_tensor(self.value, dtype, name=name)


class Read(tf.keras.layers.Layer):
    """Returns a Reading."""

    def call(self, inputs):
        return Reading(inputs * 2.0, "doubled")


def test_registered_classes_are_symbolic_tensors_of_models():
    tf.keras.__internal__.utils.register_symbolic_tensor_type(Reading)
    x = tf.keras.Input([3])
    reading = Read()(x)
    assert isinstance(reading, Reading) and isinstance(reading, tf.keras.__internal__.KerasTensor)
    model = tf.keras.Model(x, [reading, tf.keras.layers.Dense(2, kernel_initializer="ones")(reading)])
    first, second = model(np.ones([4, 3], np.float32))
    assert isinstance(first, Reading) and first.source == "doubled"
    np.testing.assert_array_equal(first.value, np.full([4, 3], 2.0))
    np.testing.assert_array_equal(second, np.full([4, 2], 6.0))
    assert isinstance(Read()(tf.ones([1, 3])), Reading)


def test_keras_tensors_have_types():
    types = tf.keras.__internal__
    dense, sparse, ragged = (tf.keras.Input([None], **{k: True} if k else {}) for k in ("", "sparse", "ragged"))
    assert all(isinstance(x, types.KerasTensor) for x in (dense, sparse, ragged))
    assert [isinstance(x, types.SparseKerasTensor) for x in (dense, sparse, ragged)] == [False, True, False]
    assert [isinstance(x, types.RaggedKerasTensor) for x in (dense, sparse, ragged)] == [False, False, True]
    assert not isinstance(tf.ones([3]), types.KerasTensor)


def test_optimizers_have_legacy_forms():
    convert = tf.keras.__internal__.optimizers.convert_to_legacy_optimizer
    made = convert(tf.keras.optimizers.Adam(0.5, beta_1=0.25, weight_decay=0.1))
    assert type(made) is tf.keras.optimizers.legacy.Adam
    assert (float(made.learning_rate), made.get_config()["beta_1"]) == (0.5, 0.25)
    assert convert(made) is made
    with pytest.raises(ValueError, match="legacy"):
        convert(tf.keras.optimizers.Lion())


def test_functions_return_what_they_capture():
    outer = tf.Variable([1.0, 2.0]).read_value()
    with tf.keras.backend.get_graph().as_default() as graph:
        inner = graph.capture(outer)
    np.testing.assert_array_equal(tf.keras.backend.function([], [inner])([])[0], [1.0, 2.0])


def test_metrics_of_a_process():
    from penstock._src.compat.internal import monitoring
    gauge = tf.__internal__.monitoring.BoolGauge("/library/used", "what is used", "name")
    gauge.get_cell("a").set(True)
    assert gauge.get_cell("a").value() is True and gauge.get_cell("b").value() is False
    with pytest.raises(ValueError, match="expects taking 1 labels"):
        gauge.get_cell()
    counter = monitoring.Counter("/library/calls", "calls")
    counter.get_cell().increase_by(3)
    counter.get_cell().increase_by(2)
    assert counter.get_cell().value() == 5
    sampler = monitoring.Sampler("/library/sizes", monitoring.ExponentialBuckets(1.0, 2.0, 3), "sizes")
    for size in (0.5, 1.0, 3.0, 100.0):
        sampler.get_cell().add(size)
    assert sampler.get_cell().value() == [1, 1, 1, 1]


def test_lists_of_modules_are_lists():
    module = tf.Module()
    module.parts = [1, 2]
    assert type(module.parts) is not list
    assert tf.__internal__.nest.map_structure_up_to(module.parts, lambda a, b: a + b, module.parts, [10, 20]) == [11, 22]


def test_parallel_loops():
    from penstock._src.library import vectorized
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(vectorized.pfor(lambda i: tf.reduce_sum(tf.gather(x, i)), 2), [3.0, 7.0])
    np.testing.assert_array_equal(vectorized.for_loop(lambda i: tf.gather(x, i) * 2.0, tf.float32, 2), x * 2.0)


def test_layers_take_their_first_argument_by_keyword():
    class Shift(tf.keras.layers.Layer):
        def call(self, observation, step=1.0):
            return observation + step
    np.testing.assert_array_equal(Shift()(observation=tf.ones([2])), [2.0, 2.0])
    np.testing.assert_array_equal(Shift()(step=3.0, observation=tf.ones([2])), [4.0, 4.0])
    x = tf.keras.Input([2])
    model = tf.keras.Model(x, Shift()(observation=x, step=2.0))
    np.testing.assert_array_equal(model(inputs=tf.ones([1, 2])), [[3.0, 3.0]])
    with pytest.raises(ValueError, match="first argument"):
        Shift()(step=3.0)


def test_the_behavior_of_a_process_does_not_depend_on_the_graph():
    assert tf.__internal__.tf2.enabled()
    with tf.Graph().as_default():
        assert tf.__internal__.tf2.enabled() and not tf.executing_eagerly()


def test_bounded_specs_are_made_from_specs_of_arrays():
    from penstock._src.graph.type_spec import BoundedTensorSpec

    class ArraySpec:
        shape, dtype, name = (2,), np.dtype(np.int32), "actions"
    made = BoundedTensorSpec.from_spec(ArraySpec())
    assert (made.dtype, made.name) == (tf.int32, "actions")
    assert (made.minimum, made.maximum) == (tf.int32.min, tf.int32.max)


def test_dictionaries_of_modules_are_packed():
    module = tf.Module()
    module.parts = {"b": 1, "a": 2}
    packed = tf.nest.map_structure(lambda x: x * 10, module.parts)
    assert dict(packed) == {"b": 10, "a": 20}


@pytest.mark.parametrize("model", [lambda x, y: tf.keras.Model(x, y), lambda x, y: tf.keras.Sequential([tf.keras.Input([2])])])
def test_the_input_spec_of_a_model_can_be_set(model):
    x = tf.keras.Input([2])
    made = model(x, tf.keras.layers.Dense(2)(x))
    made.input_spec = tf.keras.layers.InputSpec(ndim=2)
    assert made.input_spec.ndim == 2
    made.input_spec = None
    assert made.input_spec is None


def test_functions_have_a_graph_around_them():
    inner = []

    @tf.function
    def function():
        inner.append(tf.compat.v1.get_default_graph())
        return tf.constant(1)
    function()
    assert isinstance(inner[0].outer_graph, tf.Graph) and not inner[0].outer_graph.building_function
    with tf.Graph().as_default() as graph:
        function()
    assert inner[1].outer_graph is graph


def test_saving_returns_the_objects_and_their_paths(tmp_path):
    from penstock._src.state.saved_model.object_saving import save_and_return_nodes
    root = tf.Module()
    root.parts = [tf.Module()]
    root.parts[0].v = tf.Variable(2.0)
    nodes, ways = save_and_return_nodes(root, str(tmp_path / "model"))
    assert nodes[0] is root and ways[root] == ()
    assert [ref.name for ref in ways[root.parts[0].v]] == ["parts", "0", "v"]
    assert root.parts in ways and len(ways) == len(nodes)
    assert tf.saved_model.load(str(tmp_path / "model")).parts[0].v.numpy() == 2.0


def test_functions_that_a_class_lists_for_saved_models_are_saved(tmp_path):
    class Model(tf.__internal__.tracking.AutoTrackable):
        def __init__(self):
            self.v = tf.Variable(2.0)
            self._hidden = [tf.function(lambda x: x * self.v, input_signature=[tf.TensorSpec([])])]

        def _trackable_children(self, save_type="checkpoint", **kwargs):
            return {"__call__": self._hidden[0], **super()._trackable_children(save_type, **kwargs)}

        def _create_or_restore_slot_variable(self, *args, **kwargs):
            raise NotImplementedError("as optimizers without slots")
    model = Model()
    tf.saved_model.save(model, str(tmp_path))
    assert tf.saved_model.load(str(tmp_path))(tf.constant(3.0)).numpy() == 6
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "c"))
    assert not any("call" in name for name, _ in tf.train.list_variables(path))


def test_dependency_ends():
    holder = tf.__internal__.tracking.AutoTrackable()
    holder.v, holder.w = tf.Variable(1.0), tf.Variable(2.0)
    holder._delete_tracking("v")
    assert list(holder._trackable_children()) == ["w"] and holder.v.numpy() == 1

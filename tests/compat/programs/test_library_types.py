"""What libraries do with TensorFlow's classes that programs do not: their own variables, specs and wrappers."""
import functools
import importlib
import inspect as python_inspect
import sys

import pytest

import penstock as tf
from penstock._src.compat.programs import removed
from penstock._src.compat.programs.folders import PLACES
from penstock._src.compat.programs.inside import inspection
from penstock._src.graph.type_spec import TypeSpec


class HeldVariable(tf.Variable):
    """A variable whose value is a tensor, as functional libraries have it."""

    def __init__(self, value):
        self.held = tf.constant(value)

    dtype = property(lambda self: self.held.dtype)
    shape = property(lambda self: self.held.shape)

    def value(self):
        return self.held


HeldVariable._OverloadAllOperators()
tf.register_tensor_conversion_function(HeldVariable, lambda v, dtype=None, name=None, as_ref=False: v.value())


def test_variable_of_a_library_is_converted_by_its_own_function():
    v = HeldVariable([1.0, 2.0])
    assert (v + 1.0).numpy().tolist() == [2, 3] and (3.0 * v).numpy().tolist() == [3, 6]
    assert float(tf.reduce_sum(v)) == 3 and tf.matmul([[1.0, 1.0]], v[:, None]).numpy().tolist() == [[3]]


def test_outputs_of_a_function_may_be_none():
    made = tf.function(lambda x: (x + 1, None)).get_concrete_function(tf.TensorSpec([2], tf.float32))
    assert made.output_shapes == (tf.TensorShape([2]), None) and made.output_dtypes == (tf.float32, None)


def test_argument_lists_are_those_of_the_wrapper():
    def inner(a, b):
        return a + b

    @functools.wraps(inner)
    def wrapper(self, **kwargs):
        return inner(**kwargs)

    assert inspection.getfullargspec(wrapper).args == ["self"]
    assert inspection.getfullargspec(tf.add).args == ["x", "y", "name"]


class Pair:
    """A composite whose spec holds a callable, which cannot be serialized."""

    def __init__(self, x, f):
        self.x, self.f = x, f

    @property
    def _type_spec(self):
        return PairSpec(tf.TensorSpec.from_tensor(self.x), self.f)


class PairSpec(TypeSpec):
    value_type = Pair

    def __init__(self, spec, f):
        self.spec, self.f = spec, f

    _component_specs = property(lambda self: self.spec)

    def _to_components(self, value):
        return value.x

    def _from_components(self, components):
        return Pair(components, self.f)

    def _serialize(self):
        raise ValueError("there is a callable")

    def _compared(self):
        return self._TypeSpec__make_cmp_key((self.spec, self.f))

    def __eq__(self, other):
        return type(other) is PairSpec and self._compared() == other._compared()

    def __hash__(self):
        return hash(self._compared())


def test_spec_with_its_own_equality_is_the_key_of_a_trace():
    traces = []

    @tf.function
    def call(pair):
        traces.append(pair.f)
        return pair.f(pair.x)

    assert float(call(Pair(tf.constant(2.0), tf.square))) == 4 and float(call(Pair(tf.constant(3.0), tf.square))) == 9
    assert float(call(Pair(tf.constant(2.0), tf.negative))) == -2
    assert traces == [tf.square, tf.negative]


def test_folders_of_keras_2(monkeypatch):
    from penstock._src.compat.programs import importer, standalone_keras
    with importer.in_place("v2"):
        found = standalone_keras.KerasFinder("v2").find_spec("keras.src.engine.keras_tensor")
        assert found.loader_state.KerasTensor is tf.keras.__internal__.KerasTensor


@pytest.mark.parametrize("device, kind", [(None, None), ("/device:CPU:0", "CPU")])
def test_device_of_the_eager_context(device, kind):
    from penstock._src.compat.programs.inside import eager
    with tf.device(device):
        assert eager.context().device_spec.device_type == kind


def test_is_tensor_is_what_tensorflow_says():
    class Converts:
        def __tf_tensor__(self, dtype=None, name=None):
            return tf.constant(1)

    slices = tf.IndexedSlices(tf.constant([1]), tf.constant([0]))
    for x in (tf.constant(1), tf.Variable(1), tf.sparse.from_dense([1]), tf.ragged.constant([[1]]), slices):
        assert tf.is_tensor(x)
    data = tf.data.Dataset.range(2)
    for x in (Converts(), data, iter(data), iter(data).get_next_as_optional(), tf.TensorSpec([1]), tf.TensorShape([1])):
        assert not tf.is_tensor(x)


def test_function_as_the_gradient_of_a_custom_gradient():
    @tf.custom_gradient
    def cube(x):
        return x ** 3, tf.function(lambda dy: dy * 10.0)

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = cube(x)
    assert float(tape.gradient(y, x)) == 10


def test_long_names_of_layers_and_modules_of_variables():
    import penstock.compat.v1 as v1
    from penstock._src.compat.programs import importer
    with importer.in_place("v2"):
        from tensorflow.python.framework import ops
        from tensorflow.python.layers import convolutional
        from tensorflow.python.ops import confusion_matrix, metrics_impl, variables
        assert convolutional.Convolution2D is v1.layers.Conv2D and convolutional.conv2d is v1.layers.conv2d
        assert variables.global_variables is v1.global_variables and variables.VariableV1 is v1.Variable
        labels, found = confusion_matrix.remove_squeezable_dimensions(tf.ones([3, 1]), tf.ones([3]))
        assert labels.shape == found.shape == [3]
        _, _, weights = metrics_impl._remove_squeezable_dimensions(tf.ones([3]), tf.ones([3]), tf.ones([3, 1]))
        assert weights.shape == [3]
        with v1.Graph().as_default() as graph:
            x = v1.constant(1)
        assert ops._get_graph_from_inputs([x]) is graph
        with pytest.raises(ValueError, match="passed-in graph"):
            ops._get_graph_from_inputs([x], v1.Graph())


def test_definitions_of_ops():
    from penstock._src.compat.programs import importer
    with importer.in_place("v2"):
        from tensorflow.python.framework import c_api_util
        ops = c_api_util.ApiDefMap()
        assert "MatMul" in ops.op_names() and [a.name for a in ops.get_op_def("MatMul").input_arg] == ["a", "b"]
        with pytest.raises(ValueError, match="No op_def"):
            ops.get_op_def("NoSuchOp")


def test_dictionaries_with_references_as_keys_are_structures():
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    doubled = tf.nest.map_structure(lambda x: x * 2, {a.ref(): 1, b.ref(): 2})
    assert doubled == {a.ref(): 2, b.ref(): 4}


def test_argument_lists_that_python_has_removed():
    found = removed.MODULES[python_inspect]["getargspec"](lambda a, b=2, *c, **d: None)
    assert found == (["a", "b"], "c", "d", (2,)) and found.keywords == "d"
    assert removed.ArgSpec(args=[], varargs=None, keywords=None, defaults=None)._fields[2] == "keywords"


def test_places_of_private_modules_exist():
    for place in {p[1:] for places in PLACES.values() for p in places.split() if p.startswith("@")}:
        assert importlib.import_module(f"penstock._src.{place}"), place


def test_pickles_of_python_2_in_files_that_are_open_for_text(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, removed._Moved()])
    monkeypatch.delitem(sys.modules, "cPickle", raising=False)
    pickle = importlib.import_module("cPickle")
    monkeypatch.delitem(sys.modules, "cPickle")
    path = tmp_path / "a.pkl"
    path.write_bytes(b"U\x03a\xe9b.")                  # a short string of Python 2
    with open(path, encoding="utf-8") as file:
        assert pickle.load(file) == "aéb"
    with open(path, "w", encoding="utf-8") as file:
        pickle.dump([1, "a"], file)
    with open(path, "rb") as file:
        assert pickle.load(file) == [1, "a"]

"""What libraries do with TensorFlow's classes that programs do not: their own variables, specs and wrappers."""
import functools

import pytest

import penstock as tf
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

    def __eq__(self, other):
        return type(other) is PairSpec and (self.spec, self.f) == (other.spec, other.f)

    def __hash__(self):
        return hash((self.spec, self.f))


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

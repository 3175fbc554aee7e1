"""Type specs that programs write: subtypes, common supertypes and compatibility, compared by what they serialize."""
import collections

import pytest

import penstock as tf


class PairSpec(tf.TypeSpec):
    """Two tensors and a color."""

    value_type = property(lambda self: tuple)
    _component_specs = property(lambda self: (tf.TensorSpec(self.shape, self.dtype),) * 2)

    def __init__(self, shape, dtype, color="red"):
        self.shape, self.dtype, self.color = tf.TensorShape(shape), dtype, color

    def _serialize(self):
        return self.shape, self.dtype, self.color

    def _to_components(self, value):
        return value

    def _from_components(self, components):
        return tuple(components)


class NestSpec(PairSpec):
    """Any structure of specs."""

    def __init__(self, spec):
        self.spec = spec

    def _serialize(self):
        return self.spec

    @classmethod
    def _deserialize(cls, spec):
        return cls(spec)


@pytest.mark.parametrize("narrow, wide, expected", [
    (PairSpec([5, 3], tf.int32), PairSpec([5, None], tf.int32), True),
    (PairSpec([5, None], tf.int32), PairSpec([5, 3], tf.int32), False),
    (PairSpec([5, 3], tf.int32), PairSpec(None, tf.int32), True),
    (PairSpec([5, 3], tf.int32), PairSpec([5, 3], tf.float32), False),
    (PairSpec([5, 3], tf.int32, "red"), PairSpec([5, 3], tf.int32, "blue"), False),
    (tf.TensorSpec([2], tf.int32), tf.TensorSpec([2], tf.int32, "x"), True),
    (tf.TensorSpec([2], tf.int32, "x"), tf.TensorSpec([2], tf.int32), False),
    (tf.TensorSpec([2], tf.int32), PairSpec([2], tf.int32), False),
])
def test_subtypes(narrow, wide, expected):
    assert narrow.is_subtype_of(wide) is expected


def test_the_common_supertype_leaves_open_what_differs():
    assert PairSpec([2, 1], tf.int32).most_specific_common_supertype([PairSpec([5, 1], tf.int32)]) == \
        PairSpec([None, 1], tf.int32)
    assert PairSpec([2, 1], tf.int32).most_specific_common_supertype([PairSpec([2], tf.int32)]) == PairSpec(None, tf.int32)
    assert PairSpec([2], tf.int32).most_specific_common_supertype([PairSpec([2], tf.bool)]) is None
    assert PairSpec([2], tf.int32).most_specific_common_supertype([tf.TensorSpec([2], tf.int32)]) is None
    named = tf.TensorSpec([2], tf.int32, "x")
    other = tf.TensorSpec([3], tf.int32, "y")
    assert named.most_specific_common_supertype([other]) is None
    with pytest.raises(ValueError, match="No TypeSpec is compatible with both"):
        named.most_specific_compatible_type(other)
    assert named.most_specific_common_supertype([named]).name == "x"


def test_a_named_tuple_may_be_defined_twice():
    first, second = (collections.namedtuple("Point", ["a", "b"]) for _ in range(2))
    other = collections.namedtuple("Other", ["a", "b"])
    one, two = tf.TensorSpec([None], tf.int32), tf.TensorSpec([8], tf.int32)
    assert NestSpec(first(one, one)).is_compatible_with(NestSpec(second(two, two)))
    assert not NestSpec(first(one, one)).is_compatible_with(NestSpec(other(two, two)))
    assert NestSpec(second(two, two)).most_specific_common_supertype([NestSpec(first(one, one))]) == \
        NestSpec(second(one, one))


def test_text_of_specs_is_that_of_a_tuple():
    inner = "TensorSpec(shape=(), dtype=tf.int32, name=None)"
    assert repr(tf.OptionalSpec(tf.TensorSpec([], tf.int32))) == f"OptionalSpec({inner},)"
    assert repr(tf.SparseTensorSpec([3], tf.string)) == "SparseTensorSpec(TensorShape([3]), tf.string)"

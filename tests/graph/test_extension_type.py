"""tf.experimental.ExtensionType: classes made of tensors, in functions, loops, datasets and batches."""
import inspect
import typing

import numpy as np
import pytest

import penstock as tf


class Masked(tf.experimental.BatchableExtensionType):
    values: tf.Tensor
    mask: tf.Tensor

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)

    def filled(self, value):
        return tf.where(self.mask, self.values, value)


class Many(tf.experimental.ExtensionType):
    x: tf.Tensor
    parts: tuple[tf.Tensor, ...]
    named: typing.Mapping[str, tf.Tensor]
    n: int = 3
    maybe: tf.Tensor | None = None


def test_fields_are_converted_and_fixed():
    m = Masked([1, 2], [True, False])
    assert isinstance(m.values, tf.Tensor) and m.filled(0).numpy().tolist() == [1, 0]
    with pytest.raises(AttributeError, match="Cannot mutate"):
        m.values = 3
    with pytest.raises(TypeError, match="missing"):
        Masked([1])
    with pytest.raises(TypeError, match="expected 'int'"):
        Many(1, (), {}, n="a")
    many = Many(1., [1, 2], {"a": [3]})
    assert many.n == 3 and many.maybe is None and [int(p) for p in many.parts] == [1, 2]
    assert tf.experimental.extension_type.as_dict(m)["mask"].numpy().tolist() == [True, False]
    assert bool(m == Masked([1, 2], [True, False])) and not bool(m == Masked([1, 3], [True, False]))


def test_specs():
    m = Masked([1, 2], [True, False])
    spec = tf.type_spec_from_value(m)
    assert spec == Masked.Spec(tf.TensorSpec([2], tf.int32), tf.TensorSpec([2], tf.bool))
    assert spec.value_type is Masked and spec.is_compatible_with(m)
    wide = spec.most_specific_compatible_type(tf.type_spec_from_value(Masked([1], [True])))
    assert wide.values.shape.as_list() == [None]
    assert [t.shape for t in tf.nest.flatten(m, expand_composites=True)] == [(2,), (2,)]
    assert "values=TensorSpec(shape=(2,)" in repr(spec)


def test_functions_conditions_and_loops():
    @tf.function
    def f(m, n):
        return tf.while_loop(lambda i, _: i < n, lambda i, m: (i + 1, Masked(m.values * 2, m.mask)), (0, m))[1]
    out = f(Masked([1, 2], [True, False]), 3)
    assert isinstance(out, Masked) and out.values.numpy().tolist() == [8, 16]
    picked = tf.cond(tf.constant(True), lambda: out, lambda: Masked([0, 0], [False, False]))
    assert picked.values.numpy().tolist() == [8, 16]
    many = tf.function(lambda m: Many(m.x + 1, m.parts, {k: v * 2 for k, v in m.named.items()}))(Many(1., [1, 2], {"a": [3]}))
    assert float(many.x) == 2 and many.named["a"].numpy().tolist() == [6] and many.n == 3


def test_datasets_batch_them():
    m = Masked(np.arange(6).reshape(3, 2), np.ones((3, 2), bool))
    ds = tf.data.Dataset.from_tensor_slices(m).batch(2)
    sizes = [b.values.shape.as_list() for b in ds]
    assert sizes == [[2, 2], [1, 2]] and isinstance(next(iter(ds)), Masked)
    doubled = tf.map_fn(lambda r: Masked(r.values * 2, r.mask), m)
    assert doubled.values.numpy().tolist() == (np.arange(6).reshape(3, 2) * 2).tolist()


def test_own_constructors_validation_and_inheritance():
    class Positive(tf.experimental.ExtensionType):
        x: tf.Tensor

        def __init__(self, x, scale):
            self.x = x * scale

        def __validate__(self):
            if self.x.shape.rank != 1:
                raise ValueError("rank")

    class Named(Positive):
        label: str = "none"
    assert Positive(tf.constant([1, 2]), 2).x.numpy().tolist() == [2, 4]
    with pytest.raises(ValueError, match="rank"):
        Positive(tf.constant(1), 2)
    assert Named(tf.constant([1]), 3).label == "none"
    assert tf.function(lambda p: p)(Positive(tf.constant([1, 2]), 2)).x.numpy().tolist() == [2, 4]


@pytest.mark.parametrize("hint", [list, list[int], dict[str, int], typing.Mapping[tf.Tensor, int], object])
def test_annotations_that_fields_cannot_have(hint):
    with pytest.raises(TypeError, match="(?i)unsupported"):
        type(tf.experimental.ExtensionType)("Bad", (tf.experimental.ExtensionType,), {"__annotations__": {"x": hint}})


def test_dispatch_with_extension_types():
    @tf.experimental.dispatch_for_unary_elementwise_apis(Masked)
    def unary(api, x):
        return Masked(api(x.values), x.mask)
    try:
        assert tf.negative(Masked([1, 2], [True, False])).values.numpy().tolist() == [-1, -2]
    finally:
        tf.experimental.unregister_dispatch_for(unary)


class Tree(tf.experimental.ExtensionType):
    value: tf.Tensor
    leaf: typing.Optional["Leaf"] = None


class Leaf(tf.experimental.ExtensionType):
    colour: tf.Tensor


def test_fields_may_name_classes_that_come_later():
    tree = Tree(1, Leaf(2))
    assert int(tree.leaf.colour) == 2 and Tree(3).leaf is None
    assert int(tf.function(lambda t: t.leaf.colour + t.value)(tree)) == 3


def test_constructor_and_representation():
    class Inner(tf.experimental.ExtensionType):
        sizes: tuple[int, ...] = [1, 2]

    class Unknown(tf.experimental.ExtensionType):
        x: "Missing"                                                                # noqa: F821

    assert repr(Inner()).startswith("test_constructor_and_representation.<locals>.Inner(")
    assert inspect.signature(Inner.__init__).parameters["sizes"].default == (1, 2)
    with pytest.raises(TypeError, match="Missing"):
        Unknown(x=1)


def test_components_of_mappings_come_in_the_order_of_their_keys():
    class Prices(tf.experimental.ExtensionType):
        of: typing.Mapping[str, tf.Tensor]

    value = Prices({"gum": 1.0, "chocolate": 2.0})
    parts = tf.nest.flatten(value, expand_composites=True)
    assert [float(p) for p in parts] == [2.0, 1.0]
    again = tf.nest.pack_sequence_as(value, parts, expand_composites=True)
    assert float(again.of["gum"]) == 1.0 and float(again.of["chocolate"]) == 2.0


def test_a_nested_spec_has_no_other_base_class():
    with pytest.raises(ValueError, match="Spec must be directly subclassed from tf.TypeSpec"):
        class Wrong(tf.experimental.ExtensionType):
            class Spec(tf.data.DatasetSpec):
                pass


def test_fields_of_specs_cannot_be_changed():
    class Pair(tf.experimental.ExtensionType):
        a: tf.Tensor

    spec = Pair.Spec.from_value(Pair(1))
    for change in (lambda: setattr(spec, "a", 1), lambda: delattr(spec, "a")):
        with pytest.raises(AttributeError, match="Cannot mutate attribute `a` outside the custom constructor"):
            change()

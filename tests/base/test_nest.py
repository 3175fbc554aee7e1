"""Nested structures: flatten, pack, map, compare, partial structures, paths, composites."""

import collections
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest

import penstock as tf
from penstock._src.base import nest
from penstock._src.base.static_shape import TensorShape

AB = collections.namedtuple("AB", "a b")
SameAB = collections.namedtuple("AB", "a b")
OtherAB = collections.namedtuple("Other", "a b")


class Pair:
    """What the attrs library makes of a class with two attributes."""

    __attrs_attrs__ = SimpleNamespace(name="second"), SimpleNamespace(name="first")

    def __init__(self, second, first):
        self.second, self.first = second, first

    def __eq__(self, other):
        return type(other) is Pair and (self.second, self.first) == (other.second, other.first)

    __hash__ = None


class Custom(Mapping):
    def __init__(self, *args, **kwargs):
        self._dict = dict(*args, **kwargs)

    def __getitem__(self, key):
        return self._dict[key]

    def __iter__(self):
        return iter(self._dict)

    def __len__(self):
        return len(self._dict)


class Spec:
    """A stand-in for the type spec of a composite tensor: compatible if the ranks agree."""

    value_type = property(lambda self: Composite)

    def __init__(self, rank):
        self.rank = rank

    @property
    def _component_specs(self):
        return ["indices", ["values"]]

    def _to_components(self, x):
        return [x.indices, [x.values]]

    def _from_components(self, components):
        return Composite(components[0], components[1][0], self.rank)

    def most_specific_compatible_type(self, other):
        if self.rank != other.rank:
            raise ValueError("ranks differ")
        return self


class Composite:
    def __init__(self, indices, values, rank=2):
        self.indices, self.values, self.rank = indices, values, rank

    @property
    def _type_spec(self):
        return Spec(self.rank)


TREES = [
    5, "text", [], (), {}, [1], (1, (2, [3, 4]), 5), {"b": [2, 3], "a": 1}, AB(1, AB(2, (3,))),
    collections.OrderedDict([("z", 1), ("y", {"k": 2})]), Custom(b=1, a=[2]), Pair([1, 2], 3),
    collections.defaultdict(list, {"q": [1, 2]}), [None, (None, "s")],
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=lambda t: type(t).__name__)
def test_pack_undoes_flatten(tree):
    packed = nest.pack_sequence_as(tree, nest.flatten(tree))
    assert packed == tree and type(packed) is type(tree)
    assert nest.map_structure(lambda x: x, tree) == tree
    nest.assert_same_structure(tree, packed)


@pytest.mark.parametrize("tree", TREES, ids=lambda t: type(t).__name__)
def test_paths_lead_to_the_leaves(tree):
    def follow(node, path):
        for key in path:
            node = getattr(node, key) if isinstance(node, (AB, Pair)) else node[key]
        return node

    pairs = nest.flatten_with_tuple_paths(tree)
    assert [leaf for _, leaf in pairs] == nest.flatten(tree)
    assert [follow(tree, path) for path, _ in pairs] == nest.flatten(tree)
    assert list(nest.yield_flat_paths(tree)) == [path for path, _ in pairs]


def test_order_of_leaves():
    assert nest.flatten({"d": 3, "b": 1, "a": 0, "c": 2}) == [0, 1, 2, 3]
    ordered = collections.OrderedDict([("d", 3), ("b", 1), ("a", 0)])
    assert nest.flatten(ordered) == [0, 1, 3]
    assert list(nest.pack_sequence_as(ordered, [0, 1, 3]).items()) == [("d", 3), ("b", 1), ("a", 0)]
    assert nest.flatten(Pair(second=1, first=2)) == [1, 2]


def test_views_and_ranges_become_lists():
    ordered = collections.OrderedDict([("d", 3), ("b", 1)])
    assert nest.flatten(ordered.keys()) == ["d", "b"]
    assert nest.flatten(ordered.items()) == ["d", 3, "b", 1]
    assert nest.pack_sequence_as(ordered.items(), [1, 2, 3, 4]) == [(1, 2), (3, 4)]
    assert nest.map_structure(lambda x: x + 1, range(3)) == [1, 2, 3]


@pytest.mark.parametrize("leaf", [1, "text", b"text", None, {1, 2}, np.ones(3), TensorShape([1, 2])], ids=str)
def test_leaves(leaf):
    assert not nest.is_nested(leaf) and not nest.is_sequence(leaf)
    assert nest.flatten(leaf)[0] is leaf
    assert nest.pack_sequence_as(leaf, ["x"]) == "x"


def test_default_factory_is_kept():
    tree = collections.defaultdict(list, a=1)
    assert nest.map_structure(str, tree).default_factory is list


def test_keys_that_cannot_be_sorted():
    with pytest.raises(TypeError, match="sortable keys"):
        nest.flatten({"a": 1, 2: 3})


def test_attributes_that_cannot_be_listed():
    bad = type("Bad", (), {"__attrs_attrs__": None})
    with pytest.raises(TypeError, match="object is not iterable"):
        nest.flatten(bad())


def test_pack_errors():
    with pytest.raises(TypeError, match="flat_sequence must be a sequence"):
        nest.pack_sequence_as([1, 2], "ab")
    with pytest.raises(ValueError, match="The target structure is of type"):
        nest.pack_sequence_as(1, [4, 5])
    with pytest.raises(ValueError, match="Structure had 2 atoms, but flat_sequence had 3 items."):
        nest.pack_sequence_as([1, 2], [4, 5, 6])
    with pytest.raises(ValueError, match="Structure had 4 atoms, but flat_sequence had 3 items."):
        nest.pack_sequence_as([1, 2, [3, 4]], [4, 5, 6])


def test_map_over_several():
    assert nest.map_structure(lambda x, y: x + y, {"a": [1, 2]}, {"a": [10, 20]}) == {"a": [11, 22]}
    assert nest.map_structure(lambda x, y: x * y, (3, (4,)), [5, [6]], check_types=False) == (15, (24,))
    with pytest.raises(TypeError, match="callable"):
        nest.map_structure("bad", [1])
    with pytest.raises(ValueError, match="at least one structure"):
        nest.map_structure(lambda x: x)
    with pytest.raises(ValueError, match="Only valid keyword argument.*foo"):
        nest.map_structure(lambda x: x, [1], foo=1)


@pytest.mark.parametrize("a, b, error, text", [
    ((1, 2), (1, 2, 3), ValueError, "same number of elements"),
    (((1, 2), 3), (1, (2, 3)), ValueError, r'"type=tuple str=\(1, 2\)" is a sequence, while .* is not'),
    (3, (3,), ValueError, "same nested structure"),
    ([0, 1], np.array([0, 1]), ValueError, "is a sequence, while"),
    ((1, 2), [1, 2], TypeError, "same sequence type"),
    (AB(1, 2), OtherAB(1, 2), TypeError, "same sequence type"),
    (AB(1, 2), (1, 2), TypeError, "same sequence type"),
    ({"a": 1}, {"b": 1}, ValueError, "same set of keys"),
    ({"a": 1}, {"a": 1, "b": 1}, ValueError, "same set of keys"),
])  # fmt: skip
def test_different_structures(a, b, error, text):
    for x, y in ((a, b), (b, a)):
        with pytest.raises(error, match=text):
            nest.assert_same_structure(x, y)


def test_difference_shows_the_outlines():
    with pytest.raises(ValueError) as caught:
        nest.assert_same_structure(((1, 2), 3), ("spam", "eggs"))
    text = str(caught.value)
    assert text.startswith("The two structures don't have the same nested structure.\n\nFirst structure: ")
    assert text.endswith("Entire first structure:\n((., .), .)\nEntire second structure:\n(., .)")


def test_same_structures():
    nest.assert_same_structure(AB(1, SameAB(2, 3)), SameAB(4, AB(5, 6)))
    nest.assert_same_structure({"a": 4}, Custom(a=3))
    nest.assert_same_structure([1], type("MyList", (list,), {})([2]))
    nest.assert_same_structure((1, [2]), [1, (2,)], check_types=False)
    nest.assert_same_structure("abc", np.array([0, 1]))


def test_shallow_structures():
    assert nest.flatten_up_to([[0, 0], 0], [[[1, 2], (3,)], {"a": 4}]) == [[1, 2], (3,), {"a": 4}]
    assert nest.flatten_up_to({"a": 0, "d": [0, 0]}, {"a": 1, "d": [3, (4, 5)]}) == [1, 3, (4, 5)]
    assert nest.flatten_up_to(0, [1, 2]) == [[1, 2]]
    assert nest.flatten_up_to(AB(0, 0), SameAB([1], 2)) == [[1], 2]
    assert nest.flatten_up_to(Pair(0, 0), Pair([1], 2)) == [[1], 2]
    paths = nest.flatten_with_tuple_paths_up_to({"a": 0, "c": [0]}, {"c": [(5, 6)], "a": 1})
    assert paths == [(("a",), 1), (("c", 0), (5, 6))]


@pytest.mark.parametrize("shallow, deep, error, text", [
    ([1], "text", TypeError, r"input must also be a sequence. Input has type: <class 'str'>."),
    ([[1]], [(1,)], TypeError, "Input structure has type <class 'tuple'>, while shallow structure has type"),
    ([1, 2, 3], [1, 2], ValueError, "Input structure has length 2, while shallow structure has length 3."),
    ({"a": 1, "d": 2}, {"a": 1, "c": 2}, ValueError, r"Not in input_tree: \['d'\]"),
])  # fmt: skip
def test_not_shallow(shallow, deep, error, text):
    with pytest.raises(error, match=text):
        nest.assert_shallow_structure(shallow, deep)


def test_shallow_structure_that_leaves_parts_out():
    options = dict(check_subtrees_length=False)
    assert nest.flatten_up_to({"a": 0, "c": 0}, {"a": "A", "b": "B", "c": "C"}, **options) == ["A", "C"]
    assert nest.flatten_up_to([0, 0], [1, [2], 3], **options) == [1, [2]]
    assert nest.map_structure_up_to([0, 0], lambda x: 2 * x, [1, 2, 3], **options) == [2, 4]
    with pytest.raises(ValueError, match="fewer elements"):
        nest.flatten_up_to([0, 0], [1], **options)


def test_map_up_to():
    scale = lambda x, factors: x * sum(factors)
    assert nest.map_structure_up_to(AB(2, 3), scale, AB(2, 3), AB((1, 1), (2, 2))) == AB(4, 12)
    assert nest.map_structure_up_to([0], lambda x, k: x + k, [1], k=5) == [6]
    with pytest.raises(ValueError, match="no sequences"):
        nest.map_structure_up_to([0], len)


def test_map_with_paths():
    trees = {"a": [2, 3], "b": 1}, {"b": 5, "a": [8, 9]}
    total = lambda path, *values: (path, sum(values))
    assert nest.map_structure_with_paths(total, *trees) == {"a": [("a/0", 10), ("a/1", 12)], "b": ("b", 6)}
    assert nest.map_structure_with_tuple_paths(total, (1,), [2], check_types=False) == (((0,), 3),)
    with pytest.raises(TypeError):
        nest.map_structure_with_paths(total, (1,), [2])


def test_joined_paths():
    assert nest.flatten_with_joined_string_paths(AB(1, {"c": [2]})) == [("a", 1), ("b/c/0", 2)]
    assert nest.flatten_with_joined_string_paths([[3]], separator=".") == [("0.0", 3)]


def test_flatten_dict_items():
    flat = nest.flatten_dict_items({(4, (5, 6)): ("a", ("b", "c")), 7: "d"})
    assert flat == {4: "a", 5: "b", 6: "c", 7: "d"}
    with pytest.raises(TypeError):
        nest.flatten_dict_items(4)
    with pytest.raises(ValueError, match="not unique"):
        nest.flatten_dict_items({(4, 4): (1, 2)})
    with pytest.raises(ValueError, match="Key had 2 elements, but value had 3 elements"):
        nest.flatten_dict_items({(4, 5): (1, (2, 3))})


def test_traverse():
    tree = [3, (1, [0]), [5], {"a": (7,)}, []]
    found = nest.get_traverse_shallow_structure(lambda s: not isinstance(s, tuple), tree)
    assert found == [True, False, [True], {"a": False}, []]
    only_first = lambda s: (True, False) if isinstance(s, tuple) else True
    found = nest.get_traverse_shallow_structure(only_first, [([1], [2])])
    assert found == [([True], False)]
    for answer, structure, text in [([True], 0, "returned structure"), (1, [1], "non-bool scalar"),
                                    ([1], [1], "depth=1 structure of bools")]:  # fmt: skip
        with pytest.raises(TypeError, match=text):
            nest.get_traverse_shallow_structure(lambda _, answer=answer: answer, structure)


def test_composites_are_leaves_unless_expanded():
    x = Composite(1, 2)
    assert nest.flatten([x, 3]) == [x, 3]
    assert nest.flatten([x, 3], expand_composites=True) == [1, 2, 3]
    assert not nest.is_nested(x) and nest.is_nested_or_composite(x)
    doubled = nest.map_structure(lambda v: 2 * v, [x], expand_composites=True)[0]
    assert isinstance(doubled, Composite) and (doubled.indices, doubled.values) == (2, 4)


def test_composites_and_their_specs():
    x = Composite(1, 2)
    assert nest.flatten(x._type_spec, expand_composites=True) == ["indices", "values"]
    packed = nest.pack_sequence_as(x._type_spec, [5, 6], expand_composites=True)
    assert (packed.indices, packed.values) == (5, 6)
    nest.assert_same_structure(x, x._type_spec, expand_composites=True)
    nest.assert_shallow_structure(x._type_spec, x, expand_composites=True)
    derived = type("Derived", (Composite,), {})(3, 4)               # described by the same spec
    nest.assert_same_structure(x, derived, expand_composites=True)
    nest.assert_shallow_structure(derived, x, expand_composites=True)
    with pytest.raises(ValueError, match="Incompatible CompositeTensor TypeSpecs"):
        nest.assert_same_structure(x, Composite(1, 2, rank=3), expand_composites=True)
    with pytest.raises(TypeError):
        nest.assert_same_structure(x, [1], expand_composites=True)


class _Tagged:
    """Flattens itself: the tag is metadata, the value a leaf."""

    def __init__(self, tag, value):
        self.tag, self.value = tag, value

    def __tf_flatten__(self):
        return (self.tag,), (self.value,)

    @classmethod
    def __tf_unflatten__(cls, metadata, parts):
        return cls(metadata[0], parts[0])


def test_objects_that_flatten_themselves_are_branches():
    inner = _Tagged(["unhashable"], _Tagged("b", 2))
    assert tf.nest.is_nested(inner)
    assert tf.nest.flatten([_Tagged("a", 1), inner]) == [1, 2]
    doubled = tf.nest.map_structure(lambda x: 2 * x, inner)
    assert (doubled.tag, doubled.value.tag, doubled.value.value) == (["unhashable"], "b", 4)
    tf.nest.assert_same_structure(_Tagged("a", 1), _Tagged("other", 3))
    with pytest.raises(TypeError, match="sequence type"):
        tf.nest.assert_same_structure(_Tagged("a", 1), [1])


def test_functions_and_datasets_take_objects_that_flatten_themselves():
    @tf.function
    def double(x):
        return tf.nest.map_structure(lambda v: v * 2, x)
    value = _Tagged("a", tf.constant([1, 2]))
    out = double(value)
    double(_Tagged("a", tf.constant([5, 6])))
    assert out.tag == "a" and out.value.numpy().tolist() == [2, 4]
    assert double.experimental_get_tracing_count() == 1
    double(_Tagged("b", tf.constant([5, 6])))
    assert double.experimental_get_tracing_count() == 2
    rows = tf.data.Dataset.from_tensor_slices(value).map(lambda x: _Tagged(x.tag, x.value + 1))
    assert [(x.tag, int(x.value)) for x in rows] == [("a", 2), ("a", 3)]

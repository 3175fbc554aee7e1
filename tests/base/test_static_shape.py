"""Static shapes: dimensions, shapes, the switch between v1 and v2, and the functions of shape rules."""

import itertools
import pickle

import numpy as np
import pytest
import torch

import penstock
from penstock._src.base import dtypes
from penstock._src.base import static_shape as shapes
from penstock._src.base.static_shape import Dimension, TensorShape


@pytest.fixture
def v1():
    shapes.disable_v2_tensorshape()
    yield
    shapes.enable_v2_tensorshape()


# Dimension


def test_dimension_arithmetic():
    d = Dimension(12)
    assert [(d + 3).value, (3 + d).value, (d - 3).value, (13 - d).value] == [15, 15, 9, 1]
    assert [(d * 2).value, (2 * d).value, (d // 5).value, (25 // d).value] == [24, 24, 2, 2]
    assert [(d % 5).value, (25 % d).value] == [2, 1]
    assert [4] * d == d * [4] == [4] * 12
    with pytest.raises(ValueError, match="must be >= 0"):
        d - 13


def test_unknown_dimension_is_contagious():
    unknown = Dimension(None)
    for result in (unknown + 1, 1 + unknown, unknown * 2, 2 // unknown, 3 % unknown, unknown - unknown):
        assert result.value is None
    for result in (unknown == 1, unknown != 1, unknown < 1, unknown >= unknown, Dimension(3) > unknown):
        assert result is None


def test_dimension_division_says_what_to_write():
    with pytest.raises(TypeError, match=r"for /: 'Dimension' and 'int', please use // instead"):
        Dimension(6) / 2
    with pytest.raises(TypeError, match=r"for /: 'int' and 'Dimension', please use // instead"):
        6 / Dimension(2)


def test_dimension_equality_with_other_kinds():
    assert Dimension(12) == "12" and Dimension(12) == 12.0
    assert (Dimension(12) == "_") is False and (Dimension(None) == 12.99) is False
    assert Dimension(12) != (12,)


@pytest.mark.parametrize("bad, error", [
    (-1, ValueError), (1.5, ValueError), ("x", TypeError),
    (dtypes.string, TypeError), ([1], TypeError), (object(), TypeError),
])  # fmt: skip
def test_no_dimension(bad, error):
    with pytest.raises(error):
        Dimension(bad)


def test_dimension_merge():
    assert Dimension(None).merge_with(3).value == Dimension(3).merge_with(None).value == 3
    with pytest.raises(ValueError, match="Dimensions 3 and 4 are not compatible"):
        Dimension(3).merge_with(4)


def test_dimension_text_and_pickle():
    assert (str(Dimension(7)), repr(Dimension(7)), str(Dimension(None))) == ("7", "Dimension(7)", "?")
    assert pickle.loads(pickle.dumps(Dimension(7))) == 7


# TensorShape


@pytest.mark.parametrize("source, expected", [
    (None, None), ([], ()), ([2, None], (2, None)), ((2, Dimension(3)), (2, 3)), (5, (5,)),
    (Dimension(5), (5,)), (TensorShape([1, 2]), (1, 2)), (np.array([2, 3]), (2, 3)),
    (torch.Size([2, 3]), (2, 3)), (range(2), (0, 1)),
    ([np.int64(4), "5"], (4, 5)), (TensorShape([None, 2]).as_proto(), (None, 2)),
    (TensorShape(None).as_proto(), None),
])  # fmt: skip
def test_conversion(source, expected):
    dims = shapes.as_dims(source)
    assert dims == expected
    assert dims is None or type(dims) is tuple and all(d is None or type(d) is int for d in dims)


def test_a_string_is_no_shape():
    with pytest.raises(TypeError, match="ambiguous TensorShape"):
        TensorShape("347")


def test_unknown_rank():
    s = TensorShape(None)
    assert s.rank is None and s.dims is None and not s and s.num_elements() is None
    for use in (len, list, TensorShape.as_list, TensorShape.assert_is_fully_defined):
        with pytest.raises(ValueError):
            use(s)
    assert s[1:4].as_list() == [None] * 3 and s[1:].rank is None and s[:-1].rank is None
    with pytest.raises(ValueError):
        s[::2]


def test_v2_items_are_plain():
    s = TensorShape([3, None, 7])
    assert (s[0], s[1], list(s)) == (3, None, [3, None, 7])
    assert s[1:] == TensorShape([None, 7])
    assert str(s) == "(3, None, 7)" and repr(s) == "TensorShape([3, None, 7])"
    assert TensorShape(None)[2] is None


def test_v1_items_are_dimensions(v1):
    s = TensorShape([3, None, 7])
    assert isinstance(s[0], Dimension) and s[0].value == 3 and s[1].value is None
    assert [d.value for d in s] == [3, None, 7]
    assert str(s) == "(3, ?, 7)" and repr(s) == "TensorShape([Dimension(3), Dimension(None), Dimension(7)])"
    assert TensorShape(None)[2].value is None


def test_bridges_between_v1_and_v2(v1):
    s = TensorShape([3, None])
    assert shapes.dimension_value(s[0]) == 3
    shapes.enable_v2_tensorshape()
    assert shapes.dimension_value(s[0]) == 3
    assert shapes.dimension_at_index(s, 0).value == 3
    assert shapes.dimension_at_index(TensorShape(None), 5).value is None


def test_equality():
    assert TensorShape([3, 4]) == [3, 4] and TensorShape([3, 4]) == ["3", "4"]
    assert TensorShape([3, 4]) != [3, 5] and TensorShape([3, 4]) != [3]
    assert TensorShape([3, 4]) != "34" and not TensorShape([3]) == [1.5]
    assert TensorShape([3, None]) == TensorShape([3, None])
    assert TensorShape(None) == TensorShape(None) and TensorShape([1]) != TensorShape(None)
    assert hash(TensorShape([3, None])) == hash(TensorShape((3, None)))


def test_equality_v1(v1):
    a, b = TensorShape([3, None]), TensorShape([3, None])
    assert a == b and not a != b and a != TensorShape([3, 4])
    assert TensorShape(None) == TensorShape(None)
    assert TensorShape(None) != TensorShape([1])


def test_merge_with():
    assert TensorShape([3, None]).merge_with([None, 4]) == [3, 4]
    assert TensorShape(None).merge_with([1, 2]) == TensorShape([1, 2]).merge_with(None) == [1, 2]
    with pytest.raises(ValueError, match=r"Shapes \(3, 4\) and \(4, 3\) are not compatible"):
        TensorShape([3, 4]).merge_with([4, 3])


def test_concatenate():
    assert TensorShape([1, 2]) + [3] == [1] + TensorShape([2, 3])
    assert TensorShape([1, 2]).concatenate(Dimension(3)) == [1, 2, 3]
    assert (TensorShape([1]) + TensorShape(None)).rank is None


def test_rank_assertions():
    s = TensorShape([1, 2])
    assert s.with_rank(2) is s and TensorShape(None).with_rank(2).as_list() == [None, None]
    s.assert_has_rank(2)
    s.assert_same_rank([5, 6])
    assert s.with_rank_at_least(2) is s and s.with_rank_at_most(2) is s
    for use, text in [
        (lambda: s.with_rank(3), "must have rank 3"),
        (lambda: s.assert_has_rank(1), "must have rank 1"),
        (lambda: s.with_rank_at_least(3), "must have rank at least 3"),
        (lambda: s.with_rank_at_most(1), "must have rank at most 1"),
        (lambda: s.assert_same_rank([1]), "must have the same rank"),
        (lambda: s.assert_is_compatible_with([2, 2]), r"Shapes \(1, 2\) and \(2, 2\) are incompatible"),
    ]:
        with pytest.raises(ValueError, match=text):
            use()


def test_lattice():
    assert TensorShape([1, 2]).most_specific_compatible_shape([1, 3]) == [1, None]
    assert TensorShape([1, 2]).most_specific_compatible_shape([1]).rank is None
    assert TensorShape([1, 2]).is_subtype_of(TensorShape([None, 2]))
    assert not TensorShape([None, 2]).is_subtype_of(TensorShape([1, 2]))
    assert TensorShape(None).is_subtype_of(TensorShape(None))
    assert TensorShape([1, 2]).most_specific_common_supertype([TensorShape([1, 3])]) == [1, None]


def test_proto_and_pickle():
    for s in (TensorShape(None), TensorShape([]), TensorShape([3, None])):
        assert TensorShape(s.as_proto()) == s
        assert pickle.loads(pickle.dumps(s)) == s
    assert [d.size for d in TensorShape([3, None]).as_proto().dim] == [3, -1]


def test_of_shares_and_normalizes():
    assert TensorShape.of((2, 31)) is TensorShape.of((2, 31))
    assert type(TensorShape.of(torch.Size([2, 37])).static_dims) is tuple


# dims


CASES = [
    None, (), (None,), (0,), (1,), (3,), (None, 3), (1, 3), (2, 1), (2, 3), (2, None), (None, None),
    (4, 1, 3),
]  # fmt: skip


def fillings(dims):
    """Every full shape, of small sizes and ranks, that dims describe."""
    for rank in range(4) if dims is None else [len(dims)]:
        known = (None,) * rank if dims is None else dims
        yield from itertools.product(*[range(5) if d is None else [d] for d in known])


def result(function, a, b):
    try:
        return function(a, b)
    except (ValueError, RuntimeError):
        return "error"


@pytest.mark.parametrize("a, b", [(a, b) for a in CASES for b in CASES if None not in (a, b)])
def test_broadcast_agrees_with_numpy_for_every_filling(a, b):
    real = [result(np.broadcast_shapes, x, y) for x in fillings(a) for y in fillings(b)]
    possible = {r for r in real if r != "error"}
    static = result(shapes.broadcast, a, b)
    if not possible:
        assert static == "error"
    else:
        assert static != "error" and all(shapes.compatible(static, r) for r in possible)
        for axis, size in enumerate(static):
            assert size is not None or len({r[axis] for r in possible}) > 1


def test_broadcast_with_unknown_rank():
    assert shapes.broadcast(None, (2, 3)) is None and shapes.broadcast((), None) is None
    with pytest.raises(ValueError, match=r"\(2, \?\) and \(3, 4\)"):
        shapes.broadcast((2, None), (3, 4))


@pytest.mark.parametrize("a, b", list(itertools.product(CASES, CASES)))
def test_compatible_and_merge_mean_a_common_filling(a, b):
    common = set(fillings(a)) & set(fillings(b))
    assert shapes.compatible(a, b) == bool(common)
    merged = result(shapes.merge, a, b)
    assert merged == "error" if not common else set(fillings(merged)) == common


def test_ranks():
    assert shapes.rank_is(None, 2) == (None, None) and shapes.rank_is((1, 2), 2) == (1, 2)
    assert shapes.rank_at_least(None, 2) is None and shapes.rank_at_least((1, 2), 1) == (1, 2)
    assert shapes.rank_at_most((1,), 1) == (1,)
    with pytest.raises(ValueError, match="Shape must be rank 2 but is rank 3"):
        shapes.rank_is((1, 2, 3), 2)
    with pytest.raises(ValueError, match="Shape must be at least rank 2 but is rank 1"):
        shapes.rank_at_least((1,), 2)
    with pytest.raises(ValueError, match="Shape must be at most rank 0 but is rank 1"):
        shapes.rank_at_most((1,), 0)


def test_show_and_count():
    assert [shapes.show(d) for d in (None, (), (7,), (2, None))] == ["<unknown>", "()", "(7,)", "(2, ?)"]
    assert [shapes.num_elements(d) for d in (None, (), (2, 3), (2, None), (0, 5))] == [None, 1, 6, None, 0]
    assert shapes.concat((1,), (None,)) == (1, None) and shapes.concat((1,), None) is None


def test_makers():
    assert shapes.unknown_shape(2) == shapes.unknown_shape(ndims=2) == shapes.matrix(None, None)
    assert shapes.scalar() == [] and shapes.vector(3) == [3]
    with pytest.raises(TypeError):
        shapes.unknown_shape(size=2)


def test_dimension_from_an_eager_tensor_inside_a_graph():
    three, half = penstock.constant(3), penstock.constant(2.5)
    with pytest.raises(ValueError, match="Ambiguous dimension"):
        shapes.TensorShape([half])
    with penstock.Graph().as_default() as graph:
        assert shapes.TensorShape([three, 2]) == [3, 2]
        assert not graph.get_operations()

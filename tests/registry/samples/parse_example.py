"""Samples of parsing Example and SequenceExample messages."""
import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.messages import Example, SequenceExample
from tests.registry.sample import s, sample, scalar_string

FLOAT, INT, STRING = dtypes.float32, dtypes.int64, dtypes.string


def fill(features, values):
    for key, value in values.items():
        kind = {float: "float_list", int: "int64_list", bytes: "bytes_list"}[type(value[0])]
        getattr(features.feature[key], kind).value.extend(value)


def example(**values):
    message = Example()
    fill(message.features, values)
    return message.SerializeToString(deterministic=True)


def sequence(context, **lists):
    message = SequenceExample()
    fill(message.context, context)
    for key, steps in lists.items():
        for step in steps:
            one = message.feature_lists.feature_list[key].feature.add()
            kind = {float: "float_list", int: "int64_list", bytes: "bytes_list"}[type(step[0])]
            getattr(one, kind).value.extend(step)
    return message.SerializeToString(deterministic=True)


def shapes(*dims):
    return [TensorShape(d) for d in dims]


ROWS = [example(x=[1.5, -2.0], n=[i - 3], w=[b"a"] * (i % 3 + 1), v=list(range(i % 4 + 1))) for i in range(20)]
NONE, KEYS = s(), [scalar_string(b"x"), scalar_string(b"n")]
for _rows in (ROWS, ROWS[:2]):                     # many rows are parsed together, a few one by one
    sample("ParseExample", s(*_rows), NONE, [scalar_string(b"w"), scalar_string(b"v")], KEYS,
           [np.zeros(0, np.float32), np.array(7, np.int64)], sparse_types=[STRING, INT], dense_shapes=shapes([2], []))
    sample("ParseExample", s(*_rows), NONE, [], [scalar_string(b"v")], [np.array(9, np.int64)], sparse_types=[],
           dense_shapes=shapes([None]))
    sample("ParseExampleV2", s(*_rows), NONE, s("w"), s("x"), s("v"), [np.zeros(0, np.float32)], num_sparse=1,
           sparse_types=[STRING], ragged_value_types=[INT], ragged_split_types=[dtypes.int32], dense_shapes=shapes([2]))
sample("ParseExampleV2", scalar_string(ROWS[0]), NONE, s("w"), s("x"), NONE, [np.zeros(0, np.float32)], num_sparse=1,
       sparse_types=[STRING], ragged_value_types=[], ragged_split_types=[], dense_shapes=shapes([2]))
sample("ParseSingleExample", scalar_string(ROWS[5]), [np.zeros(0, np.float32), np.array([4, 5], np.int64)], num_sparse=1,
       sparse_keys=["w"], sparse_types=[STRING], dense_keys=["x", "missing"], dense_shapes=shapes([2], [2]))

SEQUENCES = [sequence({"id": [3], "tag": [b"a", b"b"]}, x=[[1.0, 2.0], [3.0, 4.0]], w=[[b"p"], [b"q", b"r"]]),
             sequence({"id": [4]}, x=[[5.0, 6.0]])]
LISTS = {"feature_list_sparse_types": [STRING], "feature_list_dense_types": [FLOAT], "context_sparse_types": [STRING],
         "context_dense_shapes": shapes([]), "feature_list_dense_shapes": shapes([2])}
sample("ParseSequenceExample", s(*SEQUENCES), NONE, [np.zeros(0, np.int64)], feature_list_dense_missing_assumed_empty=["x"],
       context_sparse_keys=["tag"], context_dense_keys=["id"], feature_list_sparse_keys=["w"], feature_list_dense_keys=["x"],
       Ncontext_sparse=1, Ncontext_dense=1, Nfeature_list_sparse=1, Nfeature_list_dense=1, **LISTS)
sample("ParseSingleSequenceExample", scalar_string(SEQUENCES[0]), s("x"), [scalar_string(b"tag")], [scalar_string(b"id")],
       [scalar_string(b"w")], [scalar_string(b"x")], [np.zeros(0, np.int64)], scalar_string(b""), **LISTS)

_COUNTS = [sequence({"a": [1, 2], "t": [1, 2], "d": [7]}, x=[[3], [4, 5]], w=[[3], [4, 5]], y=[[1], [2]]),
           sequence({"a": [9]}, x=[[6]])]
_ONE = np.array([5], np.int64)


def _parsed(*_):
    """What TensorFlow returns for both rows: context (sparse, dense, ragged), feature lists (sparse, dense, ragged)."""
    def ints(*values, dtype=np.int64):
        return np.array(values, dtype)
    return (ints([0, 0], [0, 1]), ints(1, 2), ints(2, 2), ints([7], [5]), ints(1, 2, 9), ints(0, 2, 3, dtype=np.int32),
            ints([0, 0, 0], [0, 1, 0], [0, 1, 1]), ints(3, 4, 5), ints(2, 2, 2), ints([[1], [2]], [[0], [0]]), ints(2, 0),
            ints(3, 4, 5, 6), ints(), ints(0, 2, 3), ints(0, 0, 0), ints(0, 1, 3, 4), ints(0))


_SECOND = {"Ncontext_sparse": 1, "context_sparse_types": [INT], "context_dense_shapes": shapes([1]), "Nfeature_list_sparse": 1,
           "Nfeature_list_dense": 1, "feature_list_dense_types": [INT], "feature_list_sparse_types": [INT],
           "feature_list_dense_shapes": shapes([1])}
sample("ParseSequenceExampleV2", s(*_COUNTS), NONE, s("t"), s("d"), s("a"), s("w"), s("y"), s("x", "none"), np.array([True]),
       [_ONE], context_ragged_value_types=[INT], context_ragged_split_types=[dtypes.int32],
       feature_list_ragged_value_types=[INT, INT], feature_list_ragged_split_types=[INT, INT], expect=_parsed, **_SECOND)
sample("ParseSequenceExampleV2", scalar_string(_COUNTS[0]), NONE, s("t"), s("d"), NONE, s("w"), s("y"), NONE, np.array([True]),
       [_ONE], context_ragged_value_types=[], context_ragged_split_types=[], feature_list_ragged_value_types=[],
       feature_list_ragged_split_types=[], **_SECOND, expect=lambda *_: tuple(np.array(v, np.int64) for v in (
           [[0], [1]], [1, 2], [2], [7], [[0, 0], [1, 0], [1, 1]], [3, 4, 5], [2, 2], [[1], [2]], 2)))

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

"""tf.io.RaggedFeature in batches and single examples. The values are those of TensorFlow 2.21."""
from __future__ import annotations

import pytest

import penstock as tf
import penstock.compat.v1 as tf1

RF = tf.io.RaggedFeature


def example(**lists):
    def feature(values):
        if isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    made = tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in lists.items()}))
    return made.SerializeToString()


RECORDS = [example(v=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], sp=[0, 2, 6], ln=[2, 4], st=[0, 2], li=[2, 6], ids=[0, 0, 1, 1, 1, 1],
                   o=[1, 1]),
           example(v=[7.0, 8.0], sp=[0, 0, 2], ln=[0, 2], st=[0, 0], li=[0, 2], ids=[1, 1], o=[2]), example()]
ROWS = [[[1, 2], [3, 4, 5, 6]], [[], [7, 8]], []]
CASES = {
    "none": ([], [[1, 2, 3, 4, 5, 6], [7, 8], []], (3, None)),
    "splits": ([RF.RowSplits("sp")], ROWS, (3, None, None)),
    "lengths": ([RF.RowLengths("ln")], ROWS, (3, None, None)),
    "starts": ([RF.RowStarts("st")], ROWS, (3, None, None)),
    "limits": ([RF.RowLimits("li")], ROWS, (3, None, None)),
    "ids": ([RF.ValueRowIds("ids")], ROWS, (3, None, None)),
    "uniform": ([2], [[[1, 2], [3, 4], [5, 6]], [[7, 8]], []], (3, None, 2)),
    "two": ([RF.RowLengths("o"), RF.RowLengths("ln")], [[[[1, 2]], [[3, 4, 5, 6]]], [[[], [7, 8]]], []], (3, None, None, None)),
    "uniform rows": ([RF.UniformRowLength(2), RF.RowLengths("ln")], [[[[1, 2], [3, 4, 5, 6]]], [[[], [7, 8]]], []],
                     (3, None, 2, None))}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("splits", [tf.int32, tf.int64])
def test_batches(name, splits):
    partitions, expected, shape = CASES[name]
    found = tf.io.parse_example(RECORDS, {"x": RF(tf.float32, "v", partitions, splits)})["x"]
    assert found.to_list() == expected and found.row_splits.dtype == splits
    assert found.shape.as_list() == list(shape)


@pytest.mark.parametrize("name", CASES)
def test_single_examples(name):
    partitions, expected, shape = CASES[name]
    features = {"x": RF(tf.float32, "v", partitions), "o": tf.io.VarLenFeature(tf.int64)}
    for parse in (tf.io.parse_single_example, tf.io.parse_example):
        found = parse(RECORDS[0], features)["x"]
        plain = name in ("none", "uniform")
        assert isinstance(found, tf.Tensor) is plain
        assert (found.numpy().tolist() if plain else found.to_list()) == expected[0]


def test_in_a_dataset_and_a_session():
    features = {"x": RF(tf.float32, "v", [RF.RowLengths("ln")])}
    batches = tf.data.Dataset.from_tensor_slices(RECORDS).batch(2).map(lambda r: tf.io.parse_example(r, features)["x"])
    assert [b.to_list() for b in batches] == [ROWS[:2], ROWS[2:]]
    with tf1.Graph().as_default(), tf1.Session() as session:
        given = tf1.placeholder(tf.string, [None])
        found = tf1.parse_example(given, features)["x"]
        assert session.run(found, {given: RECORDS}).to_list() == ROWS


def test_number_of_rows_is_known_where_that_of_records_is():
    features = {"x": RF(tf.float32, "v", [RF.RowSplits("sp")]), "y": RF(tf.float32, "v"), "z": tf.io.FixedLenFeature(
        [1], tf.float32, [0.0])}
    shapes = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def parse(records, rows=3):
        shapes.extend(tf.io.parse_example(tf.ensure_shape(records, [rows]), features)[k].shape.as_list() for k in "xyz")
        return tf.io.parse_example(records, features)["x"].shape.as_list()[0] is None
    assert parse(RECORDS)
    assert shapes == [[3, None, None], [3, None], [3, 1]]


def test_what_is_not_a_partition():
    with pytest.raises(TypeError, match="partition types"):
        RF(tf.float32, partitions=["x"])
    with pytest.raises(TypeError, match="list or tuple"):
        RF(tf.float32, partitions=3)
    with pytest.raises(ValueError, match="Conflicting type"):
        tf.io.parse_example(RECORDS, {"x": RF(tf.float32, "v"), "y": RF(tf.int64, "v")})


def sequence(context, **lists):
    def feature_list(steps):
        return tf.train.FeatureList(feature=[tf.train.Feature(int64_list=tf.train.Int64List(value=s)) for s in steps])
    made = tf.train.SequenceExample(
        context=tf.train.Example.FromString(context).features,
        feature_lists=tf.train.FeatureLists(feature_list={k: feature_list(v) for k, v in lists.items()}))
    return made.SerializeToString()


SEQUENCES = [sequence(RECORDS[0], x=[[1, 2, 3], [], [4]], n=[[1, 2], [], [1]]), sequence(RECORDS[2]),
             sequence(RECORDS[1], x=[[5, 6]], n=[[2]])]
STEPS = {"x": ([], [[[1, 2, 3], [], [4]], [], [[5, 6]]]),
         "rows": ([RF.RowLengths("n")], [[[[1], [2, 3]], [], [[4]]], [], [[[5, 6]]]]),
         "ones": ([1], [[[[1], [2], [3]], [], [[4]]], [], [[[5], [6]]]])}


@pytest.mark.parametrize("traced", [False, True])
def test_sequences_of_ragged_steps(traced):
    """One call with ragged features of the context and of the steps, for a batch and for one message."""
    context = {"v": RF(tf.float32, partitions=[RF.RowSplits("sp")])}
    steps = {k: RF(tf.int64, "x", parts, tf.int64 if k == "ones" else tf.int32, True) for k, (parts, _) in STEPS.items()}
    batch, one = tf.io.parse_sequence_example, tf.io.parse_single_sequence_example
    if traced:
        batch, one = tf.function(batch), tf.function(one)
    found, lists, lengths = batch(tf.constant(SEQUENCES), context, steps)
    assert found["v"].to_list() == ROWS[:1] + ROWS[2:] + ROWS[1:2]
    assert {k: v.to_list() for k, v in lists.items()} == {k: want for k, (_, want) in STEPS.items()}
    assert lengths == {} and lists["ones"].row_splits.dtype == tf.int64 and lists["ones"].ragged_rank == 2
    for i, message in enumerate(SEQUENCES):
        found, lists = one(tf.constant(message), context, steps)
        assert found["v"].to_list() == [ROWS[0], ROWS[2], ROWS[1]][i]
        assert {k: v.to_list() for k, v in lists.items()} == {k: want[i] for k, (_, want) in STEPS.items()}


def test_steps_without_partitions_are_reported():
    broken = sequence(RECORDS[2], x=[[1], [2]], n=[[1]])
    steps = {"x": RF(tf.int64, partitions=[RF.RowLengths("n")], validate=True)}
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="values and partitions are not aligned"):
        tf.io.parse_sequence_example([broken], sequence_features=steps)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="values and partitions are not aligned"):
        tf.io.parse_single_sequence_example(broken, sequence_features=steps)

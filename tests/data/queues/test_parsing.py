"""Parsing tf.Example messages: many rows at once produce what protobuf produces row by row; broken rows produce typed
errors."""
import random
import struct

import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.io import examples
from penstock._src.io.example_columns import BYTES, FLOAT, INT64, Column
from penstock._src.io.examples import ExampleParser

F, V, S = tf.io.FixedLenFeature, tf.io.VarLenFeature, tf.io.FixedLenSequenceFeature


@pytest.fixture(autouse=True, params=["compiled", "numpy"])
def scanner(request, monkeypatch):
    """Every test with the compiled scanner, and as on a machine without a compiler."""
    if request.param == "numpy":
        monkeypatch.setattr(examples, "scanner", None)
    elif examples.scanner is None:
        pytest.skip("penstock was installed without a compiler")
    return examples.scanner


def feature(value):
    value = value if isinstance(value, list) else [value]
    if not value or isinstance(value[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    if isinstance(value[0], int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=value))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))


def example(**values):
    return tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in values.items()})).SerializeToString()


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def field(tag, data):
    return bytes([tag]) + varint(len(data)) + data


def handmade(entries):
    """An example whose entries are in the given order: pairs of a key and the bytes of a Feature."""
    return field(0x0A, b"".join(field(0x0A, field(0x0A, k) + field(0x12, f)) for k, f in entries))


def fail(row, column, what):
    return errors.invalid(f"{row} {column} {what}")


def rowwise(columns, rows):
    """What protobuf returns: per column a list of lists of values, None where there is no feature."""
    out = [[] for _ in columns]
    for row in rows:
        found = tf.train.Example.FromString(row).features.feature
        for i, c in enumerate(columns):
            key = c.key.decode()
            kind = found[key].WhichOneof("kind") if key in found else None
            out[i].append(list(getattr(found[key], kind).value) if kind else None)
    return out


def as_lists(column, values, rows):
    flat = values.flat if isinstance(values.flat, list) else values.flat.tolist()
    counts = [column.size] * rows if values.counts is None else values.counts.tolist()
    out, at = [], 0
    for n in counts:
        out.append(None if n < 0 else flat[at:at + n])
        at += max(n, 0)
    assert at == len(flat)
    return out


COLUMNS = [Column(b"one", FLOAT, 1), Column(b"vector", FLOAT, 3), Column(b"wide", FLOAT, 40), Column(b"int", INT64, 1),
           Column(b"ints", INT64, None), Column(b"floats", FLOAT, None), Column(b"name", BYTES, 1),
           Column(b"words", BYTES, None)]


def random_row(rng, sometimes=0.0, order=False):
    some = [("one", rng.uniform(-9, 9)), ("vector", [rng.uniform(-9, 9) for _ in range(3)]),
            ("wide", [rng.uniform(-9, 9) for _ in range(40)]),
            ("int", rng.choice([0, 1, 127, 128, 2 ** 20, 2 ** 62, -1, -2 ** 63])),
            ("ints", [rng.randrange(-5, 2 ** rng.randrange(1, 60)) for _ in range(rng.randrange(1, 60))]),
            ("floats", [rng.uniform(-9, 9) for _ in range(rng.randrange(1, 60))]),
            ("name", bytes(rng.randrange(256) for _ in range(rng.randrange(0, 200)))),
            ("words", [b"w" * rng.randrange(0, 150) for _ in range(rng.randrange(1, 5))]),
            ("unknown", b"x" * rng.randrange(300))]
    some = [(k, v) for k, v in some if rng.random() >= sometimes]
    if order:
        rng.shuffle(some)
    return handmade([(k.encode(), feature(v).SerializeToString()) for k, v in some])


@pytest.mark.parametrize("sometimes, order", [(0, False), (0.2, False), (0, True), (0.1, True)])
@pytest.mark.parametrize("rows", [1, 12, 200])
def test_batches_against_protobuf(rows, sometimes, order):
    rng = random.Random(f"{rows}{sometimes}{order}")
    parser = ExampleParser(COLUMNS)
    for _ in range(3):                              # templates of the first batches are tried on the later ones
        batch = [random_row(rng, sometimes, order) for _ in range(rows)]
        expected = rowwise(COLUMNS, batch)
        for c, e, v in zip(COLUMNS, expected, parser.parse(batch, fail), strict=True):
            assert as_lists(c, v, rows) == e, c.key


def test_rows_that_look_alike_are_not_read_one_by_one(monkeypatch):
    rng = random.Random(3)
    parser = ExampleParser(COLUMNS[:5])
    batch = [example(one=rng.random(), vector=[1., 2., 3.], int=rng.randrange(100), other=b"x" * rng.randrange(9))
             for _ in range(100)]
    monkeypatch.setattr(examples, "read_maps", None)
    values = parser.parse(batch, fail)
    assert len(values[0].flat) == 100 and values[4].counts.tolist() == [-1] * 100


def test_ways_of_writing_that_protobuf_accepts():
    """Not packed, twice, in pieces, with unknown fields: the batch is as protobuf reads it."""
    unpacked = b"".join(b"\x0d" + struct.pack("<f", x) for x in (1., 2., 3.))
    rows = [handmade([(b"vector", field(FLOAT, field(0x0A, struct.pack("<3f", 4., 5., 6.))))]),
            handmade([(b"vector", field(FLOAT, unpacked))]),
            handmade([(b"vector", field(INT64, b"\x0a\x01\x01")), (b"vector", field(FLOAT, unpacked))]),
            handmade([(b"vector", field(FLOAT, field(0x0A, struct.pack("<f", 7.)) + field(0x0A, struct.pack("<2f", 8., 9.))))]),
            handmade([(b"vector", field(FLOAT, unpacked) + b"\x28\x01")]) + b"\x28\x01",
            handmade([(b"vector", field(FLOAT, unpacked))]) + handmade([(b"one", field(FLOAT, unpacked[:5]))]),
            handmade([(b"vector", b"")]), b"", b"\x0a\x00"] * 4
    columns = COLUMNS[:2]
    expected = rowwise(columns, rows)
    for c, e, v in zip(columns, expected, ExampleParser(columns).parse(rows, fail), strict=True):
        assert as_lists(c, v, len(rows)) == e


@pytest.mark.parametrize("seed, sometimes", [(7, 0), (8, 0.1)])
def test_broken_rows(seed, sometimes):
    """Cut, flipped, with wrong lengths: protobuf's values, or InvalidArgumentError; in bounded memory."""
    rng = random.Random(seed)
    parser = ExampleParser(COLUMNS)
    good = [random_row(rng, sometimes) for _ in range(20)]
    parser.parse(good, fail)
    outcomes = {"same": 0, "error": 0}
    for i in range(250):
        batch = list(good)
        bad = bytearray(batch[i % 20])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(bad))
            bad[at:at + rng.choice([0, 1, 1])] = bytes([rng.randrange(256)]) * rng.choice([0, 1, 1])
        batch[i % 20] = bytes(bad)
        try:
            tf.train.Example.FromString(bytes(bad))
            expected = rowwise(COLUMNS, batch)
        except Exception:
            expected = None
        try:
            got = parser.parse(batch, fail)
        except errors.InvalidArgumentError:
            outcomes["error"] += 1
            continue
        outcomes["same"] += 1
        if expected is not None:                    # keys that are not requested are not looked into
            assert [as_lists(c, v, 20) for c, v in zip(COLUMNS, got, strict=True)] == expected
    assert min(outcomes.values()) > 20, outcomes


def test_a_row_that_only_its_first_byte_gives_away():
    """It is like no template, also when it is compared with a second one."""
    one, two = example(one=1., int=5), example(int=5)
    rows = [one] * 10 + [two] * 10
    rows[15] = b"\x12" + two[1:]
    assert ExampleParser(COLUMNS[:1] + COLUMNS[3:4]).parse(rows, fail)[1].counts.tolist() == [1] * 15 + [-1] + [1] * 4


def test_absurd_lengths():
    for claimed in (2 ** 31, 2 ** 34, 2 ** 62):
        rows = [b"\x0a" + varint(claimed) + b"\x0a" * 20] * 20
        with pytest.raises(errors.InvalidArgumentError):
            ExampleParser(COLUMNS).parse(rows, fail)


# -- the functions ------------------------------------------------------------------------------------------------------
def test_dense_sparse_and_padded():
    rows = [example(x=[1., 2.], n=[1], w=[b"a"], s=[1, 2, 3]), example(x=[3., 4.], w=[b"b", b"c"])]
    out = tf2.io.parse_example(rows, {"x": F([2], tf.float32), "n": F([], tf.int64, default_value=-1), "w": V(tf.string),
                                      "s": S([], tf.int64, allow_missing=True, default_value=9)})
    assert out["x"].numpy().tolist() == [[1, 2], [3, 4]] and out["n"].numpy().tolist() == [1, -1]
    assert out["s"].numpy().tolist() == [[1, 2, 3], [9, 9, 9]]
    assert out["w"].values.numpy().tolist() == [b"a", b"b", b"c"] and out["w"].dense_shape.numpy().tolist() == [2, 2]
    assert out["w"].indices.numpy().tolist() == [[0, 0], [1, 0], [1, 1]]


def test_one_example():
    row = example(x=[1., 2.], w=[b"b", b"c"], i=[3, 0], v=[7., 8.])
    for out in (tf2.io.parse_single_example(row, {"x": F([2], tf.float32), "w": V(tf.string)}),
                tf2.io.parse_example(row, {"x": F([2], tf.float32), "w": V(tf.string)})):
        assert out["x"].numpy().tolist() == [1, 2] and out["w"].indices.numpy().tolist() == [[0], [1]]
    sparse = tf2.io.parse_single_example(row, {"s": tf.io.SparseFeature("i", "v", tf.float32, 5)})["s"]
    assert sparse.indices.numpy().tolist() == [[0], [3]] and sparse.values.numpy().tolist() == [8, 7]


@pytest.mark.parametrize("rows", [1, 30])
@pytest.mark.parametrize("wanted, message", [
    (F([], tf.float32), "Number of float values != expected.  Values size: 2 but output shape: \\[\\]"),
    (F([2], tf.int64), "Data types don't match. Data type: float but expected type: int64"),
    (V(tf.string), "Data types don't match"),
    (S([3], tf.float32, allow_missing=True), "Number of float values is not a multiple of stride length. Saw 2 values")])
def test_what_does_not_fit(rows, wanted, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Key: x, Index: {rows - 1}.  {message}"):
        batch = [example(y=1.)] * (rows - 1) + [example(x=[1., 2.])]
        default = wanted._replace(default_value=np.zeros(wanted.shape, wanted.dtype.as_numpy_dtype)) \
            if isinstance(wanted, F) else wanted
        tf2.io.parse_example(batch, {"x": default})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: z .data type: float. is required"):
        tf2.io.parse_example([example(x=1.)] * rows, {"z": F([], tf.float32)})


def test_sequences():
    def lists(**named):
        return tf.train.FeatureLists(feature_list={k: tf.train.FeatureList(feature=[feature(v) for v in vs])
                                                   for k, vs in named.items()})
    rows = [tf.train.SequenceExample(context=tf.train.Features(feature={"id": feature(i)}), feature_lists=made)
            .SerializeToString() for i, made in enumerate([lists(x=[[1., 2.], [3., 4.]], w=[[b"a"], [b"b", b"c"]]),
                                                           lists(x=[[5., 6.]])])]
    context, found, lengths = tf2.io.parse_sequence_example(
        rows, {"id": F([], tf.int64)}, {"x": S([2], tf.float32), "w": V(tf.string)})
    assert context["id"].numpy().tolist() == [0, 1] and lengths["x"].numpy().tolist() == [2, 1]
    assert found["x"].numpy().tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert found["w"].indices.numpy().tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert found["w"].dense_shape.numpy().tolist() == [2, 2, 2]
    context, found = tf2.io.parse_single_sequence_example(rows[0], {"id": F([], tf.int64)}, {"x": S([2], tf.float32)})
    assert found["x"].numpy().tolist() == [[1, 2], [3, 4]] and context["id"].numpy() == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature list 'gone' is required"):
        tf2.io.parse_single_sequence_example(rows[0], None, {"gone": S([2], tf.float32)})


def random_sequence(rng):
    """A SequenceExample in which anything may be missing or empty."""
    def values(kind, n):
        one = {"i": lambda: rng.randrange(-9, 2 ** 40), "f": lambda: rng.uniform(-9, 9), "s": lambda: b"w" * rng.randrange(150)}
        return [one[kind]() for _ in range(n)]
    message = tf.train.SequenceExample()
    for key, kind in (("i", "i"), ("f", "f"), ("s", "s"), ("unknown", "s")):
        if rng.random() < 0.9:
            message.context.feature[key].CopyFrom(feature(values(kind, 1)))
    for key, kind, n in (("dense", "f", 2), ("ints", "i", None), ("words", "s", None), ("other", "i", None)):
        if rng.random() < 0.9:
            message.feature_lists.feature_list[key].SetInParent()
            for _ in range(rng.randrange(5)):
                step = feature(values(kind, n or rng.randrange(1, 4)))
                message.feature_lists.feature_list[key].feature.append(step if n or rng.random() < 0.97 else tf.train.Feature())
    return message.SerializeToString()


def test_sequences_against_protobuf(monkeypatch):
    rng = random.Random(5)
    context = {"i": F([], tf.int64, 7), "f": V(tf.float32), "s": V(tf.string)}
    lists = {"dense": S([2], tf.float32, allow_missing=True), "ints": V(tf.int64), "words": V(tf.string)}

    def parsed(rows):
        found = tf.nest.flatten(tf2.io.parse_sequence_example(rows, context, lists), expand_composites=True)
        return [f.numpy().tolist() for f in found]
    for _ in range(20):
        rows = [random_sequence(rng) for _ in range(rng.choice([1, 3, 20]))]
        found = parsed(rows)
        with monkeypatch.context() as without:
            without.setattr(examples, "scanner", None)
            assert found == parsed(rows)


def test_broken_sequences():
    rng = random.Random(1)
    good = tf.train.SequenceExample(
        context=tf.train.Features(feature={"id": feature(3)}),
        feature_lists=tf.train.FeatureLists(feature_list={"x": tf.train.FeatureList(feature=[feature([1., 2.])] * 3)})
    ).SerializeToString()
    wanted = {"context_features": {"id": F([], tf.int64, 0)}, "sequence_features": {"x": S([2], tf.float32, True)}}
    seen = set()
    for _ in range(150):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            cut = rng.choice([len(bad), len(bad), rng.randrange(len(bad))])
            tf2.io.parse_sequence_example([good, bytes(bad[:cut])], **wanted)
            seen.add("parsed")
        except tf.errors.InvalidArgumentError:
            seen.add("error")
    assert seen == {"parsed", "error"}


def test_in_a_graph_with_unknown_shapes(sess):
    serialized = tf.placeholder(tf.string)
    out = tf.parse_example(serialized, {"x": F([2], tf.float32), "w": V(tf.int64)})
    assert out["x"].shape.rank is None
    rows = [example(x=[float(i), 1.], w=list(range(i % 3 + 1))) for i in range(50)]
    got = sess.run(out, {serialized: rows})
    assert got["x"][:, 0].tolist() == [float(i) for i in range(50)]
    assert got["w"].values.tolist() == [j for i in range(50) for j in range(i % 3 + 1)]


def test_large_batches_are_scanned_by_several_threads_as_by_one(monkeypatch):
    """Columns of known and of unknown sizes; with one irregular row the whole is scanned again."""
    if examples.scanner is None:
        pytest.skip("there is no compiled scanner here")
    rng = np.random.RandomState(0)
    rows = [example(x=rng.rand(700).tolist(), s=b"%d" % i, ids=list(range(i % 7)) or [0], y=i) for i in range(2500)]
    wanted = {"x": F([700], tf.float32), "s": F([], tf.string), "ids": V(tf.int64), "y": F([], tf.int64)}
    for rows_now in (rows, [*rows[:1234], rows[0] + b"\x0a\x00", *rows[1234:]]):
        results = []
        for threads in (1, 3):
            monkeypatch.setattr(examples.torch, "get_num_threads", lambda threads=threads: threads)
            results.append(tf2.io.parse_example(tf2.constant(rows_now), wanted))
        one, several = results
        for key in ("x", "s", "y"):
            assert np.array_equal(one[key].numpy(), several[key].numpy())
        for part in ("indices", "values", "dense_shape"):
            assert np.array_equal(getattr(one["ids"], part).numpy(), getattr(several["ids"], part).numpy())
        assert one["y"].numpy()[-1] == 2499


def test_no_names_of_any_shape():
    """Empty names of two dimensions were taken for a list of names, and the error had no text."""
    empty = tf2.zeros([1, 0], tf2.string)
    with pytest.raises(errors.InvalidArgumentError, match="Name: <unknown>.*Could not parse example input"):
        tf2.raw_ops.ParseSequenceExample(
            serialized=[b"\xff\x00"], debug_name=empty, context_dense_defaults=[], feature_list_dense_missing_assumed_empty=[],
            context_sparse_keys=[], context_dense_keys=[], feature_list_sparse_keys=[], feature_list_dense_keys=[])
    with pytest.raises(errors.InvalidArgumentError, match="Name: <unknown>"):
        tf2.raw_ops.ParseExample(serialized=[b""], names=empty, sparse_keys=[], dense_keys=["x"],
                                 dense_defaults=[np.zeros(0, np.float32)], sparse_types=[], dense_shapes=[[]])


def test_keys_are_in_the_order_of_their_kinds():
    features = {"d": tf.io.VarLenFeature(tf.int64), "r": tf.io.RaggedFeature(tf.int64),
                "c": tf.io.FixedLenFeature([], tf.int64, 0), "a": tf.io.RaggedFeature(tf.int64),
                "b": tf.io.VarLenFeature(tf.int64), "s": tf.io.SparseFeature("i", "v", tf.int64, 4),
                "q": tf.io.RaggedFeature(tf.int64, "z")}
    empty = tf.train.Example().SerializeToString()
    assert list(tf.io.parse_example([empty], features)) == ["b", "d", "c", "a", "r", "q", "s"]
    assert list(tf.io.parse_single_example(empty, features)) == ["b", "d", "c", "a", "r", "q", "s"]

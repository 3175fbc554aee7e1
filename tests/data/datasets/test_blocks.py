"""Functions over strings that are called on whole blocks return what they return element by element."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.base import errors
from penstock._src.ops.data.dataset_base import Body

D = tf.data.Dataset
F, V = tf.io.FixedLenFeature, tf.io.VarLenFeature


@pytest.fixture
def one_by_one(monkeypatch):
    """Switches blocks off, to see what single elements return."""
    def switch():
        monkeypatch.setattr(Body, "vectorized", lambda self, ctx: None)
    return switch


@pytest.fixture
def given_up(monkeypatch):
    """How often a function could not be called on a block."""
    times = []
    usual = Body.give_up
    monkeypatch.setattr(Body, "give_up", lambda self: (times.append(self), usual(self)))
    return times


@pytest.fixture
def in_blocks(monkeypatch):
    """Whether functions were called on blocks, for each time that it was decided."""
    found = []
    usual = Body.vectorized

    def vectorized(self, ctx):
        made = usual(self, ctx)
        found.append(made is not None)
        return made
    monkeypatch.setattr(Body, "vectorized", vectorized)
    return found


def example(**values):
    def feature(v):
        if isinstance(v[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=v))
        if isinstance(v[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=v))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=v))
    return tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in values.items()})).SerializeToString()


ROWS = [example(x=[float(i), 2.0], n=[i], raw=[np.array([i, 7], np.int16).tobytes()], words=[b"w"] * (i % 3 + 1))
        for i in range(50)]
WANTED = {"x": F([2], tf.float32), "n": F([], tf.int64), "raw": F([], tf.string), "gone": F([], tf.int64, 5)}


def parse(row):
    return tf.io.parse_single_example(row, WANTED)


def decode(row):
    found = parse(row)
    numbers = tf.cast(tf.io.decode_raw(found["raw"], tf.int16), tf.float32) / 2.0
    return numbers + found["x"], found["n"] * 3, row, tf.constant(4)


WORDS = [b" Ma\xc3\x9fe %d " % i for i in range(38)] + [b"", b"\xff"]
FUNCTIONS = {
    "parse": (parse, ROWS), "decode": (decode, ROWS),
    "csv": (lambda line: tf.io.decode_csv(line, [[0], [1.5], ["none"]]), [b"%d,%d.5,z" % (i, i) for i in range(40)] + [b"3,,"]),
    "numbers": (lambda s: tf.strings.to_number(s, tf.int32) + tf.strings.length(s), [b"%d" % i ** 3 for i in range(40)]),
    "hash": (lambda s: tf.strings.to_hash_bucket_fast(s, 100) % 7, [b"%d" % i for i in range(40)]),
    "hashes": (lambda s: (tf.compat.v1.strings.to_hash_bucket(s, 90), tf.strings.to_hash_bucket_strong(s, 80, [3, 4])), WORDS),
    "cased": (lambda s: (tf.strings.upper(s), tf.strings.length(tf.strings.lower(tf.strings.strip(s), "utf-8"))), WORDS),
    "replaced": (lambda s: tf.strings.regex_replace(s, tf.constant("[aeiou]"), "<\\0>"), WORDS),
    "matched": (lambda s: (tf.strings.regex_full_match(s, ".*1 "), tf.strings.regex_replace(s, "a", "", False)), WORDS),
    "base64": (lambda s: tf.io.decode_base64(tf.io.encode_base64(s)), WORDS),
    "rows of strings": (lambda s: tf.strings.upper(s), [WORDS[i:i + 3] for i in range(30)]),
    "printed": (lambda n: tf.strings.length(tf.strings.as_string(n)), list(range(-5, 40))),
    "csv and words": (lambda line: tf.strings.to_hash_bucket_fast(tf.strings.upper(tf.io.decode_csv(line, [[0], [""]])[1]), 9),
                      [b"%d,w%d" % (i, i % 5) for i in range(40)])}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_blocks_and_single_elements_agree(name, one_by_one, given_up, in_blocks):
    function, rows = FUNCTIONS[name]
    dataset = D.from_tensor_slices(rows).map(function)
    whole, batches = list(dataset.as_numpy_iterator()), list(dataset.batch(16).as_numpy_iterator())
    assert in_blocks and all(in_blocks) and not given_up
    one_by_one()
    for found, expected in ((whole, dataset), (batches, dataset.batch(16))):
        expected = list(expected.as_numpy_iterator())
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
                np.testing.assert_array_equal(x, y)
                assert np.asarray(x).dtype == np.asarray(y).dtype


@pytest.mark.parametrize("function", [
    lambda row: tf.sparse.to_dense(tf.io.parse_single_example(row, {"words": V(tf.string)})["words"], b""),
    lambda row: tf.io.decode_raw(row, tf.uint8),
    lambda row: tf.strings.join([row, row])])
def test_what_does_not_stack_is_called_one_by_one(function):
    found = list(D.from_tensor_slices(ROWS).map(function).as_numpy_iterator())
    for row, value in zip(ROWS, found, strict=True):
        np.testing.assert_array_equal(value, function(tf.constant(row)).numpy())


def test_a_captured_value_is_read_once_per_iterator():
    scale = tf.constant([2.0, 3.0])
    found = list(D.from_tensor_slices(ROWS).map(lambda r: parse(r)["x"] * scale).batch(25).as_numpy_iterator())
    np.testing.assert_array_equal(np.concatenate(found), [[2.0 * i, 6.0] for i in range(50)])


def test_a_broken_row_is_one_error(given_up):
    rows = list(ROWS)
    rows[20] = rows[20][:-3]
    found, failed = [], 0
    elements = iter(D.from_tensor_slices(rows).map(parse))
    while True:
        try:
            found.append(int(next(elements)["n"]))
        except errors.InvalidArgumentError:
            failed += 1
        except StopIteration:
            break
    assert failed == 1 and found == [i for i in range(50) if i != 20] and given_up
    kept = D.from_tensor_slices(rows).map(parse).apply(tf.data.experimental.ignore_errors())
    assert [int(e["n"]) for e in kept] == found


def test_integer_division_runs_on_blocks_and_refuses_zero():
    x = np.array([7, -7, 9, 0], "int32")
    dataset = tf.data.Dataset.from_tensor_slices(x).map(lambda i: (100 // (i + 1), 7 % (i + 1), tf.truncatediv(i, -1)))
    found = [tuple(int(v) for v in e) for e in dataset]
    assert found == [(int(100 // (i + 1)), int(7 % (i + 1)), -int(i)) for i in x]
    iterator, seen, failed = iter(tf.data.Dataset.from_tensor_slices(x).map(lambda i: 63 // i)), [], 0
    for _ in x:
        try:
            seen.append(int(next(iterator)))
        except tf.errors.InvalidArgumentError:
            failed += 1
    assert (seen, failed) == ([9, -9, 7], 1)

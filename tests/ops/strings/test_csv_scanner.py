"""decode_csv by the compiled scanner returns what Python returns: values, types, errors, on the same records."""
import random

import numpy as np
import pytest

import penstock as tf
from penstock._src.io import examples

TYPES = [tf.float32, tf.float64, tf.int32, tf.int64, tf.string]
ODD = ["", "NA", "nan", "-inf", " 5", "abc", "\"q\"", "+5", "-", ".", "1.", ".5", "1e3", "0x10", "1_0", "9" * 12, "9" * 19,
       "1.5\r", "123456789.123456789", "1e400", "-0", "é"]


def decoded(rows, defaults, **options):
    try:
        return [x.numpy() for x in tf.io.decode_csv(tf.constant(rows, tf.string, shape=[len(rows)]), defaults, **options)]
    except tf.errors.OpError as e:
        return str(e)


def equal(a, b):
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return all(x.dtype == y.dtype and x.shape == y.shape and
               (x.tolist() == y.tolist() if x.dtype == object else np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))
               for x, y in zip(a, b, strict=True))


def test_the_scanner_and_python_agree(monkeypatch):
    scanner, rng, read = examples.scanner, random.Random(5), 0
    if scanner is None:
        pytest.skip("penstock was installed without a compiler")

    def field(kind):
        if rng.random() < 0.1:
            return rng.choice(ODD)
        return str(rng.randrange(-999, 999)) if kind.is_integer else f"{rng.uniform(-1e3, 1e3):.{rng.randrange(12)}f}"
    for case in range(600):
        kinds = [rng.choice(TYPES) for _ in range(rng.randrange(1, 5))]
        rows = [",".join(map(field, kinds)) + ("," if rng.random() < 0.03 else "") for _ in range(rng.randrange(5))]
        defaults = [tf.constant([] if rng.random() < 0.3 else [b"d" if k == tf.string else 7], k) for k in kinds]
        options = {"na_value": "NA" if case % 2 else "", "use_quote_delim": case % 5 != 0}
        if case % 7 == 0:
            chosen = rng.randrange(len(kinds))
            defaults, options["select_cols"] = [defaults[chosen]], [chosen]
        monkeypatch.setattr(examples, "scanner", scanner)
        found = decoded(rows, defaults, **options)
        monkeypatch.setattr(examples, "scanner", None)
        assert equal(found, decoded(rows, defaults, **options)), (rows, kinds)
        read += not isinstance(found, str)
    assert read > 100


def test_the_scanner_leaves_what_is_not_plain():
    if examples.scanner is None:
        pytest.skip("penstock was installed without a compiler")

    def scan(*rows, kinds=(1, 3), defaults=(None, None), select=()):
        return examples.scanner.csv(list(rows), ord(","), True, b"", kinds, defaults, select, examples.object_array)
    found = scan(b"1.5,2", b"-0.25,3")
    assert np.frombuffer(found[0], np.float32).tolist() == [1.5, -0.25]
    assert np.frombuffer(found[1], np.int32).tolist() == [2, 3]
    assert np.frombuffer(scan(b"a,b,7", kinds=(4,), defaults=(None,), select=(2,))[0], np.int64).tolist() == [7]
    for row in (b'"1",2', b"1,2,3", b"1", b"", b"1,2\n", b"1,", b"x,2", b"1,2.5", b"1,3000000000"):
        assert scan(b"1,2", row) is None

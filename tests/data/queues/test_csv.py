"""decode_csv: plain records are read by the column, all others field by field; both mean the same."""
import csv
import io
import random
import time

import numpy as np
import pytest

import penstock as tf
from penstock._src.ops.strings import decode


def written(rows, quoting):
    records = []
    for row in rows:
        out = io.StringIO()
        csv.writer(out, lineterminator="", quoting=quoting).writerow(row)
        records.append(out.getvalue())
    return records


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("text", ["ab c.-", "ab,\"c d_é"])
def test_against_the_csv_module(quoting, text):
    rng = random.Random(f"{quoting}{text}")
    rows = [(rng.randrange(-10 ** 6, 10 ** 6), rng.uniform(-5, 5), "".join(rng.choices(text, k=rng.randrange(1, 9))),
             rng.randrange(2 ** 40)) for _ in range(200)]
    i, f, s, j = tf.io.decode_csv(written(rows, quoting), [[0], [0.], [""], tf.constant([0], tf.int64)])
    assert i.numpy().tolist() == [r[0] for r in rows] and j.numpy().tolist() == [r[3] for r in rows]
    np.testing.assert_allclose(f.numpy(), [r[1] for r in rows], rtol=1e-6)
    assert [x.decode() for x in s.numpy()] == [r[2] for r in rows]


def test_defaults_gaps_and_selection():
    a, c = tf.io.decode_csv(["1,x,2.5", ",y,", "NA,z,-1"], [[7], [0.5]], na_value="NA", select_cols=[0, 2])
    assert a.numpy().tolist() == [1, 7, 7] and c.numpy().tolist() == [2.5, 0.5, -1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 0 is required but missing in record 1"):
        tf.io.decode_csv(["1,2", ",2"], [tf.constant([], tf.int32), [0]])


@pytest.mark.parametrize("field", ["1_0", "0x1p3", "1e5", " 7 ", "nan", "+3", "1.5", "99999999999", "--1", "\x1c1", "",
                                   "1" * 5000, "٣"])
def test_numbers_mean_the_same_in_plain_and_other_records(field):
    """A quoted field in the batch makes all of it go the other way."""
    for default in ([0.], [0]):
        outcomes = []
        for other in ("5,x", '5,"x"'):
            try:
                outcomes.append(tf.io.decode_csv([f"{field},y", other], [default, [""]])[0].numpy().tolist())
            except tf.errors.InvalidArgumentError as e:
                outcomes.append(e.message.split("[Op")[0])
        assert repr(outcomes[0]) == repr(outcomes[1])


def test_hostile_records():
    """Any bytes produce values or InvalidArgumentError, soon."""
    rng = random.Random(5)
    alphabet = [b",", b'"', b"\n", b"\r", b"1", b".", b"e", b"-", b"a", b"\x00", b"\xff", b'""', b'",', b"9" * 30]
    begin, seen = time.process_time(), set()
    for _ in range(500):
        records = [b"".join(rng.choices(alphabet, k=rng.randrange(0, 12))) for _ in range(rng.randrange(1, 4))]
        try:
            out = tf.io.decode_csv(np.array(records, object), rng.choice([[[0]], [[0.], [""]], [[""], [""], [""]]]))
            assert all(o.shape == (len(records),) for o in out)
            seen.add("values")
        except tf.errors.InvalidArgumentError:
            seen.add("error")
    for big in (b'"' * 100001, b"," * 100000, b"1" * 100000, b'"a' * 50000):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.io.decode_csv([big], [[0], [0]])
    assert seen == {"values", "error"} and time.process_time() - begin < 60


def test_plain_records_are_read_by_the_column(monkeypatch):
    monkeypatch.setattr(decode, "_fields", None)
    a, b = tf.io.decode_csv(["1,a", "2,b"], [[0], [""]])
    assert a.numpy().tolist() == [1, 2] and b.numpy().tolist() == [b"a", b"b"]

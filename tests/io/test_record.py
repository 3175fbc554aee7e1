"""TFRecord files: what is written is read, and damage is noticed."""
import gzip
import random
import subprocess
import sys
import zlib

import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.base import errors
from penstock._src.io.record import RecordReader

RECORDS = [b"", b"a", b"\x00" * 3000, bytes(range(256)) * 5000, b"end"]


def write(path, records, options=None):
    with tf.io.TFRecordWriter(path, options) as w:
        for r in records:
            w.write(r)


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_round_trip(tmp_path, kind):
    write(tmp_path / "r", RECORDS, kind)
    assert list(v1.python_io.tf_record_iterator(tmp_path / "r", v1.python_io.TFRecordOptions(kind))) == RECORDS


def test_the_bytes_of_a_known_file(tmp_path):
    """The layout, written out by hand: length, checksum, data, checksum."""
    write(tmp_path / "r", [b"123"])
    data = (tmp_path / "r").read_bytes()
    assert data[:8] == b"\x03\0\0\0\0\0\0\0" and data[12:15] == b"123" and len(data) == 19


def test_compressed_files_are_what_others_write(tmp_path):
    write(tmp_path / "plain", RECORDS)
    plain = (tmp_path / "plain").read_bytes()
    (tmp_path / "gz").write_bytes(gzip.compress(plain[:100]) + gzip.compress(plain[100:]))       # of two members
    assert list(RecordReader(tmp_path / "gz", "GZIP")) == RECORDS
    write(tmp_path / "z", RECORDS, "ZLIB")
    assert zlib.decompress((tmp_path / "z").read_bytes()) == plain


def test_memory_file_system():
    write("memory://records/a", RECORDS)
    assert list(RecordReader("memory://records/a")) == RECORDS


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_reading_goes_on_at_an_offset(tmp_path, kind):
    write(tmp_path / "r", RECORDS, kind)
    reader = RecordReader(tmp_path / "r", kind)
    assert reader.read_many(3) == RECORDS[:3]
    assert RecordReader(tmp_path / "r", kind, offset=reader.offset).read_many(9) == RECORDS[3:]


def test_flushed_records_are_visible(tmp_path):
    for kind in ("", "GZIP"):
        writer = tf.io.TFRecordWriter(tmp_path / "r", kind)
        writer.write(b"x")
        writer.flush()
        assert RecordReader(tmp_path / "r", kind).read() == b"x"
        writer.close()


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_damage_is_a_typed_error(tmp_path, kind):
    """Bit flips and cuts: the records before the damage, then DataLossError (or the end, at a record's boundary)."""
    records = [bytes([i]) * (i * 7 % 50) for i in range(30)]
    write(tmp_path / "r", records, kind)
    whole = (tmp_path / "r").read_bytes()
    rng = random.Random(3)
    noticed = 0
    for _ in range(150):
        bad = bytearray(whole)
        if rng.random() < 0.5:
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        else:
            del bad[rng.randrange(len(bad)):]
        (tmp_path / "bad").write_bytes(bad)
        got = []
        try:
            for r in RecordReader(tmp_path / "bad", kind):
                got.append(r)
        except errors.DataLossError:
            noticed += 1
        assert got == records[:len(got)]
    assert noticed > 50


def test_a_huge_announced_length_allocates_nothing(tmp_path):
    import struct

    from penstock._src.io import crc
    length = struct.pack("<Q", 1 << 60)
    (tmp_path / "r").write_bytes(length + struct.pack("<I", crc.masked(length)) + b"abc")
    with pytest.raises(errors.DataLossError, match="truncated"):
        list(RecordReader(tmp_path / "r"))


def test_options_are_checked():
    with pytest.raises(ValueError, match="BZ2"):
        tf.io.TFRecordOptions("BZ2")
    with pytest.raises(errors.NotFoundError):
        next(v1.python_io.tf_record_iterator("/nowhere/at/all"))


def test_checksums_without_the_library():
    """A machine without google_crc32c has slow checksums, and the same ones."""
    program = """
import sys
sys.modules["google_crc32c"] = None
from penstock._src.io import crc
assert crc.value(b"123456789") == 0xE3069283
assert crc.extend(crc.value(b"1234"), b"56789") == crc.value(b"123456789")
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=100).returncode == 0


def test_an_iterator_continues_where_the_file_has_grown(tmp_path):
    path, other = str(tmp_path / "a"), str(tmp_path / "b")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"one")
    with tf.io.TFRecordWriter(other) as writer:
        writer.write(b"two")
    two = (tmp_path / "b").read_bytes()
    records = tf.compat.v1.io.tf_record_iterator(path)
    assert list(records) == [b"one"] and list(records) == []
    with open(path, "ab", buffering=0) as file:
        file.write(two[:-1])
        with pytest.raises(tf.errors.DataLossError):
            next(records)
        file.write(two[-1:])
    assert next(records) == b"two"
    records.close()
    with open(path, "ab") as file:
        file.write(two)
    records.reopen()
    assert list(records) == [b"two"]
    records.close()


def test_a_writer_that_is_left_open_loses_nothing(tmp_path):
    """A cycle of objects is deleted after the modules that writing needs."""
    program = """
import sys
import penstock as tf
class Cycle: pass
cycle = Cycle()
cycle.own, cycle.plain, cycle.packed = cycle, tf.io.TFRecordWriter(sys.argv[1]), tf.io.TFRecordWriter(sys.argv[2], "GZIP")
cycle.summaries = tf.summary.create_file_writer(sys.argv[3])
cycle.plain.write(b"one")
cycle.packed.write(b"two")
with cycle.summaries.as_default():
    tf.summary.scalar("loss", 1.0, step=3)
"""
    files = [str(tmp_path / name) for name in ("plain", "packed", "summaries")]
    ended = subprocess.run([sys.executable, "-c", program, *files], timeout=100, capture_output=True, text=True)
    assert ended.returncode == 0 and "Exception ignored" not in ended.stderr
    assert list(RecordReader(files[0])) == [b"one"]
    assert list(tf.data.TFRecordDataset(files[1], "GZIP").as_numpy_iterator()) == [b"two"]
    events = [e for p in (tmp_path / "summaries").iterdir() for e in v1.train.summary_iterator(str(p))]
    assert [v.tag for e in events for v in e.summary.value] == ["loss"]

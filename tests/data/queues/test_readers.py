"""Readers: records of files whose names come from a queue."""
import gzip
import zlib

import pytest

import penstock.compat.v1 as tf
from penstock._src.ops.io.reader import RecordInput

from .threads import Worker, waits


def queue_of(sess, names, close=True):
    q = tf.FIFOQueue(100, tf.string, shapes=[[]])
    sess.run(q.enqueue_many([[str(n) for n in names]]))
    if close:
        sess.run(q.close())
    return q


def everything(sess, fetch):
    out = []
    while True:
        try:
            out.append(sess.run(fetch))
        except tf.errors.OutOfRangeError:
            return out


def test_lines(sess, tmp_path):
    a, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    a.write_bytes(b"head\none\r\n\nlast")
    b.write_bytes(b"")
    c.write_bytes(b"head\ntwo\n")
    reader = tf.TextLineReader(skip_header_lines=1)
    got = everything(sess, reader.read(queue_of(sess, [a, b, c])))
    assert [tuple(p) for p in got] == [(f"{a}:2".encode(), b"one"), (f"{a}:3".encode(), b""), (f"{a}:4".encode(), b"last"),
                                       (f"{c}:2".encode(), b"two")]
    assert sess.run([reader.num_records_produced(), reader.num_work_units_completed()]) == [4, 3]


def test_up_to_n_records_stop_at_the_end_of_a_file(sess, tmp_path):
    files = [tmp_path / str(i) for i in range(2)]
    for f in files:
        f.write_bytes(b"1\n2\n3\n")
    got = everything(sess, tf.TextLineReader().read_up_to(queue_of(sess, files), 2))
    assert [v.tolist() for _, v in got] == [[b"1", b"2"], [b"3"], [b"1", b"2"], [b"3"]]


@pytest.mark.parametrize("header, footer, hop", [(0, 0, 0), (3, 2, 0), (0, 0, 1), (2, 1, 9)])
def test_fixed_length(sess, tmp_path, header, footer, hop):
    data = bytes(range(60))
    file = tmp_path / "a"
    file.write_bytes(data)
    reader = tf.FixedLengthRecordReader(5, header, footer, hop)
    got = [v for _, v in everything(sess, reader.read(queue_of(sess, [file])))]
    starts = range(header, len(data) - 5 - footer + 1, hop or 5)
    assert got == [data[i:i + 5] for i in starts]


@pytest.mark.parametrize("encoding, pack", [("ZLIB", zlib.compress), ("GZIP", gzip.compress)])
def test_fixed_length_of_compressed_files(sess, tmp_path, encoding, pack):
    file = tmp_path / "a"
    file.write_bytes(pack(bytes(range(100))))
    got = everything(sess, tf.FixedLengthRecordReader(50, encoding=encoding).read(queue_of(sess, [file])))
    assert [v for _, v in got] == [bytes(range(50)), bytes(range(50, 100))]


def test_records(sess, tmp_path):
    file = str(tmp_path / "a")
    with tf.python_io.TFRecordWriter(file) as w:
        for i in range(3):
            w.write(b"x" * i)
    got = everything(sess, tf.TFRecordReader().read(queue_of(sess, [file])))
    assert [tuple(p) for p in got] == [(f"{file}:{o}".encode(), b"x" * i) for i, o in enumerate((0, 16, 33))]


def test_a_corrupt_record_is_told_and_left(sess, tmp_path):
    bad, good = tmp_path / "a", tmp_path / "b"
    for f in (bad, good):
        with tf.python_io.TFRecordWriter(str(f)) as w:
            w.write(b"hello")
    bad.write_bytes(bad.read_bytes()[:14] + b"?" + bad.read_bytes()[15:])
    read = tf.TFRecordReader().read(queue_of(sess, [bad, good]))
    with pytest.raises(tf.errors.DataLossError, match="corrupted record"):
        sess.run(read)
    assert sess.run(read)[1] == b"hello"


def test_whole_files_and_their_absence(sess, tmp_path):
    (tmp_path / "a").write_bytes(b"all of it")
    reader = tf.WholeFileReader()
    read = reader.read(queue_of(sess, [tmp_path / "a", tmp_path / "gone"]))
    assert sess.run(read)[1] == b"all of it"
    with pytest.raises(tf.errors.NotFoundError, match="gone"):
        sess.run(read)


def test_state(sess):
    reader = tf.IdentityReader()
    q = queue_of(sess, "abc")
    read, produced = reader.read(q), reader.num_records_produced()
    sess.run(read)
    state = sess.run(reader.serialize_state())
    sess.run(read)
    sess.run(reader.restore_state(state))
    assert sess.run(produced) == 1
    sess.run(reader.reset())
    assert sess.run(produced) == 0
    for bad in (b"\xff" * 5, b"\x08\x02\x10\x01", b"\x08" + b"\xff" * 9 + b"\x01"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(reader.restore_state(bad))
    with pytest.raises(tf.errors.UnimplementedError):
        sess.run(tf.TextLineReader().serialize_state())


def test_waiting_for_work_can_be_ended(sess):
    reader = tf.IdentityReader()
    q = tf.FIFOQueue(10, tf.string, shapes=[[]])
    read, put = reader.read(q), q.enqueue("x")
    first = Worker(sess.run, read)
    assert waits(first)
    with pytest.raises(tf.errors.DeadlineExceededError):       # waits for the reader, which the other step has
        sess.run(read, options=tf.RunOptions(timeout_in_ms=50))
    sess.run(put)
    assert first.result()[1] == b"x"


def test_queues_of_something_else_are_refused(sess):
    q = tf.FIFOQueue(10, tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="single string component"):
        sess.run(tf.IdentityReader().read(q))


def test_record_input_gives_every_record_once_an_epoch(sess, tmp_path):
    for i in range(5):
        with tf.python_io.TFRecordWriter(str(tmp_path / f"part-{i}")) as w:
            for j in range(20):
                w.write(b"%d" % (20 * i + j))
    batch = RecordInput(str(tmp_path / "part-*"), batch_size=10, buffer_size=30, parallelism=2, seed=3).get_yield_op()
    for _ in range(2):
        epoch = [int(r) for _ in range(10) for r in sess.run(batch)]
        assert sorted(epoch) == list(range(100)) and epoch != sorted(epoch)
    with pytest.raises(tf.errors.NotFoundError, match="no files"):
        sess.run(RecordInput(str(tmp_path / "none*")).get_yield_op())

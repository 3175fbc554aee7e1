"""tf.contrib.learn.io: batches of arrays, data frames, generators and files of examples."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

io = tf.contrib.learn.io


def batches(make):
    """All batches of an input function."""
    with tf.Graph().as_default():
        out = make()
        found = []
        with tf.train.MonitoredSession() as sess:
            while not sess.should_stop():
                try:
                    found.append(sess.run(out))
                except tf.errors.OutOfRangeError:
                    break
        return found


def test_arrays_are_shuffled_unless_told_otherwise():
    x, y = np.arange(40), np.arange(40) * 2
    plain = batches(io.numpy_input_fn({"x": x}, y, batch_size=16, shuffle=False))
    assert [len(b[1]) for b in plain] == [16, 16, 8] and plain[0][0]["x"].tolist() == list(range(16))
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        features, labels = io.numpy_input_fn({"x": x}, y, batch_size=40)()
        with tf.Session() as sess:
            got, target = sess.run([features["x"], labels])
    assert got.tolist() != x.tolist() and sorted(got) == x.tolist()
    np.testing.assert_array_equal(target, got * 2)


class Frame(dict):
    """As much of a data frame as these functions use."""
    columns = property(list)
    values = property(lambda self: np.stack(list(self.values_of()), 1))

    def values_of(self):
        return (np.asarray(self[c]) for c in self)


def test_values_of_data_frames():
    frame = Frame(a=np.array([1, 2]), b=np.array([0.5, 1.5]))
    assert io.extract_pandas_data(frame).tolist() == [[1.0, 0.5], [2.0, 1.5]]
    assert io.extract_pandas_labels(Frame(a=np.array([1, 0]))).tolist() == [[1], [0]]
    assert tf.contrib.learn.extract_pandas_matrix(np.ones(3)).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="Only one column"):
        io.extract_pandas_labels(frame)
    with pytest.raises(ValueError, match="must be int, float, or bool. Found: 'a' type='object'"):
        io.extract_pandas_data(Frame(a=np.array(["x"], object)))


def rows():
    for i in range(5):
        yield {"height": np.float32(i), "ids": np.full(i % 2 + 1, i), "label": np.int64(i % 2)}


def fixed():
    for row in rows():
        yield {**row, "ids": row["ids"][:1]}


def test_generators():
    got = batches(io.generator_input_fn(fixed, target_key="label", batch_size=2, shuffle=False))
    assert [b[0]["height"].tolist() for b in got] == [[0, 1], [2, 3], [4]] and got[1][1].tolist() == [0, 1]
    assert got[0][0]["ids"].tolist() == [[0], [1]] and set(got[0][0]) == {"height", "ids"}
    padded = batches(io.generator_input_fn(rows, ["label", "height"], batch_size=2, shuffle=False, pad_value=-1))
    assert padded[0][0]["ids"].tolist() == [[0, -1], [1, 1]] and set(padded[0][1]) == {"label", "height"}


@pytest.mark.parametrize("arguments,error,words", [
    ((5,), TypeError, "x must be generator function"), ((lambda: 5,), TypeError, r"x\(\) must be generator"),
    ((lambda: (i for i in range(2)),), TypeError, r"x\(\) must yield dict"),
    ((fixed, ["other"]), KeyError, "target_key not in yielded dict"), ((fixed, [5]), TypeError, "Container of str")])
def test_what_is_no_generator_of_examples(arguments, error, words):
    with pytest.raises(error, match=words):
        io.generator_input_fn(*arguments)


def examples(path, numbers):
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for n in numbers:
            feature = {"n": tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


@pytest.mark.parametrize("randomize", [False, True])
def test_features_of_files(tmp_path, randomize):
    examples(tmp_path / "a.rec", range(4))
    examples(tmp_path / "b.rec", range(4, 10))
    features = {"n": tf.FixedLenFeature([], tf.int64)}
    found = []
    with tf.Graph().as_default():
        batch = io.read_batch_features(str(tmp_path / "*.rec"), 3, features, tf.TFRecordReader, randomize, num_epochs=1,
                                       queue_capacity=20)
        with tf.train.MonitoredSession() as sess:
            while not sess.should_stop():
                found += sess.run(batch["n"]).tolist()
    assert sorted(found) == list(range(10)) and (randomize or found == list(range(10)))


def test_records_and_keys_of_files(tmp_path):
    examples(tmp_path / "a.rec", range(4))
    with tf.Graph().as_default():
        keys, records = io.read_keyed_batch_examples(str(tmp_path / "a.rec"), 2, tf.TFRecordReader, False, num_epochs=1)
        with tf.train.MonitoredSession() as sess:
            key, record = sess.run([keys, records])
    assert all(k.decode().startswith(str(tmp_path / "a.rec")) for k in key) and len(record) == 2
    with pytest.raises(ValueError, match="No files match"):
        io.read_batch_examples(str(tmp_path / "none*"), 2, tf.TFRecordReader)
    with pytest.raises(ValueError, match="Invalid batch_size 0"):
        io.read_batch_examples(str(tmp_path / "a.rec"), 0, tf.TFRecordReader)

"""tf.keras.utils: arrays, sequences and what reads them ahead, files, pictures of models."""
import hashlib
import io
import os
import random
import tarfile
import threading
import zipfile

import h5py
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

K = tf.keras


def test_to_categorical_and_normalize():
    np.testing.assert_array_equal(K.utils.to_categorical([0, 2, 1]), np.eye(3)[[0, 2, 1]])
    assert K.utils.to_categorical(np.zeros((2, 5, 1), int), 4).shape == (2, 5, 4)
    np.testing.assert_allclose(K.utils.normalize(np.array([[3.0, 4.0], [0, 0]])), [[0.6, 0.8], [0, 0]], rtol=1e-6)


class Squares(K.utils.Sequence):
    def __init__(self, n, bad=None):
        super().__init__()
        self.n, self.bad, self.epochs = n, bad, 0

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.bad:
            raise IndexError("batch is bad")
        return i * i

    def on_epoch_end(self):
        self.epochs += 1


def test_batches_are_read_ahead_in_order():
    before = threading.active_count()
    e = K.utils.OrderedEnqueuer(Squares(10))
    e.start(workers=3, max_queue_size=5)
    batches = e.get()
    assert [next(batches) for _ in range(15)] == [i * i for i in range(10)] + [i * i for i in range(5)]
    e.stop()
    assert e.sequence.epochs >= 1 and not e.is_running()
    g = K.utils.GeneratorEnqueuer(i for i in range(4))
    g.start()
    assert list(g.get()) == [0, 1, 2, 3]
    g.stop()
    bad = K.utils.OrderedEnqueuer(Squares(5, bad=2))
    bad.start()
    with pytest.raises(IndexError, match="bad"):
        list(bad.get())
    assert threading.active_count() <= before + 1


def test_files_come_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_OFFLINE", "1")
    with pytest.raises(ConnectionError, match="PENSTOCK_OFFLINE.*save it as"):
        K.utils.get_file("a.txt", "https://example.com/a.txt", cache_dir=str(tmp_path))
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "a.txt").write_text("hello")
    sha = hashlib.sha256(b"hello").hexdigest()
    assert K.utils.get_file("a.txt", "x", cache_dir=str(tmp_path), file_hash=sha) == str(tmp_path / "datasets" / "a.txt")
    with pytest.raises(ValueError, match="hash"):
        K.utils.get_file("a.txt", "x", cache_dir=str(tmp_path), file_hash="0" * 64)
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as t:
        t.add(tmp_path / "datasets" / "a.txt", "inside.txt")
    K.utils.get_file("t.tar.gz", "file://" + str(tmp_path / "t.tar.gz"), cache_dir=str(tmp_path), extract=True)
    assert os.path.exists(tmp_path / "datasets" / "inside.txt")


def _tar(path, *members):
    with tarfile.open(path, "w:gz") as t:
        for name, link, size in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = (tarfile.SYMTYPE, link, 0) if link else (tarfile.REGTYPE, "", size)
            t.addfile(info, io.BytesIO(bytes(size)))


def _zip(path, size):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("large", bytes(size))


@pytest.mark.parametrize("make, error", [
    (lambda p: _tar(p, ("../../evil", "", 1)), tf.errors.PermissionDeniedError),
    (lambda p: _tar(p, ("l", "../../..", 0), ("l/evil", "", 1)), tf.errors.PermissionDeniedError),
    (lambda p: _tar(p, ("large", "", 300_000)), tf.errors.ResourceExhaustedError),
    (lambda p: _zip(p, 300_000), tf.errors.ResourceExhaustedError)], ids=["tar out", "tar link", "tar bomb", "zip bomb"])
def test_hostile_archives_are_not_unpacked(tmp_path, monkeypatch, make, error):
    monkeypatch.setattr("penstock._src.io.archives.FLOOR", 1000)
    make(tmp_path / "a")
    with pytest.raises(error):
        K.utils.get_file("b", f"file://{tmp_path / 'a'}", cache_dir=str(tmp_path / "deep" / "er"), extract=True)
    assert not list(tmp_path.rglob("evil")) and not list(tmp_path.rglob("large"))


def test_hdf5_matrix(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(20).reshape(10, 2)
    m = K.utils.HDF5Matrix(str(tmp_path / "a.h5"), "x", 2, 8, normalizer=lambda a: a + 100)
    assert m.shape == (6, 2) and len(m) == 6 and m.ndim == 2 and m.size == 12
    np.testing.assert_array_equal(m[0], [104, 105])
    np.testing.assert_array_equal(m[1:3], [[106, 107], [108, 109]])
    np.testing.assert_array_equal(m[[0, 5]], [[104, 105], [114, 115]])
    with pytest.raises(IndexError):
        m[6]


def test_models_as_graphviz_text(tmp_path):
    x = K.Input((4,), name="x")
    a = K.layers.Dense(3, name="a")(x)
    b = K.layers.Dense(3, name="b")(x)
    m = K.Model(x, K.layers.Add(name="sum")([a, b]))
    text = str(K.utils.model_to_dot(m, show_shapes=True))
    assert text.count("->") == 4 and "a: Dense|{input:|output:}|{{(None, 4)}|{(None, 3)}}" in text
    K.utils.plot_model(m, tmp_path / "m.dot")
    assert (tmp_path / "m.dot").read_text().startswith("digraph")
    assert K.utils.get_source_inputs(m.output)[0] is x


def test_models_for_scikit_learn():
    def build(hidden=4):
        m = K.Sequential([K.layers.Dense(hidden, activation="relu", input_shape=(2,)), K.layers.Dense(2, activation="softmax")])
        m.compile(K.optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
        return m
    x = np.random.RandomState(0).randn(60, 2).astype("f")
    y = np.where(x[:, 0] > 0, "right", "left")
    clf = K.wrappers.scikit_learn.KerasClassifier(build, hidden=8, epochs=60, verbose=0)
    clf.fit(x, y)
    assert clf.score(x, y) > 0.7 and set(clf.predict(x)) <= {"left", "right"} and clf.predict_proba(x).shape == (60, 2)
    assert clf.get_params()["hidden"] == 8 and clf.set_params(hidden=3).sk_params["hidden"] == 3
    with pytest.raises(ValueError, match="not a legal parameter"):
        K.wrappers.scikit_learn.KerasRegressor(build, nothing=1)


def test_ordinal_rows():
    np.testing.assert_array_equal(K.utils.to_ordinal([2, 0, 1], 4), [[1, 1, 0], [0, 0, 0], [1, 0, 0]])


def test_one_seed_for_everything():
    def draws():
        K.utils.set_random_seed(812)
        return random.random(), np.random.rand(), float(tf.random.uniform([])), K.layers.Dense(2, input_shape=(3,)).name
    assert draws()[:3] == draws()[:3]
    with pytest.raises(ValueError, match="integer"):
        K.utils.set_random_seed("now")


@pytest.mark.parametrize("sizes, counts", [({"left_size": 0.8}, (8, 2)), ({"right_size": 3}, (7, 3)),
                                           ({"left_size": 2, "right_size": 0.4}, (2, 4))])
def test_data_are_split(sizes, counts):
    x, y = np.arange(10), np.arange(10) * 2.
    for data in ((x, y), tf.data.Dataset.from_tensor_slices((x, y))):
        left, right = (list(part.as_numpy_iterator()) for part in K.utils.split_dataset(data, **sizes))
        assert (len(left), len(right)) == counts
        assert left[0] == (0, 0.) and right[-1] == (9, 18.)
    left, right = K.utils.split_dataset(x, left_size=6, shuffle=True, seed=1)
    both = [*left.as_numpy_iterator(), *right.as_numpy_iterator()]
    assert sorted(both) == list(range(10)) and both != list(range(10))
    with pytest.raises(ValueError, match="more than the 10"):
        K.utils.split_dataset(x, left_size=0.8, right_size=4)


@pytest.mark.parametrize("module, value", [
    ("layers", lambda: tf.keras.layers.Dense(2, name="d")), ("losses", lambda: tf.keras.losses.Huber(0.5)),
    ("metrics", lambda: tf.keras.metrics.Mean(name="m")), ("optimizers", lambda: tf.keras.optimizers.SGD(0.25)),
    ("initializers", lambda: tf.keras.initializers.Constant(3.0)),
    ("regularizers", lambda: tf.keras.regularizers.L2(0.5)),
    ("constraints", lambda: tf.keras.constraints.MaxNorm(1.5)),
    ("activations", lambda: tf.keras.activations.relu),
    ("optimizers.schedules", lambda: tf.keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.9))],
    ids=lambda x: x if isinstance(x, str) else "")
def test_serialization_takes_the_format(module, value):
    space = tf.keras
    for part in module.split("."):
        space = getattr(space, part)
    written = space.serialize(value(), use_legacy_format=True)
    again = space.deserialize(written, use_legacy_format=True)
    assert space.serialize(again, use_legacy_format=True) == written
    assert "module" not in written and space.serialize(space.deserialize(space.serialize(again))) == space.serialize(again)


def test_regularizers_of_one_factor_are_classes_of_their_own():
    r = tf.keras.regularizers
    assert type(r.l2(0.5)) is r.L2 and type(r.get("l1")) is r.L1 and r.l2(l=0.5).get_config() == {"l2": 0.5}
    assert float(r.l1(l1=0.5)(tf.constant([1.0, -2.0]))) == 1.5 and float(r.l2(l2=0.5)(tf.constant([1.0, -2.0]))) == 2.5
    assert not hasattr(r.l1(), "l2") and float(r.L2(None).l2) == np.float32(0.01)
    assert type(tf1.keras.regularizers.l2(0.5)).__name__ == "L1L2"
    with pytest.raises(TypeError, match="not recognized"):
        r.L1(l2=0.5)


def test_softmax_takes_several_axes():
    x = np.random.RandomState(0).randn(2, 3, 4).astype("f")
    e = np.exp(x)
    np.testing.assert_allclose(tf.keras.activations.softmax(x, axis=(1, 2)), e / e.sum((1, 2), keepdims=True), rtol=1e-5)


def test_activity_regularizers_may_return_numbers():
    layer = tf.keras.layers.Dense(1, activity_regularizer=lambda x: 4.0)
    layer(np.ones((2, 3), "f"))
    assert float(layer.losses[0]) == 2.0


def test_a_dataset_of_batches_is_split_by_samples():
    """Values recorded from tf_keras, which takes tuples only."""
    data = tf.data.Dataset.from_tensor_slices((np.arange(10), np.arange(10.) * 2)).batch(2)
    left, right = ([x.tolist() for x, _ in part.as_numpy_iterator()] for part in K.utils.split_dataset(data, left_size=3))
    assert (left, right) == ([[0, 1], [2]], [[3, 4], [5, 6], [7, 8], [9]])
    left, right = K.utils.split_dataset(tf.data.Dataset.range(10).batch(3), left_size=0.5)
    assert [x.tolist() for x in left.as_numpy_iterator()] == [[0, 1, 2], [3, 4]]
    assert [x.tolist() for x in right.as_numpy_iterator()] == [[5, 6, 7], [8, 9]]

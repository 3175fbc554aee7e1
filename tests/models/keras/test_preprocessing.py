"""Sequences, text, images and datasets of tf.keras."""
import io
import json
import pickle
import shutil
import tarfile

import numpy as np
import pytest
from PIL import Image

import penstock as tf

K = tf.keras


def test_pad_sequences():
    pad = K.preprocessing.sequence.pad_sequences
    rows = [[1], [1, 2], [1, 2, 3]]
    np.testing.assert_array_equal(pad(rows, maxlen=3), [[0, 0, 1], [0, 1, 2], [1, 2, 3]])
    np.testing.assert_array_equal(pad(rows, maxlen=3, padding="post"), [[1, 0, 0], [1, 2, 0], [1, 2, 3]])
    np.testing.assert_array_equal(pad(rows, maxlen=2, truncating="pre", value=9), [[9, 1], [1, 2], [2, 3]])
    np.testing.assert_array_equal(pad(rows, maxlen=2, truncating="post"), [[0, 1], [1, 2], [1, 2]])
    assert pad([np.ones((2, 3)), np.ones((4, 3))]).shape == (2, 4, 3)
    with pytest.raises(ValueError, match="iterables"):
        pad([1, 2])


def test_skipgrams_and_sampling_table():
    couples, labels = K.preprocessing.sequence.skipgrams(range(3), vocabulary_size=3)
    assert len(couples) == len(labels) and all(0 < a < 3 and 0 < b < 3 for a, b in couples)
    table = K.preprocessing.sequence.make_sampling_table(3)
    np.testing.assert_allclose(table, [0.00315225, 0.00315225, 0.00547597], rtol=0.1)


def test_timeseries():
    data = np.arange(50).reshape(50, 1)
    g = K.preprocessing.sequence.TimeseriesGenerator(data, data, length=10, sampling_rate=2, batch_size=2)
    assert len(g) == 20
    np.testing.assert_array_equal(g[0][0][..., 0], [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]])
    np.testing.assert_array_equal(g[0][1], [[10], [11]])
    ds = K.utils.timeseries_dataset_from_array(np.arange(20), np.arange(20) * 10, sequence_length=4, batch_size=5)
    x, y = next(iter(ds))
    np.testing.assert_array_equal(x.numpy(), np.arange(5)[:, None] + np.arange(4))
    np.testing.assert_array_equal(y.numpy(), np.arange(5) * 10)


def test_tokenizer():
    texts = ["The cat sat on the mat.", "The dog sat on the log.", "Dogs and cats living together."]
    t = K.preprocessing.text.Tokenizer(num_words=10)
    t.fit_on_texts(texts)
    assert t.word_index["the"] == 1 and t.texts_to_sequences(["the dog"]) == [[1, t.word_index["dog"]]]
    assert t.sequences_to_texts([[1]]) == ["the"]
    for mode in ("binary", "count", "tfidf", "freq"):
        assert t.texts_to_matrix(texts, mode).shape == (3, 10)
    np.testing.assert_array_equal(t.texts_to_matrix(["the the"], "count")[0, 1], 2)
    again = K.preprocessing.text.tokenizer_from_json(t.to_json())
    assert again.texts_to_sequences(texts) == t.texts_to_sequences(texts) and again.get_config() == t.get_config()
    oov = K.preprocessing.text.Tokenizer(oov_token="?")
    oov.fit_on_texts(["a b"])
    assert oov.texts_to_sequences(["a z"]) == [[2, 1]]
    assert K.preprocessing.text.text_to_word_sequence("hello! ? world!") == ["hello", "world"]
    hashed = K.preprocessing.text.hashing_trick("The cat sat on the mat.", 5, hash_function="md5")
    assert len(hashed) == 6 and hashed[0] == hashed[4] and all(0 < h < 5 for h in hashed)


def test_images_and_arrays(tmp_path):
    x = np.random.RandomState(0).randint(0, 255, (6, 5, 3)).astype("f")
    path = str(tmp_path / "a.png")
    K.preprocessing.image.save_img(path, x, scale=False)
    np.testing.assert_array_equal(K.preprocessing.image.img_to_array(K.preprocessing.image.load_img(path)), x)
    assert K.preprocessing.image.load_img(path, target_size=(10, 8)).size == (8, 10)
    assert K.preprocessing.image.load_img(path, color_mode="grayscale").mode == "L"
    with pytest.raises(ValueError, match="color_mode"):
        K.preprocessing.image.load_img(path, color_mode="blue")


def test_affine_transform_moves_pixels():
    pytest.importorskip("scipy", reason="images are moved and turned by SciPy")
    x = np.zeros((5, 5, 1))
    x[2, 2] = 1
    moved = K.preprocessing.image.apply_affine_transform(x, tx=1, ty=0, fill_mode="constant")
    assert moved[1, 2, 0] == 1 and moved.sum() == 1
    turned = K.preprocessing.image.apply_affine_transform(np.pad(np.ones((1, 1, 1)), ((0, 4), (0, 4), (0, 0))), theta=90)
    assert abs(turned.sum() - 1) < 1e-6 and turned[0, 0, 0] < 1e-6


def test_random_changes_need_scipy():
    pytest.importorskip("scipy", reason="images are moved and turned by SciPy")
    x = np.random.RandomState(0).rand(4, 8, 8, 3).astype("f") * 255
    g = K.preprocessing.image.ImageDataGenerator(rotation_range=20, zoom_range=0.1, width_shift_range=0.1, shear_range=5)
    changed = g.flow(x, batch_size=4, shuffle=False, seed=1)[0]
    assert changed.shape == x.shape and abs(changed - x).max() > 1 and changed.min() >= 0 and changed.max() <= 255


def test_image_data_generator(tmp_path):
    x = np.random.RandomState(0).rand(16, 8, 8, 3).astype("f") * 255
    g = K.preprocessing.image.ImageDataGenerator(rescale=1 / 255.0, horizontal_flip=True, validation_split=0.25)
    flow = g.flow(x, np.arange(16), batch_size=5, seed=1)
    assert len(flow) == 4 and flow[0][0].shape == (5, 8, 8, 3) and flow[0][0].max() <= 1
    assert g.flow(x, np.arange(16), subset="validation").n == 4
    plain = K.preprocessing.image.ImageDataGenerator(featurewise_center=True, featurewise_std_normalization=True)
    plain.fit(x)
    batch = plain.flow(x, batch_size=16, shuffle=False)[0]
    np.testing.assert_allclose(batch.mean((0, 1, 2)), 0, atol=1e-4)
    np.testing.assert_allclose(batch.std((0, 1, 2)), 1, atol=1e-3)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.fromarray(x[i].astype("uint8")).save(tmp_path / name / f"{i}.png")
    flow = K.preprocessing.image.ImageDataGenerator().flow_from_directory(str(tmp_path), target_size=(4, 4), batch_size=4)
    images, labels = next(flow)
    assert images.shape == (4, 4, 4, 3) and labels.shape == (4, 2) and flow.class_indices == {"cat": 0, "dog": 1}
    ds = K.utils.image_dataset_from_directory(str(tmp_path), image_size=(8, 8), batch_size=6, shuffle=False)
    images, labels = next(iter(ds))
    np.testing.assert_allclose(images.numpy()[0], x[0].astype("uint8"), atol=1e-3)
    np.testing.assert_array_equal(labels.numpy(), [0, 0, 0, 1, 1, 1])
    assert ds.class_names == ["cat", "dog"]
    both = K.utils.image_dataset_from_directory(str(tmp_path), image_size=(8, 8), validation_split=0.34, subset="both", seed=1)
    assert [sum(len(labels) for _, labels in part) for part in both] == [4, 2]
    assert not set(both[0].file_paths) & set(both[1].file_paths)
    with pytest.raises(ValueError, match="`labels` argument should be"):
        K.utils.image_dataset_from_directory(str(tmp_path), labels="other")
    with pytest.raises(ValueError, match="No text files found"):
        K.utils.text_dataset_from_directory(str(tmp_path))
    with open(tmp_path / "cat" / "0.png", "rb") as f:
        assert K.utils.load_img(io.BytesIO(f.read())).size == (8, 8)
    cropped = K.utils.image_dataset_from_directory(str(tmp_path), image_size=(4, 8), shuffle=False, crop_to_aspect_ratio=True,
                                                   interpolation="nearest")
    np.testing.assert_array_equal(next(iter(cropped))[0].numpy()[0], x[0].astype("uint8")[2:6])


def test_texts_from_directories(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_text(f"text of {name}")
    ds = K.utils.text_dataset_from_directory(str(tmp_path), shuffle=False)
    texts, labels = next(iter(ds))
    assert texts.numpy().tolist() == [b"text of a", b"text of b"] and labels.numpy().tolist() == [0, 1]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "datasets").mkdir()
    return tmp_path / "datasets"


def test_datasets_say_where_files_belong(home, monkeypatch):
    monkeypatch.setenv("PENSTOCK_OFFLINE", "1")
    with pytest.raises(ConnectionError, match=r"PENSTOCK_OFFLINE.*save it as .*datasets/mnist.npz"):
        K.datasets.mnist.load_data()


def test_datasets_from_files(home):
    np.savez(home / "mnist.npz", x_train=np.zeros((3, 28, 28), "uint8"), y_train=np.arange(3), x_test=np.ones((2, 28, 28)),
             y_test=np.arange(2))
    (x, y), (x_test, _) = K.datasets.mnist.load_data()
    assert x.shape == (3, 28, 28) and x_test.shape == (2, 28, 28) and y.tolist() == [0, 1, 2]
    np.savez(home / "boston_housing.npz", x=np.arange(20).reshape(10, 2), y=np.arange(10))
    (x, y), (x_test, _) = K.datasets.boston_housing.load_data()
    assert x.shape == (8, 2) and x_test.shape == (2, 2) and (x[:, 0] == y * 2).all()
    rows = np.empty(4, dtype=object)
    rows[:] = [[5, 6], [7], [5, 900, 8], [9, 9]]
    np.savez(home / "imdb.npz", x_train=rows, y_train=np.array([0, 1, 0, 1]), x_test=rows, y_test=np.array([1, 1, 0, 0]))
    (x, y), _ = K.datasets.imdb.load_data(num_words=100)
    assert sorted(map(tuple, x)) == [(1, 8, 2, 11), (1, 8, 9), (1, 10), (1, 12, 12)] and len(y) == 4
    (home / "imdb_word_index.json").write_text(json.dumps({"film": 5}))
    assert K.datasets.imdb.get_word_index() == {"film": 5}


def test_files_of_lists_make_nothing_else(home):
    class Bad:
        def __reduce__(self):
            return (print, ("never",))
    rows = np.empty(1, dtype=object)
    rows[:] = [Bad()]
    np.savez(home / "imdb.npz", x_train=rows, y_train=np.array([0]), x_test=rows, y_test=np.array([1]))
    with pytest.raises(ValueError, match="only arrays of lists of numbers"):
        K.datasets.imdb.load_data()


def test_cifar_batches_are_read_without_running_them(tmp_path):
    from penstock._src.models.keras.datasets.arrays import load_batch
    images = np.random.RandomState(0).randint(0, 255, (1500, 3072)).astype("uint8")
    labels = [int(i) for i in np.random.RandomState(1).randint(0, 10, 1500)]
    (tmp_path / "b").write_bytes(pickle.dumps({b"batch_label": b"x", b"labels": labels, b"data": images,
                                               b"filenames": [b"f%d" % i for i in range(1500)]}, protocol=4))
    x, y = load_batch(tmp_path / "b")
    np.testing.assert_array_equal(x.reshape(1500, -1), images)
    np.testing.assert_array_equal(y, labels)
    with pytest.raises(ValueError, match="not a batch file"):
        load_batch(tmp_path / "b", "fine_labels")


@pytest.mark.parametrize("place", ["cifar-10-batches-py.tar.gz", "cifar-10-python.tar.gz", "cifar-10-batches-py",
                                   "cifar-10-batches-py-target/cifar-10-batches-py"])
def test_cifar_is_found_where_versions_of_keras_put_it(tmp_path, monkeypatch, place):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    made = tmp_path / "made" / "cifar-10-batches-py"
    made.mkdir(parents=True)
    images = np.random.RandomState(0).randint(0, 255, (40, 3072)).astype("uint8")
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (made / name).write_bytes(pickle.dumps({b"labels": list(range(10)) * 4, b"data": images}, protocol=2))
    target = tmp_path / "datasets" / place
    target.parent.mkdir(parents=True)
    if place.endswith(".tar.gz"):
        with tarfile.open(target, "w:gz") as archive:
            archive.add(made, "cifar-10-batches-py")
    else:
        shutil.copytree(made, target)
    (x, y), (x_test, y_test) = K.datasets.cifar10.load_data()
    assert x.shape == (200, 32, 32, 3) and y.shape == (200, 1) and y_test.shape == (40, 1)
    np.testing.assert_array_equal(x_test, images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def test_digits():
    (x, y), (x_test, _) = K.datasets.digits.load_data()
    assert x.shape[1:] == (8, 8, 1) and len(x) == len(y) and len(x_test) > 300


def test_sounds_from_a_folder(tmp_path, capsys):
    wave = np.sin(np.arange(12) / 5).astype("float32")[:, None]
    for name in ("bell", "drum"):
        (tmp_path / name).mkdir()
        for i in range(3):
            tf.io.write_file(str(tmp_path / name / f"{i}.wav"), tf.audio.encode_wav(wave[:10 + i], 8000))
    padded = K.utils.audio_dataset_from_directory(tmp_path, batch_size=6, shuffle=False)
    sounds, labels = next(iter(padded))
    assert sounds.shape == (6, 12, 1) and padded.class_names == ["bell", "drum"]
    np.testing.assert_array_equal(labels.numpy(), [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(sounds.numpy()[0, :10], wave[:10], atol=1e-4)
    assert not sounds.numpy()[0, 10:].any()
    cut = K.utils.audio_dataset_from_directory(tmp_path, batch_size=4, output_sequence_length=5, labels=None)
    assert next(iter(cut)).shape == (4, 5, 1)
    own = K.utils.audio_dataset_from_directory(tmp_path, batch_size=6, ragged=True, labels=list(range(6)), shuffle=False)
    assert next(iter(own))[0].row_lengths().numpy().tolist() == [10, 11, 12, 10, 11, 12]
    assert "Found 6 files belonging to 6 classes." in capsys.readouterr().out
    with pytest.raises(ValueError, match="both `ragged` and `output_sequence_length`"):
        K.utils.audio_dataset_from_directory(tmp_path, ragged=True, output_sequence_length=5)

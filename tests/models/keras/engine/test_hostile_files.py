"""Damaged and hostile files of models: typed errors, no crash, no hang, no other files, bounded memory."""
import contextlib
import io
import json
import os
import random
import resource
import signal
import time
import zipfile

import h5py
import numpy as np
import pytest

import penstock as tf
from penstock._src.base import errors
from penstock._src.io import archives, hdf5_guard

TYPED = (errors.OpError, OSError, ValueError, TypeError)
CASES = int(os.environ.get("PENSTOCK_FUZZ", 8))


def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(5, input_shape=(4,), name="a"), tf.keras.layers.Dense(2, name="b")])
    made.compile("adam", "mse")
    return made


def saved(path):
    made = model()
    made.save_weights(str(path)) if "weights" in path.name else made.save(str(path))
    return path.read_bytes()


def load(path):
    if "weights" in path.name:
        model().load_weights(str(path))
    else:
        tf.keras.models.load_model(str(path))


def flipped(rng, data):
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(min(len(out), 4096) if rng.random() < 0.8 else len(out))
        out[at] = rng.choice([out[at] ^ 1 << rng.randrange(8), 0xFF, 0])
    return bytes(out)


@pytest.mark.parametrize("name", ["m.h5", "m.weights.h5", "m.keras"])
def test_flipped_bytes(tmp_path, name):
    path = tmp_path / name
    good, rng = saved(path), random.Random(name)
    load(path)
    for case in range(CASES):
        path.write_bytes(flipped(rng, good))
        try:
            load(path)
        except TYPED:
            pass
        except Exception as e:
            raise AssertionError(f"case {case}: {type(e).__name__}: {e}") from e
    path.write_bytes(good)
    load(path)


def test_a_file_that_crashes_the_library_is_a_data_loss_error(tmp_path, monkeypatch):
    """What the inspecting process does stands in for any crash: it kills itself."""
    path, script = tmp_path / "m.weights.h5", tmp_path / "crash.py"
    saved(path)
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(hdf5_guard, "_SCRIPT", str(script))
    with pytest.raises(errors.DataLossError, match="signal 11"):
        load(path)


def test_a_file_that_hangs_the_library_is_a_data_loss_error(tmp_path, monkeypatch):
    path, script = tmp_path / "m.weights.h5", tmp_path / "hang.py"
    saved(path)
    script.write_text("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass\n")
    monkeypatch.setattr(hdf5_guard, "_SCRIPT", str(script))
    with pytest.raises(errors.DataLossError, match="damaged"):
        load(path)


def test_an_inspection_that_does_not_compute_says_nothing_about_the_file(tmp_path, monkeypatch):
    path, script = tmp_path / "m.weights.h5", tmp_path / "wait.py"
    saved(path)
    script.write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(hdf5_guard, "_SCRIPT", str(script))
    monkeypatch.setattr(hdf5_guard, "_PATIENCE", 0.1)
    with pytest.raises(errors.DeadlineExceededError, match="the machine is busy"):
        load(path)


def refused(tmp_path, build, match):
    path = tmp_path / "m.weights.h5"
    saved(path)
    with h5py.File(path, "a") as f:
        build(f)
    with pytest.raises(errors.PermissionDeniedError, match=match):
        load(path)


def test_other_files_are_not_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 400)

    def external(f):
        del f["layers/dense/vars/0"]
        f.create_dataset("layers/dense/vars/0", (4, 5), "f4", external=[(str(secret), 0, 80)])
    refused(tmp_path, external, "in another file")

    def link(f):
        f["elsewhere"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")
    refused(tmp_path, link, "link to another file")

    def virtual(f):
        layout = h5py.VirtualLayout((4,), "f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (4,))
        f.create_virtual_dataset("v", layout)
    refused(tmp_path, virtual, "virtual dataset")


def test_sizes_without_bytes_are_refused(tmp_path):
    refused(tmp_path, lambda f: f.create_dataset("big", (1 << 40,), "f4"), "declares")
    refused(tmp_path, lambda f: f.create_dataset("big", (1 << 40,), "f4", chunks=(1 << 20,), compression="gzip"), "declares")


@pytest.mark.parametrize("member", ["config.json", "model.weights.h5"])
def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch, member):
    monkeypatch.setattr(archives, "FLOOR", 1 << 20)
    path = tmp_path / "m.keras"
    saved(path)
    with zipfile.ZipFile(path) as z:
        held = {n: z.read(n) for n in z.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in held.items():
            z.writestr(name, data if name != member else bytes(8 << 20))
    with pytest.raises(errors.ResourceExhaustedError, match="unpack"):
        load(path)


def test_archives_of_arrays_are_bounded(tmp_path, monkeypatch):
    from penstock._src.models.keras.datasets import object_arrays
    monkeypatch.setattr(archives, "FLOOR", 1 << 20)
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1 << 21))
    with pytest.raises(errors.ResourceExhaustedError):
        object_arrays.load(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(errors.DataLossError):
        object_arrays.load(tmp_path / "b.npz")


@pytest.mark.parametrize("config", ["[]", "{}", '{"class_name": 3}', '{"module": "keras", "class_name": "Sequential"}', "7",
                                    "null", '{"module": "keras", "class_name": "Sequential", "config": {"layers": 5}}',
                                    "[" * 100_000])
def test_descriptions_that_are_not_of_a_model(tmp_path, config):
    path = tmp_path / "m.keras"
    saved(path)
    with zipfile.ZipFile(path) as z:
        held = {n: z.read(n) for n in z.namelist()}
    with zipfile.ZipFile(path, "w") as z:
        for name, data in held.items():
            z.writestr(name, config if name == "config.json" else data)
    with pytest.raises(TYPED):
        load(path)
    with pytest.raises(ValueError, match="nested too deeply"):
        tf.keras.models.model_from_json("[" * 100_000)


def test_a_file_is_looked_at_once_while_it_stays_as_it_is(tmp_path, monkeypatch):
    path, calls = tmp_path / "m.weights.h5", []
    saved(path)
    os.utime(path, (1, 1))
    look = hdf5_guard._look_at
    monkeypatch.setattr(hdf5_guard, "_look_at", lambda *args: (calls.append(1), look(*args)))
    load(path)
    load(path)
    assert len(calls) == 1
    saved(path)
    os.utime(path, (2, 2))                             # a file that was written just now is looked at again and again
    load(path)
    assert len(calls) == 2


def test_a_file_that_may_change_within_a_tick_of_the_clock_is_looked_at_again(tmp_path, monkeypatch):
    """File times advance every few milliseconds: bytes written in between leave the time as it was."""
    path, calls = tmp_path / "m.weights.h5", []
    saved(path)
    monkeypatch.setattr(hdf5_guard, "_look_at", lambda *args: calls.append(1))
    later = time.time_ns() + 3600 * 10 ** 9
    os.utime(path, ns=(later, later))
    hdf5_guard.check(path)
    hdf5_guard.check(path)
    assert len(calls) == 2


def test_the_time_for_a_small_file_is_short(tmp_path, monkeypatch):
    """A few kilobytes that make the HDF5 library loop do not cost a minute of computing."""
    path, asked = tmp_path / "m.weights.h5", []
    saved(path)

    class Started(Exception):
        pass

    def run(command, **limits):
        asked.append((int(command[-2]), limits["timeout"]))
        raise Started
    monkeypatch.setattr(hdf5_guard.subprocess, "run", run)
    with pytest.raises(Started):
        load(path)
    computing, waiting = asked[0]
    assert computing <= 15 and 10 * computing <= waiting <= 60 * computing


def test_the_check_leaves_good_files_alone(tmp_path):
    """Files as Keras writes them: strings in attributes, empty datasets, compressed and chunked ones, links inside."""
    memory = io.BytesIO()
    with h5py.File(memory, "w") as f:
        f.attrs["config"] = json.dumps({"a": 1}).encode()
        f.attrs["names"] = np.asarray([b"x", b"y"])
        f.attrs["none"] = np.asarray([], "S1")
        f.attrs["empty"] = h5py.Empty("f")
        f.create_dataset("empty", (0, 3), "f4")
        f.create_dataset("scalar", (), "i8", data=3)
        f.create_dataset("packed", (500, 500), "f4", data=np.zeros((500, 500)), chunks=(50, 50), compression="gzip")
        f["again"] = f["packed"]
        f["soft"] = h5py.SoftLink("/packed")
        f["group/loop"] = h5py.SoftLink("/group")
    hdf5_guard.check(memory)


@pytest.mark.parametrize("path, value", [
    (("config", "layers", 0, "config", "activation"), ["relu"]), (("config", "output_layers", 0, 1), 7),
    (("config", "layers", 1, "inbound_nodes", 0), [["x", 0, 0, 1.5]]), (("config", "layers", 1, "inbound_nodes", 0), [[]]),
    (("config", "input_layers", 0, 0), "none")])
def test_a_description_with_wrong_parts_is_a_value_error(path, value):
    x = tf.keras.Input((4,), name="x")
    config = json.loads(tf.keras.Model(x, tf.keras.layers.Dense(2, name="d")(x)).to_json())
    at = config
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises((ValueError, TypeError)):
        tf.keras.models.model_from_json(json.dumps(config))


def test_errors_of_own_classes_keep_their_types():
    class Broken(tf.keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            raise AttributeError("mine")
    text = json.dumps({"class_name": "Sequential", "config": [{"class_name": "Broken", "config": {}}]})
    with pytest.raises(AttributeError, match="mine"):
        tf.keras.models.model_from_json(text, {"Broken": Broken})


def of_layers(path, *layers):
    """A `.keras` file of these layers."""
    tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)]).save(path)
    with zipfile.ZipFile(path) as z:
        parts = {name: z.read(name) for name in z.namelist()}
    config = json.loads(parts["config.json"])
    config["config"]["layers"] = layers
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as z:
        for name, data in parts.items():
            z.writestr(name, data)
    return path


@pytest.mark.parametrize("layer", ["StringLookup", "IntegerLookup", "TextVectorization"])
def test_a_vocabulary_of_another_file_is_read_for_those_who_trust_the_model(tmp_path, layer):
    (tmp_path / "private").write_text("5\n7\n")
    config = {"module": "keras.layers", "class_name": layer, "config": {"vocabulary": str(tmp_path / "private")}}
    path = of_layers(tmp_path / "m.keras", config)
    with pytest.raises(ValueError, match="private.*not part of the model.*safe_mode=False"):
        tf.keras.models.load_model(path, compile=False)
    with pytest.raises(ValueError, match="not part of the model"):
        tf.keras.models.model_from_json(json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": [config]}}))
    made = getattr(tf.keras.layers, layer)(vocabulary=str(tmp_path / "private"))
    assert [str(token) for token in made.get_vocabulary()[-2:]] == ["5", "7"]


@pytest.mark.parametrize("module, name", [("subprocess", "getoutput"), ("shutil", "rmtree"), ("keras.utils", "get_file"),
                                          ("keras.models", "load_model"), ("keras.config", "enable_unsafe_deserialization")])
def test_functions_that_do_more_than_compute_are_not_found(tmp_path, module, name):
    data = {"module": module, "class_name": "function", "config": name, "registered_name": "function"}
    with pytest.raises(ValueError, match=f"Could not locate function '{name}'"):
        tf.keras.saving.deserialize_keras_object(data)
    for made in ({"class_name": "Lambda", "config": {"function": data, "arguments": {}}},
                 {"class_name": "Activation", "config": {"activation": data}}):
        with pytest.raises(ValueError):
            tf.keras.models.load_model(of_layers(tmp_path / "m.keras", {"module": "keras.layers", **made}), compile=False)


def test_functions_that_compute_are_found():
    for module, name, args, value in (("keras.activations", "relu", [[-1.0, 2.0]], [0.0, 2.0]),
                                      ("builtins", "softmax", [[[0.0, 0.0]]], [[0.5, 0.5]]),
                                      ("keras.losses", "mean_squared_error", [[[1.0]], [[3.0]]], [4.0])):
        data = {"module": module, "class_name": "function", "config": name, "registered_name": "function"}
        found = tf.keras.saving.deserialize_keras_object(data)(*map(tf.constant, args))
        np.testing.assert_allclose(found, value, rtol=1e-6)


@pytest.mark.parametrize("name", ["m.h5", "m.weights.h5", "m.keras"])
def test_a_full_disk_is_a_typed_error_and_leaves_the_old_file(tmp_path, name):
    old, (soft, hard) = saved(tmp_path / name), resource.getrlimit(resource.RLIMIT_FSIZE)
    made = tf.keras.Sequential([tf.keras.Input((100,)), tf.keras.layers.Dense(1000)])
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(errors.OpError):
            made.save_weights(str(tmp_path / name)) if "weights" in name else made.save(str(tmp_path / name))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_bytes() == old


def test_a_disk_that_is_full_from_any_write_on(tmp_path, monkeypatch):
    """The HDF5 library crashes the process when it cannot write while it closes a file, so no write fails in its eyes."""
    write, left = os.pwrite, [0]

    def pwrite(*args):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return write(*args)
    monkeypatch.setattr(hdf5_guard.os, "pwrite", pwrite)
    arrays = [np.full(n, n, np.float32) for n in (3, 1000, 300_000)]       # the last is larger than what is kept in memory

    def made(writes):
        left[0] = writes
        with hdf5_guard.written(str(tmp_path / "f.h5")) as f:
            for i, a in enumerate(arrays):
                f.create_group(f"g{i}").create_dataset("a", data=a)
                f[f"g{i}"].attrs["names"] = ["x" * 1000] * 40
    made(10_000)
    needed = 10_000 - left[0]
    assert needed > 5
    for n in range(needed):
        with pytest.raises(OSError, match="No space left"):
            made(n)
    made(needed)
    with hdf5_guard.opened(str(tmp_path / "f.h5")) as f:
        for i, a in enumerate(arrays):
            np.testing.assert_array_equal(f[f"g{i}/a"], a)
            assert list(f[f"g{i}"].attrs["names"]) == ["x" * 1000] * 40


@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_a_small_file_of_a_large_model(tmp_path, monkeypatch, name):
    """The description asks for a gigabyte: nothing is allocated for it."""
    monkeypatch.setattr(archives, "FLOOR", 1 << 20)
    path = tmp_path / name
    saved(path)
    load(path)
    with contextlib.closing(h5py.File(path, "r+")) if name == "m.h5" else contextlib.nullcontext() as f:
        if f is not None:
            config = f.attrs["model_config"]
            f.attrs["model_config"] = config.replace('"units": 5', '"units": 67108864')
            assert f.attrs["model_config"] != config
    if name == "m.keras":
        with zipfile.ZipFile(path) as z:
            members = {n: z.read(n) for n in z.namelist()}
        with zipfile.ZipFile(path, "w") as z:
            for n, data in members.items():
                z.writestr(n, data.replace(b'"units": 5', b'"units": 67108864'))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for build in (contextlib.nullcontext, lambda: tf.Graph().as_default()):
        with build(), pytest.raises(errors.ResourceExhaustedError, match="bytes of weights"):
            load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10

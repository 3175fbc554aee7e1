"""What is fuzzed: each target makes a case from a random generator and runs it. The campaign is in `campaign.py`.

A target over bytes mutates one of its seeds: a good file, and the cases that did something new before. How is in `mutate.py`. A
target over arguments draws everything from the generator, so that its number is the case. What can be prepared once for many
cases (datasets, samples, sockets) is.
"""
from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import os
import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import penstock as tf
from penstock._src.cluster import tf_config, wire
from penstock._src.graph.messages import TensorInfo
from penstock._src.io import lmdb_file
from penstock._src.serving import http1, json_tensors
from penstock._src.serving.messages import pb
from tests.fuzz import mutate
from tests.fuzz.inspector import inspect_in_forks
from tests.io import test_fuzz as files
from tests.models.keras.engine import test_hostile_files as models
from tests.registry import test_hostile as hostile
from tests.registry.running import eager

Run = Callable[[], Any]
v1 = tf.compat.v1
SELDOM = 16                                     # of so many cases, one takes the slow way to read a file


class Bytes:
    """A file format: one good file, how it is read, and how it is mutated."""

    def __init__(self, make: Callable[[pathlib.Path], bytes], read: Callable[[bytes, pathlib.Path], Any],
                 change: mutate.Mutation = mutate.plain, prepare: Callable[[], Any] = lambda: None):
        self._make, self._read, self._change, self._prepare = make, read, change, prepare

    def begin(self, folder: pathlib.Path, seeds: list[bytes]) -> None:
        """Prepares a batch."""
        self._prepare()
        self._folder, self._seeds = folder, [self._make(folder), *seeds]

    def case(self, rng: random.Random) -> tuple[bytes, Run]:
        """A mutated file, and its reading."""
        data = self._change(rng, self._seeds[int(rng.random() * len(self._seeds))])
        return data, lambda: self._read(data, self._folder)

    def read(self, data: bytes) -> None:
        """Reads a file."""
        self._read(data, self._folder)


class Arguments:
    """Every sampled op of the registry: inputs and attributes, several at a time, replaced by hostile ones."""

    def begin(self, folder: pathlib.Path, seeds: list[bytes]) -> None:
        """Prepares the wrong values of each array."""
        self._samples = hostile.FIRST + hostile.OTHERS
        self._known: dict[int, list[np.ndarray]] = {}

    def case(self, rng: random.Random) -> tuple[bytes, Run]:
        """A call; its description represents it."""
        sample = self._samples[int(rng.random() * len(self._samples))]
        inputs, attrs = list(sample.inputs), dict(sample.attrs)
        for k in range(len(inputs)):
            if rng.random() < 0.5:
                given = inputs[k]
                inputs[k] = [self._wrong(rng, x) for x in given] if isinstance(given, list) else self._wrong(rng, given)
        named = hostile.OPS[sample.op].explicit_attrs
        for name in rng.sample(named, rng.randint(0, min(2, len(named)))):
            found = list(hostile.attr_mutations(hostile.OPS[sample.op].attrs[name], attrs.get(name)))
            if found:
                attrs[name] = rng.choice(found)
        changed = dataclasses.replace(sample, inputs=tuple(inputs), attrs=attrs)
        flat = [x for v in inputs for x in (v if isinstance(v, list) else [v])]
        shown = f"{sample.op} {attrs} {[self._shown(x) for x in flat]}"
        return shown.encode("utf-8", "backslashreplace"), lambda: eager(changed)

    @staticmethod
    def _shown(array: Any) -> str:
        array = np.asarray(array)
        held = array.ravel()[:64]
        return f"{array.dtype}{array.shape}" + (repr(held.tolist()) if array.dtype == object else held.tobytes().hex())

    def _wrong(self, rng: random.Random, given: Any) -> np.ndarray:
        array = np.asarray(given)
        choice = rng.random()
        if choice < 0.05:
            return np.full(array.shape, b"ab", object)
        if choice < 0.5 or not array.size:
            known = self._known.get(id(given))
            if known is None:
                known = self._known[id(given)] = [array, *hostile.mutations(array)]
            return known[int(rng.random() * len(known))]
        if choice < 0.75 and array.ndim:
            return self._reshaped(rng, array)
        return self._spoiled(rng, array)

    @staticmethod
    def _reshaped(rng: random.Random, array: np.ndarray) -> np.ndarray:
        """Some of the elements, along one axis, or the axes in another order."""
        axis = rng.randrange(array.ndim)
        choice = rng.randrange(4)
        if choice == 0:
            return np.ascontiguousarray(array.swapaxes(axis, rng.randrange(array.ndim)))
        if choice == 1:
            return array.take(range(rng.randrange(array.shape[axis] + 1)), axis)
        if choice == 2 and array.size < 1000:
            return np.concatenate([array] * rng.randrange(2, 4), axis)
        return array.take(rng.randrange(array.shape[axis]), axis)

    @staticmethod
    def _spoiled(rng: random.Random, array: np.ndarray) -> np.ndarray:
        """A few elements replaced by extreme ones; strings with other bytes."""
        out = array.copy()
        flat = out.reshape(-1)
        for _ in range(rng.randrange(1, 3)):
            at, kind = rng.randrange(flat.size), out.dtype.kind
            if kind in "iu":
                info = np.iinfo(out.dtype)
                flat[at] = rng.choice((info.min, info.max, 0, 1, 2, min(info.max, 1 << 20), rng.randint(info.min, info.max)))
            elif kind in "fc":
                flat[at] = rng.choice((0.0, -1.0, 1e30, -1e-30, np.nan, np.inf, -np.inf, rng.uniform(-9, 9)))
            elif kind == "b":
                flat[at] = not flat[at]
            elif isinstance(flat[at], bytes):
                flat[at] = mutate.plain(rng, flat[at])
        return out


# -- readers of which parts are made once ---------------------------------------------------------------------------------
@functools.cache
def _record_dataset(path: str, kind: str) -> Any:
    return tf.data.TFRecordDataset(path, kind)


def _read_records(kind: str) -> Callable[[bytes, pathlib.Path], None]:
    def read(data: bytes, folder: pathlib.Path) -> None:
        (folder / "r").write_bytes(data)
        for _ in _record_dataset(str(folder / "r"), kind):
            pass
    return read


@functools.cache
def _csv_dataset(path: str) -> Any:
    return tf.data.experimental.CsvDataset(path, [[0], [1.5], ["z"]])


def _read_csv(data: bytes, folder: pathlib.Path) -> None:
    if not len(data) % SELDOM:
        return files.read_csv(data, folder)
    tf.io.decode_csv(data.rstrip(b"\n").split(b"\n"), [[0], [1.5], ["z"]])
    (folder / "c").write_bytes(data)
    for _ in _csv_dataset(str(folder / "c")):
        pass


_NAMES = {"index": "model.index", "data": "model.data-00000-of-00001", "meta": "model.meta", "state": "checkpoint"}
_CHANGES = {"index": mutate.table(mutate.messages), "data": mutate.plain, "meta": mutate.messages, "state": mutate.text}


def _checkpoint(which: str) -> Bytes:
    def read(data: bytes, folder: pathlib.Path) -> None:
        (folder / _NAMES[which]).write_bytes(data)
        if which in ("index", "data") and len(data) % SELDOM:
            reader = tf.train.load_checkpoint(str(folder / "model"))
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        elif which == "state" and len(data) % SELDOM:
            tf.train.get_checkpoint_state(str(folder))
        else:
            files.read_checkpoint(folder)
    return Bytes(lambda folder: files.checkpoint_file(folder, which)[0], read, _CHANGES[which])


def _old_checkpoint(folder: pathlib.Path) -> bytes:
    with tf.Graph().as_default(), v1.Session() as sess:
        v1.get_variable("a", initializer=np.arange(20, dtype=np.float32))
        v1.get_variable("s", initializer=np.array([b"one", b"three"], object))
        sess.run(v1.global_variables_initializer())
        path = v1.train.Saver(write_version=v1.train.SaverDef.V1).save(sess, str(folder / "old"), write_meta_graph=False)
    return pathlib.Path(path).read_bytes()


def _read_old_checkpoint(data: bytes, folder: pathlib.Path) -> None:
    (folder / "old").write_bytes(data)
    reader = v1.train.NewCheckpointReader(str(folder / "old"))
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)


def _saved_model(folder: pathlib.Path) -> bytes:
    tf.saved_model.save(files.Doubler(), str(folder))
    return (folder / "saved_model.pb").read_bytes()


def _load_saved_model(data: bytes, folder: pathlib.Path) -> None:
    (folder / "saved_model.pb").write_bytes(data)
    tf.saved_model.load(str(folder))(tf.constant([1.0]))


def _model(name: str, change: mutate.Mutation = mutate.plain) -> Bytes:
    def read(data: bytes, folder: pathlib.Path) -> None:
        (folder / name).write_bytes(data)
        models.load(folder / name)
    return Bytes(lambda folder: models.saved(folder / name), read, change, inspect_in_forks)


def _model_json(folder: pathlib.Path) -> bytes:
    k = tf.keras
    x = k.Input((6, 4), name="x")
    h = k.layers.Bidirectional(k.layers.LSTM(3, return_sequences=True))(x)
    h = k.layers.Conv1D(4, 2, padding="same", kernel_regularizer="l2", activation="relu")(h)
    h = k.layers.Add()([h, k.layers.Dense(4, kernel_constraint="max_norm")(x)])
    h = k.layers.Dropout(0.5)(k.layers.BatchNormalization()(h))
    return k.Model(x, k.layers.Dense(2, activation="softmax")(k.layers.Flatten()(h))).to_json().encode()


# -- what servers receive -------------------------------------------------------------------------------------------------
class _Arrived:
    """A socket whose peer has sent some bytes and closed it."""

    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def recv_into(self, view: memoryview, size: int = 0) -> int:
        piece = self._data[self._at:self._at + (size or len(view))]
        view[:len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def _frames(folder: pathlib.Path) -> bytes:
    header = {"do": "run", "session": "s1", "fetches": ["a:0", "b:0"], "feeds": ["x:0"], "options": {"timeout": 3}, "part": 1}
    values = [torch.arange(6.0).reshape(2, 3), b"abc", None, np.array([b"one", b"two"], object)]
    return b"".join(bytes(part) for part in wire.pack(header, values)[0])


def _receive(data: bytes, folder: pathlib.Path) -> None:
    reader = wire.Reader(_Arrived(data))
    while reader.message() is not None:
        pass


def _infos() -> dict[str, Any]:
    kinds = {"x": tf.float32, "n": tf.int32, "w": tf.string, "b": tf.bool, "h": tf.float16}
    return {name: TensorInfo(dtype=kind.as_datatype_enum) for name, kind in kinds.items()}


def _request(folder: pathlib.Path) -> bytes:
    row = {"x": [[1.0, 2.5], [0, -1]], "n": [3, 4], "w": [{"b64": "YWI="}, "text"], "b": True, "h": 0.5}
    example = {"a": 1.5, "c": ["x"], "d": [1, 2]}
    return json.dumps({"signature_name": "s", "instances": [row, row], "examples": [example]}).encode()


def _answer_request(data: bytes, folder: pathlib.Path) -> None:
    document = json_tensors.parse(data)
    json_tensors.signature_name(document)
    if "examples" in document:
        json_tensors.fill_examples(document, pb.Input())
    json_tensors.inputs_of(document, _infos())


_HTTP = (b"POST /v1/models/m/versions/3:predict HTTP/1.1\r\nHost: localhost:80\r\nContent-Length: 12\r\nAccept: */*\r\n"
         b"Transfer-Encoding: chunked\r\nAuthorization: Bearer abc")


def _head(data: bytes, folder: pathlib.Path) -> None:
    try:
        http1._parsed(data)
    except http1.BadRequest as e:
        raise ValueError(str(e)) from e


def _place(data: bytes, folder: pathlib.Path) -> None:
    os.environ["TF_CONFIG"] = data.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    try:
        tf_config.from_environment()
    finally:
        del os.environ["TF_CONFIG"]


def _database(data: bytes, folder: pathlib.Path) -> None:
    (folder / "data.mdb").write_bytes(data)
    for _ in lmdb_file.pairs(str(folder / "data.mdb")):
        pass


_PAIRS = pathlib.Path(files.__file__).parent / "pairs.mdb.gz"
_records = mutate.one_record(mutate.plain)
_HOW: dict[str, tuple[mutate.Mutation, Any]] = {         # mutations of formats that have a structure, and faster readers
    "example": (mutate.messages, None), "sequence": (mutate.messages, None), "graph": (mutate.messages, None),
    "graph-text": (mutate.text, None), "csv": (mutate.text, _read_csv), "tensor": (mutate.messages, None),
    "records": (mutate.repaired(_records, mutate.records), _read_records("")),
    "records-gzip": (mutate.packed(mutate.repaired(_records, mutate.records)), _read_records("GZIP")),
    "events": (mutate.repaired(mutate.one_record(mutate.messages), mutate.records), None),
    "png": (mutate.repaired(mutate.pixels, mutate.png), None), "png16": (mutate.repaired(mutate.pixels, mutate.png), None),
}
_CLUSTER = {"cluster": {"ps": ["h:1"], "worker": ["h:2", "h:3"], "chief": {"0": "h:4"}}, "task": {"type": "worker", "index": 1}}
TARGETS: dict[str, Any] = {
    **{name: Bytes(make, _HOW.get(name, (None, None))[1] or read, _HOW.get(name, (mutate.plain, None))[0])
       for name, (make, read) in files.FORMATS.items()},
    **{f"checkpoint-{which}": _checkpoint(which) for which in _NAMES},
    "checkpoint-v1": Bytes(_old_checkpoint, _read_old_checkpoint, mutate.table(mutate.messages)),
    "saved-model": Bytes(_saved_model, _load_saved_model, mutate.messages),
    "keras": _model("m.keras", mutate.archive({"config.json": mutate.document, "metadata.json": mutate.document})),
    "keras-json": Bytes(_model_json, lambda data, folder: tf.keras.models.model_from_json(data.decode("utf-8", "replace")),
                        mutate.document),
    "h5": _model("m.h5"), "weights-h5": _model("m.weights.h5"),
    "lmdb": Bytes(lambda folder: gzip.decompress(_PAIRS.read_bytes()), _database),
    "wire": Bytes(_frames, _receive, mutate.framed),
    "rest": Bytes(_request, _answer_request, mutate.document),
    "http": Bytes(lambda folder: _HTTP, _head, mutate.text),
    "tf-config": Bytes(lambda folder: json.dumps(_CLUSTER).encode(), _place, mutate.document),
    "ops": Arguments(),
}
TYPED = (*files.TYPED, tf.errors.OpError)


def outcome(run: Run) -> tuple[str, BaseException | None]:
    """How a case ended: "read", "refused" with a typed error, or "untyped". Warnings are the caller's to ignore."""
    try:
        run()
        return "read", None
    except tf.errors.InternalError as e:
        return "untyped", e
    except TYPED as e:
        return "refused", e
    except KeyError as e:                            # a tensor or an op that a graph does not have: TensorFlow's error
        return ("refused" if "refers to" in str(e) else "untyped"), e
    except Exception as e:
        return "untyped", e

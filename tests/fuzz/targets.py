"""What is fuzzed: each target makes a case from a random generator and runs it. The campaign is in `campaign.py`.

A target over bytes mutates one of its seeds: a good file, and the cases that did something new before. A target over arguments
draws everything from the generator, so that its number is the case.
"""
from __future__ import annotations

import dataclasses
import pathlib
import random
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.io import crc
from tests.io import test_fuzz as files
from tests.models.keras.engine import test_hostile_files as models
from tests.registry import test_hostile as hostile
from tests.registry.running import eager

Run = Callable[[], Any]


class Bytes:
    """A file format: one good file, how it is read, and how checksums are made right in half of the mutated files."""

    def __init__(self, make: Callable[[pathlib.Path], bytes], read: Callable[[bytes, pathlib.Path], Any],
                 repair: Callable[[bytes], bytes] | None = None):
        self._make, self._read, self._repair = make, read, repair

    def begin(self, folder: pathlib.Path, seeds: list[bytes]) -> None:
        """Prepares a batch."""
        self._folder, self._seeds = folder, [self._make(folder), *seeds]

    def case(self, rng: random.Random) -> tuple[bytes, Run]:
        """A mutated file, and its reading."""
        data = files.mutated(rng, rng.choice(self._seeds))
        if self._repair is not None and rng.random() < 0.5:
            data = self._repair(data)
        return data, lambda: self._read(data, self._folder)


class Arguments:
    """Every sampled op of the registry: inputs and attributes, several at a time, replaced by hostile ones."""

    def begin(self, folder: pathlib.Path, seeds: list[bytes]) -> None:
        """Nothing to prepare."""

    def case(self, rng: random.Random) -> tuple[bytes, Run]:
        """A call; its description represents it."""
        sample = rng.choice(hostile.FIRST + hostile.OTHERS)
        inputs, attrs = list(sample.inputs), dict(sample.attrs)
        for k in rng.sample(range(len(inputs)), rng.randint(0, len(inputs))):
            inputs[k] = [self._wrong(rng, x) for x in inputs[k]] if isinstance(inputs[k], list) else self._wrong(rng, inputs[k])
        named = hostile.OPS[sample.op].explicit_attrs
        for name in rng.sample(named, rng.randint(0, min(2, len(named)))):
            found = list(hostile.attr_mutations(hostile.OPS[sample.op].attrs[name], attrs.get(name)))
            if found:
                attrs[name] = rng.choice(found)
        changed = dataclasses.replace(sample, inputs=tuple(inputs), attrs=attrs)
        shapes = [len(x) if isinstance(x, list) else np.shape(x) for x in inputs]
        return f"{sample.op} {attrs} {shapes}".encode(), lambda: eager(changed)

    @staticmethod
    def _wrong(rng: random.Random, array: Any) -> np.ndarray:
        array = np.asarray(array)
        if rng.random() < 0.1:
            return np.full(array.shape, b"ab", object)
        return rng.choice([array, *hostile.mutations(array)])


def _repaired_png(data: bytes) -> bytes:
    """A PNG file whose chunks have the right checksums, as far as their lengths make sense."""
    out, at = bytearray(data), 8
    while at + 12 <= len(out):
        end = at + 8 + int.from_bytes(out[at:at + 4], "big")
        if end + 4 > len(out):
            break
        out[end:end + 4] = zlib.crc32(out[at + 4:end]).to_bytes(4, "big")
        at = end + 4
    return bytes(out)


def _repaired_records(data: bytes) -> bytes:
    """A file of records with the right checksums, as far as the lengths make sense."""
    out, at = bytearray(data), 0
    while at + 16 <= len(out):
        out[at + 8:at + 12] = crc.masked(bytes(out[at:at + 8])).to_bytes(4, "little")
        end = at + 12 + int.from_bytes(out[at:at + 8], "little")
        if end + 4 > len(out):
            break
        out[end:end + 4] = crc.masked(bytes(out[at + 12:end])).to_bytes(4, "little")
        at = end + 4
    return bytes(out)


_REPAIRS = {"png": _repaired_png, "png16": _repaired_png, "records": _repaired_records, "events": _repaired_records}


def _checkpoint(which: str) -> Bytes:
    def read(data: bytes, folder: pathlib.Path) -> None:
        (folder / _NAMES[which]).write_bytes(data)
        files.read_checkpoint(folder)
    return Bytes(lambda folder: files.checkpoint_file(folder, which)[0], read)


def _saved_model(folder: pathlib.Path) -> bytes:
    tf.saved_model.save(files.Doubler(), str(folder))
    return (folder / "saved_model.pb").read_bytes()


def _load_saved_model(data: bytes, folder: pathlib.Path) -> None:
    (folder / "saved_model.pb").write_bytes(data)
    tf.saved_model.load(str(folder))(tf.constant([1.0]))


def _model(name: str) -> Bytes:
    def read(data: bytes, folder: pathlib.Path) -> None:
        (folder / name).write_bytes(data)
        models.load(folder / name)
    return Bytes(lambda folder: models.saved(folder / name), read)


_NAMES = {"index": "model.index", "data": "model.data-00000-of-00001", "meta": "model.meta", "state": "checkpoint"}
TARGETS: dict[str, Any] = {
    **{name: Bytes(make, read, _REPAIRS.get(name)) for name, (make, read) in files.FORMATS.items()},
    **{f"checkpoint-{which}": _checkpoint(which) for which in _NAMES},
    "saved-model": Bytes(_saved_model, _load_saved_model),
    "keras": _model("m.keras"), "h5": _model("m.h5"), "weights-h5": _model("m.weights.h5"),
    "ops": Arguments(),
}
TYPED = (*files.TYPED, tf.errors.OpError)


def outcome(run: Run) -> tuple[str, BaseException | None]:
    """How a case ended: "read", "refused" with a typed error, or "untyped"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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

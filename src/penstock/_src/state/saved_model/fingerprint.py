"""Fingerprints of SavedModels: numbers that identify a model's graph, signatures, objects and values, in `fingerprint.pb`."""
from __future__ import annotations

import os
import uuid
from typing import Any

from tensorboard.compat.proto import versions_pb2

from penstock._src.base.api import export
from penstock._src.graph.messages import declare
from penstock._src.io import paths
from penstock._src.kernels import hashing

FILE = "fingerprint.pb"
_VERSION = 1                                       # of the way in which the numbers are computed
_FIELDS = ("saved_model_checksum", "graph_def_program_hash", "signature_def_hash", "saved_object_graph_hash", "checkpoint_hash")
FingerprintDef: Any = declare("penstock/fingerprint.proto", "tensorflow", versions_pb2.DESCRIPTOR.pool, {
    "FingerprintDef": "; ".join(f"uint64 {n} = {i}" for i, n in enumerate(_FIELDS, 1)) +
                      "; tensorboard.VersionDef version = 6; string uuid = 7"}, depends=(versions_pb2,))["FingerprintDef"]


@export("saved_model.experimental.Fingerprint")
class Fingerprint:
    """The fingerprint of a SavedModel. Two are equal if all of their hashes are.

    >>> tf.saved_model.experimental.read_fingerprint("/tmp/model").singleprint()
    """

    def __init__(self, saved_model_checksum: int | None = None, graph_def_program_hash: int | None = None,
                 signature_def_hash: int | None = None, saved_object_graph_hash: int | None = None,
                 checkpoint_hash: int | None = None, version: Any = None):
        self.saved_model_checksum, self.graph_def_program_hash = saved_model_checksum, graph_def_program_hash
        self.signature_def_hash, self.saved_object_graph_hash = signature_def_hash, saved_object_graph_hash
        self.checkpoint_hash, self.version = checkpoint_hash, version

    @classmethod
    def from_proto(cls, proto: Any) -> Fingerprint:
        """The fingerprint in a message, or in its bytes."""
        message = FingerprintDef.FromString(proto) if isinstance(proto, bytes) else proto
        try:
            return cls(**{n: getattr(message, n) for n in (*_FIELDS, "version")})
        except AttributeError as e:
            raise ValueError(f"The bytes are not a FingerprintDef: {e}") from None

    def _hashes(self) -> list:
        return [getattr(self, n) for n in _FIELDS]

    def __eq__(self, other: Any) -> bool:
        return all(hasattr(other, n) and getattr(self, n) == getattr(other, n) for n in _FIELDS)

    __hash__ = None                                                                       # type: ignore[assignment]

    def __str__(self) -> str:
        return "\n".join(["SavedModel Fingerprint", *(f"  {n}: {getattr(self, n)}" for n in _FIELDS)])

    def __repr__(self) -> str:
        return f"Fingerprint({', '.join(map(str, self._hashes()))})"

    def singleprint(self) -> str:
        """One text that identifies the model: the hashes that do not depend on how the file was written, joined by "/"."""
        hashes = self._hashes()[1:]
        if not all(isinstance(h, int) for h in hashes):
            raise ValueError(f"Encountered invalid fingerprint values when constructing singleprint: {self!r}")
        return "/".join(map(str, hashes))


@export("saved_model.experimental.read_fingerprint")
def read_fingerprint(export_dir: Any) -> Fingerprint:
    """The fingerprint of the SavedModel in a folder; FileNotFoundError if it has none.

    >>> tf.saved_model.experimental.read_fingerprint("/tmp/model").signature_def_hash
    """
    path = os.path.join(paths.as_text(export_dir), FILE)
    if not paths.exists(path):
        raise FileNotFoundError(f"SavedModel Fingerprint Error: {path} does not exist.")
    return Fingerprint.from_proto(paths.read_stored(path))


def write_fingerprint(export_dir: str, model: Any, prefix: str) -> None:
    """Writes the fingerprint of a SavedModel message beside it; `prefix` is that of its variables."""
    graph = model.meta_graphs[0]
    index = prefix + ".index"
    parts = (_bytes(model), _bytes(graph.graph_def),
             b"".join(k.encode() + _bytes(graph.signature_def[k]) for k in sorted(graph.signature_def)),
             _bytes(graph.object_graph_def), paths.read_stored(index) if paths.exists(index) else b"")
    message = FingerprintDef(**{n: int(h) for n, h in zip(_FIELDS, hashing.fingerprint64(list(parts)), strict=True)},
                             uuid=str(uuid.uuid4()))
    message.version.producer = _VERSION
    paths.write_atomically(os.path.join(export_dir, FILE), message.SerializeToString(), stored=True)


def _bytes(message: Any) -> bytes:
    return message.SerializeToString(deterministic=True)

"""Messages of libraries that contain TensorFlow's: `tensorflow_serving.apis.predict_pb2` has fields of TensorProto.

The code that protoc generates adds a file to the default pool, with the names of the files and messages that it depends on.
Ours are tensorboard's, under other names. The names are replaced while a file is added, so that such a field is of the class
that `tf.make_tensor_proto` returns.
"""
from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool

from penstock._src.graph import messages

OURS = "tensorboard.compat.proto."
_THEIR_FILES, _OUR_FILES = "tensorflow/", "tensorboard/compat/proto/"
_THEIRS, _RENAMED = ".tensorflow.", ".tensorboard."


class _Pool:
    """The default pool, which renames what an added file depends on."""

    def __init__(self, pool: Any):
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def AddSerializedFile(self, serialized_file_desc_proto: bytes) -> Any:  # noqa: N802
        """Adds the file of a generated module."""
        file = descriptor_pb2.FileDescriptorProto.FromString(serialized_file_desc_proto)
        if not any(name.startswith(_THEIR_FILES) for name in file.dependency) or not self._rename(file):
            return self._pool.AddSerializedFile(serialized_file_desc_proto)
        return self._pool.AddSerializedFile(file.SerializeToString())

    def _rename(self, file: Any) -> bool:
        """Replaces the names of files and messages that are here; whether there are any."""
        known: dict[str, None] = {}
        for name in file.dependency:
            known[self._here(name) or name] = None          # two files of TensorFlow's may be one here
        changed = list(known) != list(file.dependency)
        file.ClearField("dependency")
        file.dependency.extend(known)
        for part in _parts(file):
            for field in ("type_name", "extendee", "input_type", "output_type"):
                name = getattr(part, field, "")
                if name.startswith(_THEIRS) and self._has(_RENAMED + name.removeprefix(_THEIRS)):
                    setattr(part, field, _RENAMED + name.removeprefix(_THEIRS))
        return changed

    def _here(self, name: str) -> str | None:
        """The file with the messages of one of TensorFlow's files."""
        if not name.startswith(_THEIR_FILES):
            return None
        if pathlib.PurePath(name).stem in ("example", "feature"):
            return _examples(self._pool)
        ours = _OUR_FILES + pathlib.PurePath(name).name
        try:
            __import__(OURS + pathlib.PurePath(name).stem + "_pb2")
            return self._pool.FindFileByName(ours).name
        except (ImportError, KeyError):
            return None

    def _has(self, name: str) -> bool:
        for find in (self._pool.FindMessageTypeByName, self._pool.FindEnumTypeByName):
            try:
                find(name.lstrip("."))
                return True
            except KeyError:
                continue
        return False


def _parts(file: Any) -> Iterator[Any]:
    """Everything in a file that names a type: fields, extensions, methods."""
    found = [*file.message_type]
    for message in found:
        found += message.nested_type
        yield from (*message.field, *message.extension)
    yield from file.extension
    for service in file.service:
        yield from service.method


def _examples(pool: Any) -> str:
    """The file of Example in the default pool, added if no library has done it. The class differs from tf.train.Example."""
    try:
        return pool.FindFileContainingSymbol("tensorflow.Example").name
    except KeyError:
        file = descriptor_pb2.FileDescriptorProto()
        messages.Example.DESCRIPTOR.file.CopyToProto(file)
        file.name = "tensorflow/core/example/example.proto"
        return pool.AddSerializedFile(file.SerializeToString()).name


def prepare() -> None:
    """Lets generated modules that are imported from now on use our messages."""
    pool = descriptor_pool.Default()
    if not isinstance(pool, _Pool):
        wrapped = _Pool(pool)
        descriptor_pool.Default = lambda: wrapped

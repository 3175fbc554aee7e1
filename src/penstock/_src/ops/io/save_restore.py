"""Saving and restoring tensors: SaveV2, RestoreV2, MergeV2Checkpoints, and the ops of V1 checkpoints.

The formats are in `io/bundle.py` and `io/bundle_v1.py`. A restore reads everything before it returns anything, so that a
damaged file restores nothing. Inside a `background` block, SaveV2 and MergeV2Checkpoints are deferred: they keep the values
(which are immutable) and write them when the block's jobs are run.
"""
from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import LazyModule
from penstock._src.io import paths, slices
from penstock._src.kernels import strings
from penstock._src.ops.registry import op

bundle, bundle_v1 = LazyModule("penstock._src.io.bundle"), LazyModule("penstock._src.io.bundle_v1")      # they need protobuf
_later = threading.local()


@contextlib.contextmanager
def background() -> Iterator[list[Callable[[], None]]]:
    """Collects the writes of save ops on this thread, as functions to call later, in order."""
    jobs: list[Callable[[], None]] = []
    _later.jobs = jobs
    try:
        yield jobs
    finally:
        _later.jobs = None


def _do(job: Callable[[], None]) -> None:
    jobs = getattr(_later, "jobs", None)
    job() if jobs is None else jobs.append(job)


class Reader(Protocol):
    """The interface of the readers of both checkpoint versions."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None: ...

    def close(self) -> None: ...

    def names(self) -> list[str]: ...

    def tensors(self) -> dict[str, tuple[Any, tuple[int, ...]]]: ...

    def has(self, name: str) -> bool: ...

    def describe(self, name: str) -> tuple[Any, tuple[int, ...]]: ...

    def read(self, name: str) -> Any: ...

    def read_slice(self, name: str, part: Any) -> Any: ...


def open_reader(prefix: str) -> Reader:
    """A reader of a checkpoint of either version."""
    return bundle.BundleReader(prefix) if bundle.exists(prefix) else bundle_v1.SliceReader(prefix)


def _texts(value: np.ndarray) -> list[str]:
    return [os.fsdecode(s) for s in value.ravel().tolist()]


def _single(value: np.ndarray, what: str) -> str:
    if value.size != 1:
        raise errors.invalid(f"{what} should have a single element, got {value.size} instead.")
    return os.fsdecode(value.ravel()[0])


def _lists(prefix: Any, tensor_names: Any, shape_and_slices: Any) -> tuple[str, list[str], list[str]]:
    if tensor_names.ndim != 1 or shape_and_slices.ndim != 1:
        raise errors.invalid("Input tensor_names and shape_and_slices should be an 1-D tensors, got "
                             f"{list(tensor_names.shape)} and {list(shape_and_slices.shape)} instead.")
    if tensor_names.size != shape_and_slices.size:
        raise errors.invalid("tensor_names and shape_and_slices have different number of elements: "
                             f"{tensor_names.size} vs. {shape_and_slices.size}")
    return _single(prefix, "Input prefix"), _texts(tensor_names), _texts(shape_and_slices)


def _part(spec: str, value: Any) -> tuple[tuple[int, ...], slices.Slice]:
    """Full shape and slice from a text that is not empty, checked against the tensor to save."""
    shape, part, wanted = slices.parse_shape_and_slice(spec)
    if wanted != tuple(value.shape):
        raise errors.invalid("Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
                             f"{spec}, tensor: {list(value.shape)}")
    return shape, part


# -- V2 --------------------------------------------------------------------------------------------------------------
save_v2 = op("SaveV2", "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes ->",
             "dtypes: list(type) >= 1", stateful=True).no_gradient()
save_v2.shape(lambda prefix, tensor_names, shape_and_slices, tensors: [])


@save_v2.kernel
def _save_v2_kernel(prefix, tensor_names, shape_and_slices, tensors, *, dtypes):
    path, names, specs = _lists(prefix, tensor_names, shape_and_slices)
    if len(names) != len(tensors):
        raise errors.invalid(f"Got {len(names)} tensor names but {len(tensors)} tensors.")
    parts = [_part(spec, value) if spec else None for spec, value in zip(specs, tensors, strict=True)]
    _do(lambda: _write(path, names, parts, tensors, dtypes))


def _write(path: str, names: list[str], parts: list, tensors: list, types: list) -> None:
    writer = bundle.BundleWriter(path)
    try:
        for name, part, value, dtype in zip(names, parts, tensors, types, strict=True):
            if part is None:
                writer.add(name, value, dtype)
            else:
                writer.add_slice(name, *part, value, dtype)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise


restore_v2 = op("RestoreV2", "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: dtypes",
                "dtypes: list(type) >= 1", stateful=True).no_gradient()


@restore_v2.shape
def _restore_v2_shape(prefix, tensor_names, shape_and_slices, *, dtypes, c):
    named, given = shapes.rank_is(tensor_names, 1), shapes.rank_is(shape_and_slices, 1)
    if not all(shapes.compatible(dims, (len(dtypes),)) for dims in (named, given)):
        raise ValueError("RestoreV2 needs as many names and slices as types, got "
                         f"{shapes.show(named)}, {shapes.show(given)} and {len(dtypes)}")
    specs = c.const("shape_and_slices")
    if specs is None or len(np.atleast_1d(specs)) != len(dtypes):
        return [None] * len(dtypes)
    return [slices.parse_shape_and_slice(s)[2] if s else None for s in _texts(np.atleast_1d(specs))]


@restore_v2.kernel
def _restore_v2_kernel(prefix, tensor_names, shape_and_slices, *, dtypes):
    path, names, specs = _lists(prefix, tensor_names, shape_and_slices)
    if len(names) != len(dtypes):
        raise errors.invalid(f"Got {len(names)} tensor names, but {len(dtypes)} expected dtypes.")
    with open_reader(path) as reader:
        _check_types(reader, names, dtypes)
        return [_restored(reader, name, spec) for name, spec in zip(names, specs, strict=True)]


def _check_types(reader: Reader, names: list[str], types: list) -> None:
    wrong = []
    for name, dtype in zip(names, types, strict=True):
        stored = reader.describe(name)[0]
        if stored != dtype.base_dtype:
            wrong.append(f"tensor_name = {name}; expected dtype {dtype.name} does not equal original dtype {stored.name}")
    if wrong:
        raise errors.invalid("\n".join(wrong))


def _restored(reader: Reader, name: str, spec: str) -> Any:
    if not spec:
        return reader.read(name)
    shape, part, _ = slices.parse_shape_and_slice(spec)
    stored = reader.describe(name)[1]
    if stored != shape:
        raise errors.invalid(f"tensor_name = {name}; shape in shape_and_slice spec {_show(shape)} does not match the shape "
                             f"stored in checkpoint: {_show(stored)}")
    return reader.read_slice(name, part)


def _show(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


merge_v2_checkpoints = op("MergeV2Checkpoints", "checkpoint_prefixes: string, destination_prefix: string ->",
                          "delete_old_dirs: bool = True", stateful=True).no_gradient()
merge_v2_checkpoints.shape(lambda checkpoint_prefixes, destination_prefix: [])


@merge_v2_checkpoints.kernel
def _merge_v2_checkpoints_kernel(checkpoint_prefixes, destination_prefix, *, delete_old_dirs):
    if checkpoint_prefixes.ndim != 1:
        raise errors.invalid("Input checkpoint_prefixes should be an 1-D tensor, got "
                             f"{list(checkpoint_prefixes.shape)} instead.")
    prefixes = _texts(checkpoint_prefixes)
    target = os.fsdecode(strings.scalar(destination_prefix, "Input destination_prefix"))
    _do(lambda: _merge(prefixes, target, delete_old_dirs))


def _merge(prefixes: list[str], target: str, delete_old_dirs: bool) -> None:
    bundle.merge(prefixes, target)
    if delete_old_dirs:
        for folder in {os.path.dirname(p) for p in prefixes} - {os.path.dirname(target)}:
            with contextlib.suppress(errors.OpError, OSError):
                if not paths.listdir(folder):
                    paths.rmtree(folder)


# -- names of shards -------------------------------------------------------------------------------------------------
sharded_filename = op("ShardedFilename", "basename: string, shard: int32, num_shards: int32 -> filename: string",
                      ).no_gradient()
sharded_filespec = op("ShardedFilespec", "basename: string, num_shards: int32 -> filename: string").no_gradient()
sharded_filename.shape(lambda basename, shard, num_shards: ())
sharded_filespec.shape(lambda basename, num_shards: ())


def _number(value: torch.Tensor, what: str) -> int:
    if value.dim():
        raise errors.invalid(f"{what} must be a scalar, got shape {list(value.shape)}")
    return int(value)


@sharded_filename.kernel
def _sharded_filename_kernel(basename, shard, num_shards):
    name = strings.scalar(basename, "basename")
    return strings.pack([name + b"-%05d-of-%05d" % (_number(shard, "shard"), _number(num_shards, "num_shards"))], ())


@sharded_filespec.kernel
def _sharded_filespec_kernel(basename, num_shards):
    return strings.pack([strings.scalar(basename, "basename") + b"-?????-of-%05d" % _number(num_shards, "num_shards")], ())


# -- V1 --------------------------------------------------------------------------------------------------------------
save_v1 = op("Save", "filename: string, tensor_names: string, data: T ->", "T: list(type) >= 1", stateful=True).no_gradient()
save_slices = op("SaveSlices", "filename: string, tensor_names: string, shapes_and_slices: string, data: T ->",
                 "T: list(type) >= 1", stateful=True).no_gradient()
save_v1.shape(lambda filename, tensor_names, data: [])
save_slices.shape(lambda filename, tensor_names, shapes_and_slices, data: [])


@save_v1.kernel
def _save_v1_kernel(filename, tensor_names, data, *, T):
    _write_v1(_single(filename, "Input 0 (filename)"), _texts(tensor_names), [""] * len(data), data, T)


@save_slices.kernel
def _save_slices_kernel(filename, tensor_names, shapes_and_slices, data, *, T):
    _write_v1(_single(filename, "Input 0 (filename)"), _texts(tensor_names), _texts(shapes_and_slices), data, T)


def _write_v1(path: str, names: list[str], specs: list[str], data: list, types: list) -> None:
    if not len(names) == len(specs) == len(data):
        raise errors.invalid(f"Got {len(names)} tensor names and {len(specs)} slices but {len(data)} tensors.")
    writer = bundle_v1.SliceWriter(path)
    for name, spec, value, dtype in sorted(zip(names, specs, data, types, strict=True), key=lambda item: item[0]):
        shape, part = _part(spec, value) if spec else (tuple(value.shape), slices.full(value.ndim))
        writer.add(name, shape, part, value, dtype)
    _do(writer.finish)


restore_v1 = op("Restore", "file_pattern: string, tensor_name: string -> tensor: dt",
                "dt: type, preferred_shard: int = -1", stateful=True).no_gradient()
restore_slice = op("RestoreSlice", "file_pattern: string, tensor_name: string, shape_and_slice: string -> tensor: dt",
                   "dt: type, preferred_shard: int = -1", stateful=True).no_gradient()
restore_v1.shape(lambda file_pattern, tensor_name: None)


@restore_slice.shape
def _restore_slice_shape(file_pattern, tensor_name, shape_and_slice, *, c):
    spec = c.const("shape_and_slice")
    return slices.parse_shape_and_slice(_texts(spec)[0])[2] if spec is not None and spec.size and spec.ravel()[0] else None


@restore_v1.kernel
def _restore_v1_kernel(file_pattern, tensor_name, *, dt):
    return _read_v1(file_pattern, tensor_name, "", dt)


@restore_slice.kernel
def _restore_slice_kernel(file_pattern, tensor_name, shape_and_slice, *, dt):
    return _read_v1(file_pattern, tensor_name, _single(shape_and_slice, "shape_and_slice"), dt)


def _read_v1(pattern: np.ndarray, name: np.ndarray, spec: str, dtype: Any) -> Any:
    path, text = _single(pattern, "Input 0 (file_pattern)"), _single(name, "Input 1 (tensor_name)")
    with bundle_v1.SliceReader(path) as reader:
        stored = reader.describe(text)[0]
        if stored != dtype.base_dtype:
            raise errors.invalid(f"Expected to restore a tensor of type {dtype.name}, got a tensor of type {stored.name} "
                                 f"instead: tensor_name = {text}")
        return _restored(reader, text, spec)

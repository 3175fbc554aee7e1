"""Positions of iterators as values: for checkpoints, and as variants under TensorFlow's names; writing datasets to record
files."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.data.pipelines import codec
from penstock._src.data.pipelines.batching import Elements
from penstock._src.data.pipelines.sources import Slices
from penstock._src.io import paths, replaced
from penstock._src.io.record import TFRecordWriter
from penstock._src.ops.data.dataset_base import Body, stage_of, text
from penstock._src.ops.data.iterator import iterator_of
from penstock._src.ops.data.optional import OptionalValue
from penstock._src.ops.registry import op
from penstock._src.ops.state.list_values import TensorList

# -- values inside of positions -------------------------------------------------------------------------------------------
codec.register("optional", OptionalValue, lambda v: v.element, OptionalValue)
codec.register("elements", Elements,
               lambda s: [s.elements, [t.name for t in s.types], [None if d is None else list(d) for d in s.shapes]],
               lambda p: Elements([tuple(e) for e in p[0]], tuple(dtypes.as_dtype(t) for t in p[1]),
                                  tuple(None if d is None else tuple(d) for d in p[2])))
codec.register("slices", Slices,
               lambda s: [list(s.columns), [t.name for t in s.types], [None if d is None else list(d) for d in s.shapes]],
               lambda parts: _slices(parts))
codec.register("list", TensorList,
               lambda v: [v.items(), v.dtype.name, None if v.dims is None else list(v.dims), v.limit],
               lambda p: TensorList(list(p[0]), len(p[0]), dtypes.as_dtype(p[1]), None if p[2] is None else tuple(p[2]), p[3]))


def _slices(parts: list) -> Slices:
    made = Slices(list(parts[0]))
    made.types = tuple(dtypes.as_dtype(t) for t in parts[1])
    made.shapes = tuple(None if d is None else tuple(d) for d in parts[2])
    return made


# -- positions --------------------------------------------------------------------------------------------------------------
serialize = op("SerializeIterator", "resource_handle: resource -> serialized: variant",
               "external_state_policy: int = 0", stateful=True).no_gradient()
deserialize = op("DeserializeIterator", "resource_handle: resource, serialized: variant ->", stateful=True).no_gradient()
position = op("IteratorPosition", "resource_handle: resource -> position: string", "external_state_policy: int = 0",
              stateful=True).no_gradient()
set_position = op("SetIteratorPosition", "resource_handle: resource, position: string ->", stateful=True).no_gradient()
serialize.shape(lambda resource_handle: (1,))
position.shape(lambda resource_handle: ())


FAIL = 2                                        # of external_state_policy; with others, the position is still saved


def _outer_state(stage: Any) -> str | None:
    """The type of an op through which a pipeline depends on state outside of it."""
    own = (b.outer_state for b in vars(stage).values() if isinstance(b, Body))
    return next(filter(None, (*own, *map(_outer_state, stage.inputs))), None)


def _position(handle: Any, policy: int, ctx: Any) -> bytes:
    iterator = iterator_of(handle)
    state = _outer_state(iterator.stage) if policy == FAIL and iterator.stage is not None else None
    if state is not None:
        raise errors.FailedPreconditionError(
            None, None, f"The position of the iterator is not all: a function of its dataset calls {state}, whose state is not "
                        'saved with it. With external_state_policy="ignore" the position is saved without that.')
    try:
        return codec.encode(iterator.save(ctx))
    except NotImplementedError as e:
        raise errors.FailedPreconditionError(None, None, str(e)) from None


def _go_to(handle: Any, value: Any, ctx: Any) -> None:
    if not isinstance(value, np.ndarray) or value.size != 1 or not isinstance(value.reshape(-1)[0], bytes):
        raise errors.invalid("The position of an iterator must be a scalar string")
    state = codec.decode(value.reshape(-1)[0])
    try:
        iterator_of(handle).restore(state, ctx)
    except NotImplementedError as e:
        raise errors.FailedPreconditionError(None, None, str(e)) from None
    except (TypeError, KeyError, IndexError, ValueError, AttributeError) as e:
        raise errors.invalid(f"The position is not one of this dataset: {type(e).__name__}: {e}") from None


@serialize.kernel(device="cpu")
def _serialize_kernel(resource_handle, *, external_state_policy, ctx):
    return np.array([_position(resource_handle, external_state_policy, ctx)], dtype=object)


@deserialize.kernel(device="cpu")
def _deserialize_kernel(resource_handle, serialized, *, ctx):
    _go_to(resource_handle, serialized, ctx)


@position.kernel(device="cpu")
def _position_kernel(resource_handle, *, external_state_policy, ctx):
    return np.array(_position(resource_handle, external_state_policy, ctx), dtype=object)


@set_position.kernel(device="cpu")
def _set_position_kernel(resource_handle, position, *, ctx):
    _go_to(resource_handle, position, ctx)


# -- folders of shards ------------------------------------------------------------------------------------------------------
SPEC, COUNT, SHARD = "dataset_spec.pb", "dataset_size.txt", ".shard"
write_shards = op("WriteDatasetShards", "input_dataset: variant, path: string, compression_type: string ->", "spec: string",
                  stateful=True).no_gradient()


@write_shards.kernel(device="cpu")
def _write_shards_kernel(input_dataset, path, compression_type, *, spec, ctx):
    """Writes a dataset of numbers of shards and records; its files replace those of the folder when all are complete."""
    ctx, path = ctx.within(ctx.streams), text(path, "path")
    with replaced.files(path, _is_of_dataset) as folder:
        count = _write_records(stage_of(input_dataset).iterate(ctx), folder, text(compression_type, "compression_type"), ctx)
        paths.write_atomically(paths.join(folder, COUNT), str(count).encode())
        paths.write_atomically(paths.join(folder, SPEC), spec if isinstance(spec, bytes) else spec.encode("latin-1"))


def _is_of_dataset(name: str) -> bool:
    return name in (SPEC, COUNT) or name.endswith(SHARD)


def _write_records(cursor: Any, folder: str, compression: str, ctx: Any) -> int:
    """Writes the records of each shard to its file; the number of all records."""
    writers: dict[int, TFRecordWriter] = {}
    count = 0

    def shard(at: int) -> str:
        return paths.join(folder, f"{at:08d}{SHARD}")
    try:
        while (element := cursor.next(ctx)) is not None:
            at, record = int(element[0]), element[1][()]
            if at not in writers:
                writers[at] = TFRecordWriter(shard(at), compression)
            writers[at].write(record)
            count += 1
            ctx.remaining()
    finally:
        cursor.close()
        for writer in writers.values():
            writer.close()
    for at in writers:
        paths.sync_file(shard(at))
    return count


# -- record files -------------------------------------------------------------------------------------------------------------
for _name in ("DatasetToTFRecord", "ExperimentalDatasetToTFRecord"):
    _made = op(_name, "input_dataset: variant, filename: string, compression_type: string ->", stateful=True).no_gradient()

    @_made.kernel(device="cpu")
    def _made_kernel(input_dataset, filename, compression_type, *, ctx):
        ctx = ctx.within(ctx.streams)
        cursor = stage_of(input_dataset).iterate(ctx)
        try:
            with TFRecordWriter(text(filename, "filename"), text(compression_type, "compression_type")) as writer:
                while (element := cursor.next(ctx)) is not None:
                    if len(element) != 1 or element[0].ndim:
                        raise errors.invalid("ToTFRecordOp currently only supports scalar elements, one string each")
                    writer.write(element[0][()])
                    ctx.remaining()                   # ends with the step's cancellation or deadline
        finally:
            cursor.close()

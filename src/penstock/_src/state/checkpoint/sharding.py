"""How the tensors of a checkpoint are divided over its data files: policies, and the ops that write a file for each shard."""
from __future__ import annotations

import abc
import dataclasses
import math
import uuid
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.convert import constant
from penstock._src.graph.scopes import control_dependencies, device
from penstock._src.graph.trackable import OBJECT_GRAPH_PROTO_KEY
from penstock._src.kernels.devices.device_spec import DeviceSpecV2
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.saveable import set_cpu0
from penstock._src.state.variables.variable import SaveSliceInfo

Shard = dict[str, dict[str, Any]]                  # from names in the checkpoint to {slice: tensor}


@export(v2=["train.experimental.ShardableTensor"])
@dataclasses.dataclass(frozen=True)
class ShardableTensor:
    """A tensor of a checkpoint, as a sharding policy receives it."""
    _tensor_save_spec: Any
    tensor: Any
    dtype: Any
    device: Any
    name: str
    shape: Any
    slice_spec: Any
    checkpoint_key: str
    trackable: Any

    def __hash__(self) -> int:
        return hash((self.name, self.dtype, str(self.device), self.checkpoint_key))


@export(v2=["train.experimental.ShardingCallback"])
class ShardingCallback(abc.ABC):
    """Divides the tensors of one task into shards, each a dictionary from names to {slice: tensor}.

    A subclass has a `description`, and is called with a list of ShardableTensors. No tensor may be left out or changed.

    >>> tf.train.CheckpointOptions(experimental_sharding_callback=tf.train.experimental.MaxShardSizePolicy(1 << 30))
    """

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """What the policy does, in a sentence."""

    @abc.abstractmethod
    def __call__(self, shardable_tensors: Sequence[ShardableTensor]) -> Sequence[Shard]:
        """The shards of some tensors."""

    def __hash__(self) -> int:
        return hash((self.description, *(v for v in vars(self).values() if isinstance(v, Hashable))))

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)


@export(v2=["train.experimental.ShardByTaskPolicy"])
class ShardByTaskPolicy(ShardingCallback):
    """One shard for the tensors of each task."""

    @property
    def description(self) -> str:
        """What the policy does, in a sentence."""
        return "One shard for the tensors of each task."

    def __call__(self, shardable_tensors: Sequence[ShardableTensor]) -> Sequence[Shard]:
        shard: Shard = {}
        for t in shardable_tensors:
            shard.setdefault(t.checkpoint_key, {})[t.slice_spec] = t.tensor
        return [shard]


@export(v2=["train.experimental.MaxShardSizePolicy"])
class MaxShardSizePolicy(ShardingCallback):
    """Shards of at most `max_shard_size` bytes; larger tensors are divided along an axis.

    A string or a single row that is larger than a shard gets a separate shard.
    """

    def __init__(self, max_shard_size: int):
        self.max_shard_size = max_shard_size

    @property
    def description(self) -> str:
        """What the policy does, in a sentence."""
        return "Shards of at most a given number of bytes."

    def __call__(self, shardable_tensors: Sequence[ShardableTensor]) -> Sequence[Shard]:
        return _Filling(self.max_shard_size).shards(shardable_tensors)


class _Filling:
    """The shards that are being filled, one after the other."""

    def __init__(self, limit: int):
        self.limit = self.room = limit
        self.filled: list[Shard] = [{}]
        self.alone: list[Shard] = []               # tensors that do not fit into a shard

    def shards(self, tensors: Sequence[ShardableTensor]) -> list[Shard]:
        for t in tensors:
            self._add(t)
        return [s for s in self.filled if s] + self.alone

    def _put(self, t: ShardableTensor, part: str, value: Any, size: int) -> None:
        self.filled[-1].setdefault(t.checkpoint_key, {})[part] = value
        self.room -= size

    def _next(self) -> None:
        self.filled.append({})
        self.room = self.limit

    def _put_alone(self, t: ShardableTensor, part: str, value: Any, size: int) -> None:
        logging.warning("%s %s has %d bytes, which cannot be divided into shards of %d bytes: it gets a separate shard.",
                        t.checkpoint_key, part, size, self.limit)
        self.alone.append({t.checkpoint_key: {part: value}})

    def _add(self, t: ShardableTensor) -> None:
        total, each = _sizes(t)
        info = SaveSliceInfo.from_spec(t.slice_spec) if t.slice_spec else None
        shape: list[int] = [int(n) for n in (info.var_shape if info else t.shape)]
        if not shape:
            if total > self.limit:
                return self._put_alone(t, t.slice_spec, t.tensor, total)
            if total > self.room:
                self._next()
            return self._put(t, t.slice_spec, t.tensor, total)
        first = list(info.var_offset) if info else [0] * len(shape)
        whole = list(info.full_shape) if info else shape
        done = [0] * len(shape)                    # the part that is in shards already, as an offset of the rest

        def piece(sizes: list[int]) -> tuple[str, Any]:
            where = [a + b for a, b in zip(first, done, strict=True)]
            text = SaveSliceInfo(t.checkpoint_key, whole, where, sizes).spec.strip()
            with device(t.device):
                return text, get("Slice")(t.tensor, constant(done, dtype=np.int32), constant(sizes, dtype=np.int32))

        rest = list(shape)
        while math.prod(rest) * each > self.room:
            axis, count = _largest(rest, each, self.room)
            if count == 0 and self.room < self.limit:
                self._next()
                continue
            if count == 0:                         # not one row fits into an empty shard
                axis, count = min(range(len(rest)), key=lambda i: math.prod(rest) // rest[i]), 1
            sizes = [count if i == axis else n for i, n in enumerate(rest)]
            size = math.prod(sizes) * each
            part, value = piece(sizes)
            if size > self.limit:
                self._put_alone(t, part, value, size)
            else:
                self._put(t, part, value, size)
                if self.room == 0:
                    self._next()
            done[axis] += count
            rest[axis] -= count
        if math.prod(rest) or not math.prod(shape):
            self._put(t, *piece(rest), math.prod(rest) * each)


def _sizes(t: ShardableTensor) -> tuple[int, int]:
    """The bytes of a tensor and of its largest element, 0 where they are not known."""
    if t.checkpoint_key == OBJECT_GRAPH_PROTO_KEY or t.dtype.name == "variant":
        return 0, 0
    if t.dtype.name == "string":
        if not hasattr(t.tensor, "numpy") or not context.executing_eagerly():
            return 0, 0
        lengths = [len(s) for s in np.asarray(t.tensor.numpy(), dtype=object).reshape(-1)]
        return sum(lengths), max(lengths, default=0)
    return TensorShape(t.shape).num_elements() * t.dtype.size, t.dtype.size


def _largest(shape: list[int], each: int, room: int) -> tuple[int, int]:
    """The axis along which the largest part that fits is cut, and how long the part is; 0 if none fits."""
    count = math.prod(shape) * each
    best = (0, 0, 0)
    for axis, n in enumerate(shape):
        rows = room // (count // n)
        if rows == 0:
            continue
        parts = math.ceil(n / rows)
        length = math.ceil(n / parts)
        size = length * (count // n)
        if size > best[0]:
            best = (size, axis, length)
    return best[1], best[2]


def shardable(specs: list, owners: list) -> dict[str, list[ShardableTensor]]:
    """By task, the tensors of save specs and the objects that they belong to."""
    found: dict[str, list[ShardableTensor]] = {}
    for spec, owner in zip(specs, owners, strict=True):
        tensor = spec.tensor
        if tensor is None:
            continue
        on = DeviceSpecV2.from_string(spec.device or "")
        found.setdefault(set_cpu0(on.to_string()), []).append(ShardableTensor(
            _tensor_save_spec=spec, tensor=tensor, dtype=spec.dtype, device=on, name=spec.name, shape=tensor.shape,
            slice_spec=spec.slice_spec.strip(), checkpoint_key=spec.name, trackable=owner))
    return found


def save_sharded(prefix: Any, specs: list, owners: list, policy: Any) -> Any:
    """Writes a checkpoint with the data files of a policy; returns the prefix."""
    shards = [(task, shard) for task, tensors in shardable(specs, owners).items() for shard in _checked(policy, tensors)]
    temporary = get("StringJoin")([prefix, f"_temp/part-{uuid.uuid4().hex}"])
    count, prefixes, saves = constant(len(shards), name="num_shards"), [], []
    for i, (task, shard) in enumerate(shards):
        parts = [(name, part, tensor) for name, slices in shard.items() for part, tensor in slices.items()]
        with device(task):
            prefixes.append(get("ShardedFilename")(temporary, i, count))
            saves.append(get("SaveV2")(prefixes[-1], [p[0] for p in parts], [p[1] for p in parts], [p[2] for p in parts]))
    with control_dependencies([s for s in saves if s is not None]), device("/cpu:0"):
        merged = get("MergeV2Checkpoints")(prefixes, prefix, delete_old_dirs=True)
        with control_dependencies([] if merged is None else [merged]):
            return identity(prefix)


def _checked(policy: Any, tensors: list[ShardableTensor]) -> Sequence[Shard]:
    """The shards of a task; ValueError if the policy left something out or changed it."""
    shards = policy(tensors)
    sizes: dict[str, int] = {}
    for shard in shards:
        for name, slices in shard.items():
            for tensor in slices.values():
                sizes[name] = sizes.get(name, 0) + (TensorShape(tensor.shape).num_elements() or 0)
    wanted: dict[str, int] = {}
    for t in tensors:
        wanted[t.checkpoint_key] = wanted.get(t.checkpoint_key, 0) + (TensorShape(t.shape).num_elements() or 0)
    dtypes = {t.checkpoint_key: t.dtype.base_dtype for t in tensors}
    for shard in shards:
        for name, slices in shard.items():
            if name not in dtypes:
                raise RuntimeError(f"The sharding callback added a tensor that is not of the checkpoint: {name}")
            for tensor in slices.values():
                if tensor.dtype.base_dtype != dtypes[name]:
                    raise RuntimeError(f"The sharding callback changed the dtype of {name} from {dtypes[name].name} to "
                                       f"{tensor.dtype.name}.")
    for name, size in wanted.items():
        if name not in sizes:
            raise RuntimeError(f"The sharding callback removed a tensor from the checkpoint: {name}")
        if sizes[name] != size:
            raise RuntimeError(f"The sharding callback changed the shape of {name}: its parts have {sizes[name]} elements, "
                               f"not {size}.")
    return shards

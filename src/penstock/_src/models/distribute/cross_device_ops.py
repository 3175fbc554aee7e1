"""Cross-device ops: reducing values of several devices of one process, and copying the result to all of them.

A strategy is given one of these (`MirroredStrategy(cross_device_ops=…)`). `reduce`, `batch_reduce` and `broadcast` check their
arguments and call `*_implementation`, which subclasses override. Everything is built of ops, so that the same code
runs eagerly, in graphs and in functions; what crosses devices is copied by the engine.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices, add_gradients
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import device
from penstock._src.models.distribute.devices import canonical
from penstock._src.models.distribute.packing import Packing
from penstock._src.models.distribute.values import DistributedValues, Mirrored, PerReplica, device_of
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.variables.reduce_op import ReduceOp


def devices_of(destinations: Any) -> tuple[str, ...]:
    """The devices that something represents: a name or names, a distributed value, a variable or a tensor."""
    if isinstance(destinations, str):
        return (canonical(destinations),)
    if isinstance(destinations, DistributedValues):
        return tuple(canonical(d) for d in destinations._devices)
    if isinstance(destinations, (list, tuple)):
        return tuple(canonical(d) for d in destinations)
    return (canonical(device_of(destinations)),)


def copy_to(value: Any, where: str | None) -> Any:
    """A tensor, or IndexedSlices, on a device."""
    with device(where):
        if isinstance(value, IndexedSlices):
            shape = None if value.dense_shape is None else identity(value.dense_shape)
            return IndexedSlices(identity(value.values), identity(value.indices), shape)
        return identity(value)


def add_all(values: Sequence, accumulate: Callable | None = None) -> Any:
    """The sum of tensors, or of IndexedSlices, on the device that is open."""
    if len(values) == 1:
        return values[0]
    if any(isinstance(v, IndexedSlices) for v in values):
        return add_gradients(list(values))
    return (accumulate or (lambda xs: get("AddN")(xs)))(list(values))


def divided(value: Any, count: int) -> Any:
    """A value, or the values of IndexedSlices, divided by a number."""
    if isinstance(value, IndexedSlices):
        return IndexedSlices(divided(value.values, count), value.indices, value.dense_shape)
    fractions = value.dtype.is_floating or value.dtype.is_complex
    return get("RealDiv" if fractions else "FloorDiv")(value, convert(count, value.dtype))


def finished(value: Any, op: ReduceOp, count: int) -> Any:
    """A sum as what was requested."""
    return divided(value, count) if op is ReduceOp.MEAN and count > 1 else value


def mirrored(copies: Sequence) -> Any:
    """Copies as one value."""
    return copies[0] if len(copies) == 1 else Mirrored(copies)


def check_shapes(op: ReduceOp, value: DistributedValues) -> None:
    """ValueError where the values of replicas cannot be added: it names replicas, shapes and the ops that made them."""
    parts = [v for v in value._values if isinstance(v, Tensor)]
    for i, part in enumerate(parts[1:], 1):
        if not part.shape.is_compatible_with(parts[0].shape) or part.dtype.base_dtype != parts[0].dtype.base_dtype:
            def shown(j: int) -> str:
                t = parts[j]
                made = "" if hasattr(t, "_value") else f" by {t.op.type} '{t.op.name}'"
                return f"replica {j} has {t.dtype.name}{t.shape}{made}"
            raise ValueError(f"Values of different shapes or types cannot be reduced ({op.value}): {shown(0)}; {shown(i)}. "
                             "Reduce them inside of each replica first, or use strategy.gather or axis=0.")


@export("distribute.CrossDeviceOps")
class CrossDeviceOps:
    """Base of the ways to reduce and copy values across devices. A subclass has the `*_implementation` methods."""

    def __init__(self) -> None:
        pass

    @property
    def _num_between_graph_workers(self) -> int:
        return 1

    def reduce(self, reduce_op: Any, per_replica_value: Any, destinations: Any, options: Any = None) -> Any:
        """The sum or mean of the values of replicas, on the devices of `destinations`."""
        op = ReduceOp.of(reduce_op)
        return self.reduce_implementation(op, self._checked(op, per_replica_value), self._where(destinations))

    def batch_reduce(self, reduce_op: Any, value_destination_pairs: Any, options: Any = None) -> list:
        """`reduce` of many values at once."""
        op = ReduceOp.of(reduce_op)
        pairs = [(self._checked(op, v), self._where(d)) for v, d in value_destination_pairs]
        return self.batch_reduce_implementation(op, pairs)

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        """Copies of a tensor on the devices of `destinations`."""
        return self.broadcast_implementation(tensor, self._where(destinations))

    def reduce_implementation(self, reduce_op: Any, per_replica_value: Any, destinations: Any) -> Any:
        """How one value is reduced."""
        raise NotImplementedError(f"{type(self).__name__} must implement reduce_implementation.")

    def batch_reduce_implementation(self, reduce_op: Any, value_destination_pairs: Any) -> list:
        """How many values are reduced: by default one after the other."""
        return [self.reduce_implementation(reduce_op, v, d) for v, d in value_destination_pairs]

    def broadcast_implementation(self, tensor: Any, destinations: Any) -> Any:
        """How a value is copied."""
        return mirrored([copy_to(tensor, d) for d in devices_of(destinations)])

    @staticmethod
    def _checked(op: ReduceOp, value: Any) -> DistributedValues:
        if not isinstance(value, DistributedValues):
            value = PerReplica([value if isinstance(value, (Tensor, IndexedSlices)) else convert(value)])
        check_shapes(op, value)
        return value

    @staticmethod
    def _where(destinations: Any) -> Any:
        if destinations is None or isinstance(destinations, (list, tuple)) and not destinations:
            raise ValueError("destinations must name at least one device.")
        return destinations


@export("distribute.ReductionToOneDevice")
class ReductionToOneDevice(CrossDeviceOps):
    """Values are added on one device, and the result is copied to all that need it.

    >>> tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.ReductionToOneDevice())
    """

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None):
        super().__init__()
        self.reduce_to_device, self.accumulation_fn = reduce_to_device, accumulation_fn

    def reduce_implementation(self, reduce_op: Any, per_replica_value: Any, destinations: Any) -> Any:
        """Adds on one device."""
        wanted = devices_of(destinations)
        with device(self.reduce_to_device or wanted[0]):
            values = per_replica_value._values
            total = finished(add_all(values, self.accumulation_fn), reduce_op, len(values))
        return mirrored([copy_to(total, d) for d in wanted])


class AllReduceCrossDeviceOps(CrossDeviceOps):
    """All-reduce. `num_packs` concatenates tensors to that many packs: fewer, larger messages.

    `all_reduce_alg` says how the sum is formed: "nccl" (a ring of chunks: each device adds one part of every tensor, and sends
    it to all), "hierarchical_copy" (within groups first, then across them).
    """

    def __init__(self, all_reduce_alg: str = "nccl", num_packs: int = 1):
        super().__init__()
        if all_reduce_alg not in _ALGORITHMS:
            raise ValueError(f"all_reduce_alg must be one of {sorted(_ALGORITHMS)}, not {all_reduce_alg!r}.")
        if num_packs < 0:
            raise ValueError(f"HierarchicalCopy requires num_packs >= 0, but {num_packs} is specified"
                             if all_reduce_alg == "hierarchical_copy" else
                             f"num_packs must not be negative, but {num_packs} is specified")
        self._all_reduce_alg, self._num_packs = all_reduce_alg, num_packs
        self._simple = ReductionToOneDevice()

    def _fits(self, value: DistributedValues, destinations: Any) -> bool:
        """Whether the devices that have a value are exactly those that need the sum."""
        return isinstance(value, DistributedValues) and sorted(map(canonical, value._devices)) == \
            sorted(devices_of(destinations)) and len(value._values) > 1

    def reduce_implementation(self, reduce_op: Any, per_replica_value: Any, destinations: Any) -> Any:
        """All-reduces one value."""
        return self.batch_reduce_implementation(reduce_op, [(per_replica_value, destinations)])[0]

    def batch_reduce_implementation(self, reduce_op: Any, value_destination_pairs: Any) -> list:
        """All-reduces the dense values together; what is sparse, or goes elsewhere, is reduced to one device."""
        results: list[Any] = [None] * len(value_destination_pairs)
        together: dict[tuple, list[int]] = {}
        for i, (value, where) in enumerate(value_destination_pairs):
            if self._fits(value, where) and not any(isinstance(v, IndexedSlices) for v in value._values):
                together.setdefault((value._devices, value._values[0].dtype.base_dtype), []).append(i)
            else:
                results[i] = self._simple.reduce_implementation(reduce_op, value, where)
        for (where, _), indices in together.items():
            columns = [value_destination_pairs[i][0]._values for i in indices]
            for i, copies in zip(indices, self._all_reduced(columns, where), strict=True):
                n = len(copies)
                results[i] = Mirrored([self._finish(c, reduce_op, n, d) for c, d in zip(copies, where, strict=True)])
        return results

    @staticmethod
    def _finish(value: Any, op: ReduceOp, count: int, where: str) -> Any:
        with device(where or None):
            return finished(value, op, count)

    def _all_reduced(self, columns: list, where: tuple) -> list:
        """For each column of values, one per device, the copies of their sum."""
        sum_of = _ALGORITHMS[self._all_reduce_alg]
        packing = Packing.of(columns, self._num_packs)
        if packing is None:
            return [sum_of(column, where) for column in columns]
        summed = [sum_of(pack, where) for pack in packing.packed(columns, where)]
        return packing.unpacked(summed, where)


def _by_parts(column: Sequence, where: Sequence[str]) -> list:
    """Each device adds one part of the values of all, and all get all parts: all devices transfer the same amount."""
    n = len(where)
    shape = column[0].shape
    if not shape.is_fully_defined() or shape.num_elements() < n:
        return _by_groups(column, where)
    size = shape.num_elements()
    sizes = [size // n + (i < size % n) for i in range(n)]
    cut = []
    for value, d in zip(column, where, strict=True):
        with device(d or None):
            cut.append(get("SplitV")(get("Reshape")(value, [-1]), sizes, 0, num_split=n))
    sums = []
    for j, d in enumerate(where):
        with device(d or None):
            sums.append(add_all([c[j] for c in cut]))
    out = []
    for d in where:
        with device(d or None):
            out.append(get("Reshape")(get("ConcatV2")(sums, 0), shape.as_list()))
    return out


def _by_groups(column: Sequence, where: Sequence[str]) -> list:
    """Adds within two halves of the devices, then across them, and copies back the same way."""
    n = len(where)
    halves = [range(n)] if n < 4 else [range(n // 2), range(n // 2, n)]
    leaders = []
    for half in halves:
        with device(where[half[0]] or None):
            leaders.append(add_all([column[i] for i in half]))
    totals = []
    for half in halves:
        with device(where[half[0]] or None):
            totals.append(add_all(leaders))
    out: list[Any] = [None] * n
    for half, total in zip(halves, totals, strict=True):
        for i in half:
            out[i] = copy_to(total, where[i] or None) if i != half[0] else total
    return out


_ALGORITHMS: dict[str, Callable] = {"nccl": _by_parts, "hierarchical_copy": _by_groups}


@export("distribute.NcclAllReduce")
class NcclAllReduce(AllReduceCrossDeviceOps):
    """All-reduce over the GPUs of this process, as NCCL's ring does it: each adds one part of every tensor.

    >>> tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.NcclAllReduce(num_packs=1))
    """

    def __init__(self, num_packs: int = 1):
        super().__init__("nccl", num_packs)


@export("distribute.HierarchicalCopyAllReduce")
class HierarchicalCopyAllReduce(AllReduceCrossDeviceOps):
    """All-reduce within groups of devices first, then across the groups.

    >>> tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())
    """

    def __init__(self, num_packs: int = 1):
        super().__init__("hierarchical_copy", num_packs)


def choose(devices: Sequence[str]) -> CrossDeviceOps:
    """The default for some devices: by parts for several GPUs, else on one device."""
    kinds = {canonical(d).rsplit("device:", 1)[-1].split(":")[0] for d in devices}
    if kinds == {"GPU"} and len(devices) > 1:
        return NcclAllReduce(num_packs=1)
    logging.vlog(1, "Values of %s are reduced on one device.", list(devices))
    return ReductionToOneDevice()

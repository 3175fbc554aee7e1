"""Cross-device ops of several workers: values are reduced within each worker first, and then between them.

Every worker runs the same program, so the nth reduction of one of them belongs to the nth ones of the others. Where they
differ, all get an error that names the workers, and what each of them was about to do (docs/collectives.md).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import device
from penstock._src.models.distribute.communication import CommunicationOptions
from penstock._src.models.distribute.cross_device_ops import CrossDeviceOps, add_all, copy_to, devices_of, divided, mirrored
from penstock._src.models.distribute.encoding import encoded_sums, encoding_of
from penstock._src.ops.comm.collective import packed
from penstock._src.ops.registry import get
from penstock._src.state.variables.reduce_op import ReduceOp

_PACK = 1 << 20                     # default bytes of a pack


class Workers:
    """The workers of a strategy, as ops see them: a group with a key."""

    def __init__(self, size: int, key: int, options: CommunicationOptions):
        self.size, self.key, self.options = size, key, options
        self._group = {"group_size": size, "group_key": key, "timeout_seconds": options.timeout_seconds or 0.0,
                       "communication_hint": options.implementation.value.lower()}

    def reduced(self, values: Sequence) -> list:
        """The sums, over all workers, of tensors of one type."""
        if self.size == 1 or not values:
            return list(values)
        if self.options.overlap and len(values) > 1 and all(v.shape.is_fully_defined() for v in values):
            return self._beside(values)
        return list(get("_WorkersReduce")(list(values), bytes_per_pack=self.options.bytes_per_pack, **self._group))

    def _beside(self, values: Sequence) -> list:
        """The same in packs that travel as soon as they are there: the gradients of the last layers are the first."""
        timeout = {"timeout_seconds": self._group["timeout_seconds"]}
        backwards = list(range(len(values)))[::-1]
        sizes = [values[i].shape.num_elements() * values[i].dtype.size for i in backwards]
        packs = [[backwards[k] for k in pack] for pack in packed(sizes, self.options.bytes_per_pack or _PACK)]
        pending = [get("_WorkersStart")([values[i] for i in pack], number=min(pack), prioritize=self.options.prioritize,
                                        **self._group) for pack in packs]
        if self.options.prioritize:                  # waited for in the order in which they come
            packs, pending = packs[::-1], pending[::-1]
        out: list[Any] = [None] * len(values)
        for pack, p in zip(packs, pending, strict=True):
            sums = get("_WorkersFinish")(p, T=values[0].dtype.base_dtype, N=len(pack), shapes=[values[i].shape for i in pack],
                                         **timeout)
            for i, total in zip(pack, sums, strict=True):
                out[i] = total
        return out

    def gathered(self, value: Any) -> Any:
        """The rows of all workers, which need not have as many as each other."""
        return value if self.size == 1 else get("_WorkersGather")(value, **self._group)

    def exchanged(self, values: Sequence) -> list[list]:
        """The tensors, of any types and numbers of rows, of each worker: one message to each of the others."""
        types, n = [v.dtype.base_dtype for v in values], len(values)
        group = {k: v for k, v in self._group.items() if k != "communication_hint"}
        every = get("_WorkersExchange")(list(values), Tout=types * self.size, **group)
        return [list(every[i:i + n]) for i in range(0, len(every), n)]

    def broadcast(self, value: Any) -> Any:
        """The first worker's value."""
        return value if self.size == 1 else get("_WorkersBroadcast")(value, **self._group)

    def total(self, value: Any) -> Any:
        """The sum over all workers: of a tensor, or of IndexedSlices, whose rows are gathered."""
        if isinstance(value, IndexedSlices):
            return IndexedSlices(self.gathered(value.values), self.gathered(value.indices), value.dense_shape)
        return self.reduced([value])[0]


class WorkersReduction(CrossDeviceOps):
    """Reduces within this worker, between the workers, and copies the result to the devices that need it."""

    def __init__(self, workers: Workers, replicas_here: int):
        super().__init__()
        self._workers, self._replicas = workers, replicas_here * workers.size

    @property
    def _num_between_graph_workers(self) -> int:
        return self._workers.size

    def reduce_implementation(self, reduce_op: Any, per_replica_value: Any, destinations: Any) -> Any:
        """Reduces one value."""
        return self.batch_reduce_implementation(reduce_op, [(per_replica_value, destinations)])[0]

    def batch_reduce_implementation(self, reduce_op: Any, value_destination_pairs: Any) -> list:
        """Reduces the dense values of each type together, gathers sparse ones, and exchanges encoded ones."""
        sums: list[Any] = []
        for value, where in value_destination_pairs:
            with device(devices_of(where)[0]):
                sums.append(add_all(value._values))          # of the replicas of this worker
        encoded = [i for i, (value, _) in enumerate(value_destination_pairs) if all(map(encoding_of, value._values))]
        if self._workers.size > 1 and encoded:
            chosen = [value_destination_pairs[i][0]._values for i in encoded]
            for i, total in zip(encoded, encoded_sums(self._workers, chosen), strict=True):
                sums[i] = total
        else:
            encoded = []
        together: dict[Any, list[int]] = {}
        for i, total in enumerate(sums):
            if i in encoded:
                continue
            if isinstance(total, IndexedSlices):
                sums[i] = self._workers.total(total)
            else:
                together.setdefault(total.dtype.base_dtype, []).append(i)
        for indices in together.values():
            for i, total in zip(indices, self._workers.reduced([sums[i] for i in indices]), strict=True):
                sums[i] = total
        return [self._finished(s, reduce_op, where) for s, (_, where) in zip(sums, value_destination_pairs, strict=True)]

    def _finished(self, total: Any, reduce_op: Any, destinations: Any) -> Any:
        wanted = devices_of(destinations)
        with device(wanted[0]):
            if reduce_op is ReduceOp.MEAN:
                total = divided(total, self._replicas)
        return mirrored([total if i == 0 else copy_to(total, d) for i, d in enumerate(wanted)])

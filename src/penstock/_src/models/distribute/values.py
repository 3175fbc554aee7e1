"""Values of replicas: one object that holds a value per replica, and how structures of them are put together.

`PerReplica` holds a different value for each replica; `Mirrored` holds copies of the same one. `regroup` creates them from the
results of replicas, `select_replica` selects the values of one replica.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert, register_tensor_conversion_function
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.type_spec import TypeSpec, type_spec_from_value
from penstock._src.models.distribute import contexts


@export("distribute.DistributedValues")
class DistributedValues:
    """A value for each replica.

    >>> strategy.experimental_local_results(per_replica)
    """

    def __init__(self, values: Sequence):
        self._values = tuple(values)

    values = property(lambda self: self._values, doc="The values, in the order of the replicas.")
    _primary = property(lambda self: self._values[0], doc="The value of the first replica.")
    _devices = property(lambda self: tuple(device_of(v) for v in self._values), doc="The devices of the values.")

    def _index(self) -> int | None:
        """The index of the current value; None across replicas."""
        return contexts.frame().index

    def _get(self) -> Any:
        """The current value."""
        i = self._index()
        return self._get_cross_replica() if i is None else self._values[i]

    def _get_cross_replica(self) -> Any:
        if len(self._values) == 1:
            return self._values[0]
        raise ValueError(f"{type(self).__name__} has one value for each of {len(self._values)} replicas, not a common one: "
                         "use it inside of strategy.run, reduce it with strategy.reduce, or take the values with "
                         f"strategy.experimental_local_results. ({self})")

    def __repr__(self) -> str:
        shown = ",\n".join(f"  {i}: {v!r}" for i, v in enumerate(self._values))
        return f"{type(self).__name__}:{{\n{shown}\n}}"


@export(v2=["types.experimental.distributed.PerReplica"])
class PerReplica(DistributedValues):
    """A different value for each replica."""

    @property
    def _type_spec(self) -> PerReplicaSpec:
        return PerReplicaSpec(*[type_spec_from_value(v) for v in self._values])

    dtype = property(lambda self: self._primary.dtype, doc="The dtype of the values.")
    shape = property(lambda self: self._get().shape, doc="The shape of this replica's value.")


class PerReplicaSpec(TypeSpec):
    """The type of a PerReplica: one type per replica."""

    __slots__ = ("_value_specs",)

    def __init__(self, *value_specs: Any):
        self._value_specs = tuple(value_specs)

    value_type = property(lambda self: PerReplica, doc="PerReplica.")

    def _serialize(self) -> tuple:
        return self._value_specs

    @property
    def _component_specs(self) -> tuple:
        return self._value_specs

    def _to_components(self, value: Any) -> tuple:
        return value._values

    def _from_components(self, components: Any) -> Any:
        return PerReplica(components)


@export(v2=["types.experimental.distributed.Mirrored"])
class Mirrored(DistributedValues):
    """Copies of one value, for each replica."""

    dtype = property(lambda self: self._primary.dtype, doc="The dtype of the copies.")
    shape = property(lambda self: self._primary.shape, doc="The shape of the copies.")
    op = property(lambda self: self._get().op, doc="The operation that makes the copy that is meant.")

    def _get_cross_replica(self) -> Any:
        return self._values[0]

    def _as_graph_element(self) -> Any:
        value = self._get()
        return value._as_graph_element() if hasattr(value, "_as_graph_element") else value

    def numpy(self) -> Any:
        """The value as a numpy array (eager mode only)."""
        return self._get().numpy()


def _to_tensor(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return convert(value._get(), dtype, name)


register_tensor_conversion_function(PerReplica, _to_tensor)
register_tensor_conversion_function(Mirrored, _to_tensor)


def device_of(value: Any) -> str:
    """The device of a tensor, a variable or IndexedSlices; that of the host where it is not known."""
    found = value.values.device if isinstance(value, IndexedSlices) else getattr(value, "device", None)
    return found or ""


# -- structures -------------------------------------------------------------------------------------------------------
def select_replica(replica: int, structured: Any) -> Any:
    """The values of one replica in a structure of distributed values."""
    if isinstance(structured, DistributedValues):
        return structured._values[min(replica, len(structured._values) - 1)] if _one_for_all(structured) else \
            structured._values[replica]
    if isinstance(structured, (list, tuple, dict)):
        return _rebuilt(structured, [select_replica(replica, v) for v in _children(structured)])
    return structured


def _one_for_all(value: Any) -> bool:
    return getattr(value, "_shared_by_replicas", False)


def local_values(value: Any) -> tuple:
    """The values of a distributed value; a tuple with the value itself otherwise."""
    return value._values if isinstance(value, DistributedValues) else (value,)


def regroup(values: Sequence, wrap: Callable = PerReplica) -> Any:
    """The structure that all replicas returned, with one distributed value for each place in it.

    Objects that are the same for all replicas stay unchanged, and the copies of a variable become the variable.
    """
    first = values[0]
    if len(values) == 1 and not isinstance(first, (list, tuple, dict)) and wrap is PerReplica:
        container = getattr(first, "_distributed_container", None)
        return container() if container is not None else first
    if isinstance(first, (list, tuple, dict)):
        _check_same_structure(values)
        return _rebuilt(first, [regroup(parts, wrap) for parts in zip(*map(_children, values), strict=True)])
    if all(v is first for v in values):
        return first
    container = getattr(first, "_distributed_container", None)
    if container is not None and all(getattr(v, "_distributed_container", None) is not None and
                                     v._distributed_container() is container() for v in values):
        return container()
    _check_same_kind(values)
    return wrap(values)


def _check_same_kind(values: Sequence) -> None:
    """ValueError where one replica returns a tensor and another one something that is none."""
    kinds = {"None" if v is None else "structure" if isinstance(v, (list, tuple, dict)) else
             "operation" if isinstance(v, Operation) else "value" for v in values}
    if len(kinds) > 1:
        raise ValueError(_mismatch(values))
    tensors = [v for v in values if isinstance(v, Tensor)]
    if len({t.dtype.base_dtype for t in tensors}) > 1:
        raise ValueError(_mismatch(values))


def _check_same_structure(values: Sequence) -> None:
    first = values[0]
    for v in values[1:]:
        same = type(v) is type(first) and len(v) == len(first)
        if not same or isinstance(first, dict) and sorted(map(str, first)) != sorted(map(str, v)):
            raise ValueError(_mismatch(values))


def _mismatch(values: Sequence) -> str:
    shown = "; ".join(f"replica {i}: {_described(v)}" for i, v in enumerate(values))
    return f"The replicas must return the same structure, with the same dtypes, but they returned different ones: {shown}"


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_described(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_described, value))})"
    if isinstance(value, Tensor):
        of = "" if hasattr(value, "_value") else f" of {value.op.type} '{value.op.name}'"
        return f"tensor {value.dtype.name}{value.shape}{of}"
    return repr(value)


def _children(structure: Any) -> list:
    return [structure[k] for k in _keys(structure)] if isinstance(structure, dict) else list(structure)


def _keys(structure: dict) -> list:
    return sorted(structure, key=str)


def _rebuilt(like: Any, children: list) -> Any:
    if isinstance(like, dict):
        by_key = dict(zip(_keys(like), children, strict=True))
        if type(like) is dict:
            return {k: by_key[k] for k in like}
        made = type(like)(like.default_factory) if hasattr(like, "default_factory") else type(like)()
        made.update((k, by_key[k]) for k in like)
        return made
    if hasattr(like, "_fields"):
        return type(like)(*children)
    return tuple(children) if isinstance(like, tuple) else list(children)

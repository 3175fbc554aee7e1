"""Staging areas: small buffers between the parts of a pipeline. The state is in `data.queues.staging`.

They have no handle: every op names its area, by shared_name.
"""
from __future__ import annotations

import operator
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.queues.staging import MapStage, Stage
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import colocate_with, name_scope
from penstock._src.kernels import arrays
from penstock._src.ops.registry import OpDef, get, op

_LIMITS = "capacity: int >= 0 = 0, memory_limit: int >= 0 = 0"
_NAMES = "container: string = '', shared_name: string = ''"
_TYPES = f"{_LIMITS}, dtypes: list(type) >= 1, {_NAMES}"
_ANY = f"{_LIMITS}, dtypes: list(type), {_NAMES}"


def _op(name: str, args: str, attrs: str, blocking: bool = False) -> OpDef:
    return op(name, args, attrs, stateful=True, blocking=blocking).no_gradient()


# -- first in, first out ------------------------------------------------------------------------------------------------
stage = _op("Stage", "values: dtypes ->", _TYPES, blocking=True)
unstage = _op("Unstage", "-> values: dtypes", _TYPES, blocking=True)
stage_peek = _op("StagePeek", "index: int32 -> values: dtypes", _TYPES, blocking=True)
stage_size = _op("StageSize", "-> size: int32", _ANY)
stage_clear = _op("StageClear", "->", _ANY)
stage_size.shape(lambda: ())


def _stage(ctx: Any, node: Any, capacity: int, memory_limit: int, container: str, shared_name: str) -> Stage:
    name = shared_name or node.name
    return ctx.resources.get_or_create(container, name, Stage, lambda: Stage(name, capacity, memory_limit, container))


def _scalar(value: torch.Tensor, rule: str) -> int:
    if value.dim():
        raise errors.invalid(f"{rule}; got shape {list(value.shape)}")
    return int(value)


def _checked(values: list, types: list) -> list:
    """Values that were staged with these types."""
    for v, t in zip(values, types, strict=False):
        if isinstance(v, torch.Tensor) and v.dtype is not t.torch:
            raise errors.invalid(f"Staging area holds {v.dtype}, expected {t.name}")
    if len(values) != len(types):
        raise errors.invalid(f"Mismatch stage/unstage: {len(values)} vs. {len(types)}")
    return values


@stage.kernel
def _stage_kernel(values, *, capacity, memory_limit, container, shared_name, ctx, node):
    _stage(ctx, node, capacity, memory_limit, container, shared_name).put(values, ctx)


@unstage.kernel
def _unstage_kernel(*, capacity, memory_limit, dtypes, container, shared_name, ctx, node):
    return _checked(_stage(ctx, node, capacity, memory_limit, container, shared_name).get(ctx), dtypes)


@stage_peek.kernel
def _stage_peek_kernel(index, *, capacity, memory_limit, dtypes, container, shared_name, ctx, node):
    area = _stage(ctx, node, capacity, memory_limit, container, shared_name)
    return _checked(area.peek(_scalar(index, "index must be scalar, one int32 number"), ctx), dtypes)


@stage_size.kernel
def _stage_size_kernel(*, capacity, memory_limit, container, shared_name, ctx, node):
    return torch.tensor(len(_stage(ctx, node, capacity, memory_limit, container, shared_name)), dtype=torch.int32)


@stage_clear.kernel
def _stage_clear_kernel(*, capacity, memory_limit, container, shared_name, ctx, node):
    _stage(ctx, node, capacity, memory_limit, container, shared_name).clear()


# -- by key -------------------------------------------------------------------------------------------------------------
def _map_ops(prefix: str, ordered: bool) -> dict[str, OpDef]:
    """Declares the ops of one kind of map."""
    made = {
        "put": _op(f"{prefix}Stage", "key: int64, indices: int32, values: fake_dtypes ->",
                   f"{_LIMITS}, dtypes: list(type), fake_dtypes: list(type) >= 1, {_NAMES}", blocking=True),
        "peek": _op(f"{prefix}Peek", "key: int64, indices: int32 -> values: dtypes", _TYPES, blocking=True),
        "pop": _op(f"{prefix}Unstage", "key: int64, indices: int32 -> values: dtypes", _TYPES, blocking=True),
        "pop_any": _op(f"{prefix}UnstageNoKey", "indices: int32 -> key: int64, values: dtypes", _TYPES, blocking=True),
        "size": _op(f"{prefix}Size", "-> size: int32", _ANY),
        "incomplete_size": _op(f"{prefix}IncompleteSize", "-> size: int32", _ANY),
        "clear": _op(f"{prefix}Clear", "->", _ANY)}
    made["pop_any"].shape(lambda indices, *, dtypes: [(), *[None] * len(dtypes)])
    made["size"].shape(lambda: ())
    made["incomplete_size"].shape(lambda: ())

    def area(ctx: Any, node: Any, attrs: dict) -> MapStage:
        name = attrs["shared_name"] or node.name
        return ctx.resources.get_or_create(attrs["container"], name, MapStage, lambda: MapStage(
            name, attrs["capacity"], attrs["memory_limit"], len(attrs["dtypes"]), ordered, attrs["container"]))

    # An op identifies its area by its attributes.
    made["put"].kernel(lambda key, indices, values, *, ctx, node: area(ctx, node, node.attrs).put(
        _scalar(key, "key must be an int64 scalar"), arrays.ints(indices), values, ctx))
    made["peek"].kernel(lambda key, indices, *, ctx, node: _checked(area(ctx, node, node.attrs).peek(
        _scalar(key, "key must be an int64 scalar"), arrays.ints(indices), ctx), node.attrs["dtypes"]))
    made["pop"].kernel(lambda key, indices, *, ctx, node: _checked(area(ctx, node, node.attrs).pop(
        _scalar(key, "key must be an int64 scalar"), arrays.ints(indices), ctx), node.attrs["dtypes"]))

    @made["pop_any"].kernel
    def _made_pop_any_kernel(indices, *, ctx, node):
        key, values = area(ctx, node, node.attrs).pop_any(arrays.ints(indices), ctx)
        return torch.tensor(key), _checked(values, node.attrs["dtypes"])
    made["size"].kernel(lambda *, ctx, node: torch.tensor(len(area(ctx, node, node.attrs)), dtype=torch.int32))
    made["incomplete_size"].kernel(
        lambda *, ctx, node: torch.tensor(len(area(ctx, node, node.attrs).incomplete), dtype=torch.int32))
    made["clear"].kernel(lambda *, ctx, node: area(ctx, node, node.attrs).clear())
    return made


_MAPS = {False: _map_ops("Map", False), True: _map_ops("OrderedMap", True)}


# -- the classes ------------------------------------------------------------------------------------------------------
class BaseStagingArea:
    """The base of staging areas. With `names` for the components, elements are dictionaries."""

    def __init__(self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None, capacity: int = 0,
                 memory_limit: int = 0):
        if shared_name is None:
            self._name = context.current_graph().unique_name(type(self).__name__)
        elif isinstance(shared_name, str):
            self._name = shared_name
        else:
            raise ValueError("shared_name must be a string")
        self._dtypes = [_dtype(d) for d in dtypes]
        for what, given in (("shapes", shapes), ("names", names)):
            if given is not None and len(given) != len(self._dtypes):
                raise ValueError(f"StagingArea {what} must be the same length as dtypes")
        self._shapes = [TensorShape(s) for s in (shapes if shapes is not None else [None] * len(self._dtypes))]
        self._names, self._capacity, self._memory_limit = names, capacity, memory_limit
        with name_scope(f"{self._name}_root"):
            self._coloc_op = get("NoOp")()

    name = property(operator.attrgetter("_name"), doc="The name.")
    dtypes = property(operator.attrgetter("_dtypes"), doc="The types of the components.")
    shapes = property(operator.attrgetter("_shapes"), doc="The shapes of the components.")
    names = property(operator.attrgetter("_names"), doc="The names of the components, or None.")
    capacity = property(operator.attrgetter("_capacity"), doc="The greatest number of elements; 0 for no limit.")
    memory_limit = property(operator.attrgetter("_memory_limit"), doc="The greatest number of bytes; 0 for no limit.")

    def _attrs(self) -> dict[str, Any]:
        return {"shared_name": self._name, "capacity": self._capacity, "memory_limit": self._memory_limit}

    def _components(self, vals: Any, indices: Any = None) -> tuple[list, list[int]]:
        """The tensors to put and the components that they are."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(vals) <= set(self._names):
                raise ValueError(f"Keys in dictionary to put do not match names of staging area. Dictionary: ({sorted(vals)}), "
                                 f"Queue: ({sorted(self._names)})")
            indices = [i for i, n in enumerate(self._names) if n in vals]
            vals = [vals[self._names[i]] for i in indices]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a staging area with names")
        elif indices is None:
            raise ValueError("A list of tensors needs indices")
        elif len(indices) != len(vals):
            raise ValueError(f"Number of indices '{len(indices)}' doesn't match number of values '{len(vals)}'")
        if len(vals) > len(self._dtypes):
            raise ValueError(f"Unexpected number of inputs '{len(vals)}' vs '{len(self._dtypes)}'")
        made = []
        for value, i in zip(vals, indices, strict=True):
            value = convert(value, name=f"component_{i}")
            if value.dtype.base_dtype != self._dtypes[i]:
                raise ValueError(f"Datatypes do not match. '{value.dtype}' != '{self._dtypes[i]}'")
            value.shape.assert_is_compatible_with(self._shapes[i])
            made.append(value)
        return made, list(indices)

    def _result(self, tensors: Any, indices: list[int]) -> Any:
        if not context.executing_eagerly():
            for t, i in zip(tensors, indices, strict=True):
                t.set_shape(self._shapes[i])
        return {self._names[i]: t for t, i in zip(tensors, indices, strict=True)} if self._names else tensors


def _dtype(value: Any) -> Any:
    return dtypes.as_dtype(value)


class StagingArea(BaseStagingArea):
    """A first-in-first-out buffer of tuples of tensors, so that producers and consumers overlap.

    >>> area = StagingArea([tf.float32], shapes=[[10]], capacity=2)
    >>> put = area.put([batch]); batch_of_last_step = area.get()
    """

    def put(self, values: Any, name: str | None = None) -> Any:
        """An op that adds an element, waiting for room."""
        with name_scope(name, f"{self._name}_put") as scope:
            values = values if isinstance(values, (list, tuple, dict)) else [values]
            made, _ = self._components(values, list(range(len(values))))
            with colocate_with(self._coloc_op):
                return stage(made, name=scope, **self._attrs())

    def get(self, name: str | None = None) -> Any:
        """The oldest element, which leaves the area; waits for it."""
        with colocate_with(self._coloc_op):
            made = unstage(dtypes=self._dtypes, name=name or f"{self._name}_get", **self._attrs())
        return self._result(made, list(range(len(self._dtypes))))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The element at a position, which stays; waits for it."""
        with colocate_with(self._coloc_op):
            made = stage_peek(index, dtypes=self._dtypes, name=name or f"{self._name}_peek", **self._attrs())
        return self._result(made, list(range(len(self._dtypes))))

    def size(self, name: str | None = None) -> Any:
        """The number of elements."""
        return stage_size(dtypes=self._dtypes, name=name or f"{self._name}_size", **self._attrs())

    def clear(self, name: str | None = None) -> Any:
        """An op that drops all elements."""
        return stage_clear(dtypes=self._dtypes, name=name or f"{self._name}_clear", **self._attrs())


class MapStagingArea(BaseStagingArea):
    """A buffer of tuples of tensors by an integer key; components may be put and taken one by one.

    >>> area = MapStagingArea([tf.float32, tf.int64], ordered=True)
    >>> put = area.put(step, [x, y], [0, 1]); key, (x, y) = area.get()
    """

    def __init__(self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
                 ordered: bool = False, capacity: int = 0, memory_limit: int = 0):
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._ordered, self._ops = ordered, _MAPS[ordered]

    def put(self, key: Any, vals: Any, indices: Any = None, name: str | None = None) -> Any:
        """An op that puts components of the element `key`, waiting for room."""
        with name_scope(name, f"{self._name}_put") as scope:
            made, indices = self._components(vals, indices)
            with colocate_with(self._coloc_op):
                return self._ops["put"](key, indices, made, dtypes=self._dtypes, name=scope, **self._attrs())

    def _indices(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(len(self._dtypes)))
        if not isinstance(indices, (tuple, list)):
            raise TypeError(f"Invalid indices type '{type(indices)}'")
        if not indices:
            raise ValueError("Empty indices")
        if all(isinstance(i, str) for i in indices):
            if self._names is None:
                raise ValueError(f"String indices provided '{indices}', but this Staging Area was not created with names.")
            for n in indices:
                if n not in self._names:
                    raise ValueError(f"Named index '{n}' not in Staging Area names '{self._names}'")
            return [self._names.index(n) for n in indices]
        if not all(isinstance(i, int) for i in indices):
            raise TypeError(f"Mixed types in indices '{indices}'. May only be str or int")
        return list(indices)

    def _out(self, what: str, name: str, indices: list[int], *key: Any) -> Any:
        with colocate_with(self._coloc_op):
            return self._ops[what](*key, indices, dtypes=[self._dtypes[i] for i in indices], name=name, **self._attrs())

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """Components of the element `key`, which stay; waits for it."""
        indices = self._indices(indices)
        return self._result(self._out("peek", name or f"{self._name}_pop", indices, key), indices)

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> Any:
        """(key, components) of the element `key`, or of any (the least key, if ordered); they leave the area."""
        indices = self._indices(indices)
        if key is not None:
            return key, self._result(self._out("pop", name or f"{self._name}_get", indices, key), indices)
        found, values = self._out("pop_any", name or f"{self._name}_get_nokey", indices)
        return found, self._result(values, indices)

    def size(self, name: str | None = None) -> Any:
        """The number of whole elements."""
        return self._ops["size"](dtypes=self._dtypes, name=name or f"{self._name}_size", **self._attrs())

    def incomplete_size(self, name: str | None = None) -> Any:
        """The number of elements that wait for components."""
        return self._ops["incomplete_size"](dtypes=self._dtypes, name=name or f"{self._name}_incomplete_size", **self._attrs())

    def clear(self, name: str | None = None) -> Any:
        """An op that drops all elements."""
        return self._ops["clear"](dtypes=self._dtypes, name=name or f"{self._name}_clear", **self._attrs())

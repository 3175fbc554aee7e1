"""Builtin functions that take tensors, and datasets while a graph is built, in rewritten code."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.eager.autograph.staged import State, if_exp, loop_over, symbolic
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.ops.array.sort import sort
from penstock._src.ops.control.py_func import py_func
from penstock._src.ops.registry import get


def _print(*args: Any, **kwargs: Any) -> None:
    """print; with tensors, when the graph runs, if the function asked for that with Feature.BUILTIN_FUNCTIONS."""
    tensors = [a for a in args if symbolic(a)]
    if not tensors or not getattr(context.state.autograph, "prints", False):
        print(*args, **kwargs)
        return

    def show(*values: Any) -> None:
        following = iter(values)
        print(*(next(following) if symbolic(a) else a for a in args), **kwargs)
    py_func(show, tensors, [])


def _len(x: Any) -> Any:
    """len; of a tensor, its first dimension, which may be known only when the graph runs."""
    if getattr(x, "_is_tensor_array", False):
        return x.size()
    if not symbolic(x):
        return len(x)
    dims = convert(x).static_dims
    if dims == ():
        raise ValueError("len() of a scalar tensor")
    if dims is not None and dims[0] is not None:
        return dims[0]
    return get("StridedSlice")(get("Shape")(convert(x)), [0], [1], [1], shrink_axis_mask=1)


def _range(*args: Any) -> Any:
    """range; with tensors, a tensor of numbers."""
    if not any(map(symbolic, args)):
        return range(*args)
    start, limit, delta = {1: (0, *args, 1), 2: (*args, 1)}.get(len(args), args)
    dtype = next(convert(a).dtype.base_dtype for a in args if symbolic(a))
    return get("Range")(*(convert(a, dtype) if not symbolic(a) else convert(a) for a in (start, limit, delta)))


def _int(*args: Any) -> Any:
    return _cast(args[0], dtypes.int32) if args and symbolic(args[0]) else int(*args)


def _float(*args: Any) -> Any:
    return _cast(args[0], dtypes.float32) if args and symbolic(args[0]) else float(*args)


def _cast(x: Any, dtype: Any) -> Any:
    x = convert(x)
    return get("StringToNumber")(x, out_type=dtype) if x.dtype == dtypes.string else get("Cast")(x, DstT=dtype)


def _reducing(plain: Callable, op: str) -> Callable:
    """A builtin over a sequence that reduces a tensor of one dimension."""
    def reduce(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and symbolic(args[0]):
            return get(op)(convert(args[0]), 0)
        return plain(*args, **kwargs)
    return reduce


def _of_elements(plain: Callable, op: str, reducing: Callable) -> Callable:
    """A builtin over booleans: `reducing` for a tensor, `op` between the elements of a dataset."""
    def reduce(*args: Any) -> Any:
        if len(args) == 1 and _staged(args[0], "reduce"):
            return args[0].reduce(plain(()), lambda found, element: get(op)(found, element))
        return reducing(*args)
    return reduce


def _abs(x: Any) -> Any:
    return get("Abs")(convert(x)) if symbolic(x) else abs(x)


def _sorted(*args: Any, **kwargs: Any) -> Any:
    """sorted; of a tensor, in the graph, by values: a key is refused."""
    if len(args) != 1 or not symbolic(args[0]):
        return sorted(*args, **kwargs)
    if kwargs.get("key") is not None:
        raise ValueError("sorted() of a tensor does not take a `key`")
    return sort(args[0], direction="DESCENDING" if kwargs.get("reverse") else "ASCENDING")


# -- iterables that a loop in the graph reads -------------------------------------------------------------------------
def _staged(x: Any, method: str) -> bool:
    """Whether a dataset is read by the graph that is being built, and has this method."""
    return not context.executing_eagerly() and hasattr(type(x), "_autograph_for") and hasattr(x, method)


class _Enumerated:
    """Items of the graph with their numbers: Python's `enumerate` would read a dataset without an end."""

    def __init__(self, iterable: Any, start: Any):
        self._iterable, self._start = iterable, start

    def __iter__(self) -> Iterator:
        return enumerate(self._iterable, self._start)

    def _autograph_for(self, go_on: Any, body: Any, state: State, options: dict[str, Any]) -> None:
        """How AutoGraph builds a loop over the pairs."""
        loop = loop_over(self._iterable)
        assert loop is not None
        dtype = dtypes.int64 if hasattr(type(self._iterable), "_autograph_for") else dtypes.int32
        at: list = [get("Cast")(convert(self._start), DstT=dtype)]

        def write(values: tuple) -> None:
            at[0] = values[0]
            state.write(values[1:])

        def step(item: Any) -> None:
            i, at[0] = at[0], get("AddV2")(at[0], convert(1, dtype))
            body((i, item))
        loop(self._iterable, go_on, step, State(lambda: (at[0], *state.read()), write, ("ag__number", *state.names)), options)


def _enumerate(iterable: Any, start: Any = 0) -> Any:
    if _staged(iterable, "enumerate"):
        return iterable.enumerate(start)
    return enumerate(iterable, start) if loop_over(iterable) is None else _Enumerated(iterable, start)


def _zip(*iterables: Any, **kwargs: Any) -> Any:
    if iterables and all(_staged(x, "zip") for x in iterables):
        return iterables[0].zip(iterables)
    return zip(*iterables, **kwargs)


def _map(function: Any, *iterables: Any) -> Any:
    if iterables and all(_staged(x, "map") for x in iterables):
        return (iterables[0] if len(iterables) == 1 else _zip(*iterables)).map(function)
    return map(function, *iterables)


def _filter(function: Any, iterable: Any) -> Any:
    return iterable.filter(function) if _staged(iterable, "filter") else filter(function, iterable)


def _next(iterator: Any, *default: Any) -> Any:
    if not default or not _staged(iterator, "get_next_as_optional"):
        return next(iterator, *default)
    following = iterator.get_next_as_optional()
    return if_exp(following.has_value(), following.get_value, lambda: default[0])


REPLACED: dict[Any, Callable] = {
    print: _print, len: _len, range: _range, int: _int, float: _float, abs: _abs, sorted: _sorted, next: _next,
    any: _of_elements(any, "LogicalOr", _reducing(any, "Any")), all: _of_elements(all, "LogicalAnd", _reducing(all, "All")),
    sum: _reducing(sum, "Sum"), max: _reducing(max, "Max"), min: _reducing(min, "Min"),
    enumerate: _enumerate, zip: _zip, map: _map, filter: _filter,
}

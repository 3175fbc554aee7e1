"""Functions over the rows of tensors: tf.foldl, tf.foldr, tf.scan, and tf.map_fn of dense tensors. They are loops over
TensorArrays."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, merge
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.control.control_flow import while_loop
from penstock._src.ops.registry import get
from penstock._src.ops.state.tensor_array import TensorArray


class _Rows:
    """The rows of nested tensors: their number, and how to read and write them in a loop."""

    def __init__(self, elems: Any, what: str = "elems"):
        self.like = elems
        self.flat = [convert(e, name="elem") for e in nest.flatten(elems)]
        if not self.flat:
            raise ValueError(f"{what} must be a Tensor or (possibly nested) sequence of Tensors. Got []")
        for t in self.flat:
            if t.static_dims == ():
                raise ValueError(f"elements in {what} must be 1+ dimensional Tensors, not scalars")
        self.static: int | None = None
        dims: tuple | None = (None,)
        for t in self.flat:
            if t.static_dims is not None:
                dims = merge(dims, (t.static_dims[0],))
        self.static = dims[0]  # type: ignore[index]
        first = self.flat[0]
        self.count: Any = self.static if self.static is not None else get("Shape")(first)[0]

    def arrays(self) -> list[TensorArray]:
        """TensorArrays of the rows."""
        return [TensorArray(t.dtype.base_dtype, self.count, dynamic_size=False, infer_shape=True).unstack(t)
                for t in self.flat]

    def pack(self, rows: list) -> Any:
        """Rows in the structure of the tensors."""
        return nest.pack_sequence_as(self.like, rows)

    def finish(self, results: list[Tensor]) -> list[Tensor]:
        """Stacked results know their number of rows."""
        for r in results:
            if r.static_dims is not None and not hasattr(r, "_value"):
                r.set_shape(TensorShape([self.static]).concatenate(r.shape[1:]))
        return results


def _parallel(n: Any) -> int:
    return 10 if n is None or context.executing_eagerly() else n


def checked(fn: Any) -> Callable:
    """The traced form of the function."""
    if not callable(fn):
        raise TypeError("fn must be callable.")
    return context.traced_as(fn)


def map_rows(fn: Callable, elems: Any, dtype: Any = None, parallel_iterations: int | None = None, back_prop: bool = True,
             swap_memory: bool = False, infer_shape: bool = True, name: str | None = None) -> Any:
    """map_fn over dense tensors."""
    with name_scope(name, "map", nest.flatten(elems)):
        rows = _Rows(elems)
        like = elems if dtype is None else dtype
        types = [t.dtype.base_dtype for t in rows.flat] if dtype is None else [_spec_dtype(d) for d in nest.flatten(dtype)]
        arrays = rows.arrays()
        results = [TensorArray(t, rows.count, dynamic_size=False, infer_shape=infer_shape) for t in types]

        def body(i: Any, out: list) -> tuple:
            value = fn(rows.pack([a.read(i) for a in arrays]))
            nest.assert_same_structure(like, value)
            return get("AddV2")(i, 1), [a.write(i, v) for a, v in zip(out, nest.flatten(value), strict=True)]
        _, out = while_loop(lambda i, _: get("Less")(i, rows.count), body, (convert(0), results),
                            parallel_iterations=_parallel(parallel_iterations), back_prop=back_prop,
                            swap_memory=swap_memory, maximum_iterations=rows.count)
        return nest.pack_sequence_as(like, rows.finish([a.stack() for a in out]))


def _spec_dtype(d: Any) -> Any:
    return dtypes.as_dtype(d if isinstance(d, type) else getattr(d, "dtype", d))          # np.float64 is a class


def _fold(fn: Callable, elems: Any, initializer: Any, parallel: int, back_prop: bool, swap_memory: bool, reverse: bool) -> Any:
    fn = checked(fn)
    rows = _Rows(elems)
    arrays = rows.arrays()
    last = get("Sub")(convert(rows.count), 1)
    if initializer is None:
        at = last if reverse else convert(0)
        start = rows.pack([a.read(at) for a in arrays])
        index = get("Sub")(last, 1) if reverse else convert(1)
    else:
        start, index = initializer, last if reverse else convert(0)

    def body(i: Any, acc: Any) -> tuple:
        value = fn(acc, rows.pack([a.read(i) for a in arrays]))
        nest.assert_same_structure(start, value)
        return (get("Sub")(i, 1) if reverse else get("AddV2")(i, 1)), value
    _, result = while_loop((lambda i, _: get("GreaterEqual")(i, 0)) if reverse else
                           (lambda i, _: get("Less")(i, rows.count)), body, (index, start),
                           parallel_iterations=_parallel(parallel), back_prop=back_prop, swap_memory=swap_memory,
                           maximum_iterations=rows.count)
    return result


@export("foldl")
def foldl(fn: Callable, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
          swap_memory: bool = False, name: str | None = None) -> Any:
    """fn(… fn(fn(initializer, row 0), row 1) …): the rows combined from the first to the last.

    Args:
        fn: Function of the result so far and the next element.
        elems: Tensor, or structure of tensors, whose first axis is gone through.
        initializer: The first result, by default the first element.
        parallel_iterations: How many rounds of a graph's loop may overlap.
        back_prop: Whether gradients go through.
        swap_memory: Accepted; it changes nothing here.
        name: Name of the operation.

    Returns:
        The last result.

    >>> int(tf.foldl(lambda a, x: a + x, tf.constant([1, 2, 3])))
    6
    """
    with name_scope(name, "foldl", nest.flatten(elems)):
        return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, False)


@export("foldr")
def foldr(fn: Callable, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
          swap_memory: bool = False, name: str | None = None) -> Any:
    """fn(… fn(fn(initializer, last row), …) …, row 0): the rows combined from the last to the first.

    Args:
        fn: Function of the result so far and the next element.
        elems: Tensor, or structure of tensors, whose first axis is gone through.
        initializer: The first result, by default the first element.
        parallel_iterations: How many rounds of a graph's loop may overlap.
        back_prop: Whether gradients go through.
        swap_memory: Accepted; it changes nothing here.
        name: Name of the operation.

    Returns:
        The last result; elements are taken from the end.

    >>> int(tf.foldr(lambda a, x: x - a, tf.constant([1, 2, 3])))
    2
    """
    with name_scope(name, "foldr", nest.flatten(elems)):
        return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, True)


@export("scan")
def scan(fn: Callable, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
         swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False, name: str | None = None) -> Any:
    """All intermediate results of a fold, stacked.

    Args:
        fn: Function of the result so far and the next element.
        elems: Tensor, or structure of tensors, whose first axis is gone through.
        initializer: The first result, by default the first element.
        parallel_iterations: How many rounds of a graph's loop may overlap.
        back_prop: Whether gradients go through.
        swap_memory: Accepted; it changes nothing here.
        infer_shape: Whether all rounds have results of one shape.
        reverse: Whether to begin at the end.
        name: Name of the operation.

    Returns:
        All results, stacked.

    >>> tf.scan(lambda a, x: a + x, tf.constant([1, 2, 3])).numpy().tolist()
    [1, 3, 6]
    """
    fn = checked(fn)
    with name_scope(name, "scan", nest.flatten(elems)):
        rows = _Rows(elems)
        arrays = rows.arrays()
        n = convert(rows.count)
        last = get("Sub")(n, 1)
        if initializer is None:
            first = last if reverse else convert(0)
            start = rows.pack([a.read(first) for a in arrays])
            done = 1
        else:
            start, done = nest.map_structure(convert, initializer), 0
        results = [TensorArray(t.dtype.base_dtype, rows.count, element_shape=t.shape if infer_shape else None,
                               dynamic_size=False, infer_shape=infer_shape) for t in nest.flatten(start)]
        if done:
            results = [a.write(first, v) for a, v in zip(results, nest.flatten(start), strict=True)]
        index = get("Sub")(last, done) if reverse else convert(done)

        def body(i: Any, acc: Any, out: list) -> tuple:
            value = fn(acc, rows.pack([a.read(i) for a in arrays]))
            nest.assert_same_structure(start, value)
            out = [a.write(i, v) for a, v in zip(out, nest.flatten(value), strict=True)]
            return (get("Sub")(i, 1) if reverse else get("AddV2")(i, 1)), value, out
        _, _, out = while_loop((lambda i, _a, _o: get("GreaterEqual")(i, 0)) if reverse else
                               (lambda i, _a, _o: get("Less")(i, n)), body, (index, start, results),
                               parallel_iterations=_parallel(parallel_iterations), back_prop=back_prop,
                               swap_memory=swap_memory, maximum_iterations=n)
        return nest.pack_sequence_as(start, rows.finish([a.stack() for a in out]))


"""scan and reduce: functions that carry a state from element to element."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.functions import ElementFunction
from penstock._src.graph.type_spec import TensorSpec


def state_function(dataset: Any, initial_state: Any, function: Callable, where: str, gives_element: bool) -> tuple:
    """The traced function of a state and an element, the initial state, and the type of the state.

    Shapes of the state are relaxed until those of the results match those of the arguments.
    """
    state = structure.normalize(initial_state)
    spec = structure.spec_of(state)
    while True:
        f = _traced(dataset, spec, function, where)
        out = f.output_spec
        if gives_element:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError("The scan function must return a pair comprising the new state and the output value.")
            out = out[0]
        _check(spec, out, where)
        relaxed = structure.map_structure(_widest, spec, out)
        if structure.flat_shapes(relaxed) == structure.flat_shapes(spec) and \
                [s.as_list() if s.rank is not None else None for s in structure.flat_shapes(relaxed)] == \
                [s.as_list() if s.rank is not None else None for s in structure.flat_shapes(spec)]:
            return f, state, spec
        spec = relaxed


def _traced(dataset: Any, spec: Any, function: Callable, where: str) -> ElementFunction:
    def call(state: Any, element: Any) -> Any:
        return function(state, element)
    call.__name__ = getattr(function, "__name__", "function")
    return ElementFunction(call, where, (spec, dataset.element_spec))


def _check(spec: Any, out: Any, where: str) -> None:
    """Checks that the new state has the same structure, classes and types."""
    word = where.strip("()")
    if len(structure.flatten(spec)) != len(structure.flatten(out)):
        raise errors.invalid(f"The new state must have the structure of the initial state in {word}. Expected {spec}; got "
                             f"{out}.")
    structure.assert_same(spec, out)
    for what in ("classes", "types"):
        old, new = structure.legacy(spec, what), structure.legacy(out, what)
        for a, b in zip(structure.flatten(old), structure.flatten(new), strict=True):
            if a != b:
                raise TypeError(f"The element {what} for the new state must match the initial state in {word}. Expected {old}; "
                                f"got {new}.")


def _widest(a: Any, b: Any) -> Any:
    return TensorSpec(a.shape.most_specific_compatible_shape(b.shape), a.dtype) if isinstance(a, TensorSpec) \
        else a.most_specific_compatible_type(b)


@export("data.experimental.scan")
def scan(initial_state: Any, scan_func: Callable) -> Callable:
    """A transformation: (state, element) -> (new state, new element), for `Dataset.apply`.

    >>> ds.apply(tf.data.experimental.scan(np.int64(0), lambda s, x: (s + x, s + x)))
    """
    def apply(dataset: Any) -> Any:
        f, state, spec = state_function(dataset, initial_state, scan_func, "scan()", gives_element=True)
        return dataset._then("ScanDataset", structure.to_tensors(spec, state), f.captured, spec=f.output_spec[1],
                             functions={"f": f}, preserve_cardinality=True)
    return apply


@export("data.experimental.take_while")
def take_while(predicate: Callable) -> Callable:
    """A transformation: the elements before the first for which a function is false, for `Dataset.apply`."""
    return lambda dataset: dataset.take_while(predicate)

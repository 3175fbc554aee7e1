"""Datasets from Python generators: a Python call in the pipeline returns the elements."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.functions import ElementFunction, call_op
from penstock._src.graph.convert import convert
from penstock._src.graph.sparse_tensor import SparseTensorSpec
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.ops.control.py_func import numpy_function


class _Running:
    """The generators that are being read, by number."""

    def __init__(self, generator: Callable):
        self._generator = generator
        self._numbers, self._lock = itertools.count(), threading.Lock()
        self._open: dict[int, Any] = {}

    def start(self, *args: Any) -> np.ndarray:
        """A new generator with these arguments; its number."""
        with self._lock:
            number = next(self._numbers)
        self._open[number] = iter(self._generator(*args))
        return np.array(number, np.int64)

    def next(self, number: Any) -> Any:
        """The next value of a generator; StopIteration at its end."""
        return next(self._open[int(number)])

    def end(self, number: Any) -> np.ndarray:
        """Removes a generator."""
        self._open.pop(int(number), None)
        return np.array(0, np.int64)


def from_generator(cls: Any, generator: Callable, output_types: Any, output_shapes: Any, args: Any,
                   output_signature: Any) -> Any:
    """See `Dataset.from_generator`."""
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    spec = _signature(output_types, output_shapes, output_signature)
    given = () if args is None else tuple(convert(a, None, "args") for a in args)
    running = _Running(generator)

    def of_element(_: Any) -> Any:
        return _generator_dataset(cls, running, given, spec)
    return cls.from_tensors(0).flat_map(of_element)


def _signature(types: Any, shapes: Any, signature: Any) -> Any:
    if signature is not None:
        if types is not None or shapes is not None:
            raise TypeError("The `output_types` and `output_shapes` arguments cannot be used together with `output_signature`.")
        for s in structure.flatten(signature):
            if not isinstance(s, TypeSpec):
                raise TypeError(f"`output_signature` must contain objects that are subclass of `tf.TypeSpec` but found "
                                f"{type(s)} which is not.")
        return signature
    if types is None:
        raise TypeError("To specify the output signature you need to provide either the `output_signature` argument or the "
                        "`output_types` argument.")
    return structure.from_legacy(structure.map_structure(dtypes.as_dtype, types), shapes)


def _generator_dataset(cls: Any, running: _Running, args: tuple, spec: Any) -> Any:
    number = TensorSpec([], dtypes.int64)

    def start() -> Any:
        return _typed(numpy_function(running.start, list(args), dtypes.int64), number)

    def following(n: Any) -> Any:
        return structure.pack(spec, _next_values(running, n, spec))

    def end(n: Any) -> Any:
        return _typed(numpy_function(running.end, [n], dtypes.int64), number)
    return generator_dataset(cls, ElementFunction(start, "Dataset.from_generator()", ()),
                             ElementFunction(following, "Dataset.from_generator()", number),
                             ElementFunction(end, "Dataset.from_generator()", number))


def generator_dataset(cls: Any, first: ElementFunction, following: ElementFunction, last: ElementFunction) -> Any:
    """A dataset of the results of `following`, called with the result of `first` until it raises OutOfRangeError; then `last`
    is called."""
    spec = following.output_spec
    variant = call_op("GeneratorDataset", first.captured, following.captured, last.captured,
                      functions={"init_func": first, "next_func": following, "finalize_func": last}, **structure.outputs(spec))
    return cls._made(variant, spec, (), [first, following, last])


def _typed(t: Any, spec: TensorSpec) -> Any:
    t.set_shape(spec.shape)
    return t


def _next_values(running: _Running, number: Any, spec: Any) -> list:
    """The components of the next element, each of its type."""
    specs = structure.flatten(spec)
    flat = [t for s in specs for t in _parts(s)]

    def read(n: Any) -> Any:
        return _arrays(running.next(n), spec)
    tensors = numpy_function(read, [number], [t.dtype for t in flat])
    tensors = [tensors] if not isinstance(tensors, (list, tuple)) else list(tensors)
    for t, s in zip(tensors, flat, strict=True):
        t.set_shape(s.shape)
    out, i = [], 0
    for s in specs:
        n = len(_parts(s))
        out.append(tensors[i] if isinstance(s, TensorSpec) else s._from_components(
            nest.pack_sequence_as(s._component_specs, tensors[i:i + n], expand_composites=True)))
        if isinstance(s, SparseTensorSpec):
            out[-1].set_shape(s.shape)
        i += n
    return out


def _parts(spec: Any) -> list:
    return [spec] if isinstance(spec, TensorSpec) else nest.flatten(spec._component_specs, expand_composites=True)


def _arrays(value: Any, spec: Any) -> list:
    """A yielded value as arrays of the declared type."""
    specs = structure.flatten(spec)
    try:
        leaves = structure.flatten_up_to(spec, tuple(value) if isinstance(value, list) and type(spec) is tuple else value)
    except (TypeError, ValueError):
        types = structure.map_structure(lambda s: getattr(s, "dtype", s), spec)
        raise TypeError(f"`generator` yielded an element that did not match the expected structure. The expected structure was "
                        f"{types}, but the yielded element was {value}.") from None
    out: list = []
    for leaf, spec in zip(leaves, specs, strict=True):
        if isinstance(spec, TensorSpec):
            out.append(_array(leaf, spec))
        else:
            out.extend(np.asarray(x) for x in nest.flatten(spec._to_components(leaf), expand_composites=True))
    return out


def _array(value: Any, spec: TensorSpec) -> np.ndarray:
    wanted = object if spec.dtype == dtypes.string else spec.dtype.as_numpy_dtype
    try:
        array = value if isinstance(value, np.ndarray) and value.dtype != object else np.asarray(value)
        if not array.size and not isinstance(value, (np.ndarray, np.generic)):
            array = np.empty(array.shape, wanted)                # numpy converts an empty list to float64
        elif spec.dtype == dtypes.string:
            if array.dtype.kind not in "OSU":
                raise TypeError("not text")
        elif array.dtype != wanted:
            if isinstance(value, (np.ndarray, np.generic)) and array.dtype != object:
                array = dtypes.exact_cast(array, wanted)        # integers that fit; floats are cut off, as numpy does
            elif array.dtype.kind in "OSU" or array.dtype.kind == "f" and not spec.dtype.is_floating \
                    and not spec.dtype.is_complex:
                raise TypeError("not a number of the type")
            else:
                array = dtypes.exact_cast(array, wanted)
    except (TypeError, ValueError):
        raise TypeError(f"`generator` yielded an element that could not be converted to the expected type. The expected type "
                        f"was {spec.dtype.name}, but the yielded element was {value}.") from None
    if not spec.shape.is_compatible_with(TensorShape(array.shape)):
        raise TypeError(f"`generator` yielded an element of shape {array.shape} where an element of shape {spec.shape} was "
                        "expected.")
    return array

"""Linear operators as composite tensors: their type specs, their components, and slices of their batches.

An operator is recreated from the arguments of its constructor, which are recorded. Arguments that are tensors,
variables or operators are components; the others (hints, names, dtypes) are a part of the type.
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import nest
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.constant import constant_value
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import BatchableTypeSpec, TypeSpec, type_spec_from_value
from penstock._src.library.linalg.util import is_variable

_SIZES = {"num_rows", "num_columns", "batch_shape"}      # a part of the type where they are known


def noting_arguments(init: Callable) -> Callable:
    """A constructor that records the arguments of the outermost call in `_given`."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        if "_given" not in self.__dict__:
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            self.__dict__["_given"] = {k: v for k, v in list(bound.arguments.items())[1:] if k not in ("kwargs", "parameters")}
        init(self, *args, **kwargs)
    return noted


def arguments_of(operator: Any) -> dict[str, Any]:
    """The recorded arguments, converted to tensors, from which the operator is recreated."""
    given = {name: _unwrapped(getattr(operator, name)) if _made_of_tensors(getattr(operator, name, None)) else value
             for name, value in operator.__dict__["_given"].items()}
    for name in _SIZES & given.keys():
        known = constant_value(given[name]) if isinstance(given[name], Tensor) else None
        given[name] = given[name] if known is None else known.tolist()
    return given


def _unwrapped(value: Any) -> Any:
    """Plain lists in place of those that a module tracks: specs that were loaded have plain ones."""
    return [_unwrapped(v) for v in value] if isinstance(value, list) else value


def _made_of_tensors(value: Any) -> bool:
    flat = nest.flatten(value)
    return bool(flat) and all(isinstance(v, (Tensor, CompositeTensor)) or is_variable(v) for v in flat)


class LinearOperatorSpec(BatchableTypeSpec):
    """The type of an operator: the specs of its components, and the other arguments. Each class has a separate one."""

    __slots__ = ("_specs", "_static")
    value_type: Any = None

    def __init__(self, specs: dict[str, Any], static: dict[str, Any]):
        self._specs, self._static = specs, static

    @classmethod
    def from_operator(cls, operator: Any) -> LinearOperatorSpec:
        """The spec of an operator."""
        given = arguments_of(operator)
        specs = {k: nest.map_structure(_spec, v) for k, v in given.items() if _made_of_tensors(v)}
        return cls(specs, {k: _plain(v) for k, v in given.items() if k not in specs})

    def _serialize(self) -> tuple:
        return self._specs, self._static

    @property
    def _component_specs(self) -> dict[str, Any]:
        return self._specs

    def _to_components(self, value: Any) -> dict[str, Any]:
        given = arguments_of(value)
        return {k: nest.map_structure(lambda v: tf.convert_to_tensor(v) if is_variable(v) else v, given[k])
                for k in self._specs}

    def _from_components(self, components: dict[str, Any]) -> Any:
        return self.value_type(**components, **self._static)

    def _batch(self, batch_size: Any) -> LinearOperatorSpec:
        return self._mapped(lambda s: s._batch(batch_size))

    def _unbatch(self) -> LinearOperatorSpec:
        return self._mapped(lambda s: s._unbatch())

    def _mapped(self, change: Callable) -> LinearOperatorSpec:
        return type(self)({k: nest.map_structure(change, v) for k, v in self._specs.items()}, self._static)


def _spec(value: Any) -> TypeSpec:
    return tf.TensorSpec(value.shape, value.dtype) if is_variable(value) else type_spec_from_value(value)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


# -- slices of the batch ----------------------------------------------------------------------------------------------
def sliced(operator: Any, slices: Any, batch: Any = None) -> Any:
    """The operator of a part of the batch: each component is broadcast to the whole batch, then sliced."""
    slices = tuple(slices) if isinstance(slices, (list, tuple)) else (slices,)
    batch = operator._batch_sizes() if batch is None else batch
    given = arguments_of(operator)
    for name, ndims in operator._experimental_parameter_ndims_to_matrix_ndims.items():
        if given.get(name) is not None:
            ranks = ndims if isinstance(ndims, (list, tuple)) else [ndims] * len(nest.flatten(given[name]))
            parts = [_sliced_part(v, r, slices, batch) for v, r in zip(nest.flatten(given[name]), ranks, strict=True)]
            given[name] = nest.pack_sequence_as(given[name], parts)
    if given.get("batch_shape") is not None:
        given["batch_shape"] = tf.shape(tf.zeros(batch, tf.bool)[slices])
    return type(operator)(**given)


def _sliced_part(value: Any, ndims: int, slices: tuple, batch: Any) -> Any:
    if not isinstance(value, Tensor) and not is_variable(value):
        return sliced(value, slices, batch)
    value = tf.convert_to_tensor(value)
    shape = tf.concat([batch, tf.shape(value)[tf.rank(value) - ndims:]], 0)
    matrix = (slice(None),) * ndims
    return tf.broadcast_to(value, shape)[(*slices, *matrix) if Ellipsis in slices else (*slices, ..., *matrix)]

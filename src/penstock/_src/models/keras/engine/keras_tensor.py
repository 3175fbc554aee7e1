"""The tensors of Keras's own graph: a call of a public function on one of them, between layers, becomes a layer.

In eager mode `tf.abs(dense(x)) - 1.0` becomes the layers `tf.math.abs` and `tf.math.subtract` when it is written, whatever ops
the functions consist of: so models are named, shown and saved as since Keras 2.4. Inside of layers, functions are functions.
Calls that cannot be written as a layer with one input structure leave their ops, which `op_layer` makes layers of.
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import TABLES, Later
from penstock._src.base.dtypes import DType
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras.backend.state import unique_object_name
from penstock._src.models.keras.engine.call_context import current
from penstock._src.models.keras.engine.function_layer import SlicingOpLambda, TFOpLambda, function_of
from penstock._src.models.keras.engine.node import parts_of

# Functions of 2.x that are those of 1.x with other arguments: models name the latter.
_OF_V1 = frozenset("boolean_mask gather gather_nd nn.conv1d nn.conv2d nn.embedding_lookup "
                   "nn.softmax_cross_entropy_with_logits norm pad shape size squeeze transpose".split())
_OPEN = frozenset(("nn.moments", "linalg.matvec"))         # that models show as the functions which they call
_RENAMED = {"nn.softmax_cross_entropy_with_logits": "nn.softmax_cross_entropy_with_logits_v2", "divide": "truediv",
            "math.divide": "math.truediv"}
_OPERATORS = {"__add__": "__operators__.add", "__sub__": "math.subtract", "__mul__": "math.multiply", "__pow__": "math.pow",
              "__truediv__": "math.truediv", "__div__": "math.truediv", "__floordiv__": "compat.v1.floor_div",
              "__mod__": "math.floormod", "__matmul__": "linalg.matmul", "__and__": "math.logical_and",
              "__or__": "math.logical_or", "__xor__": "math.logical_xor", "__neg__": "math.negative", "__abs__": "math.abs",
              "__invert__": "math.logical_not", "__lt__": "math.less", "__le__": "math.less_equal", "__gt__": "math.greater",
              "__ge__": "math.greater_equal", "__eq__": "__operators__.eq", "__ne__": "__operators__.ne",
              "__getitem__": "__operators__.getitem"}


class LayerTensor(Tensor):
    """A tensor of Keras's own graph. An input has the name of its layer."""

    @property
    def name(self) -> str:
        """The name of the tensor in the graph, or of an input."""
        history = getattr(self, "_keras_history", None)
        return super().name if history is None or not getattr(history.layer, "is_placeholder", False) else self.op.name

    def __repr__(self) -> str:
        history = getattr(self, "_keras_history", None)
        if history is None:
            return super().__repr__()
        return f"<KerasTensor: shape={self.shape} dtype={self.dtype.name} (created by layer '{history.layer.name}')>"

    def __str__(self) -> str:
        history = getattr(self, "_keras_history", None)
        if history is None:
            return super().__str__()
        own = repr(self.name) if getattr(history.layer, "is_placeholder", False) else None
        spec = f"TensorSpec(shape={self.shape}, dtype=tf.{self.dtype.name}, name={own})"
        return f"KerasTensor(type_spec={spec}, name='{self.name}', description=\"created by layer '{history.layer.name}'\")"

    @staticmethod
    def _dispatch(function: Callable, args: tuple, kwargs: dict) -> Any:
        """The call of a public function, which becomes a layer if it is one between layers."""
        if current.in_call:
            return NotImplemented
        symbol = _public_name(function)
        return NotImplemented if symbol is None else _as_layer(symbol, function, args, kwargs)


def _operator(method: str, symbol: str, reflected: bool = False) -> Callable:
    inherited = getattr(Tensor, method)

    def call(self: Any, *other: Any) -> Any:
        if current.in_call or any(hasattr(type(x), "_dispatch") and not isinstance(x, Tensor) or x is None for x in other) \
                and symbol != "__operators__.getitem":
            return inherited(self, *other)
        args = (*(_eager(x, self.dtype) for x in other), self) if reflected else (self, *other)
        out = _as_layer(symbol, _public_function(symbol), args, {})
        return inherited(self, *other) if out is NotImplemented else out
    return call


def _eager(value: Any, dtype: Any) -> Any:
    """What is on the left of an operator, as a tensor of the type of the right side."""
    if isinstance(value, Tensor):
        return value
    with init_scope():
        return convert(value, dtype)


@functools.cache
def _public_function(symbol: str) -> Callable:
    return function_of(symbol)


for _name, _symbol in _OPERATORS.items():
    setattr(LayerTensor, _name, _operator(_name, _symbol))
    if hasattr(Tensor, f"__r{_name[2:]}"):
        setattr(LayerTensor, f"__r{_name[2:]}", _operator(f"__r{_name[2:]}", _symbol, reflected=True))
LayerTensor.__hash__ = Tensor.__hash__  # type: ignore[method-assign]


@functools.cache
def _public_name(function: Callable) -> str | None:
    """The name under which models refer to a public function, without `tf.`; None if it has none that a model may use.

    A function of 1.x, which Keras's backend calls, has the name in 2.x if its parameters are those of the function there.
    """
    name = _name_in("v2", function)
    if name is not None:
        symbol = f"compat.v1.{_RENAMED.get(name, name)}" if name in _OF_V1 else _RENAMED.get(name, name)
    else:
        name = _name_in("v1", function)
        same = name is not None and _usable(name) and _parameters(function) <= _parameters(_public_function(name))
        symbol = name if same and name is not None else f"compat.v1.{name}"
    return symbol if name is not None and symbol not in _OPEN and _usable(symbol) else None


def _name_in(api: str, function: Callable) -> str | None:
    for name, value in list(TABLES[api].items()):
        value = value.made if isinstance(value, Later) else value
        if value is not None and inspect.isroutine(value) and inspect.unwrap(value) is function:
            return name
    return None


_OF_1_15 = frozenset("keep_dims reduction_indices dim dimension a_is_sparse b_is_sparse validate_indices".split())


def _parameters(function: Callable) -> set[str]:
    """The names of parameters, without those that only 1.15 has."""
    return set(inspect.signature(inspect.unwrap(function)).parameters) - _OF_1_15


def _usable(symbol: str) -> bool:
    try:
        return callable(_public_function(symbol))
    except (AttributeError, ValueError):
        return False


def _as_layer(symbol: str, function: Callable, args: tuple, kwargs: dict) -> Any:
    """Calls a function as a layer; NotImplemented if none of its arguments, or no single structure, comes out of layers."""
    given = _by_name(function, args, kwargs)
    if given is None:
        return NotImplemented
    known = {name: [_history(x) for x in _flat(value)] for name, value in given.items()}
    first = next(iter(given))
    own = first if True in known[first] else next((name for name, kinds in known.items() if True in kinds), None)
    if own is None or not all(known[own]) or any(k is None for kinds in known.values() for k in kinds) \
            or own.startswith("*") and (own == first or len(given) > 2):
        return NotImplemented
    values = {name: _plain(value) for name, value in given.items()}
    if own != first:
        values = {"constant": values.pop(first), "argument": own, **values}
    inputs = values.pop(own)
    slices = symbol in ("__operators__.getitem", "compat.v1.boolean_mask")
    layer = (SlicingOpLambda if slices else TFOpLambda)(symbol, name=unique_object_name(f"tf.{symbol}", zero_based=True))
    return layer(list(inputs) if isinstance(inputs, tuple) else inputs, **values)


def _by_name(function: Callable, args: tuple, kwargs: dict) -> dict[str, Any] | None:
    """The arguments of a call by the names of the parameters, the rest of them as `*name`; None for calls that do not fit."""
    parameters = inspect.signature(inspect.unwrap(function))
    try:
        bound = parameters.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    kinds = {name: p.kind for name, p in parameters.parameters.items()}
    if any(kinds[name] is inspect.Parameter.VAR_KEYWORD for name in bound) or not bound:
        return None
    return {f"*{name}" if kinds[name] is inspect.Parameter.VAR_POSITIONAL else name: value for name, value in bound.items()}


def _flat(value: Any) -> list:
    return [value] if hasattr(value, "_type_spec") or isinstance(value, Tensor) else nest.flatten(value)


def _history(x: Any) -> bool | None:
    """Whether x is a result of a layer; None if it is made of such results, or is of another graph."""
    if isinstance(x, LayerTensor) or any(isinstance(p, LayerTensor) for p in parts_of(x)):
        return True if getattr(x, "_keras_history", None) is not None else None
    return None if isinstance(x, Tensor) and not hasattr(x, "_value") else False


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, DType) else value

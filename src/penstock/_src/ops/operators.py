"""Python's operators on tensors: x + y, x @ y, x < y, ~x ...

An operator is an op with the operator's name ("add", "truediv"); a Python or numpy value on the other side takes the
tensor's type. Indexing is with the ops on arrays.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export, resolve
from penstock._src.base.dispatch import by_dispatchers, dispatched
from penstock._src.base.tracebacks import shorten
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.math import compare, division, math
from penstock._src.ops.math.cast import cast
from penstock._src.ops.math.elementwise import abs as abs_function
from penstock._src.ops.math.elementwise import neg
from penstock._src.ops.math.matmul import matmul
from penstock._src.ops.registry import get

Tensor.OVERLOADABLE_OPERATORS = {
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__div__", "__rdiv__", "__truediv__",
    "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__lt__", "__le__", "__gt__", "__ge__",
    "__ne__", "__eq__", "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__", "__getitem__", "__pow__",
    "__rpow__", "__invert__", "__neg__", "__abs__", "__matmul__", "__rmatmul__"}

_SCALARS = (float, int, bool)


def _override_operator(operator: str, func: Callable) -> None:
    """Sets an operator of Tensor; ValueError if it is not overridable, or already set."""
    if operator not in Tensor.OVERLOADABLE_OPERATORS:
        raise ValueError(f"Overriding {operator} is disallowed")
    existing = Tensor.__dict__.get(operator)
    if existing is not None:
        raise ValueError(f"operator {operator} cannot be overwritten again on class {Tensor}.")
    setattr(Tensor, operator, func)


Tensor._override_operator = staticmethod(_override_operator)  # type: ignore[attr-defined]


# The public functions that operators represent, under which dispatchers of libraries know them.
_PUBLIC = {"add": "__operators__.add", "sub": "math.subtract", "mul": "math.multiply", "div": "math.divide",
           "truediv": "math.truediv", "floordiv": "math.floordiv", "mod": "math.floormod", "pow": "math.pow",
           "matmul": "linalg.matmul", "and": "math.logical_and", "or": "math.logical_or", "xor": "math.logical_xor"}


def _of_library(public: str, *args: Any) -> Any:
    """An operator that a library overrides for its symbolic tensors."""
    return by_dispatchers(resolve("v2", public), args, {})


def _for_libraries(public: str, method: Callable) -> Callable:
    """The operator; libraries may override it for their symbolic tensors."""
    def call(*args: Any) -> Any:
        return method(*args) if isinstance(args[0], Tensor) else _of_library(public, *args)
    return call


# -- arithmetic -------------------------------------------------------------------------------------------------------
def _binary(name: str, call: Callable, strict: bool = True) -> None:
    """Defines __name__ and __rname__; call(x, y, name) takes tensors or Python scalars.

    `strict`: whether a Python value on the right must fit the type of the tensor when it is converted, not when the op runs.
    """
    reflected = f"__r{name}__"

    def forward(x: Any, y: Any) -> Any:
        try:
            if not isinstance(x, Tensor):                   # a library overrides this operator for its symbolic tensor
                return _of_library(_PUBLIC[name], x, y)
            if isinstance(y, Tensor) or type(y) in _SCALARS and not (
                    type(y) is float and x.dtype.is_integer or x.dtype is dtypes.string and context.executing_eagerly()):
                return call(x, y, name)
            if getattr(y, "_is_sparse", False) or hasattr(y, "with_values"):
                return _with_sparse(name, x, y)
            with name_scope(None, name, [x]) as scope:
                try:
                    if strict and context.executing_eagerly() and not hasattr(y, "dtype"):
                        y = convert(y, x.dtype.base_dtype, "y")
                    else:
                        y = convert(y, name="y", preferred_dtype=x.dtype.base_dtype)
                except (TypeError, ValueError):
                    if hasattr(type(y), reflected):
                        return NotImplemented
                    raise
                return call(x, y, scope)
        except Exception as e:
            shorten(e)
            raise

    def backward(y: Any, x: Any) -> Any:
        try:
            if not isinstance(y, Tensor):
                return _of_library(_PUBLIC[name], x, y)
            if type(x) in _SCALARS:
                return call(x, y, name)
            with name_scope(None, name, [y]) as scope:
                return call(convert(x, y.dtype.base_dtype, "x"), y, scope)
        except Exception as e:
            shorten(e)
            raise

    forward.__name__ = forward.__qualname__ = f"__{name}__"
    backward.__name__ = backward.__qualname__ = reflected
    _override_operator(f"__{name}__", forward)
    _override_operator(reflected, backward)


def _with_sparse(name: str, x: Tensor, y: Any) -> Any:
    """A dense tensor times a sparse one; other operators are the sparse tensor's."""
    if name != "mul":
        return NotImplemented
    return y.with_values(get("SparseDenseCwiseMul")(y.indices, y.values, y.dense_shape, x, name=name))


def _add(x: Any, y: Any, name: str) -> Tensor:
    t = x if isinstance(x, Tensor) else y
    return (math.add_v1 if t.dtype.base_dtype == dtypes.string else math.add_v2)(x, y, name=name)


def _truediv(x: Any, y: Any, name: str) -> Tensor:
    t = x if isinstance(x, Tensor) else y
    if division.TRUEDIV.get(t.dtype.base_dtype, t) is None and getattr(y, "dtype", t.dtype) is getattr(x, "dtype", t.dtype):
        return division.real_div(x, y, name=name)
    return division.true_divide(x, y, name)


def _mul(x: Any, y: Any, name: str) -> Tensor:
    """The product; if an operand on the left, or a tensor on the right, is boolean: whether the integers of both have one."""
    kinds = [t.dtype.base_dtype for t in (x, y) if isinstance(t, Tensor)]
    if dtypes.bool not in kinds or not isinstance(x, Tensor):
        return math.mul(x, y, name=name)
    if kinds == [dtypes.bool, dtypes.bool]:
        return get("LogicalAnd")(x, y, name=name)
    return cast(math.mul(cast(x, dtypes.int32), cast(y, dtypes.int32)), dtypes.bool, name=name)


def _logical(boolean: str, bitwise: str) -> Callable:
    def call(x: Any, y: Any, name: str) -> Tensor:
        t = x if isinstance(x, Tensor) else y
        if t.dtype.base_dtype == dtypes.bool:
            return get(boolean)(x, y, name=name) if boolean else compare.logical_xor(x, y, name=name)
        return get(bitwise)(x, y, name=name)
    return call


def _matmul(x: Any, y: Any, name: str) -> Tensor:
    return matmul(x, y, name=name)


@export("__operators__.add")
@dispatched
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y, like the operator, including strings."""
    x = x if isinstance(x, Tensor) else convert(x, name="x")
    return _add(x, convert(y, x.dtype.base_dtype, "y"), name or "add")


_binary("add", _add, strict=False)
_binary("sub", lambda x, y, name: math.sub(x, y, name=name))
_binary("mul", _mul)
_binary("div", lambda x, y, name: division.div(x, y, name=name))
_binary("truediv", _truediv, strict=False)
_binary("floordiv", lambda x, y, name: division.floor_div_op(x, y, name=name))
_binary("mod", lambda x, y, name: division.floor_mod(x, y, name=name))
_binary("pow", lambda x, y, name: math.pow_op(x, y, name=name))
_binary("matmul", _matmul, strict=False)
_binary("and", _logical("LogicalAnd", "BitwiseAnd"))
_binary("or", _logical("LogicalOr", "BitwiseOr"))
_binary("xor", _logical("", "BitwiseXor"))


# -- signs, comparisons -----------------------------------------------------------------------------------------------
def _invert(x: Tensor) -> Tensor:
    return compare.logical_not_op(x) if x.dtype.base_dtype == dtypes.bool else get("Invert")(x)


def _comparison(definition: Any) -> Callable:
    def method(x: Any, y: Any) -> Any:
        if hasattr(type(y), "_dispatch"):
            return NotImplemented
        return definition(x, y)
    return method


_override_operator("__neg__", _for_libraries("math.negative", lambda x: neg(x)))
_override_operator("__abs__", _for_libraries("math.abs", lambda x: abs_function(x)))
_override_operator("__invert__", _for_libraries("math.logical_not", _invert))
_override_operator("__lt__", _for_libraries("math.less", _comparison(compare.less)))
_override_operator("__le__", _for_libraries("math.less_equal", _comparison(compare.less_equal)))
_override_operator("__gt__", _for_libraries("math.greater", _comparison(compare.greater)))
_override_operator("__ge__", _for_libraries("math.greater_equal", _comparison(compare.greater_equal)))


def _by_value(x: Any) -> bool:
    """Whether == compares values: with TensorFlow 2 equality, of tensors that have one or are in a traced function."""
    return context.process.tensor_equality and (
        hasattr(x, "_value") or context.process.eager and getattr(x.graph, "building_function", False))


def _equality(definition: Any, unequal: bool) -> Callable:
    def method(x: Any, y: Any) -> Any:
        if y is None:
            return unequal
        if not _by_value(x):
            return (x is y) != unequal
        if hasattr(type(y), "_dispatch"):
            return NotImplemented
        return definition(x, y, incompatible_shape_error=False)
    return method


@export("__operators__.eq")
@dispatched
def equals(self: Any, other: Any) -> Any:
    """self == other, like the operator; False for tensors of different shapes."""
    return self == other if isinstance(self, Tensor) else compare.equal(self, other)


@export("__operators__.ne")
@dispatched
def differs(self: Any, other: Any) -> Any:
    """self != other, like the operator; True for tensors of different shapes."""
    return self != other if isinstance(self, Tensor) else compare.not_equal(self, other)


_override_operator("__eq__", _for_libraries("math.equal", _equality(compare.equal_op, False)))
_override_operator("__ne__", _for_libraries("math.not_equal", _equality(compare.not_equal_op, True)))

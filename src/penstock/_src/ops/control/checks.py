"""Checks of values and types: Assert and the comparing assertions.

A comparing assertion is evaluated as early as possible: at once in eager execution, at graph construction for constants, and
otherwise by an `Assert` op on which the caller makes other ops depend. Checks of ranks and shapes
are in `check_shapes`, those for NaN and infinity in `check_numerics`.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels.summarize import summarize as summarize_value
from penstock._src.ops import rules
from penstock._src.ops.array.array import reshape
from penstock._src.ops.composite import dispatched
from penstock._src.ops.core import no_op_def
from penstock._src.ops.registry import get, op

assert_op = op("Assert", "condition: bool, data: T ->", "T: list(type) >= 1, summarize: int = 3",
               stateful=True).no_gradient()


@rules.batching.rule(assert_op)
def _assert_batching(op, rows, condition, *data):
    everywhere = get("All")(condition.tensor, get("Range")(np.int32(0), get("Rank")(condition.tensor), np.int32(1)))
    assert_op(everywhere, [v.tensor for v in data], summarize=op.attrs["summarize"])
    return []



rules.folding.checks.add(assert_op)
rules.tiers.raises.add(assert_op)


@assert_op.shape
def _assert_shape(condition, data):
    if condition is not None and condition != () and condition != (1,):
        raise ValueError(f"Shape must be rank 0 but is rank {len(condition)}")
    return []


@assert_op.kernel
def _assert_kernel(condition, data, *, summarize):
    if condition.numel() != 1:
        raise errors.invalid(f"In[0] should be a scalar: {list(condition.shape)}")
    if not tracing.holds(condition):
        raise errors.invalid("assertion failed: " + " ".join(f"[{summarize_value(d, summarize)}]" for d in data))


@export("Assert", "debugging.Assert")
@dispatched
def assert_(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Any:
    """Fails with the values in `data` unless `condition` is true.

    >>> with tf.control_dependencies([tf.Assert(tf.reduce_max(x) <= 1., [x])]):
    ...     x = tf.identity(x)
    """
    if context.executing_eagerly():
        if not condition:
            shown = "\n".join(_shown_eagerly(convert(d), 3 if summarize is None else summarize) for d in data)
            raise errors.invalid(f"Expected '{condition}' to be true. Summarized data: {shown}")
        return None
    with name_scope(name, "Assert", [condition, data]) as scope:
        values = [convert(d) for d in data]
        return assert_op(condition, values, summarize=3 if summarize is None else summarize, name=scope)


def _shown_eagerly(tensor: Tensor, entries: int) -> str:
    """The first few elements of an eager tensor, separated by commas."""
    value = tensor.numpy()
    flat = value.reshape(-1) if isinstance(value, np.ndarray) else [value]
    entries = len(flat) if entries < 0 else entries
    text = [str(v) for v in flat[:entries]] + (["..."] if len(flat) > entries else [])
    return ", ".join(text) if isinstance(value, np.ndarray) or entries else ""


# -- comparing assertions ---------------------------------------------------------------------------------------------
def all_true(condition: Tensor) -> Tensor:
    """A scalar: whether every element is true."""
    rank = condition._rank()
    if rank is None:
        condition, rank = get("Reshape")(condition, [-1]), 1
    return get("All")(condition, list(range(rank)), name="All") if rank else condition


def label(tensor: Tensor) -> str:
    """How a message refers to a tensor: its name, or its shape and dtype when it has none."""
    return f"shape={tensor.shape} dtype={tensor.dtype.name}" if hasattr(tensor, "_value") else tensor.name


def _fail(lines: list) -> None:
    raise errors.invalid("\n".join(_static_text(d) for d in lines))


def _static_text(item: Any) -> str:
    if not isinstance(item, Tensor):
        return str(item)
    value = constant_value(item)
    return str(item if value is None else value)


def _compare(symbol: str, opname: str, op_type: str, static: Callable, x: Any, y: Any, data: Any,
             summarize: int | None, message: Any, name: str | None) -> Any:
    """The assertion that `x symbol y` holds for all elements."""
    with name_scope(name, opname, [x, y, data]):
        x, y = convert(x, name="x"), convert(y, name="y")
        holds = get(op_type)(x, y)
        condition = all_true(holds)
        prefix = [] if message is None else [message]
        if context.executing_eagerly():
            if bool(condition):
                return None
            entries = 3 if summarize is None else 10**9 if summarize < 0 else summarize
            lines = _difference(symbol, x, y, entries, holds) if data is None else list(data)
            raise errors.invalid("\n".join(_shown_in_lines(d, entries) for d in prefix + lines))
        if data is None:
            data = [f"Condition x {symbol} y did not hold element-wise:", f"x ({x.name}) = ", x, f"y ({y.name}) = ", y]
        data = prefix + list(data)
        known_x, known_y = constant_value(x), constant_value(y)
        if known_x is not None and known_y is not None and not np.all(static(known_x, known_y)):
            _fail(data)
        return assert_(condition, data, summarize=summarize)


def _difference(symbol: str, x: Tensor, y: Tensor, entries: int, holds: Tensor) -> list:
    """The lines of a message that show where two eager tensors differ."""
    lines: list = [f"Condition x {symbol} y did not hold."]
    if entries <= 0:
        return lines
    xs, ys = np.asarray(x.numpy()), np.asarray(y.numpy())
    if xs.shape == ys.shape and xs.ndim:
        where = np.argwhere(~holds.numpy())
        shown = min(entries, len(where))
        at = tuple(where[:shown].T)
        lines += [f"Indices of first {shown} different values:", where[:shown], "Corresponding x values:", xs[at],
                  "Corresponding y values:", ys[at]]
    for axis, values in (("x", xs.reshape(-1)), ("y", ys.reshape(-1))):
        lines += [f"First {min(entries, values.size)} elements of {axis}:", values[:entries]]
    return lines


def _shown_in_lines(item: Any, entries: int) -> str:
    if not isinstance(item, Tensor):
        return str(item)
    value = item.numpy()
    if not isinstance(value, np.ndarray):
        return str(value)
    flat = value.reshape(-1)
    return str([str(v) for v in flat[:entries]] + (["..."] if flat.size > entries else []))


def _binary(opname: str, symbol: str, op_type: str, static: Callable, v2: tuple = (),
            same_is_true: bool = False) -> Any:
    """Creates and exports the two forms of an assertion about pairs of elements."""

    def check(x: Any, y: Any, data: Any = None, summarize: Any = None, message: Any = None, name: Any = None) -> Any:
        if same_is_true and x is y:
            return no_op_def(name=name or opname)
        return _compare(symbol, opname, op_type, static, x, y, data, summarize, message, name)

    def check_v2(x: Any, y: Any, message: Any = None, summarize: Any = None, name: Any = None) -> Any:
        return check(x, y, None, summarize, message, name)

    def check_v2_late_message(x: Any, y: Any, summarize: Any = None, message: Any = None, name: Any = None) -> Any:
        return check(x, y, None, summarize, message, name)

    second = check_v2_late_message if opname == "assert_none_equal" else check_v2
    _document(opname, f"x {symbol} y", check, second)
    export.value(dispatched(check), v1=[opname, f"debugging.{opname}"])
    export.value(dispatched(second), v2=[f"debugging.{opname}", *v2])
    return check


_PARAMETERS = {"x": "Tensor of numbers.", "y": "Tensor whose shape broadcasts with that of `x`.",
               "data": "Tensors to print if it does not hold, by default the operands.",
               "summarize": "How many elements of each are printed.", "message": "What the error begins with.",
               "name": "Name of the operation."}


def _document(opname: str, condition: str, *functions: Any) -> None:
    args = "x, y" if "y" in condition else "x"
    for f in functions:
        f.__name__ = f.__qualname__ = opname
        explained = [f"        {p}: {_PARAMETERS[p]}" for p in inspect.signature(f).parameters]
        f.__doc__ = "\n".join([
            f"Asserts that `{condition}` holds for all elements.\n", "    Args:", *explained,
            "\n    Returns:", "        In eager mode None. In graphs an op that others have to depend on.",
            "\n    Raises:", "        InvalidArgumentError: if it does not hold; in graphs, when the op runs.\n",
            f"    >>> with tf.control_dependencies([tf.debugging.{opname}({args})]):",
            "    ...     out = tf.identity(x)", "    "])


assert_equal = _binary("assert_equal", "==", "Equal", np.equal, ("assert_equal",), same_is_true=True)
assert_none_equal = _binary("assert_none_equal", "!=", "NotEqual", np.not_equal)
assert_less = _binary("assert_less", "<", "Less", np.less, ("assert_less",))
assert_less_equal = _binary("assert_less_equal", "<=", "LessEqual", np.less_equal)
assert_greater = _binary("assert_greater", ">", "Greater", np.greater, ("assert_greater",))
assert_greater_equal = _binary("assert_greater_equal", ">=", "GreaterEqual", np.greater_equal)


def _unary(opname: str, symbol: str, compare: Callable) -> Any:
    """Creates and exports the two forms of an assertion about single elements against zero."""

    def check(x: Any, data: Any = None, summarize: Any = None, message: Any = None, name: Any = None) -> Any:
        with name_scope(name, opname, [x, data]):
            x = convert(x, name="x")
            if data is None:
                data = [message or "", f"Condition x {symbol} 0 did not hold element-wise:", f"x ({label(x)}) = ", x]
            return compare(x, convert(0, x.dtype.base_dtype), data=data, summarize=summarize)

    def check_v2(x: Any, message: Any = None, summarize: Any = None, name: Any = None) -> Any:
        return check(x, None, summarize, message, name)

    _document(opname, f"x {symbol} 0", check, check_v2)
    export.value(dispatched(check), v1=[opname, f"debugging.{opname}"])
    export.value(dispatched(check_v2), v2=[f"debugging.{opname}"])
    return check


assert_negative = _unary("assert_negative", "<", assert_less)
assert_positive = _unary("assert_positive", ">", assert_greater)
assert_non_negative = _unary("assert_non_negative", ">=", assert_greater_equal)
assert_non_positive = _unary("assert_non_positive", "<=", assert_less_equal)


@export(v1=["assert_near", "debugging.assert_near"])
@dispatched
def assert_near(x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Any = None, summarize: int | None = None,
                message: Any = None, name: str | None = None) -> Any:
    """Asserts that `|x - y| < atol + rtol * |y|` for all elements; the tolerances default to 10 epsilon."""
    with name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = convert(x, name="x")
        y = convert(y, x.dtype.base_dtype, "y")
        eps = torch.finfo(x.dtype.torch).eps
        rtol = convert(10 * eps if rtol is None else rtol, x.dtype.real_dtype, "rtol")
        atol = convert(10 * eps if atol is None else atol, x.dtype.real_dtype, "atol")
        if data is None:
            data = [message or "", f"x and y not equal to tolerance rtol = {rtol}, atol = {atol}",
                    f"x ({label(x)}) = ", x, f"y ({label(y)}) = ", y]
        near = get("Less")(_magnitude(x - y), atol + rtol * _magnitude(y))
        return assert_(all_true(near), data, summarize=summarize)


def _magnitude(x: Tensor) -> Tensor:
    return get("ComplexAbs")(x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else get("Abs")(x)


@export(v2=["debugging.assert_near"])
@dispatched
def assert_near_v2(x: Any, y: Any, rtol: Any = None, atol: Any = None, message: Any = None,
                   summarize: int | None = None, name: str | None = None) -> Any:
    """Asserts that `|x - y| < atol + rtol * |y|` for all elements; the tolerances default to 10 epsilon."""
    return assert_near(x, y, rtol, atol, None, summarize, message, name)


# -- types ------------------------------------------------------------------------------------------------------------
@export("debugging.assert_proper_iterable", v1=["assert_proper_iterable"])
@dispatched
def assert_proper_iterable(values: Any) -> None:
    """Raises TypeError unless `values` is a collection: tensors, arrays and strings are not."""
    if isinstance(values, (Tensor, np.ndarray, bytes, str)) or getattr(values, "_is_tensor_like", False) \
            or hasattr(values, "_type_spec"):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


@export(v1=["assert_integer", "debugging.assert_integer"])
@dispatched
def assert_integer(x: Any, message: Any = None, name: str | None = None) -> Any:
    """Raises TypeError unless `x` has an integer type."""
    with name_scope(name, "assert_integer", [x]):
        x = convert(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(f'{message or ""}  Expected "x" to be integer type.  Found: '
                            f'{"tensor" if context.executing_eagerly() else x.name} of dtype {x.dtype}')
        return no_op_def(name="statically_determined_was_integer")


@export(v2=["debugging.assert_integer"])
@dispatched
def assert_integer_v2(x: Any, message: Any = None, name: str | None = None) -> None:
    """Raises TypeError unless `x` has an integer type."""
    assert_integer(x, message, name)


@export(v1=["assert_type", "debugging.assert_type"])
@dispatched
def assert_type(tensor: Any, tf_type: Any, message: Any = None, name: str | None = None) -> Any:
    """Raises TypeError unless `tensor` is of type `tf_type`."""
    wanted = dtypes.as_dtype(tf_type)
    with name_scope(name, "assert_type", [tensor]):
        if not hasattr(tensor, "dense_shape") and not hasattr(tensor, "_type_spec"):
            tensor = convert(tensor, name="tensor")
        if tensor.dtype != wanted:
            what = getattr(tensor, "name", "tensor") if not context.executing_eagerly() else "tensor"
            raise TypeError(f"{message or ''}  {what} must be of type {wanted!r}; got {tensor.dtype!r}")
        return no_op_def(name="statically_determined_correct_type")


@export(v2=["debugging.assert_type"])
@dispatched
def assert_type_v2(tensor: Any, tf_type: Any, message: Any = None, name: str | None = None) -> None:
    """Raises TypeError unless `tensor` is of type `tf_type`."""
    assert_type(tensor, tf_type, message, name)


@export("debugging.assert_same_float_dtype", v1=["assert_same_float_dtype"])
@dispatched
def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """The one floating type of `tensors` (and `dtype`); ValueError if they differ or are not floating.

    >>> tf.debugging.assert_same_float_dtype([tf.constant(1.)])
    tf.float32
    """
    expected, first = dtypes.as_dtype(dtype) if dtype is not None else None, None
    for t in tensors or ():
        if t is None:
            continue
        found = dtypes.as_dtype(t.dtype).base_dtype
        if expected is None:
            expected, first = found, _named(t)
        elif found != expected:
            raise ValueError(f"{_named(t)}, type={found}, must be of the same type ({expected})"
                             f"{f' as {first}' if first else ''}.")
    if expected is None:
        return dtypes.float32
    if not expected.is_floating:
        raise ValueError(f"Expected floating point type, got {expected}.")
    return expected


def _named(item: Any) -> str:
    return getattr(item, "name", None) or str(item) if not hasattr(item, "_value") else str(item)


@export("debugging.is_numeric_tensor", v1=["is_numeric_tensor"])
def is_numeric_tensor(tensor: Any) -> bool:
    """Whether `tensor` is a Tensor of numbers (not of booleans or strings)."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype.torch is not None \
        and tensor.dtype.base_dtype != dtypes.bool


# -- order ------------------------------------------------------------------------------------------------------------
def _neighbours(x: Any) -> tuple[Tensor, Tensor]:
    """All elements but the last, and all but the first, in row-major order."""
    flat = reshape(x, [-1])
    if not is_numeric_tensor(flat):
        raise TypeError(f"Expected x to be numeric, instead found: {flat}")
    return flat[:-1], flat[1:]


@export("math.is_non_decreasing", v1=["debugging.is_non_decreasing", "is_non_decreasing"])
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element of `x`, in row-major order, is below the one before it.

    Args:
        x: Tensor of numbers.
        name: Name of the operation.

    Returns:
        A boolean.

    >>> tf.math.is_non_decreasing([1, 1, 2]).numpy().item()
    True
    """
    with name_scope(name, "is_non_decreasing", [x]):
        return all_true(get("LessEqual")(*_neighbours(x)))


@export("math.is_strictly_increasing", v1=["debugging.is_strictly_increasing", "is_strictly_increasing"])
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether every element is above the one before it, in row-major order.

    Args:
        x: A tensor of numbers.
        name: A name for the op.

    Returns:
        A boolean scalar.

    >>> print(bool(tf.math.is_strictly_increasing([1, 2, 2])))
    False
    """
    with name_scope(name, "is_strictly_increasing", [x]):
        return all_true(get("Less")(*_neighbours(x)))

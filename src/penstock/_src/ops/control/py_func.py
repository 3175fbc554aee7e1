"""Python functions as ops: tf.py_function (eager tensors, differentiable), tf.numpy_function and tf.py_func (arrays)."""
from __future__ import annotations

import functools
import secrets
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, nest, tracebacks
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.node import Tensor
from penstock._src.graph.tape import Tape
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.kernels import bridge
from penstock._src.ops.registry import op

_FUNC = "token: string, Tin: list(type) >= 0, Tout: list(type) >= 0"
py_func_op = op("PyFunc", "input: Tin -> output: Tout", _FUNC, stateful=True, blocking=True, client_code=True).no_gradient()
py_func_stateless = op("PyFuncStateless", "input: Tin -> output: Tout", _FUNC, gpu=False, client_code=True).no_gradient()
eager_py_func = op("EagerPyFunc", "input: Tin -> output: Tout",
                   "token: string, is_async: bool = False, Tin: list(type) >= 0, Tout: list(type) >= 0", stateful=True,
                   blocking=True, client_code=True)
for _op in (py_func_op, py_func_stateless, eager_py_func):
    _op.shape(lambda input, *, Tout: [None] * len(Tout))

_registered: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
_KINDS = ((TypeError, errors.InvalidArgumentError), (ValueError, errors.InvalidArgumentError),
          (StopIteration, errors.OutOfRangeError), (MemoryError, errors.ResourceExhaustedError),
          (NotImplementedError, errors.UnimplementedError))


class _Token(str):
    """The name of a function in the op's attribute; it keeps the function alive as long as the op."""

    __slots__ = ("function",)
    function: _Function


class _Function:
    """A Python function under its token."""

    def __init__(self, function: Callable, types: list, for_gradient: bool = False):
        self.function, self.types, self.for_gradient = function, types, for_gradient
        self.name = f"pyfunc_{secrets.token_hex(16)}"        # an untrusted graph cannot refer to a function of this process
        _registered[self.name] = self

    @property
    def token(self) -> _Token:
        """The token for an op."""
        out = _Token(self.name)
        out.function = self
        return out


def _lookup(token: str | bytes) -> _Function:
    if isinstance(token, bytes):                    # text that is UTF-8 comes as str
        raise errors.InternalError(None, None, f"the token of a Python function must be UTF-8: {token!r}")
    found = _registered.get(token)
    if found is None:
        raise errors.InvalidArgumentError(None, None, f"ValueError: callback {token} is not found")
    return found


def _raised(e: Exception) -> errors.OpError:
    """The typed error for an exception of a user's function."""
    if isinstance(e, errors.OpError):
        return e
    kind = next((k for t, k in _KINDS if isinstance(e, t)), errors.UnknownError)
    tracebacks.shown(e)
    text = "".join(traceback.format_exception(e))
    return kind(None, None, f"{type(e).__name__}: {e}\n{text}")


# -- arrays -----------------------------------------------------------------------------------------------------------
@py_func_op.kernel
@py_func_stateless.kernel
def _py_func_kernel(input, *, token, Tin, Tout):
    found = _lookup(token)
    arrays = [_argument(v, t) for v, t in zip(input, Tin, strict=True)]
    try:
        result = found.function(*arrays)
    except Exception as e:
        raise _raised(e) from e
    values = list(result) if isinstance(result, (list, tuple)) else [] if result is None and not Tout else [result]
    if len(values) != len(Tout):
        raise errors.invalid(f"{token} returns {len(values)} values, but expects to see {len(Tout)} values.")
    return [_result(v, t, i, token) for i, (v, t) in enumerate(zip(values, Tout, strict=True))]


def _argument(value: Any, dtype: Any) -> Any:
    array = np.array(bridge.to_numpy(value, dtype)) if isinstance(value, torch.Tensor) else value
    return array if not isinstance(array, np.ndarray) or array.ndim else array[()]


_TF_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def _result(value: Any, dtype: Any, i: int, token: str) -> Any:
    array = np.asarray(value, order="C")
    if dtype == dtypes.variant and array.dtype.kind == "O":         # optionals, datasets: their run-time values
        return array if array.ndim else array[()]
    if array.dtype.kind in "SUO":
        if array.dtype.kind == "O" and any(not isinstance(x, (str, bytes)) for x in array.ravel()):
            raise errors.InternalError(None, None, "Unsupported object type "
                                       f"{type(next(x for x in array.ravel() if not isinstance(x, (str, bytes)))).__name__}")
        array = bridge.string_array(_texts(value, array))
        found = dtypes.string
    else:
        try:
            found = dtypes.as_dtype(array.dtype)
        except TypeError:
            raise errors.InternalError(None, None, f"Unsupported numpy data type {array.dtype}") from None
    if found != dtype:
        names = [_TF_NAMES.get(d.name, d.name) for d in (found, dtype)]
        raise errors.invalid(f"{i}-th value returned by {token} is {names[0]}, but expects {names[1]}")
    return array if dtype == dtypes.string else bridge.to_torch(np.array(array, order="C"), dtype)


def _texts(value: Any, array: np.ndarray) -> np.ndarray:
    """Strings as objects: numpy's fixed width would drop trailing NULs of what was not an array before."""
    if array.dtype.kind == "O" or isinstance(value, np.ndarray):
        return array.astype(object) if array.dtype.kind != "O" else array
    return np.array(value, dtype=object)


# -- eager tensors ------------------------------------------------------------------------------------------------------
class _Tapes:
    """The tape of each call of a py_function, looked up by the tensors that the call returned."""

    def __init__(self) -> None:
        self._by_output: dict[int, tuple] = {}

    def keep(self, values: list, entry: tuple) -> None:
        """Keeps the tape of a call as long as one of its results lives."""
        for v in values:
            if isinstance(v, torch.Tensor):
                self._by_output[id(v)] = weakref.ref(v, functools.partial(self._drop, id(v))), entry

    def _drop(self, key: int, _: weakref.ref) -> None:
        self._by_output.pop(key, None)

    def find(self, values: list) -> tuple | None:
        """The entry of the call that returned these results."""
        for v in values:
            found = self._by_output.get(id(v))
            if found is not None and found[0]() is v:
                return found[1]
        return None


_tapes = _Tapes()


@eager_py_func.kernel
def _eager_py_func_kernel(input, *, token, Tin, Tout):
    found = _lookup(token)
    args = [EagerTensor(v, t) for v, t in zip(input, Tin, strict=True)]
    with context.enter(None):
        if found.for_gradient:
            return _gradient_values(found, args, Tout)
        tape, result = _taped(found.function, args)
    try:
        with context.enter(None):
            outputs = [_converted(v, t) for v, t in zip(_listed(result, Tout), Tout, strict=True)]
    except Exception as e:
        raise _raised(e) from e
    values = [t._value for t in outputs]
    if tape is not None:                 # it has the outputs, so it lives as long as other tensors of the same storage
        values = [v.detach() if isinstance(v, torch.Tensor) else v for v in values]
        _tapes.keep(values, (tape, args, outputs))
    return values


def _listed(result: Any, types: list) -> list:
    if isinstance(result, (list, tuple)):
        return list(result)
    return [] if result is None and not types else [result]


def _taped(function: Callable, args: list) -> tuple:
    """A tape that has watched a call, or None if no argument can have a gradient, and what the call returned."""
    watched = [t for t in args if t.dtype.is_floating or t.dtype.is_complex]
    old, context.state.tapes = context.state.tapes, ()
    try:
        if not watched:
            return None, function(*args)
        with Tape(persistent=True) as tape:
            for t in watched:
                tape.watch(t)
            return tape, function(*args)
    except Exception as e:
        raise _raised(e) from e
    finally:
        context.state.tapes = old


def _converted(value: Any, dtype: Any) -> Any:
    if hasattr(value, "handle") and hasattr(value, "trainable"):
        raise RuntimeError("Attempting to return a variable from an eagerly executed py_func. Only numeric data structures "
                           "like Tensors or NumPy arrays should be returned; to return the value of a variable, make sure to "
                           f"obtain the Tensor backing it by calling `.read_value()` on the variable in question: {value}")
    return convert(value, dtype)


def _gradient_values(found: _Function, args: list, types: list) -> list:
    """The gradients of a call: from its tape, or by calling the function again."""
    n_out, n_in = found.types
    dy, outputs, inputs = args[:n_out], args[n_out:2 * n_out], args[2 * n_out:]
    entry = _tapes.find([t._value for t in outputs])
    if entry is None:
        tape, result = _taped(found.function, inputs)
        entry = tape, inputs, [convert(v) for v in (result if isinstance(result, (list, tuple)) else [result])]
    tape, sources, targets = entry
    grads = [None] * len(sources) if tape is None else tape.gradient(targets, sources, output_gradients=dy)
    return [torch.zeros_like(s._value) if g is None and isinstance(s._value, torch.Tensor) else convert(g, t)._value
            for g, s, t in zip(grads, sources, types, strict=True)]


@eager_py_func.gradient
def _eager_py_func_gradient(op, *grads):
    found = _lookup(op.attrs["token"])
    made = _Function(found.function, [len(op.outputs), len(op.inputs)], for_gradient=True)
    out = eager_py_func([*grads, *op.outputs, *op.inputs], token=made.token, Tout=[t.dtype for t in op.inputs])
    if context.executing_eagerly():
        return list(out)
    for g, t in zip(out, op.inputs, strict=True):
        g.set_shape(t.shape)
    return [g if t.dtype.is_floating or t.dtype.is_complex else None for g, t in zip(out, op.inputs, strict=True)]


# -- public -------------------------------------------------------------------------------------------------------------
def _call(definition: Any, func: Callable, inp: Any, Tout: Any, name: str | None) -> Any:
    if not callable(func):
        raise ValueError(f"Expected func to be callable, got func of type {type(func)}")
    many = isinstance(Tout, (list, tuple))
    types = [dtypes.as_dtype(t) for t in (Tout if many else [Tout])]
    made = _Function(func, types)
    out = definition(inp, token=made.token, Tout=types, name=name)
    if many:
        stateful_alone = not types and definition.stateful and not context.executing_eagerly()
        return context.current_graph()._ops[-1] if stateful_alone else out
    return out[0]


def _returns(spec: TypeSpec, value: Any) -> bool:
    """Whether a value is one of the declared type; a dense tensor never is a composite one."""
    return isinstance(spec, TensorSpec) == isinstance(value, Tensor) and spec.is_compatible_with(value)


def _or_decorator(call: Callable) -> Callable:
    """Without `func` and `inp`, the functions below are decorators: `@tf.py_function(Tout=tf.int32)`."""
    @functools.wraps(call)
    def wrapped(func: Any = None, inp: Any = None, Tout: Any = None, *args: Any, **kwargs: Any) -> Any:
        if Tout is None:
            raise TypeError(f"Missing required argument: 'Tout'. If {call.__name__} is a decorator, write "
                            f"`@tf.{call.__name__}(Tout=...)`.")
        if func is None:
            if inp is not None:
                raise TypeError(f"Don't set the `inp` argument when {call.__name__} is a decorator: the tensors are the "
                                "arguments of the decorated function.")
            return lambda f: functools.wraps(f)(lambda *tensors: call(f, tensors, Tout, *args, **kwargs))
        if inp is None:
            raise TypeError("Missing required argument: 'inp', the tensors that the function is called with.")
        return call(func, inp, Tout, *args, **kwargs)
    return wrapped


@export("py_function")
@_or_decorator
def py_function(func: Callable, inp: Any, Tout: Any, name: str | None = None) -> Any:
    """Calls a Python function of eager tensors as an op; it can be differentiated.

    Arguments may be ragged or sparse tensors, and `Tout` may have their specs. Without `func` and `inp` it is a decorator.

    Args:
        func: Function of eager tensors.
        inp: List of tensors, its arguments.
        Tout: Type of the result, or a list of them; empty for none.
        name: Name of the operation.

    Returns:
        The results; gradients go through.

    >>> int(tf.py_function(lambda x: x + 1, [tf.constant(1)], tf.int32))
    2
    """
    specs = Tout if isinstance(Tout, (list, tuple)) else [Tout]
    if not any(isinstance(t, TypeSpec) for t in specs) and not any(isinstance(t, CompositeTensor) for t in inp):
        return _call(eager_py_func, func, inp, Tout, name)
    outputs = [t if isinstance(t, TypeSpec) else TensorSpec(None, t) for t in specs]

    def flat(*tensors: Any) -> list:
        returned = func(*nest.pack_sequence_as(list(inp), tensors, expand_composites=True))
        values = returned if isinstance(returned, (list, tuple)) else [] if returned is None else [returned]
        values = [v if isinstance(v, (Tensor, CompositeTensor)) else convert(v) for v in values]
        if len(values) != len(outputs) or not all(map(_returns, outputs, values)):
            raise ValueError(f"py_function: func={func} returned {returned!r}, which did not match Tout={Tout}")
        return nest.flatten(values, expand_composites=True)
    parts = [s for spec in outputs for s in nest.flatten(spec, expand_composites=True)]
    made = _call(eager_py_func, flat, nest.flatten(list(inp), expand_composites=True), [s.dtype for s in parts], name)
    if not outputs:
        return made
    for tensor, spec in zip(made, parts, strict=True):
        tensor.set_shape(spec.shape)
    packed = nest.pack_sequence_as(outputs, made, expand_composites=True)
    return packed if isinstance(Tout, (list, tuple)) else packed[0]


def _py_func(func: Callable, inp: Any, Tout: Any, stateful: bool, name: str | None) -> Any:
    if context.executing_eagerly():
        if not callable(func):
            raise ValueError(f"Expected func to be callable, got func of type {type(func)}")
        result = [x if x is None else convert(x) for x in nest.flatten(func(*[convert(x).numpy() for x in inp]))]
        return result[0] if len(result) == 1 else result
    return _call(py_func_op if stateful else py_func_stateless, func, inp, Tout, name)


@export(v1=["py_func"])
def py_func(func: Callable, inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """Calls a Python function of numpy arrays as an op.

    Args:
        func: Function of numpy arrays that returns an array or a list of them.
        inp: Tensors to pass.
        Tout: Type of the result, or list of types.
        stateful: Whether the function has effects or is not a function of its inputs; otherwise equal calls may be merged.
        name: Name of the operation.

    Returns:
        A tensor, or a list of tensors as in `Tout`. It has no gradient.

    >>> import math
    >>> tf.py_func(math.hypot, [3., 4.], tf.float64, stateful=False).numpy()
    np.float32(5.0)
    """
    return _py_func(func, inp, Tout, stateful, name)


@export("numpy_function")
@_or_decorator
def numpy_function(func: Callable, inp: Any, Tout: Any, name: str | None = None, stateful: bool = True) -> Any:
    """Calls a Python function of numpy arrays as an op.

    Args:
        func: Function of numpy arrays.
        inp: List of tensors, its arguments.
        Tout: Type of the result, or a list of them.
        stateful: Whether it may return other values for the same arguments; otherwise calls may be merged.
        name: Name of the operation.

    Returns:
        The results as tensors, without a gradient.

    Raises:
        InvalidArgumentError: if it returns another type; UnknownError and others: what the function raised.

    >>> int(tf.numpy_function(lambda x: x + 1, [tf.constant(1)], tf.int32))
    2
    """
    return _py_func(func, inp, Tout, stateful, name)

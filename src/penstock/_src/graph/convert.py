"""Conversion to Tensor: convert_to_tensor, its registry of conversion functions, and constants."""
from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dimension, TensorShape
from penstock._src.graph import context
from penstock._src.graph.eager_tensor import from_array
from penstock._src.graph.node import Tensor, TensorType
from penstock._src.graph.tensor_proto import array_of, mixes_kinds, unsupported_leaf
from penstock._src.kernels.bridge import to_numpy
from penstock._src.ops.registry import get

_FUNCTIONS: list[tuple[int, int, Any, Callable]] = []     # (priority, order, types, function), sorted
_cache: dict[type, list[Callable]] = {}


@export("register_tensor_conversion_function")
def register_tensor_conversion_function(base_type: Any, conversion_func: Callable, priority: int = 100) -> None:
    """Makes objects of `base_type` usable as tensors.

    `conversion_func(value, dtype=None, name=None, as_ref=False)` returns a Tensor or NotImplemented.
    """
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not types or not all(isinstance(t, type) for t in types):
        raise TypeError("base_type must be a type or a tuple of types.")
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable.")
    if any(issubclass(int, t) or issubclass(float, t) or t in (list, tuple, np.ndarray) for t in types
           if t is not object) and conversion_func.__module__ != __name__ and priority == 100 \
            and any(t in (int, float, list, tuple, np.ndarray) for t in types):
        raise TypeError("Cannot register conversions for Python numeric types and NumPy scalars and arrays.")
    bisect.insort(_FUNCTIONS, (priority, len(_FUNCTIONS), types, conversion_func), key=lambda e: e[:2])
    _cache.clear()


def _functions(cls: type) -> list[Callable]:
    found = _cache.get(cls)
    if found is None:
        found = _cache[cls] = [f for _, _, types, f in _FUNCTIONS if issubclass(cls, types)]
    return found


@export(v1=["convert_to_tensor"])
def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None,
                      dtype_hint: Any = None) -> Tensor:
    """Converts numbers, arrays, lists, variables and registered types to a Tensor.

    Args:
        value: Object with a registered conversion.
        dtype: Required element type.
        name: Name of the operation.
        preferred_dtype: Element type to use if the value can have it. Old name of `dtype_hint`.
        dtype_hint: Element type to use if the value can have it.

    Returns:
        A tensor. A tensor is returned unchanged.

    Raises:
        TypeError: if there is no conversion to `dtype`.

    >>> tf.convert_to_tensor([1., 2.]).dtype
    tf.float32
    """
    return convert(value, dtype, name, preferred_dtype=dtype_hint if dtype_hint is not None else preferred_dtype)


@export(v2=["convert_to_tensor"])
def convert_to_tensor_v2(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Tensor:
    """Converts numbers, arrays, lists, variables and registered types to a Tensor.

    Args:
        value: Anything that converts: a number, array, list, variable, tensor.
        dtype: The required element type.
        dtype_hint: The element type if the value leaves the choice.
        name: Name of the operation.

    Returns:
        A tensor; `value` itself if it is one.

    Raises:
        TypeError: if no conversion is registered; ValueError: for a tensor of another type.

    >>> tf.convert_to_tensor([1, 2], dtype_hint=tf.float32).numpy().tolist()
    [1.0, 2.0]
    """
    return convert(value, dtype, name, preferred_dtype=dtype_hint)


def convert(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False,
            preferred_dtype: Any = None, results: Any = Tensor) -> Tensor:
    """Implements convert_to_tensor for the current mode, with `dtype` if one is requested.

    `results` are the types that a registered function may return.
    """
    if dtype is not None and not isinstance(dtype, dtypes.DType):
        dtype = dtypes.as_dtype(dtype)
    if isinstance(value, Tensor):
        return _tensor(value, dtype, name)
    if hasattr(type(value), "__tf_tensor__"):
        return _by_protocol(value, dtype, name, preferred_dtype)
    for f in _functions(type(value)):
        out = _call(f, value, dtype, name, as_ref, preferred_dtype)
        if out is NotImplemented:
            continue
        if not isinstance(out, results):
            raise RuntimeError(f"Error converting {name or 'value'}: Conversion function {f!r} for type "
                               f"{type(value)} returned non-Tensor: {out!r}")
        if dtype is not None and isinstance(out, Tensor) and not dtype.is_compatible_with(out.dtype):
            raise RuntimeError(f"Error converting {name or 'value'}: Conversion function {f!r} for type {type(value)} "
                               f"returned incompatible dtype: requested = {dtype.base_dtype.name}, "
                               f"actual = {out.dtype.base_dtype.name}")
        return out
    raise TypeError(f"Cannot convert {value!r} with type {type(value)} to Tensor: no conversion function registered.")


def _by_protocol(value: Any, dtype: Any, name: str | None, preferred: Any) -> Tensor:
    """The result of an object's `__tf_tensor__(dtype, name)`."""
    out = None
    if dtype is None and preferred is not None:
        try:
            out = value.__tf_tensor__(dtypes.as_dtype(preferred), name)
        except (TypeError, ValueError):
            out = None
    if out is None:
        out = value.__tf_tensor__(dtype, name)
    if not isinstance(out, Tensor):
        raise RuntimeError(f"{type(value).__name__}.__tf_tensor__ returned non-Tensor: {out!r}")
    return _tensor(out, dtype, name)


def _call(f: Callable, value: Any, dtype: Any, name: str | None, as_ref: bool, preferred: Any) -> Any:
    if dtype is None and preferred is not None and _survives(value, dtypes.as_dtype(preferred)):
        try:
            out = f(value, dtype=dtypes.as_dtype(preferred), name=name, as_ref=as_ref)
            if out is not NotImplemented:
                return out
        except (TypeError, ValueError):
            pass
    return f(value, dtype=dtype, name=name, as_ref=as_ref)


def _survives(value: Any, dtype: Any) -> bool:
    """Whether integers keep their values in another dtype; other values are converted or rejected later."""
    if type(value) in (int, list, tuple) and dtype is dtypes.int32:
        return not any(type(v) is int and v > dtypes.int32.max for v in (value if type(value) is not int else (value,)))
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "iu" or dtype.torch is None:
        return True
    with np.errstate(all="ignore"):
        return bool(np.array_equal(value.astype(dtype.np), value))


def _out_of_scope(value: Tensor) -> str:
    """Why a tensor of a graph has no value here, and what to do."""
    if value.graph.building_function:
        return (f"{value!r}{value.op.made_note} is out of scope and cannot be used here: it has a value only while the "
                f"function {value.graph.name!r} runs. Return it from the function, or assign it to a variable.")
    return (f"Graph tensors have no value in eager execution: {value.name} cannot be used here. Run it in a session, or build "
            "within its graph's as_default() block.")


def _tensor(value: Tensor, dtype: Any, name: str | None) -> Tensor:
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype {value.dtype.name}: "
                         f"{value!r}")
    eager = hasattr(value, "_value")
    if context.executing_eagerly():
        if not eager and not value.graph.symbolic:
            raise TypeError(_out_of_scope(value))
        return value
    if eager:
        graph = context.current_graph()
        if not graph.building_function:
            raise RuntimeError("Attempting to capture an EagerTensor without building a function.")
        return graph.capture(value, name=name)
    return value


# -- constants --------------------------------------------------------------------------------------------------------
@export(v1=["constant"])
def constant_v1(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const",
                verify_shape: bool = False) -> Tensor:
    """A constant tensor; a single value fills `shape`, and a short list is filled up with its last value.

    Args:
        value: Number, string, list or array.
        dtype: Element type. By default int32 for integers, float32 for floats, and the array's own type for arrays.
        shape: Static shape of the result.
        name: Name of the operation.
        verify_shape: Whether `value` must have exactly `shape`.

    Returns:
        A tensor.

    Raises:
        TypeError: if `value` does not fit `dtype`.
        ValueError: if `value` does not fit `shape`.

    >>> tf.constant(-1.0, shape=[2, 3]).numpy()
    array([[-1., -1., -1.],
           [-1., -1., -1.]], dtype=float32)
    """
    return constant(value, dtype, shape, name, verify_shape=verify_shape, broadcast=False)


@export(v2=["constant"])
def constant_v2(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """A constant tensor; a single value fills `shape`.

    Args:
        value: A number, string, array or nested list.
        dtype: Element type; by default that of the value.
        shape: Shape; one value fills it, several must fit.
        name: Name of the operation.

    Returns:
        A tensor.

    Raises:
        TypeError: if `value` does not have the type; ValueError: if it does not have the shape.

    >>> tf.constant(1.5, shape=[2]).numpy().tolist()
    [1.5, 1.5]
    """
    return constant(value, dtype, shape, name, broadcast=True)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = "Const", *,
             verify_shape: bool = False, broadcast: bool = False) -> Tensor:
    """A Const op, or an eager tensor, from a Python or numpy value."""
    eager = context.executing_eagerly()
    if isinstance(value, Tensor):
        return _constant_of_tensor(value, dtype, shape, name)
    wanted = dtype = dtypes.as_dtype(dtype) if dtype is not None else None
    try:
        array, dtype = to_array(value, dtype)
    except TypeError as e:
        if eager:
            raise _eager_error(value, dtype, e) from None
        raise
    if shape is not None:
        array = _fill(array, TensorShape(shape), verify_shape, broadcast or eager)
    if eager:
        if dtype is dtypes.uint64 and wanted is None and isinstance(value, (int, list, tuple)):
            raise dtypes.out_of_range(array.max(), "int64")         # graphs convert it to uint64, as TensorFlow's do
        return from_array(array, dtype)
    if isinstance(value, np.ndarray) and np.may_share_memory(array, value):
        array = array.copy()                  # the caller may write into it later
    return const_op(array, dtype, name)


def _eager_error(value: Any, dtype: Any, error: TypeError) -> Exception:
    """The error for a value that is no tensor, as eager execution reports it: ValueError unless the type alone is wrong."""
    if isinstance(value, (list, tuple)) and mixes_kinds(value):
        return ValueError(f"Can't convert Python sequence with mixed types to Tensor: {value!r}")
    if isinstance(value, np.ndarray) and value.dtype == object:
        return ValueError(f"Failed to convert a NumPy array to a Tensor: {error}")
    odd = unsupported_leaf(value)
    if odd is not None:
        return ValueError(f"Attempt to convert a value ({odd[0]!r}) with an unsupported type ({type(odd[0])}) to a Tensor.")
    return error if dtype is None else TypeError(f"Cannot convert {value!r} to EagerTensor of dtype {dtype.name}. {error}")


def _constant_of_tensor(value: Any, dtype: Any, shape: Any, name: str | None) -> Tensor:
    if not hasattr(value, "_value"):
        raise TypeError(f"List of Tensors or a Tensor when single Tensor-free value expected: {value!r}")
    if context.executing_eagerly():
        if dtype is not None and dtypes.as_dtype(dtype) != value.dtype:
            value = get("Cast")(value, DstT=dtypes.as_dtype(dtype))
        if shape is not None:
            value = get("Reshape")(value, list(TensorShape(shape).static_dims or ())) \
                if value.shape.num_elements() != 1 else get("Fill")(list(TensorShape(shape).static_dims or ()), value)
        return value
    return constant(value.numpy(), dtype, shape, name, broadcast=True)


_CONST: Any = None


def const_op(array: np.ndarray, dtype: Any, name: str | None = None) -> Tensor:
    """Adds a Const node to the default graph."""
    global _CONST
    if _CONST is None:
        _CONST = get("Const")
    graph = context.current_graph()
    name = name.decode() if isinstance(name, bytes) else name or "Const"
    final = name[:-1] if name.endswith("/") else graph.unique_name(name)
    return graph.add(_CONST, final, [], {"value": array, "dtype": dtype}, [dtype], infer=_constant_shape).outputs[0]


def _constant_shape(op: Any) -> None:
    op.outputs[0].static_dims = op.attrs["value"].shape


def _fill(array: np.ndarray, shape: TensorShape, verify: bool, broadcast: bool) -> np.ndarray:
    if not shape.is_fully_defined():
        raise ValueError(f"Constant shape must be fully defined, got {shape}")
    dims = tuple(d for d in shape.static_dims or () if d is not None)
    if array.shape == dims:
        return array
    size = int(np.prod(dims, dtype=np.int64))
    if verify:
        raise TypeError(f"Expected Tensor's shape: {dims}, got {array.shape}.")
    if array.size == size:
        return array.reshape(dims)
    if array.size == 1:
        return np.full(dims, array.reshape(())[()], dtype=array.dtype)
    if broadcast and not context.executing_eagerly():
        raise TypeError(f"Expected Tensor's shape: {dims}, got {array.shape}.")
    if broadcast:
        raise TypeError(f"Eager execution of tf.constant with unsupported shape (value has {array.size} elements, shape "
                        f"is {dims} with {size} elements).")
    if array.size > size:
        raise ValueError(f"Too many elements provided. Needed at most {size}, but received {array.size}")
    if array.size == 0:
        raise ValueError(f"No elements provided to fill shape {dims}")
    flat = array.ravel()
    return np.concatenate([flat, np.full(size - flat.size, flat[-1], dtype=flat.dtype)]).reshape(dims)


_FAST = {float: (dtypes.float32, np.float32), bool: (dtypes.bool, np.bool_)}


def to_array(value: Any, dtype: Any) -> tuple[np.ndarray, Any]:
    """A numpy array and its DType from a Python value, with TensorFlow's rules for defaults and safe casts."""
    fast = _FAST.get(type(value))
    if fast is not None and (dtype is None or dtype is fast[0]):
        return np.array(value, fast[1]), fast[0]
    if type(value) is int and dtype is None and -2**31 <= value < 2**31:
        return np.array(value, np.int32), dtypes.int32
    return array_of(value, dtype, context.executing_eagerly())


def _constant_conversion(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return constant(value, dtype, None, name)


def _list_conversion(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """Lists that hold tensors somewhere are packed; plain lists become constants."""
    if not _holds_tensor(value):
        return NotImplemented
    return _pack(value, dtype, name or "packed")


def dtypes_in(value: Any) -> set[Any]:
    """The dtypes of the tensors in a list, and in the lists in it."""
    found = set()
    for v in value:
        if isinstance(v, (list, tuple)):
            found |= dtypes_in(v)
        elif isinstance(v, Tensor) or getattr(v, "_is_tensor_like", False):
            found.add(v.dtype.base_dtype)
    return found


def _holds_tensor(value: Any) -> bool:
    for v in value:
        if isinstance(v, Tensor) or getattr(v, "_is_tensor_like", False):
            return True
        if isinstance(v, (list, tuple)) and _holds_tensor(v):
            return True
    return False


def _pack(value: Any, dtype: Any, name: str) -> Tensor:
    wanted = dtype or _first_dtype(value)
    elements = [_pack(v, wanted, str(i)) if isinstance(v, (list, tuple)) and _holds_tensor(v)
                else convert(v, wanted if not isinstance(v, Tensor) else None, str(i)) for i, v in enumerate(value)]
    if dtype is not None:
        elements = [e if e.dtype.base_dtype == dtype else get("Cast")(e, DstT=dtype) for e in elements]
    for e in elements:
        if wanted is not None and e.dtype.base_dtype != wanted.base_dtype:
            raise TypeError(f"Cannot convert a list containing a tensor of dtype {e.dtype} to {wanted} "
                            f"(Tensor is: {e!r})")
    return get("Pack")(elements, axis=0, name=name)


def _first_dtype(value: Any) -> Any:
    for v in value:
        if isinstance(v, Tensor) or getattr(v, "_is_tensor_like", False):
            return v.dtype.base_dtype
        if isinstance(v, (list, tuple)):
            d = _first_dtype(v)
            if d is not None:
                return d
    return None


def _shape_conversion(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
    dims = list(value.static_dims)
    if dtype is not None and dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype {dtype.name}.")
    if dtype is None:
        dtype = dtypes.int64 if any(d >= 2**31 for d in dims) else dtypes.int32
    elif dtype == dtypes.int32 and any(d >= 2**31 for d in dims):
        raise ValueError(f"Cannot convert a TensorShape to int32; a dimension is too large ({max(dims)}): {value}")
    return constant(np.array(dims, dtype.as_numpy_dtype), dtype, name=name or "shape_as_tensor")


def _dimension_conversion(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
    if dtype is not None and dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype {dtype.name}.")
    return constant(value.value, dtype or dtypes.int32, name=name or "shape_as_tensor")


def _torch_conversion(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return constant(to_numpy(value), dtype, None, name)


def _register_defaults() -> None:
    register_tensor_conversion_function((list, tuple), _list_conversion, 99)
    register_tensor_conversion_function(TensorShape, _shape_conversion, 98)
    register_tensor_conversion_function(Dimension, _dimension_conversion, 98)
    register_tensor_conversion_function(torch.Tensor, _torch_conversion, 99)
    register_tensor_conversion_function(object, _constant_conversion, 200)


_register_defaults()


@export("is_tensor", v1=["contrib.framework.is_tensor"])
def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor or something that represents one: variable, sparse or ragged tensor.

    Args:
        x: Any object.

    Returns:
        A Python bool.

    >>> tf.is_tensor(tf.constant(1)), tf.is_tensor(1)
    (True, False)
    """
    return isinstance(x, TensorType) or bool(getattr(x, "_is_tensor_like", False))

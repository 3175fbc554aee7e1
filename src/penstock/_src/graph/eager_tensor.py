"""EagerTensor: a tensor that has its value."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.kernels import bridge
from penstock._src.kernels.devices.device_config import eager_devices
from penstock._src.ops.registry import get

_MOST_DIMENSIONS = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0.dev0" else 32       # of a numpy array


def _undefined(name: str, doc: str) -> property:
    def raises(self: Any) -> Any:
        raise AttributeError(f"Tensor.{name} is undefined when eager execution is enabled.")
    return property(raises, doc=doc)


_OPAQUE = (dtypes.resource, dtypes.variant)                    # dtypes of values that are no numbers or strings
_RESOURCE_TYPES = {"VariableResource": "tensorflow::Var"}      # names that other programs know


@export("__internal__.EagerTensor")
class EagerTensor(Tensor):
    """A tensor with a value. Prints as TensorFlow's do, and works with numpy."""

    _on: Any = None                 # the device that the op ran on, if one was requested

    def __init__(self, value: Any, dtype: Any):
        self._value, self.dtype = value, dtype

    def _known_dims(self) -> tuple:
        return tuple(self._value.shape) if hasattr(self._value, "shape") else ()

    static_dims: Any = property(_known_dims, doc="The shape.")

    @property
    def shape(self) -> TensorShape:
        """The shape, always fully known."""
        return TensorShape.of(self.static_dims)

    def get_shape(self) -> TensorShape:
        """Alias of `shape`."""
        return TensorShape.of(self.static_dims)

    def set_shape(self, shape: Any) -> None:
        """Checks that the shape is compatible."""
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {TensorShape(shape)}")

    op: Any = _undefined("op", "Eager tensors have no operation.")
    value_index: Any = _undefined("value_index", "Eager tensors have no index.")

    @property
    def graph(self) -> Any:
        """Eager tensors have no graph."""
        raise AttributeError("Tensor.graph is undefined when eager execution is enabled.")

    @property
    def name(self) -> Any:
        """Eager tensors have no name."""
        raise AttributeError("Tensor.name is undefined when eager execution is enabled.")

    def consumers(self) -> Any:
        """Eager tensors have no consumers."""
        raise AttributeError("Tensor.consumers is undefined when eager execution is enabled.")

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Not for eager tensors."""
        raise NotImplementedError("eval is not supported when eager execution is enabled, is .numpy() what you're "
                                  "looking for?")

    @property
    def device(self) -> str:
        """The full name of the device that the value belongs to."""
        return self._on.name if self._on is not None else self.backing_device

    @property
    def backing_device(self) -> str:
        """The full name of the device in whose memory the value is: for int32 on a GPU, the host's."""
        devices = eager_devices()
        if isinstance(self._value, torch.Tensor) and not self._value.is_cpu:
            return next(d.name for d in (self._on, *devices.all) if d is not None and d.torch == self._value.device)
        return self._on.name if self._on is not None and self._on.host else devices.host.name

    def numpy(self) -> Any:
        """The value as a numpy array (a copy, or a scalar for rank 0)."""
        self._check_array()
        try:
            array = np.array(bridge.to_numpy(self._value))
        except MemoryError as e:                    # a view may have more elements than there is memory
            raise errors.ResourceExhaustedError(None, None, str(e)) from None
        except ValueError as e:                     # sizes of an empty array whose product no array may have
            raise errors.invalid(f"Failed to create numpy array from tensor of shape {list(self._value.shape)}. Numpy error: "
                                 f"{e}") from None
        return array if array.ndim else array[()]

    def _check_array(self) -> None:
        """Raises InvalidArgumentError for values that no numpy array can hold."""
        if self.dtype in (dtypes.resource, dtypes.variant):
            raise errors.invalid(f"Cannot convert a Tensor of dtype {self.dtype.name} to a NumPy array.")
        rank = len(getattr(self._value, "shape", ()))
        if rank > _MOST_DIMENSIONS:
            raise errors.invalid(f"Cannot convert tensor with {rank} dimensions to NumPy array. NumPy arrays can have at most "
                                 f"{_MOST_DIMENSIONS} dimensions")

    def _numpy(self) -> Any:
        """The value as an array that shares its memory, or a scalar for rank 0."""
        self._check_array()
        array = bridge.to_numpy(self._value, self.dtype)
        return array if array.ndim else array[()]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = np.asarray(bridge.to_numpy(self._value))
        return array.astype(dtype) if dtype is not None else array

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return self.numpy().__index__()

    def __bool__(self) -> bool:
        value = self.numpy()
        return bool(value) if np.size(value) else False         # numpy 2.2 raises for an empty array

    __nonzero__ = __bool__

    def __round__(self, *args: Any) -> Any:
        return round(self.numpy(), *args)

    def __format__(self, spec: str) -> str:
        return format(self._show(str) if self.dtype in _OPAQUE else self.numpy(), spec)

    def __len__(self) -> int:
        if not self.static_dims:
            raise TypeError("Scalar tensor has no `len()`")
        return self.static_dims[0]

    def __iter__(self) -> Any:
        if not self.static_dims:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return (self[i] for i in range(self.static_dims[0]))

    def __hash__(self) -> int:
        if context.process.tensor_equality:
            raise TypeError("Tensor is unhashable. Instead, use tensor.ref() as the key.")
        return id(self)

    def __copy__(self) -> EagerTensor:
        return self

    def __deepcopy__(self, memo: dict) -> EagerTensor:
        value = self._value.clone() if isinstance(self._value, torch.Tensor) else self._value.copy()
        out = memo[id(self)] = EagerTensor(value, self.dtype)
        return out

    def __reduce__(self) -> Any:
        return (_rebuild, (self.numpy(), self.dtype))

    def __repr__(self) -> str:
        held = "value" if self.dtype in _OPAQUE else "numpy"
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, {held}={self._show(repr)}>"

    def __str__(self) -> str:
        return f"tf.Tensor({self._show(str)}, shape={self.shape}, dtype={self.dtype.name})"

    def _show(self, form: Any) -> str:
        if self.dtype is dtypes.variant:
            return f"<{type(self._value).__name__}>"
        if self.dtype is dtypes.resource:
            kind = type(self._value).__name__
            return (f'<ResourceHandle(name="{getattr(self._value, "name", "")}", device="{self.device}", '
                    f'container="localhost", type="{_RESOURCE_TYPES.get(kind, kind)}")>')
        value = self.numpy()
        text = form(value.item()) if form is repr and isinstance(value, np.generic) else form(value)
        return "\n" + text if "\n" in text else text

    # conversions of torch and dlpack users
    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._value.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()

    def cpu(self) -> EagerTensor:
        """This tensor on the host."""
        return self._copy_to("CPU:0")

    def gpu(self, gpu_index: int = 0) -> EagerTensor:
        """This tensor on a GPU."""
        return self._copy_to(f"GPU:{gpu_index}")

    def _copy_to(self, name: str) -> EagerTensor:
        devices = eager_devices()
        device = devices.find(name)
        if device is None:
            raise RuntimeError(f"Error copying tensor to device: {name}. {name} unknown device. The devices are: "
                               f"{devices.names}")
        with context.device(device.name):
            return get("Identity")(self)


def _rebuild(array: Any, dtype: Any) -> EagerTensor:
    return from_array(np.asarray(array), dtype)


def from_array(array: np.ndarray, dtype: Any) -> EagerTensor:
    """An eager tensor with a copy of a numpy array."""
    return over_array(np.array(array) if dtype.torch is not None else array, dtype)


def over_array(array: np.ndarray, dtype: Any) -> EagerTensor:
    """An eager tensor that shares the memory of a numpy array if possible. The caller must not change the array meanwhile."""
    made = EagerTensor(bridge.to_torch(array, dtype), dtype)
    if context.state.device is not None or eager_devices().mixed:
        _place(made)
    return made


def _place(tensor: EagerTensor) -> None:
    """Places a new tensor on the device of the scope, or on the default device; int32 and strings stay in host memory."""
    devices = eager_devices()
    asked = context.state.device
    found = devices.find(asked) if asked else next((d for d in devices.best_first), None)
    if found is None or found.device_type != "CPU" and tensor.dtype in (dtypes.int32, dtypes.string) and not asked:
        found = devices.host
    tensor._on = found
    if tensor.dtype != dtypes.int32:
        tensor._value = found.put(tensor._value)

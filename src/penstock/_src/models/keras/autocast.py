"""Variables of layers with a mixed precision policy: kept in one dtype, read in another while the layer is called."""
from __future__ import annotations

import functools
from typing import Any

from penstock._src.graph.convert import register_tensor_conversion_function
from penstock._src.models.keras.mixed_precision import read_dtype
from penstock._src.ops.math.cast import cast
from penstock._src.state.variables.variable import Variable


class AutoCastVariable(Variable):
    """A proxy of a variable: reads return the dtype of the layer that is being called."""

    def __init__(self, variable: Any):
        self._variable = variable

    def __getattr__(self, name: str) -> Any:
        if name == "_variable":
            raise AttributeError(name)
        return getattr(self._variable, name)

    @property
    def _cast_dtype(self) -> Any:
        return read_dtype() or self._variable.dtype.base_dtype

    @property
    def dtype(self) -> Any:
        """The dtype that it is read in now."""
        wanted = self._cast_dtype
        return self._variable.dtype if wanted == self._variable.dtype.base_dtype else wanted

    true_dtype = property(lambda self: self._variable.dtype, doc="The dtype that it is kept in.")
    shape = property(lambda self: self._variable.shape, doc="The shape.")
    name = property(lambda self: self._variable.name, doc="The name.")
    trainable = property(lambda self: self._variable.trainable, doc="Whether optimizers change it.")
    handle = property(lambda self: self._variable.handle, doc="The handle of the resource.")
    op = property(lambda self: self._variable.op, doc="The op that makes the variable.")
    graph = property(lambda self: self._variable.graph, doc="The graph of the variable.")
    initializer = property(lambda self: self._variable.initializer, doc="The op that initializes it.")
    constraint = property(lambda self: self._variable.constraint, doc="The constraint after updates.")
    device = property(lambda self: self._variable.device, doc="Where it lives.")
    _distribute_strategy = property(lambda self: self._variable._distribute_strategy)

    def _cast(self, value: Any) -> Any:
        return cast(value, self._cast_dtype) if value.dtype.base_dtype != self._cast_dtype else value

    def value(self) -> Any:
        """The value, in the dtype of the call."""
        return self._cast(self._variable.value())

    def read_value(self) -> Any:
        """The value, in the dtype of the call."""
        return self._cast(self._variable.read_value())

    def numpy(self) -> Any:
        """The value as it is kept."""
        return self._variable.numpy()

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Some rows, in the dtype of the call."""
        return self._cast(self._variable.sparse_read(indices, name=name))

    def assign(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Sets the value."""
        return self._variable.assign(value, *args, **kwargs)

    def assign_add(self, delta: Any, *args: Any, **kwargs: Any) -> Any:
        """Adds to the value."""
        return self._variable.assign_add(delta, *args, **kwargs)

    def assign_sub(self, delta: Any, *args: Any, **kwargs: Any) -> Any:
        """Subtracts from the value."""
        return self._variable.assign_sub(delta, *args, **kwargs)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return self._variable._gather_saveables_for_checkpoint()

    def __repr__(self) -> str:
        return f"<AutoCastVariable {self.name!r} of {self.true_dtype.name}, read as {self._cast_dtype.name}>"


def autocast(variable: Any) -> AutoCastVariable:
    """A variable that is cast when read. A distributed variable keeps its class, which strategies check."""
    own: Any = type(variable)
    return (_class_with_copies(own) if variable._own_saveable else AutoCastVariable)(variable)


@functools.cache
def _class_with_copies(cls: Any) -> Any:
    return type(f"AutoCast{cls.__name__}", (AutoCastVariable, cls), {})


def _to_tensor(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if as_ref:
        return value._variable
    read = value.value()
    return read if dtype is None or read.dtype.is_compatible_with(dtype) else NotImplemented


register_tensor_conversion_function(AutoCastVariable, _to_tensor, 50)

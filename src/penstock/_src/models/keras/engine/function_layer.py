"""Public functions as layers: calls between layers in eager mode (`keras_tensor.py`), as Keras 2.4 and later describe them.

A file names the function by its public name, and may come from anyone: functions that read or write files, or load code, are
refused.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import resolve
from penstock._src.models.keras.engine.base_layer import Layer

_SPACES = {"", "math", "nn", "linalg", "strings", "signal", "image", "random", "bitwise", "ragged", "sparse", "sets", "dtypes",
           "__operators__", "keras.activations", "keras.backend"}
_REFUSED = {"load_library", "load_op_library", "numpy_function", "py_function", "py_func"}


def function_of(symbol: str) -> Any:
    """The function with a public name of 2.x (`math.multiply`, `compat.v1.shape`).

    Args:
        symbol: The name, without `tf.`.

    Returns:
        The function.

    Raises:
        ValueError: for names that a model may not call: those outside of the modules of ops.
    """
    api, name = ("v1", symbol.removeprefix("compat.v1.")) if symbol.startswith("compat.v1.") else ("v2", symbol)
    space, _, last = name.rpartition(".")
    if space not in _SPACES or last in _REFUSED:
        raise ValueError(f"The model calls `tf.{symbol}`, which a loaded model may not call. If you trust it, write this part "
                         "as a layer, and pass that in `custom_objects`.")
    return resolve(api, name)


class TFOpLambda(Layer):
    """A call of a public function as a layer.

    Args:
        function: The public name.
        **kwargs: Arguments of `Layer`.
    """

    def __init__(self, function: str, **kwargs: Any):
        super().__init__(**{**kwargs, "autocast": False})
        self.symbol, self._function = function, function_of(function)
        self._expects_training_arg = self._expects_mask_arg = False
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the function; with `constant` and `argument`, the tensor is that argument, and the constant the first one."""
        argument = kwargs.pop("argument", None)
        if argument is None:
            return self._function(inputs, *args, **kwargs)
        constant = kwargs.pop("constant")
        if argument.startswith("*"):
            return self._function(constant, *inputs, **kwargs)
        return self._function(constant, **{argument: inputs}, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """The name of the function, and the arguments of `Layer`."""
        return {**super().get_config(), "function": self.symbol}


class SlicingOpLambda(TFOpLambda):
    """A slice of a tensor as a layer; in configs, a slice is a dictionary."""

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Takes the slice."""
        return self._function(inputs, *args, **{k: _slices(v) for k, v in kwargs.items()})


def as_data(x: Any) -> Any:
    """Parts of an index as plain data; anything else as it is."""
    if isinstance(x, slice):
        return {"start": x.start, "stop": x.stop, "step": x.step}
    return {"class_name": "__ellipsis__"} if x is ... else x


def _slices(x: Any) -> Any:
    if isinstance(x, dict) and set(x) == {"start", "stop", "step"}:
        return slice(x["start"], x["stop"], x["step"])
    if isinstance(x, dict) and x.get("class_name") == "__ellipsis__":
        return ...
    return tuple(map(_slices, x)) if isinstance(x, (list, tuple)) else x

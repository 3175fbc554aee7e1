"""Lambda: any function as a layer, and how such a layer is described in a configuration."""
from __future__ import annotations

import contextlib
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.utils.function_code import func_dump, func_load
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock.compat import v1 as tf


def _shapes(value: Any) -> Any:
    """Tuples of sizes as TensorShapes, in any structure."""
    if isinstance(value, tf.TensorShape) or value is None:
        return tf.TensorShape(value)
    if isinstance(value, dict):
        return {k: _shapes(v) for k, v in value.items()}
    if all(d is None or isinstance(d, (int, np.integer)) or hasattr(d, "value") for d in value):
        return tf.TensorShape(value)
    return type(value)(_shapes(v) for v in value)


_CREATED = """The function of the Lambda layer {name} creates variables, and would do so in every call:
{variables}
A Lambda layer has no variables. Create them in `build` of a subclass of `Layer`."""
_USED = """The function of the Lambda layer {name} reads variables that the layer does not track:
{variables}
The model neither trains nor saves them. If it should, make them attributes of a subclass of `Layer`."""


@export("keras.layers.Lambda")
class Lambda(Layer):
    """A function of tensors as a layer.

    For layers with weights, subclass `Layer` instead. A saved model contains the code of a lambda; prefer named functions.

    Args:
        function: Function of the inputs; `mask` and `training` are passed if it has these arguments.
        output_shape: Shape of the output without the batch axis, or a function of the input shape; inferred by default.
        mask: Mask of the output, or a function that returns it.
        arguments: Further keyword arguments of the function.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Lambda(lambda x: x ** 2)
    """

    _only_in_config = ("function_type", "module", "output_shape_type", "output_shape_module", "mask_type", "mask_module")

    def __init__(self, function: Callable, output_shape: Any = None, mask: Any = None, arguments: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.function = function
        self.arguments = arguments or {}
        if mask is not None:
            self.supports_masking = True
        self.mask = mask
        self._output_shape = output_shape
        self._made: dict[str, Any] = {}
        self._warned = False
        try:
            names: Any = inspect.signature(function).parameters
        except (TypeError, ValueError):
            names = {}
        self._takes = [n for n in ("mask", "training") if n in names]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The given shape, or that of a call on placeholders."""
        if self._output_shape is None:
            with context.enter(None):
                try:
                    return super().compute_output_shape(input_shape)
                except NotImplementedError:
                    raise NotImplementedError("We could not automatically infer the shape of the Lambda's output. Please "
                                              "specify `output_shape` for this Lambda.") from None
        if callable(self._output_shape):
            return _shapes(self._output_shape(input_shape))
        batch = None
        if input_shape is not None:
            first = nest.flatten(_shapes(input_shape))[0]
            batch = first.as_list()[0] if first.rank else None
        return nest.map_structure(lambda s: tf.TensorShape([batch, *s.as_list()]), _shapes(self._output_shape))

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """The function; variables that it creates belong to the layer, and are created once."""
        arguments = dict(self.arguments)
        for name, value in (("mask", mask), ("training", training)):
            if name in self._takes:
                arguments[name] = value
        if not context.process.eager:
            with tf.variable_creator_scope(self._variable_creator):
                return self.function(inputs, **arguments)
        return self._checked(inputs, arguments)

    def _checked(self, inputs: Any, arguments: dict[str, Any]) -> Any:
        """The function, which in 2.x may not create variables; the first call warns of those that it only reads."""
        made: list = []

        def created(next_creator: Callable, **kwargs: Any) -> Any:
            made.append(next_creator(**kwargs))
            return made[-1]
        watching = contextlib.nullcontext() if self._warned else tf.GradientTape()
        with watching as tape, tf.variable_creator_scope(created):
            result = self.function(inputs, **arguments)
        own = {id(v) for v in self.weights} if made or tape is not None else ()
        if any(id(v) not in own for v in made):
            raise ValueError(_CREATED.format(name=self.name, variables=_lines(v for v in made if id(v) not in own)))
        if tape is not None:
            self._warned = True
            used = [v for v in tape.watched_variables() if id(v) not in own]
            if used:
                self._warn(_USED.format(name=self.name, variables=_lines(used)))
        return result

    def _warn(self, message: str) -> None:
        warnings.warn(message, stacklevel=2)

    def _variable_creator(self, next_creator: Callable, **kwargs: Any) -> Any:
        name = kwargs["name"]
        if name in self._made:
            return self._made[name]
        made = self._made[name] = next_creator(**kwargs)
        (self._trainable_weights if made.trainable else self._non_trainable_weights).append(made)
        K.track_variable(made)
        return made

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The `mask` argument of the layer, called if it is a function."""
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    # -- configurations ---------------------------------------------------------------------------------------------------
    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer; functions as code."""
        config = super().get_config()
        config["function"], config["function_type"], config["module"] = _dumped(self.function)
        shape = (self._output_shape, "raw", None) if not callable(self._output_shape) else _dumped(self._output_shape)
        config["output_shape"], config["output_shape_type"], config["output_shape_module"] = shape
        if self.mask is not None:
            config["mask"], config["mask_type"], config["mask_module"] = _dumped(self.mask)
        config["arguments"] = self.arguments
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Lambda:
        """The layer of a configuration."""
        config = dict(config)
        for name, module in (("function", "module"), ("output_shape", "output_shape_module"), ("mask", "mask_module")):
            if name in config:
                kind, source = config.pop(f"{name}_type", "raw"), config.pop(module, None)
                config[name] = _loaded(*_of_keras3(config[name], kind), source, custom_objects)
        if not callable(config.get("function")):
            raise ValueError("The configuration of a Lambda layer has no function.")
        arguments = {k: np.array(v["value"]) if isinstance(v, dict) and v.get("type") == "ndarray" else v
                     for k, v in (config.get("arguments") or {}).items()}
        return cls(**{**config, "arguments": arguments})


def _lines(variables: Any) -> str:
    return "\n".join(f"  {v}" for v in variables)


def _dumped(function: Any) -> tuple:
    """A function in a configuration: what, of which kind, from which module."""
    if inspect.isfunction(function):
        return func_dump(function), "lambda", function.__module__
    if callable(function):
        return function.__name__, "function", function.__module__
    raise ValueError(f"Invalid input for serialization, type: {type(function)} ")


def _of_keras3(value: Any, kind: str) -> tuple[Any, str]:
    """A function and its kind, also as Keras 3 and the `.keras` files of tf_keras have them."""
    if isinstance(value, dict) and value.get("class_name") == "__lambda__" and isinstance(value.get("config"), dict):
        code = value["config"]
        value, kind = code["value"] if "value" in code else [code.get(k) for k in ("code", "defaults", "closure")], "lambda"
    if isinstance(value, dict) and value.get("class_name") == "__tuple__":
        value = value.get("items", value.get("config"))
    return value, kind


def _loaded(value: Any, kind: str, module: Any, custom_objects: Any) -> Any:
    if kind == "raw":
        return value
    if kind == "function":
        return deserialize_keras_object(value, {}, custom_objects, "function in Lambda layer")
    if kind != "lambda":
        raise TypeError(f"Unknown function type: {kind}")
    names: dict[str, Any] = {}
    if module in sys.modules:
        names.update(sys.modules[module].__dict__)
    elif module is not None:
        warnings.warn(f"{module} is used by a Lambda layer and is not loaded; the layer may fail.", UserWarning)
    names.update(custom_objects or {})
    return func_load(value, globs=names)

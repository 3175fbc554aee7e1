"""Premade models: LinearModel, WideDeepModel."""
from __future__ import annotations

from typing import Any

import penstock
from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.models.keras import activations, initializers, regularizers
from penstock._src.models.keras.engine.data_adapter import unpack_x_y_sample_weight
from penstock._src.models.keras.engine.training import Model
from penstock._src.models.keras.layers.serialization import deserialize
from penstock._src.models.keras.utils.object_config import serialize_keras_object
from penstock.compat import v1 as tf
from penstock.keras import layers as L


@export("keras.experimental.LinearModel", "keras.models.LinearModel")
class LinearModel(Model):
    """The sum of linear functions of all inputs, and a bias.

    >>> model = tf.keras.experimental.LinearModel(); model.compile("sgd", "mse"); model.fit(x, y)
    """

    def __init__(self, units: int = 1, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "zeros",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.units, self.activation, self.use_bias = units, activations.get(activation), use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)

    def build(self, input_shape: Any) -> None:
        """Makes a layer for each input."""
        shapes = input_shape if isinstance(input_shape, (list, tuple)) else ()
        several = any(isinstance(s, (list, tuple, tf.TensorShape)) for s in shapes)
        names = sorted(input_shape) if isinstance(input_shape, dict) else [None] * (len(shapes) if several else 1)
        self.dense_layers = [L.Dense(self.units, use_bias=False, kernel_initializer=self.kernel_initializer,
                                     kernel_regularizer=self.kernel_regularizer, name=name) for name in names]
        self.bias = self.add_weight("bias", shape=self.units, initializer=self.bias_initializer,
                                    regularizer=self.bias_regularizer) if self.use_bias else None
        self.built = True

    def call(self, inputs: Any) -> Any:                                       # type: ignore[override]
        """The sum."""
        parts = [inputs[name] for name in sorted(inputs)] if isinstance(inputs, dict) else nest.flatten(inputs)
        total = tf.add_n([layer(part) for layer, part in zip(self.dense_layers, parts)])
        if self.bias is not None:
            total = tf.nn.bias_add(total, self.bias)
        return total if self.activation is None else self.activation(total)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the model again."""
        return {"name": self.name, "units": self.units, "activation": activations.serialize(self.activation),
                "use_bias": self.use_bias, "kernel_initializer": initializers.serialize(self.kernel_initializer),
                "bias_initializer": initializers.serialize(self.bias_initializer),
                "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
                "bias_regularizer": regularizers.serialize(self.bias_regularizer)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The model of a configuration."""
        return cls(**config)


@export("keras.experimental.WideDeepModel", "keras.models.WideDeepModel")
class WideDeepModel(Model):
    """A linear model and a deep one, added up; each may have its own optimizer.

    >>> model = tf.keras.experimental.WideDeepModel(tf.keras.experimental.LinearModel(), deep)
    >>> model.compile(["ftrl", "adam"], "mse"); model.fit([x_linear, x_deep], y)
    """

    def __init__(self, linear_model: Any, dnn_model: Any, activation: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.linear_model, self.dnn_model = linear_model, dnn_model
        self.activation = activations.get(activation)

    def call(self, inputs: Any, training: Any = None) -> Any:                 # type: ignore[override]
        """The sum of the outputs of both models; the inputs are a pair, or one input for both."""
        pair = isinstance(inputs, (list, tuple)) and len(inputs) == 2
        wide, deep = inputs if pair else (inputs, inputs)
        total = tf.add(self.linear_model(wide), self.dnn_model(deep, training=training))
        return total if self.activation is None else self.activation(total)

    def train_step(self, data: Any) -> Any:
        """One step, in which each part is updated by its own optimizer."""
        optimizers = self.optimizer
        if not isinstance(optimizers, (list, tuple)):
            return super().train_step(data)
        x, y, weight = unpack_x_y_sample_weight(data)
        with penstock.GradientTape() as tape:
            loss = self.compiled_loss(y, predicted := self(x, training=True), weight, regularization_losses=self.losses)
        wide, deep = self.linear_model.trainable_variables, self.dnn_model.trainable_variables
        grads = tape.gradient(loss, [*wide, *deep])
        optimizers[0].apply_gradients(zip(grads[:len(wide)], wide))
        optimizers[1].apply_gradients(zip(grads[len(wide):], deep))
        self.compiled_metrics.update_state(y, predicted, weight)
        return {m.name: m.result() for m in self.metrics}

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the model again."""
        parts = {name: serialize_keras_object(part)
                 for name, part in (("linear_model", self.linear_model), ("dnn_model", self.dnn_model))}
        return {"name": self.name, "activation": activations.serialize(self.activation), **parts}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The model of a configuration."""
        config = dict(config)
        linear, deep = (deserialize(config.pop(name), custom_objects) for name in ("linear_model", "dnn_model"))
        return cls(linear, deep, activations.deserialize(config.pop("activation", None), custom_objects), **config)

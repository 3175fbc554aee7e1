"""Layers around other layers: TimeDistributed, Bidirectional."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import dims_of
from penstock._src.models.keras.layers.recurrent import _standardized
from penstock._src.models.keras.layers.serialization import deserialize
from penstock._src.models.keras.utils.generic_utils import has_arg
from penstock._src.models.keras.utils.object_config import serialize_keras_object
from penstock.compat import v1 as tf


@export("keras.layers.Wrapper")
class Wrapper(Layer):
    """The base of layers that have another one inside."""

    def __init__(self, layer: Any, **kwargs: Any):
        if not isinstance(layer, Layer):
            raise ValueError(f"Please initialize `{type(self).__name__}` layer with a `tf.keras.layers.Layer` instance. "
                             f"Received: {layer}")
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        """Builds the wrapped layer."""
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        super().build(input_shape)

    @property
    def activity_regularizer(self) -> Any:
        """That of the wrapped layer."""
        layer = self.__dict__.get("layer")
        return getattr(layer, "activity_regularizer", None)

    @activity_regularizer.setter
    def activity_regularizer(self, value: Any) -> None:
        self._activity_regularizer = value

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "layer": serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer of a configuration."""
        config = dict(config)
        layer = deserialize(config.pop("layer"), custom_objects=custom_objects)
        return cls(layer, **config)


@export("keras.layers.TimeDistributed")
class TimeDistributed(Wrapper):
    """A layer on each time step: all steps in one batch, unless the layer has a state or is not one of ours.

    Args:
        layer: Layer that each step goes through.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> layer = tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(8))
    >>> layer(tf.ones([2, 5, 3])).shape
    TensorShape([2, 5, 8])
    """

    def __init__(self, layer: Any, **kwargs: Any):
        super().__init__(layer, **kwargs)
        self.supports_masking = True
        builtin = type(layer).__module__.startswith("penstock.")
        self._always_use_reshape = builtin and not getattr(layer, "stateful", False)

    def build(self, input_shape: Any = None) -> None:
        """Builds the wrapped layer for one time step."""
        shapes = nest.map_structure(tf.TensorShape, _shapes(input_shape))
        for shape in nest.flatten(shapes):
            if shape.rank is not None and shape.rank < 3:
                raise ValueError("`TimeDistributed` Layer should be passed an `input_shape ` with at least 3 dimensions, "
                                 f"received: {dims_of(shape)}")
        self.input_spec = nest.map_structure(lambda s: InputSpec(shape=(None, None, *dims_of(s)[2:])), shapes)
        if not self.layer.built:
            self.layer.build(_step_shapes(input_shape))
            self.layer.built = True
        Layer.build(self, input_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shapes of the layer's outputs, with the time axis."""
        steps = dims_of(nest.flatten(_shapes(input_shape))[0])[1]

        def with_steps(shape: Any) -> Any:
            out = dims_of(shape)
            return tf.TensorShape([out[0], steps, *out[1:]])
        return nest.map_structure(with_steps, _shapes(self.layer.compute_output_shape(_step_shapes(input_shape))))

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """The layer's outputs for all time steps."""
        more = {"training": training} if has_arg(self.layer.call, "training") else {}
        if isinstance(inputs, tf.RaggedTensor):
            return inputs.with_values(self.layer(inputs.values, **more))
        first = nest.flatten(inputs)[0]
        if K.int_shape(first)[0] and not self._always_use_reshape:
            _, outputs, _ = K.rnn(lambda x, _: (self.layer(x, **more), []), inputs, initial_states=[], unroll=False)
            return outputs
        if mask is not None and has_arg(self.layer.call, "mask"):
            more["mask"] = nest.map_structure(_flat, mask)
        outputs = self.layer(nest.map_structure(_flat, inputs), **more)
        return nest.map_structure(lambda o: _with_steps(o, K.mixed_shape(first)[1]), outputs)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the layer's outputs, or that of the time steps."""
        if isinstance(inputs, tf.RaggedTensor):
            return mask
        first = nest.flatten(inputs)[0]
        if K.int_shape(first)[0] and not self._always_use_reshape:
            return mask
        out = self.layer.compute_mask(nest.map_structure(_flat, inputs), nest.map_structure(_flat, mask))
        if out is not None:
            return nest.map_structure(lambda m: None if m is None else _with_steps(m, K.mixed_shape(first)[1]), out)
        return nest.map_structure(_any_of_step, mask)


def _shapes(given: Any) -> Any:
    """Shapes as TensorShapes, one for each input or output."""
    if given is None or isinstance(given, tf.TensorShape) or isinstance(given, (list, tuple)) and \
            all(d is None or hasattr(d, "__index__") or hasattr(d, "value") for d in given):
        return tf.TensorShape(given)
    return {k: _shapes(v) for k, v in given.items()} if isinstance(given, dict) else type(given)(map(_shapes, given))


def _step_shapes(given: Any) -> Any:
    """The shapes of one time step."""
    return nest.map_structure(lambda s: tf.TensorShape([dims_of(s)[0], *dims_of(s)[2:]]), _shapes(given))


def _flat(x: Any) -> Any:
    """All time steps in one batch."""
    return None if x is None else tf.reshape(x, [-1, *K.mixed_shape(x)[2:]])


def _with_steps(x: Any, steps: Any) -> Any:
    """The time axis again."""
    return tf.reshape(x, [-1, steps, *K.mixed_shape(x)[1:]])


def _any_of_step(mask: Any) -> Any:
    """Whether anything of a time step counts."""
    for _ in range(2, 0 if mask is None else len(mask.shape)):
        mask = tf.reduce_any(mask, axis=-1)
    return mask


@export("keras.layers.Bidirectional")
class Bidirectional(Wrapper):
    """A recurrent layer and a copy that runs backwards; their outputs are concatenated, or merged in another way.

    Inputs are [batch, time, features].

    Args:
        layer: Recurrent layer for the forward direction.
        merge_mode: `"concat"`, `"sum"`, `"mul"`, `"ave"`, or None to return both outputs.
        weights: Initial weights of both directions.
        backward_layer: Recurrent layer for the other direction, by default a copy of `layer`.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(32), merge_mode="sum")
    """

    def __init__(self, layer: Any, merge_mode: Any = "concat", weights: Any = None, backward_layer: Any = None, **kwargs: Any):
        if not isinstance(layer, Layer):
            raise ValueError(f"Please initialize `Bidirectional` layer with a `Layer` instance. You passed: {layer}")
        if backward_layer is not None and not isinstance(backward_layer, Layer):
            raise ValueError(f"`backward_layer` need to be a `Layer` instance. You passed: {backward_layer}")
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(f"Invalid merge mode. Received: {merge_mode}. Merge mode should be one of "
                             '{"sum", "mul", "ave", "concat", None}')
        self._first(layer, kwargs)
        self.forward_layer = _recreated(layer)
        if backward_layer is None:
            self.backward_layer = _recreated(layer, go_backwards=True)
        else:
            self.backward_layer = backward_layer
            self._backward_config: Any = serialize_keras_object(backward_layer)
        self.forward_layer._name = f"forward_{self.forward_layer.name}"
        self.backward_layer._name = f"backward_{self.backward_layer.name}"
        self._check_layers()
        for one in (self.forward_layer, self.backward_layer):
            if getattr(one, "zero_output_for_mask", None) is not None:
                one.zero_output_for_mask = one.return_sequences           # so that both ends can be added up
        self.merge_mode = merge_mode
        if weights:
            half = len(weights) // 2
            self.forward_layer._initial_weights = weights[:half]
            self.backward_layer._initial_weights = weights[half:]
        self.stateful = layer.stateful
        self.return_sequences, self.return_state = (getattr(layer, n) for n in ("return_sequences", "return_state"))
        self.supports_masking = True
        self._num_constants = 0
        self.input_spec = layer.input_spec

    @no_automatic_dependency_tracking
    def _first(self, layer: Any, kwargs: dict[str, Any]) -> None:
        """The layer itself is a model for the two, and has no further weights here."""
        super().__init__(layer, **kwargs)

    def _check_layers(self) -> None:
        if self.forward_layer.go_backwards == self.backward_layer.go_backwards:
            raise ValueError("Forward layer and backward layer should have different `go_backwards` value.")
        for a in ("stateful", "return_sequences", "return_state"):
            one, other = getattr(self.forward_layer, a), getattr(self.backward_layer, a)
            if one != other:
                raise ValueError(f"Forward layer and backward layer are expected to have the same value for attribute {a}, got "
                                 f"{one} and {other}")

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the merged outputs, and of the states if they are returned."""
        shapes = self.forward_layer.compute_output_shape(input_shape)
        states: list = []
        if self.return_state:
            states, shapes = list(shapes[1:]), shapes[0]
        dims = dims_of(shapes)
        if self.merge_mode == "concat":
            dims = [*dims[:-1], dims[-1] * 2]
        output = tf.TensorShape(dims)
        outputs = [output, output] if self.merge_mode is None else [output]
        if self.return_state:
            return outputs + states + list(states)
        return outputs if self.merge_mode is None else output

    def __call__(self, inputs: Any, initial_state: Any = None,               # type: ignore[override]
                 constants: Any = None, **kwargs: Any) -> Any:
        inputs, initial_state, constants = _standardized(inputs, initial_state, constants, self._num_constants)
        if initial_state is None and constants is None:
            return super().__call__(inputs, **kwargs)
        more, specs = [], []
        if initial_state is not None:
            n = len(initial_state)
            if n % 2:
                raise ValueError("When passing `initial_state` to a Bidirectional RNN, the state should be a list containing "
                                 f"the states of the underlying RNNs. Found: {initial_state}")
            more += initial_state
            found = [InputSpec(shape=K.int_shape(s)) for s in initial_state]
            self.forward_layer._set_state_spec(found[:n // 2])
            self.backward_layer._set_state_spec(found[n // 2:])
            specs += found
        if constants is not None:
            more += constants
            found = [InputSpec(shape=K.int_shape(c)) for c in constants]
            for one in (self.forward_layer, self.backward_layer):
                one._set_constants(found)
            self._num_constants = len(constants)
            specs += found
        symbolic = K.is_keras_tensor(more[0])
        if any(K.is_keras_tensor(t) != symbolic for t in more):
            raise ValueError("The initial state of a Bidirectional layer cannot be specified with a mix of Keras tensors and "
                             'non-Keras tensors (a "Keras tensor" is a tensor that was returned by a Keras layer, or by '
                             "`Input`)")
        if not symbolic:
            kwargs.update(initial_state=initial_state, constants=constants)
            return super().__call__(inputs, **kwargs)
        before = self.input_spec
        self.input_spec = [None] * len(nest.flatten(inputs)) + specs
        output = super().__call__([inputs, *more], **kwargs)
        self.input_spec = before
        return output

    def call(self, inputs: Any, training: Any = None, mask: Any = None, initial_state: Any = None,
             constants: Any = None) -> Any:
        """The merged outputs of both directions, and the states if requested."""
        more: dict[str, Any] = {}
        for name, value in (("training", training), ("mask", mask), ("constants", constants)):
            if has_arg(self.forward_layer.call, name):
                more[name] = value
        forward_inputs, backward_inputs = inputs, inputs
        forward_state = backward_state = None
        if isinstance(inputs, list) and len(inputs) > 1:
            n = self._num_constants
            rest, given = (inputs[1:-n], inputs[-n:]) if n else (inputs[1:], [])
            half = len(rest) // 2
            forward_inputs, backward_inputs = [inputs[0], *rest[:half], *given], [inputs[0], *rest[half:], *given]
            more.pop("constants", None)
        elif initial_state is not None:
            half = len(initial_state) // 2
            forward_state, backward_state = initial_state[:half], initial_state[half:]
        if has_arg(self.forward_layer.call, "initial_state"):
            y = self.forward_layer(forward_inputs, initial_state=forward_state, **more)
            back = self.backward_layer(backward_inputs, initial_state=backward_state, **more)
        else:
            y, back = self.forward_layer(forward_inputs, **more), self.backward_layer(backward_inputs, **more)
        states: list = []
        if self.return_state:
            states = list(y[1:]) + list(back[1:])
            y, back = y[0], back[0]
        if self.return_sequences:
            back = tf.reverse(back, [0 if getattr(self.forward_layer, "time_major", False) else 1])
        output = self._merged(y, back)
        if self.return_state:
            return (output if self.merge_mode is None else [output]) + states
        return output

    def _merged(self, y: Any, back: Any) -> Any:
        if self.merge_mode == "concat":
            return tf.concat([y, back], -1)
        if self.merge_mode == "sum":
            return y + back
        if self.merge_mode == "ave":
            return (y + back) / 2
        return y * back if self.merge_mode == "mul" else [y, back]

    def reset_states(self, states: Any = None) -> None:
        """Sets the states of both directions: to zeros, or to the first and the second half of those given."""
        half = 0 if states is None else len(states) // 2
        self.forward_layer.reset_states(states and states[:half])
        self.backward_layer.reset_states(states and states[half:])

    def build(self, input_shape: Any = None) -> None:
        """Builds both directions."""
        for one in (self.forward_layer, self.backward_layer):
            with tf.name_scope(one.name):
                one.build(input_shape)
                one.built = True
        Layer.build(self, input_shape)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the inputs, if all steps are returned."""
        mask = mask[0] if isinstance(mask, list) else mask
        own = mask if self.return_sequences else None
        found = own if self.merge_mode else [own, own]
        if not self.return_state:
            return found
        return (found if isinstance(found, list) else [found]) + [None for _ in self.forward_layer.states] * 2

    @property
    def constraints(self) -> dict:
        """The constraints of both directions, where they say them."""
        found: dict = {}
        for one in (self.forward_layer, self.backward_layer):
            found.update(getattr(one, "constraints", {}))
        return found

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = {**super().get_config(), "merge_mode": self.merge_mode}
        if self._num_constants:
            config["num_constants"] = self._num_constants
        if hasattr(self, "_backward_config"):
            config["backward_layer"] = dict(self._backward_config)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer of a configuration."""
        config = dict(config)
        n = config.pop("num_constants", 0)
        backward = config.pop("backward_layer", None)
        if backward is not None:
            config["backward_layer"] = deserialize(backward, custom_objects=custom_objects)
        layer = super().from_config(config, custom_objects=custom_objects)
        layer._num_constants = n
        return layer


def _recreated(layer: Any, go_backwards: bool = False) -> Any:
    """A new layer of the same configuration, in the other direction if wanted."""
    config = layer.get_config()
    if go_backwards:
        config["go_backwards"] = not config["go_backwards"]
    if "custom_objects" not in inspect.signature(type(layer).from_config).parameters:
        return type(layer).from_config(config)
    cell = getattr(layer, "cell", None)
    known = {type(c).__name__: type(c) for c in (cell, *getattr(cell, "cells", ())) if c is not None}
    return type(layer).from_config(config, custom_objects=known)

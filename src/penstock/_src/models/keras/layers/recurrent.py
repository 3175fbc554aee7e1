"""RNN: a cell over the time axis; and stacked cells.

A cell has `call(inputs at t, states at t) -> (output, new states)` and a `state_size`. RNN does everything else: initial
states, masks, constants, states that are kept between batches. Cells that can project the inputs of all time steps at once
define `project` (see `rnn_cells.py`): then the loop only computes what depends on the states.
"""
from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.scopes import init_scope
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import user_code
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import described
from penstock._src.models.keras.layers.serialization import deserialize
from penstock._src.models.keras.utils.generic_utils import has_arg, to_list
from penstock._src.models.keras.utils.object_config import serialize_keras_object
from penstock.compat import v1 as tf


def _scope_of(cell: Any) -> Any:
    """Where the names of a cell's weights are: below the cell in 2.x, in the layer around it in 1.x."""
    return tf.name_scope(cell.name) if context.eager_outside_functions() else contextlib.nullcontext()


def is_multiple(state_size: Any) -> bool:
    """Whether a cell has several states."""
    return hasattr(state_size, "__len__") and not isinstance(state_size, tf.TensorShape)


def dims(size: Any) -> list:
    """A size (a number or a shape) as a list of dimensions."""
    if isinstance(size, (int, np.integer)):
        return [int(size)]
    return tf.TensorShape(size).as_list()


def _is_shape(value: Any) -> bool:
    """Whether a list or tuple is a shape, and not a list of shapes."""
    return isinstance(value, tf.TensorShape) or isinstance(value, (list, tuple)) and all(
        d is None or isinstance(d, (int, np.integer)) or hasattr(d, "value") for d in value)


def _map_shapes(f: Any, shapes: Any) -> Any:
    """`f` of each shape in a structure."""
    if _is_shape(shapes):
        return f(tf.TensorShape(shapes).as_list())
    if isinstance(shapes, dict):
        return {k: _map_shapes(f, v) for k, v in shapes.items()}
    if hasattr(shapes, "_fields"):
        return type(shapes)(*(_map_shapes(f, v) for v in shapes))
    return type(shapes)(_map_shapes(f, v) for v in shapes)


def _flat_shapes(shapes: Any) -> list:
    found: list = []
    _map_shapes(found.append, shapes)
    return found


def zero_state(batch_size: Any, state_size: Any, dtype: Any) -> Any:
    """Zero states, in the structure of `state_size`."""
    if batch_size is None or dtype is None:
        raise ValueError("batch_size and dtype cannot be None while constructing initial state: "
                         f"batch_size={batch_size}, dtype={dtype}")

    def zeros(size: Any) -> Any:
        return tf.zeros([batch_size, *dims(size)], dtype=dtype)
    return nest.map_structure(zeros, state_size) if nest.is_nested(state_size) else zeros(state_size)


def zero_state_of(cell: Any, inputs: Any, batch_size: Any, dtype: Any) -> Any:
    """Zero states for a cell and a batch of inputs."""
    if inputs is not None:
        batch_size, dtype = tf.shape(inputs)[0], inputs.dtype
    return zero_state(batch_size, cell.state_size, dtype)


def output_size_of(cell: Any) -> Any:
    """The size of a cell's output: `output_size`, or that of its first state."""
    if getattr(cell, "output_size", None) is not None:
        return cell.output_size
    return cell.state_size[0] if is_multiple(cell.state_size) else cell.state_size


def _check_cell(cell: Any) -> None:
    if not hasattr(cell, "call"):
        raise ValueError(f"The cell of an RNN needs a `call` method, got {cell}")
    if not hasattr(cell, "state_size"):
        raise ValueError("The cell has no `state_size`: an integer for each state.")


@export("keras.layers.AbstractRNNCell")
class AbstractRNNCell(Layer):
    """The base of custom cells: `state_size`, `output_size` and `call` are to be defined."""

    def call(self, inputs: Any, states: Any) -> Any:
        """The output and the new states."""
        raise NotImplementedError("Abstract method")

    @property
    def state_size(self) -> Any:
        """The size of the state, or of each of several."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        raise NotImplementedError("Abstract method")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zero states."""
        return zero_state_of(self, inputs, batch_size, dtype)


@export("keras.layers.StackedRNNCells")
class StackedRNNCells(Layer):
    """Several recurrent cells as one cell: the output of each is the input of the next.

    Args:
        cells: The cells, the first one nearest to the input.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> cells = tf.keras.layers.StackedRNNCells([tf.keras.layers.LSTMCell(4), tf.keras.layers.LSTMCell(3)])
    >>> tf.keras.layers.RNN(cells)(tf.ones([2, 5, 1])).shape
    TensorShape([2, 3])
    """

    def __init__(self, cells: Any, **kwargs: Any):
        for cell in cells:
            if not hasattr(cell, "call"):
                raise ValueError(f"All cells must have a `call` method. received cells: {cells}")
            if not hasattr(cell, "state_size"):
                raise ValueError(f"All cells must have a `state_size` attribute. received cells: {cells}")
        reverse = kwargs.pop("reverse_state_order", False)
        super().__init__(**kwargs)
        self.cells = cells
        self.reverse_state_order = reverse
        if reverse:
            logging.warning("reverse_state_order=True in StackedRNNCells will soon be deprecated. Please update the code to "
                            "work with the natural order of states if you rely on the RNN states, eg RNN(return_state=True).")

    def _in_order(self) -> Any:
        """The cells in the order of their states."""
        return list(self.cells)[::-1] if self.reverse_state_order else list(self.cells)

    @property
    def state_size(self) -> tuple:
        """The sizes of the states of each cell."""
        return tuple(c.state_size for c in self._in_order())

    @property
    def output_size(self) -> Any:
        """The size of the output of the last cell."""
        return output_size_of(self.cells[-1])

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> tuple:
        """The initial states of each cell."""
        def of(cell: Any) -> Any:
            make = getattr(cell, "get_initial_state", None)
            if make is not None:
                return make(inputs=inputs, batch_size=batch_size, dtype=dtype)
            return zero_state_of(cell, inputs, batch_size, dtype)
        return tuple(of(c) for c in self._in_order())

    def call(self, inputs: Any, states: Any, constants: Any = None, **kwargs: Any) -> tuple:
        """The output of the last cell, and the new states of all."""
        sizes = self.state_size[::-1] if self.reverse_state_order else self.state_size
        nested = nest.pack_sequence_as(sizes, nest.flatten(states))
        new: list = []
        for cell, own in zip(self.cells, nested):
            own = own if nest.is_nested(own) else [own]
            if len(own) == 1 and getattr(cell, "_is_tf_rnn_cell", None) is not None:
                own = own[0]
            more = {k: v for k, v in kwargs.items() if has_arg(cell.call, k, accept_all=True)}
            if has_arg(cell.call, "constants"):
                more["constants"] = constants
            inputs, own = cell.call(inputs, own, **more)
            new.append(own)
        return inputs, nest.pack_sequence_as(sizes, nest.flatten(new))

    def build(self, input_shape: Any) -> None:
        """Builds the cells, each for the output of the one below."""
        if isinstance(input_shape, list) and not _is_shape(input_shape):
            input_shape = input_shape[0]
        shape = input_shape
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                with _scope_of(cell):
                    cell.build(shape)
                cell.built = True
            batch = _flat_shapes(shape)[0][0]
            shape = tuple([batch, *dims(output_size_of(cell))])
        super().build(input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        cells = [serialize_keras_object(c) for c in self.cells]
        config = {**super().get_config(), "cells": cells}
        return {**config, "reverse_state_order": True} if self.reverse_state_order else config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> StackedRNNCells:
        """The cells of a configuration."""
        config = dict(config)
        cells = [deserialize(c, custom_objects=custom_objects) for c in config.pop("cells")]
        return cls(cells, **config)


def of_cell(name: str) -> property:
    """A property of a layer: the attribute of its cell."""
    return property(lambda self: getattr(self.cell, name), doc=f"`{name}` of the cell.")


@export("keras.layers.RNN")
class RNN(Layer):
    """A cell over the time axis of its inputs.

    Inputs are [batch, time, ...] and may be masked. A call takes `initial_state`, and `constants` for the cell.

    Args:
        cell: Cell with `call(inputs, states) -> (output, new states)` and `state_size`; a list is stacked.
        return_sequences: Whether to return the outputs of all steps instead of the last one.
        return_state: Whether to return the final states after the output.
        go_backwards: Whether to process the sequence from its end, and return it reversed.
        stateful: Whether the final states of a batch are the initial states of the next one; needs a fixed batch size.
        unroll: Whether to unroll the loop; faster for short sequences, and needs a fixed number of steps.
        time_major: Whether inputs and outputs are [time, batch, ...].
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> layer = tf.keras.layers.RNN([tf.keras.layers.LSTMCell(32), tf.keras.layers.LSTMCell(32)], return_sequences=True)
    """

    def __init__(self, cell: Any, return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False,
                 stateful: bool = False, unroll: bool = False, time_major: bool = False, **kwargs: Any):
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell)
        _check_cell(cell)
        zero_output_for_mask = kwargs.pop("zero_output_for_mask", False)
        if "input_shape" not in kwargs and ("input_dim" in kwargs or "input_length" in kwargs):
            kwargs["input_shape"] = (kwargs.pop("input_length", None), kwargs.pop("input_dim", None))
        super().__init__(**kwargs)
        self.zero_output_for_mask = zero_output_for_mask
        self._set_cell(cell)
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful, self.unroll, self.time_major = go_backwards, stateful, unroll, time_major
        self.supports_masking = True
        self.input_spec = None
        self.state_spec: Any = None
        self._states: Any = None
        self.constants_spec: Any = None
        self._num_constants = 0

    def _set_cell(self, cell: Any) -> None:
        self.cell = cell

    @property
    def states(self) -> Any:
        """The states that last from batch to batch; None for each, where there are none yet."""
        if self._states is None:
            empty = nest.map_structure(lambda _: None, self.cell.state_size)
            return empty if nest.is_nested(self.cell.state_size) else [empty]
        return self._states

    @states.setter
    @no_automatic_dependency_tracking
    def states(self, states: Any) -> None:
        self._states = states

    def _sizes(self) -> Any:
        size = self.cell.state_size
        return list(size) if is_multiple(size) else [size]

    # -- shapes and masks -------------------------------------------------------------------------------------------------
    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output, and of the states if they are returned."""
        first = _flat_shapes(input_shape)[0]
        batch, steps = (first[1], first[0]) if self.time_major else (first[0], first[1])

        def shape(size: Any) -> Any:
            around = ([steps, batch] if self.time_major else [batch, steps]) if self.return_sequences else [batch]
            return tf.TensorShape([*around, *dims(size)])
        output = output_size_of(self.cell)
        outputs = nest.flatten(nest.map_structure(shape, output)) if nest.is_nested(output) and not _is_shape(output) \
            else [shape(output)]
        result = outputs[0] if len(outputs) == 1 else outputs
        if not self.return_state:
            return result
        states = [tf.TensorShape([batch, *dims(s)]) for s in nest.flatten(self._sizes())]
        return to_list(result) + states

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the inputs, if all steps are returned."""
        mask = nest.flatten(mask)[0]
        own = mask if self.return_sequences else None
        return [own] + [None for _ in self.states] if self.return_state else own

    # -- building ---------------------------------------------------------------------------------------------------------
    def build(self, input_shape: Any) -> None:
        """Builds the cell for one time step of the inputs."""
        if isinstance(input_shape, list) and not _is_shape(input_shape):
            input_shape = input_shape[0]
        batch_axis, time_axis = (1, 0) if self.time_major else (0, 1)

        def spec(shape: list) -> InputSpec:
            known = list(shape)
            if not self.stateful:
                known[batch_axis] = None
            known[time_axis] = None
            return InputSpec(shape=tuple(known))
        specs = _map_shapes(spec, input_shape)
        if self.input_spec is not None:
            self.input_spec[0] = specs
        else:
            self.input_spec = to_list(specs)
        step = _map_shapes(lambda s: tuple(s[1:]) if self.time_major else (s[0], *s[2:]), input_shape)
        if isinstance(self.cell, Layer) and not self.cell.built:
            with _scope_of(self.cell):
                self.cell.build(step)
            self.cell.built = True
        sizes = self._sizes()
        if self.state_spec is not None:
            self._validate_state_spec(sizes, self.state_spec)
        else:
            self._set_state_spec([InputSpec(shape=(None, *dims(s))) for s in nest.flatten(sizes)])
        if self.stateful:
            self.reset_states()
        super().build(input_shape)

    @no_automatic_dependency_tracking
    def _set_state_spec(self, spec: Any) -> None:
        self.state_spec = spec

    @staticmethod
    def _validate_state_spec(cell_state_sizes: Any, init_state_specs: Any) -> None:
        flat_sizes, flat_specs = nest.flatten(cell_state_sizes), nest.flatten(init_state_specs)
        if len(flat_sizes) == len(flat_specs) and all(
                tf.TensorShape(spec.shape[1:]).is_compatible_with(tf.TensorShape(dims(size)))
                for size, spec in zip(flat_sizes, flat_specs)):
            return
        raise ValueError("An `initial_state` was passed that is not compatible with `cell.state_size`. Received "
                         f"`state_spec`={init_state_specs}; however `cell.state_size` is {cell_state_sizes}")

    # -- calling ----------------------------------------------------------------------------------------------------------
    def get_initial_state(self, inputs: Any) -> list:
        """The states before the first step."""
        first = nest.flatten(inputs)[0]
        batch = K.mixed_shape(first)[1 if self.time_major else 0]
        make = getattr(self.cell, "get_initial_state", None)
        if make is not None:
            state = make(inputs=None, batch_size=batch, dtype=first.dtype)
        else:
            state = zero_state(batch, self.cell.state_size, first.dtype)
        return list(state) if nest.is_nested(state) else [state]

    def __call__(self, inputs: Any, initial_state: Any = None,               # type: ignore[override]
                 constants: Any = None, **kwargs: Any) -> Any:
        inputs, initial_state, constants = _standardized(inputs, initial_state, constants, self._num_constants)
        if initial_state is None and constants is None:
            return super().__call__(inputs, **kwargs)
        more, specs = [], []
        if initial_state is not None:
            more += initial_state
            self._set_state_spec(nest.map_structure(lambda s: InputSpec(shape=K.int_shape(s)), initial_state))
            specs += self.state_spec
        if constants is not None:
            more += constants
            self._set_constants([InputSpec(shape=K.int_shape(c)) for c in constants])
            specs += self.constants_spec
        flat = nest.flatten(more)
        symbolic = K.is_keras_tensor(flat[0])
        if any(K.is_keras_tensor(t) != symbolic for t in flat):
            raise ValueError("The initial state or constants of an RNN layer cannot be specified with a mix of Keras tensors "
                             'and non-Keras tensors (a "Keras tensor" is a tensor that was returned by a Keras layer, or by '
                             "`Input`)")
        if not symbolic:
            if initial_state is not None:
                kwargs["initial_state"] = initial_state
            if constants is not None:
                kwargs["constants"] = constants
            return super().__call__(inputs, **kwargs)
        self.input_spec = to_list(nest.map_structure(lambda _: None, inputs)) + specs
        output = super().__call__([inputs, *more], **kwargs)
        self.input_spec = self.input_spec[:-len(specs)]
        return output

    @no_automatic_dependency_tracking
    def _set_constants(self, specs: list) -> None:
        self.constants_spec, self._num_constants = specs, len(specs)

    def call(self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None,
             constants: Any = None) -> Any:
        """The outputs of the last step or of all, and the last states if requested."""
        mask = None if mask is None else nest.flatten(mask)[0]
        inputs, mask, lengths = self._padded(inputs, mask)
        inputs, initial_state, constants = self._process_inputs(inputs, initial_state, constants)
        self._check_unroll(inputs)
        if constants and not has_arg(self.cell.call, "constants"):
            raise ValueError("RNN cell does not support constants")
        self._reset_dropout()
        stacked = isinstance(self.cell, StackedRNNCells)
        more = {"training": training} if has_arg(self.cell.call, "training", accept_all=stacked) else {}
        n = self._num_constants
        single = getattr(self.cell, "_is_tf_rnn_cell", None) is not None

        def step(step_inputs: Any, states: Any) -> tuple:
            if constants:
                more["constants"] = states[-n:]
                states = states[:-n]
            if len(states) == 1 and single:
                states = states[0]
            output, new = self.cell.call(step_inputs, states, **more)
            return output, new if nest.is_nested(new) else [new]
        last, outputs, states = self._run(step, inputs, initial_state, mask, constants)
        return self._finished(last, outputs, states, lengths)

    def _padded(self, inputs: Any, mask: Any) -> tuple:
        """Ragged sequences as a dense tensor, with the mask of their steps and their lengths; others as they are."""
        first = inputs[0] if isinstance(inputs, list) and inputs else inputs
        if not isinstance(first, tf.RaggedTensor):
            return inputs, mask, None
        if mask is not None or self.unroll or self.time_major:
            raise ValueError(f"The layer {self.name} takes ragged sequences only without a mask, unrolling and time_major.")
        lengths, dense = first.row_lengths(), first.to_tensor()
        mask = tf.sequence_mask(lengths, tf.shape(dense)[1])
        return [dense, *inputs[1:]] if isinstance(inputs, list) else dense, mask, lengths

    def _ragged(self, outputs: Any, lengths: Any) -> Any:
        """The outputs of ragged sequences, of which steps beyond the lengths are dropped."""
        if self.go_backwards:                            # the padding comes first
            outputs = tf.reverse_sequence(tf.reverse(outputs, [1]), lengths, 1, 0)
        return tf.RaggedTensor.from_tensor(outputs, lengths=lengths)

    def _check_unroll(self, inputs: Any) -> None:
        steps = K.int_shape(nest.flatten(inputs)[0])[0 if self.time_major else 1]
        if self.unroll and steps is None:
            raise ValueError("Cannot unroll a RNN if the time dimension is undefined. \n- If using a Sequential model, specify "
                             "the time dimension by passing an `input_shape` or `batch_input_shape` argument to your first "
                             "layer. If your first layer is an Embedding, you can also use the `input_length` argument.\n- If "
                             "using the functional API, specify the time dimension by passing a `shape` or `batch_shape` "
                             "argument to your Input layer.")

    def _run(self, step: Any, inputs: Any, initial_state: Any, mask: Any, constants: Any = None) -> tuple:
        return K.rnn(step, inputs, initial_state, constants=constants, go_backwards=self.go_backwards, mask=mask,
                     unroll=self.unroll, time_major=self.time_major, zero_output_for_mask=self.zero_output_for_mask)

    def _finished(self, last: Any, outputs: Any, states: Any, lengths: Any = None) -> Any:
        """Stores the states of a stateful layer, and returns the requested results."""
        if self.stateful:
            self.add_update([tf.assign(old, new) for old, new in zip(nest.flatten(self.states), nest.flatten(states))])
        output = outputs if self.return_sequences else last
        if lengths is not None and self.return_sequences:
            output = nest.map_structure(lambda t: self._ragged(t, lengths), output)
        return to_list(output) + list(states) if self.return_state else output

    def _reset_dropout(self) -> None:
        """Resets the dropout masks of cells."""
        cells = self.cell.cells if isinstance(self.cell, StackedRNNCells) else [self.cell]
        for cell in cells:
            if hasattr(cell, "reset_dropout_mask"):
                cell.reset_dropout_mask()
                cell.reset_recurrent_dropout_mask()

    def _process_inputs(self, inputs: Any, initial_state: Any, constants: Any) -> tuple:
        """Splits a list of inputs: the sequence, then initial states, then constants."""
        if isinstance(inputs, list):
            n = self._num_constants
            initial_state = inputs[1:-n] if n else inputs[1:]
            constants = inputs[-n:] if n else constants
            if not initial_state:
                initial_state = None
            inputs = inputs[0]
        if initial_state is None:
            initial_state = list(self.states) if self.stateful else self.get_initial_state(inputs)
        elif self.stateful and _all_none(initial_state):
            initial_state = list(self.states)
        if len(initial_state) != len(self.states):
            raise ValueError(f"Layer has {len(self.states)} states but was passed {len(initial_state)} initial states.")
        return inputs, list(initial_state), constants

    # -- states that last -----------------------------------------------------------------------------------------------
    def _first_values(self, batch: int, states: list) -> list:
        """What states are reset to: zeros, or what a cell of the user says."""
        own = getattr(self.cell, "get_initial_state", None)
        if own is None or not user_code.is_users(type(self.cell)) or not context.eager_outside_functions():
            return [np.zeros(K.int_shape(s)) for s in states]
        with init_scope():
            return [K.get_value(v) for v in nest.flatten(own(inputs=None, batch_size=batch, dtype=self.dtype))]

    def reset_states(self, states: Any = None) -> None:
        """Sets the states that last from batch to batch, to zeros if none are given."""
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        spec = nest.flatten(self.input_spec)[0] if self.input_spec is not None else None
        batch = None if spec is None or spec.shape is None else spec.shape[1 if self.time_major else 0]
        if not batch:
            raise ValueError("If a RNN is stateful, it needs to know its batch size. Specify the batch size of your input "
                             "tensors: \n- If using a Sequential model, specify the batch size by passing a "
                             "`batch_input_shape` argument to your first layer.\n- If using the functional API, specify the "
                             "batch size by passing a `batch_shape` argument to your Input layer.")
        if nest.flatten(self.states)[0] is None:
            made = nest.map_structure(lambda size: K.zeros([batch, *dims(size)]), self.cell.state_size)
            self.states = made if nest.is_nested(made) else [made]
            if states is None and not user_code.is_users(type(self.cell)):
                return
        flat = nest.flatten(self.states)
        if states is None:
            K.batch_set_value(list(zip(flat, self._first_values(batch, flat), strict=True)))
            return
        given = nest.flatten(states)
        if len(given) != len(flat):
            raise ValueError(f"Layer {self.name} expects {len(flat)} states, but it received {len(given)} state values. Input "
                             f"received: {states}")
        pairs = []
        for i, (value, state) in enumerate(zip(given, flat)):
            value = K.get_value(value)
            if tuple(value.shape) != K.int_shape(state):
                raise ValueError(f"State {i} is incompatible with layer {self.name}: expected shape={K.int_shape(state)}, "
                                 f"found shape={value.shape}")
            pairs.append((state, value))
        K.batch_set_value(pairs)

    # -- description ------------------------------------------------------------------------------------------------------
    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), (
            "return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major"))
        if self._num_constants:
            config["num_constants"] = self._num_constants
        if self.zero_output_for_mask:
            config["zero_output_for_mask"] = self.zero_output_for_mask
        config["cell"] = serialize_keras_object(self.cell)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer of a configuration."""
        config = dict(config)
        cell = deserialize(config.pop("cell"), custom_objects=custom_objects)
        n = config.pop("num_constants", 0)
        layer = cls(cell, **config)
        layer._num_constants = n
        return layer


def _all_none(states: Any) -> bool:
    return all(s is None for s in nest.flatten(states))


def _standardized(inputs: Any, initial_state: Any, constants: Any, num_constants: int) -> tuple:
    """Splits a list of inputs, with states and constants as lists."""
    if isinstance(inputs, list):
        if initial_state is not None or constants is not None:
            raise ValueError("Initial states and constants are given either in the list of inputs or as arguments, not both.")
        if num_constants:
            constants, inputs = inputs[-num_constants:], inputs[:-num_constants]
        if len(inputs) > 1:
            initial_state, inputs = inputs[1:], inputs[:1]
        inputs = tuple(inputs) if len(inputs) > 1 else inputs[0]

    def listed(x: Any) -> Any:
        return x if x is None or isinstance(x, list) else list(x) if isinstance(x, tuple) else [x]
    return inputs, listed(initial_state), listed(constants)

"""The cells of SimpleRNN, GRU and LSTM.

Each computes one step in two parts: `project` is what depends on the inputs alone (one product, which a layer computes for
all time steps at once), `advance` what depends on the states.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.models.keras import activations, initializers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.layers.parts import described, dims_of, named, passed, read, when
from penstock._src.models.keras.layers.recurrent import zero_state_of
from penstock.compat import v1 as tf


def _inside(graph: Any, outer: Any) -> bool:
    """Whether a graph is another one, or inside of it: then it can use its tensors."""
    while graph is not outer and graph is not None:
        graph = getattr(graph, "around", None)
    return graph is outer


class DropoutRNNCellMixin:
    """Dropout masks of cells: drawn once for a sequence, and the same at each time step."""

    @no_automatic_dependency_tracking
    def _remember(self, name: str, value: Any) -> Any:
        setattr(self, name, value)
        return value

    def reset_dropout_mask(self) -> None:
        """Resets the dropout mask of inputs."""
        self._remember("_dropout_masks", {})

    def reset_recurrent_dropout_mask(self) -> None:
        """Resets the dropout mask of states."""
        self._remember("_recurrent_masks", {})

    def get_dropout_mask_for_cell(self, inputs: Any, training: Any, count: int = 1) -> Any:
        """The dropout mask of inputs (a list, for a count); None without dropout."""
        return self._masks("_dropout_masks", self.dropout, inputs, training, count)            # type: ignore[attr-defined]

    def get_recurrent_dropout_mask_for_cell(self, inputs: Any, training: Any, count: int = 1) -> Any:
        """The dropout mask of states (a list, for a count); None without dropout."""
        return self._masks("_recurrent_masks", self.recurrent_dropout, inputs, training, count)     # type: ignore[attr-defined]

    def _masks(self, name: str, rate: float, inputs: Any, training: Any, count: int) -> Any:
        if rate == 0:
            return None
        known = getattr(self, name, None)
        if known is None:
            known = self._remember(name, {})
        eager = context.executing_eagerly()
        graph = None if eager else context.current_graph()
        if eager not in known or not _inside(graph, known[eager][0]):
            ones = tf.ones_like(inputs)
            known[eager] = graph, [when(training, lambda: tf.nn.dropout(ones, rate=rate) if rate < 1 else tf.zeros_like(ones),
                                        lambda: tf.identity(ones)) for _ in range(count)]
        masks = known[eager][1]
        return masks if count > 1 else masks[0]

    def __getstate__(self) -> dict[str, Any]:
        held: Any = super().__getstate__()
        state = dict(held)
        for name in ("_dropout_masks", "_recurrent_masks"):
            state.pop(name, None)
        return state


class _Cell(DropoutRNNCellMixin, Layer):
    """The base of the three cells; `gates` is how many of them there are."""

    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    recurrent_activation: Any
    units: Any
    use_bias: Any

    gates = 1
    _words: tuple[str, ...] = (
        "units", "activation", "use_bias", "kernel_initializer", "recurrent_initializer", "bias_initializer",
        "kernel_regularizer", "recurrent_regularizer", "bias_regularizer", "kernel_constraint", "recurrent_constraint",
        "bias_constraint", "dropout", "recurrent_dropout")

    def __init__(self, units: int, dropout: float, recurrent_dropout: float, arguments: dict[str, Any], kwargs: dict[str, Any]):
        super().__init__(**kwargs)
        if units <= 0:
            raise ValueError(f"Received an invalid value for units, expected a positive integer, got {units}.")
        read(self, units=units, **arguments)
        self.dropout = min(1., max(0., dropout))
        self.recurrent_dropout = min(1., max(0., recurrent_dropout))
        self._set_sizes()

    @no_automatic_dependency_tracking
    def _set_sizes(self) -> None:
        self.state_size: Any = self.units
        self.output_size: Any = self.units

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and the bias."""
        width = self.gates * self.units
        self.kernel = self._weight("kernel", (dims_of(input_shape)[-1], width), "kernel")
        self.recurrent_kernel = self._weight("recurrent_kernel", (self.units, width), "recurrent")
        self.bias: Any = None
        if self.use_bias:
            self.bias = self.add_weight(shape=self._bias_shape(), name="bias", initializer=self._bias_initializer(),
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint)
        Layer.build(self, input_shape)

    def _weight(self, name: str, shape: tuple, kind: str) -> Any:
        return self.add_weight(shape=shape, name=name, initializer=getattr(self, f"{kind}_initializer"),
                               regularizer=getattr(self, f"{kind}_regularizer"), constraint=getattr(self, f"{kind}_constraint"))

    def _bias_shape(self) -> tuple:
        return (self.gates * self.units,)

    def _bias_initializer(self) -> Any:
        return self.bias_initializer

    def _input_bias(self) -> Any:
        return self.bias

    def project(self, inputs: Any, training: Any = None, mask_like: Any = None) -> Any:
        """The part of all gates that depends on the inputs alone: [..., features] to [..., gates * units].

        What is dropped has the shape of one time step, `mask_like` (the inputs, if they are one).
        """
        masks = self.get_dropout_mask_for_cell(inputs if mask_like is None else mask_like, training, count=self._mask_count())
        if masks is None:
            product = _dot(inputs, self.kernel)
        elif self._mask_count() == 1:
            product = _dot(inputs * masks, self.kernel)
        else:
            parts = tf.split(self.kernel, self.gates, axis=1)
            product = tf.concat([_dot(inputs * m, k) for m, k in zip(masks, parts)], -1)
        return product if self.bias is None else tf.nn.bias_add(product, self._input_bias())

    def _mask_count(self) -> int:
        """How many masks inputs and states have: one, or one for each gate."""
        return self.gates if getattr(self, "implementation", 2) == 1 else 1

    def _recurrent(self, h: Any, training: Any, first: int = 0, count: int | None = None, dropped: bool = False) -> Any:
        """The product of the state with the kernels of some gates, with dropout."""
        count = self.gates - first if count is None else count
        width = self.units
        masks = None if dropped else self.get_recurrent_dropout_mask_for_cell(h, training, count=self._mask_count())
        if masks is None or self._mask_count() == 1:
            kernel = self.recurrent_kernel
            if (first, count) != (0, self.gates):
                kernel = kernel[:, first * width:(first + count) * width]
            return tf.matmul(h if masks is None else h * masks, kernel)
        parts = tf.split(self.recurrent_kernel, self.gates, axis=1)
        return tf.concat([tf.matmul(h * masks[i], parts[i]) for i in range(first, first + count)], 1)

    def _gates(self, x: Any, count: int) -> list:
        """Several adjacent gates, activated: in one call, where the activation works element by element."""
        if self.recurrent_activation in _ELEMENTWISE:
            return tf.split(self.recurrent_activation(x), count, axis=1)
        return [self.recurrent_activation(part) for part in tf.split(x, count, axis=1)]

    def advance(self, projected: Any, states: Any, training: Any = None) -> tuple:
        """The output and the new states, from the projected inputs and the states."""
        raise NotImplementedError

    def call(self, inputs: Any, states: Any, training: Any = None) -> tuple:
        """The output and the new states."""
        return self.advance(self.project(inputs, training), states, training)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zero states."""
        return zero_state_of(self, inputs, batch_size, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the cell."""
        return described(self, super().get_config(), self._words)


def with_activity(words: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of a layer of a cell, in the order of configurations."""
    at = words.index("bias_regularizer") + 1
    return (*words[:at], "activity_regularizer", *words[at:])


def _gated(words: tuple[str, ...], *of_bias: str) -> tuple[str, ...]:
    """The arguments of a cell with gates, in the order of configurations: the activation of the gates follows the other one,
    and what concerns the bias its initializer."""
    after = {"activation": ("recurrent_activation",), "bias_initializer": of_bias}
    return tuple(w for word in words for w in (word, *after.get(word, ())))


def _dot(x: Any, kernel: Any) -> Any:
    """A product over the last axis."""
    if len(x.shape) == 2:
        return tf.matmul(x, kernel)
    rank = len(x.shape)
    y = tf.tensordot(x, kernel, [[rank - 1], [0]])
    if not context.executing_eagerly():
        y.set_shape([*dims_of(x.shape)[:-1], dims_of(kernel.shape)[-1]])
    return y


_ELEMENTWISE = (activations.sigmoid, activations.hard_sigmoid, activations.tanh, activations.relu, activations.linear)
_ARGUMENTS = ("units", "dropout", "recurrent_dropout")


def _split(names: dict[str, Any]) -> tuple:
    """The arguments of a cell's `__init__`, as the base takes them."""
    arguments = {k: v for k, v in names.items() if k not in ("self", "kwargs", "__class__", *_ARGUMENTS)}
    return *(names[n] for n in _ARGUMENTS), arguments, names["kwargs"]


def _only(states: Any) -> Any:
    """The state of a cell that has one, which may be given without a list."""
    return states[0] if nest.is_nested(states) else states


@export("keras.layers.SimpleRNNCell")
class SimpleRNNCell(_Cell):
    """output = activation(inputs · kernel + output before · recurrent kernel + bias)."""

    activation: Any

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, kernel_constraint: Any = None, recurrent_constraint: Any = None,
                 bias_constraint: Any = None, dropout: float = 0., recurrent_dropout: float = 0., **kwargs: Any):
        super().__init__(*_split(locals()))

    def advance(self, projected: Any, states: Any, training: Any = None) -> tuple:
        """The output and the new states, from the projected inputs and the states."""
        output = projected + self._recurrent(_only(states), training)
        if self.activation is not None:
            output = self.activation(output)
        return output, [output] if nest.is_nested(states) else output


class GRUCellBase(_Cell):
    """The base of both versions of the cell. The gates are update, reset and candidate."""

    activation: Any
    reset_after: Any
    units: Any

    gates = 3
    _words = (*_gated(_Cell._words), "implementation", "reset_after")

    def _bias_shape(self) -> tuple:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def _input_bias(self) -> Any:
        return self.bias[0] if self.reset_after else self.bias

    def advance(self, projected: Any, states: Any, training: Any = None) -> tuple:
        """The output and the new states, from the projected inputs and the states."""
        h = _only(states)
        x_zr, x_h = tf.split(projected, [2 * self.units, self.units], axis=-1)
        masks = self.get_recurrent_dropout_mask_for_cell(h, training, count=self._mask_count())
        if self.reset_after:
            inner = self._recurrent(h, training)
            if self.bias is not None:
                inner = tf.nn.bias_add(inner, self.bias[1])
            h_zr, h_h = tf.split(inner, [2 * self.units, self.units], axis=1)
            z, r = self._gates(x_zr + h_zr, 2)
            candidate = self.activation(x_h + r * h_h)
        else:
            z, r = self._gates(x_zr + self._recurrent(h, training, 0, 2), 2)
            kept = h if masks is None else h * (masks[2] if self._mask_count() > 1 else masks)
            candidate = self.activation(x_h + self._recurrent(r * kept, training, 2, 1, dropped=True))
        before = h if masks is None or self._mask_count() > 1 else h * masks
        new = candidate + z * (before - candidate)
        return new, [new] if nest.is_nested(states) else new


@export(v1=["keras.layers.GRUCell"])
@named("GRUCell")
class GRUCellV1(GRUCellBase):
    """A gated recurrent unit; with the reset gate before the product, unless `reset_after`."""

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, kernel_constraint: Any = None, recurrent_constraint: Any = None,
                 bias_constraint: Any = None, dropout: float = 0., recurrent_dropout: float = 0., implementation: int = 1,
                 reset_after: bool = False, **kwargs: Any):
        super().__init__(*_split(locals()))


@export(v2=["keras.layers.GRUCell"])
class GRUCell(GRUCellV1):
    """A gated recurrent unit, as cuDNN has it: the reset gate after the product."""

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, kernel_constraint: Any = None, recurrent_constraint: Any = None,
                 bias_constraint: Any = None, dropout: float = 0., recurrent_dropout: float = 0., implementation: int = 2,
                 reset_after: bool = True, **kwargs: Any):
        super().__init__(**passed(locals()))


class LSTMCellBase(_Cell):
    """The base of all versions of the cell. The gates are input, forget, candidate and output."""

    activation: Any
    bias_initializer: Any
    recurrent_activation: Any
    unit_forget_bias: Any
    units: Any

    gates = 4
    _words = (*_gated(_Cell._words, "unit_forget_bias"), "implementation")

    @no_automatic_dependency_tracking
    def _set_sizes(self) -> None:
        self.state_size = [self.units, self.units]
        self.output_size = self.units

    def _bias_initializer(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def initializer(_: Any, *args: Any, **kwargs: Any) -> Any:
            ones = initializers.get("ones")
            return tf.concat([self.bias_initializer((self.units,), *args, **kwargs), ones((self.units,), *args, **kwargs),
                              self.bias_initializer((self.units * 2,), *args, **kwargs)], 0)
        return initializer

    def _carry_and_output(self, z: list, c: Any) -> tuple:
        """The new carry and the output gate, from the gates before activation and the carry."""
        i, f = self.recurrent_activation(z[0]), self.recurrent_activation(z[1])
        new = f * c + i * self.activation(z[2])
        return new, self.recurrent_activation(z[3])

    def advance(self, projected: Any, states: Any, training: Any = None) -> tuple:
        """The output and the new states, from the projected inputs and the states."""
        h, c = states
        z = projected + self._recurrent(h, training)
        if self.recurrent_activation in _ELEMENTWISE and type(self)._carry_and_output is LSTMCellBase._carry_and_output:
            i, f, _, o = self._gates(z, 4)
            c = f * c + i * self.activation(z[:, 2 * self.units:3 * self.units])
        else:
            c, o = self._carry_and_output(tf.split(z, 4, axis=1), c)
        h = o * self.activation(c)
        return h, [h, c]

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> list:
        """Zero states."""
        return list(zero_state_of(self, inputs, batch_size, dtype))


@export(v1=["keras.layers.LSTMCell"])
@named("LSTMCell")
class LSTMCellV1(LSTMCellBase):
    """Long short-term memory: a carry that gates add to and take from."""

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.,
                 recurrent_dropout: float = 0., implementation: int = 1, **kwargs: Any):
        super().__init__(*_split(locals()))


@export(v2=["keras.layers.LSTMCell"])
class LSTMCell(LSTMCellV1):
    """Long short-term memory: a carry that gates add to and take from."""

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.,
                 recurrent_dropout: float = 0., implementation: int = 2, **kwargs: Any):
        super().__init__(**passed(locals()))


@export("keras.experimental.PeepholeLSTMCell")
class PeepholeLSTMCell(LSTMCellV1):
    """Long short-term memory whose gates see the carry, too."""

    activation: Any
    forget_gate_peephole_weights: Any
    input_gate_peephole_weights: Any
    kernel_initializer: Any
    output_gate_peephole_weights: Any
    recurrent_activation: Any
    units: Any

    def build(self, input_shape: Any) -> None:
        """Creates the weights."""
        super().build(input_shape)
        for gate in ("input", "forget", "output"):
            name = f"{gate}_gate_peephole_weights"
            setattr(self, name, self.add_weight(shape=(self.units,), name=name, initializer=self.kernel_initializer))

    def _carry_and_output(self, z: list, c: Any) -> tuple:
        i = self.recurrent_activation(z[0] + self.input_gate_peephole_weights * c)
        f = self.recurrent_activation(z[1] + self.forget_gate_peephole_weights * c)
        new = f * c + i * self.activation(z[2])
        return new, self.recurrent_activation(z[3] + self.output_gate_peephole_weights * new)

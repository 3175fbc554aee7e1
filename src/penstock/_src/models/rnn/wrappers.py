"""Wrappers around a cell: dropout, residual connections, a device.

They are for the cells of TensorFlow 1: the wrapped cell is called, and finds its variables in scopes. What each of them does
stands in its own class, which those of TensorFlow 2 share (`keras_wrappers.py`).
"""
from __future__ import annotations

import hashlib
import numbers
from typing import TYPE_CHECKING, Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn.cell import RNNCell, assert_like_rnncell
from penstock._src.models.rnn.cells import LSTMStateTuple
from penstock.compat import v1 as tf


class _Wrapper(RNNCell):
    """A cell around another one."""

    def __init__(self, cell: Any, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert_like_rnncell("cell", cell)
        self.cell = cell
        if hasattr(cell, "_checkpoint_dependencies"):
            self._track_trackable(cell, name="cell")

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:    # type: ignore[override]
        return self._around(inputs, state, self.cell.__call__, scope=scope)

    def _around(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        if hasattr(self, "_call_wrapped_cell"):      # a wrapper of the user's own
            return self._call_wrapped_cell(inputs, state, cell_call_fn=cell_call_fn, **kwargs)
        raise NotImplementedError

    wrapped_cell = property(lambda self: self.cell)
    state_size = property(lambda self: self.cell.state_size)
    output_size = property(lambda self: self.cell.output_size)

    @property
    def trainable_weights(self) -> list:
        """Its own, and those of the cell."""
        return self._and_of_cell("trainable_weights")

    @property
    def non_trainable_weights(self) -> list:
        """Its own, and those of the cell."""
        return self._and_of_cell("non_trainable_weights")

    def _and_of_cell(self, what: str) -> list:
        own = list(getattr(RNNCell, what).fget(self))
        return own + [w for w in getattr(self.cell, what, ()) if all(w is not o for o in own)]

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """That of the cell."""
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the wrapper again; the cell must be made by the caller."""
        inner = {"class_name": type(self.cell).__name__, "config": self.cell.get_config()}
        return {**super().get_config(), "cell": inner}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """A wrapper from its configuration, in which `cell` is a cell."""
        config = dict(config)
        cell = config.pop("cell")
        try:
            assert_like_rnncell("cell", cell)
        except TypeError as e:
            raise ValueError("The wrapped cell cannot be rebuilt from the configuration: replace its entry by a cell.") from e
        return cls(cell, **config)


def _default_state_filter(substate: Any) -> Any:
    """Which parts of a state are dropped: everything except the memory of LSTMs and arrays of tensors."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(substate, tf.TensorArray)


def _numbered_map(shallow: Any, function: Any, *structures: Any) -> Any:
    """`function(number, ...)` on the parts of structures, as far as `shallow` goes."""
    count = iter(range(len(nest.flatten(shallow)) + 1))
    return nest.map_structure_up_to(shallow, lambda *parts: function(next(count), *parts), *structures)


if TYPE_CHECKING:
    class _Wrapping:
        """The interface that the mixins below need: a wrapper of tf.nn.rnn_cell or of Keras."""

        def __init__(self, cell: Any, **kwargs: Any):
            raise NotImplementedError

        def zero_state(self, batch_size: Any, dtype: Any) -> Any:
            raise NotImplementedError

        def get_config(self) -> dict[str, Any]:
            raise NotImplementedError
else:
    _Wrapping = object


class Dropping(_Wrapping):
    """Drops inputs, outputs and states of a cell; with `variational_recurrent`, the same ones in each step of a sequence."""

    def __init__(self, cell: Any, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0, state_keep_prob: Any = 1.0,
                 variational_recurrent: bool = False, input_size: Any = None, dtype: Any = None, seed: int | None = None,
                 dropout_state_filter_visitor: Any = None, **kwargs: Any):
        super().__init__(cell, dtype=dtype, **kwargs)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._dropout_state_filter = dropout_state_filter_visitor or _default_state_filter
        with tf.name_scope("DropoutWrapperInit"):
            self._input_keep_prob = _probability(input_keep_prob, "input_keep_prob")
            self._state_keep_prob = _probability(state_keep_prob, "state_keep_prob")
            self._output_keep_prob = _probability(output_keep_prob, "output_keep_prob")
        self._variational_recurrent, self._input_size, self._seed = variational_recurrent, input_size, seed
        self._noise: dict[str, Any] = {"input": None, "state": None, "output": None}
        if variational_recurrent:
            self._draw_noise(cell, dtype)

    def _draw_noise(self, cell: Any, dtype: Any) -> None:
        """One pattern for all steps, in front of the loop that runs the cell."""
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")

        def noise(kind: str, sizes: Any) -> Any:
            return _numbered_map(sizes, lambda i, s: tf.random_uniform(
                [1, *TensorShape(s).as_list()], seed=self._gen_seed(kind, i), dtype=dtype), sizes)

        if not isinstance(self._input_keep_prob, numbers.Real) or self._input_keep_prob < 1.0:
            if self._input_size is None:
                raise ValueError("When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be "
                                 "provided")
            self._noise["input"] = noise("input", self._input_size)
        self._noise["state"] = noise("state", cell.state_size)
        self._noise["output"] = noise("output", cell.output_size)

    def _gen_seed(self, salt: str, index: int) -> int | None:
        if self._seed is None:
            return None
        return int(hashlib.md5(f"{self._seed}{salt}_{index}".encode()).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _dropout(self, values: Any, kind: str, keep_prob: Any, which: Any = None) -> Any:
        which = values if which is None else which

        def drop(i: int, wanted: Any, value: Tensor, *noise: Tensor) -> Tensor:
            if wanted is False:
                return value
            if not noise:
                return tf.nn.dropout(value, rate=1.0 - keep_prob, seed=self._gen_seed(kind, i))
            kept = tf.div(value, keep_prob) * tf.floor(keep_prob + noise[0])
            kept.set_shape(value.shape)
            return kept

        noise = [self._noise[kind]] if self._variational_recurrent else []
        return _numbered_map(which, drop, which, values, *noise)

    def _around(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        if _drops(self._input_keep_prob):
            inputs = self._dropout(inputs, "input", self._input_keep_prob)
        output, new_state = cell_call_fn(inputs, state, **kwargs)
        if _drops(self._state_keep_prob):
            which = nest.get_traverse_shallow_structure(self._dropout_state_filter, new_state)
            new_state = self._dropout(new_state, "state", self._state_keep_prob, which)
        if _drops(self._output_keep_prob):
            output = self._dropout(output, "output", self._output_keep_prob)
        return output, new_state

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the wrapper again."""
        config = {**super().get_config(), "input_keep_prob": self._input_keep_prob, "output_keep_prob": self._output_keep_prob,
                  "state_keep_prob": self._state_keep_prob, "variational_recurrent": self._variational_recurrent,
                  "input_size": self._input_size, "seed": self._seed}
        if self._dropout_state_filter is not _default_state_filter:
            config["dropout_state_filter_visitor"] = self._dropout_state_filter
        return config


def _probability(value: Any, name: str) -> Any:
    """As a number where it is constant, else as a tensor."""
    tensor = tf.convert_to_tensor(value)
    constant = tf.get_static_value(tensor)
    if constant is None:
        return tensor
    if constant < 0 or constant > 1:
        raise ValueError(f"Parameter {name} must be between 0 and 1: {int(constant)}")
    return float(constant)


def _drops(keep_prob: Any) -> bool:
    return not isinstance(keep_prob, float) or keep_prob < 1


class Residual(_Wrapping):
    """Adds the inputs of a cell to its outputs, or returns `residual_fn(inputs, outputs)`."""

    def __init__(self, cell: Any, residual_fn: Any = None, **kwargs: Any):
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def _around(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        outputs, new_state = cell_call_fn(inputs, state, **kwargs)
        return (self._residual_fn or _add)(inputs, outputs), new_state

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the wrapper again."""
        config = super().get_config()
        return config if self._residual_fn is None else {**config, "residual_fn": self._residual_fn}


def _add(inputs: Any, outputs: Any) -> Any:
    nest.assert_same_structure(inputs, outputs)

    def add(i: Tensor, o: Tensor) -> Tensor:
        i.shape.assert_is_compatible_with(o.shape)
        return i + o

    return nest.map_structure(add, inputs, outputs)


class OnDevice(_Wrapping):
    """Runs a cell on a device."""

    def __init__(self, cell: Any, device: Any, **kwargs: Any):
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """That of the cell, on the device."""
        with tf.device(self._device):
            return super().zero_state(batch_size, dtype)

    def _around(self, inputs: Any, state: Any, cell_call_fn: Any, **kwargs: Any) -> Any:
        with tf.device(self._device):
            return cell_call_fn(inputs, state, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the wrapper again."""
        return {**super().get_config(), "device": self._device}


@export(v1=["nn.rnn_cell.DropoutWrapper"])
class DropoutWrapper(Dropping, _Wrapper):
    """Drops inputs, outputs and states of a cell; with `variational_recurrent`, the same ones in each step of a sequence.

    Args:
        cell: Cell to run or wrap.
        input_keep_prob: Probability that an input is kept.
        output_keep_prob: Probability that an output is kept.
        state_keep_prob: Probability that a state is kept.
        variational_recurrent: Whether one mask serves all steps of a sequence.
        input_size: Shape of the inputs; needed for a variational mask of them.
        dtype: Type of the masks; needed for variational ones.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        dropout_state_filter_visitor: Function that returns which states are dropped.
        **kwargs: Passed to the base class.

    >>> cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(4), output_keep_prob=0.5)
    >>> cell.output_size
    4
    """


@export(v1=["nn.rnn_cell.ResidualWrapper"])
class ResidualWrapper(Residual, _Wrapper):
    """Adds the inputs of a cell to its outputs, or returns `residual_fn(inputs, outputs)`.

    >>> tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.GRUCell(4))
    """


@export(v1=["nn.rnn_cell.DeviceWrapper"])
class DeviceWrapper(OnDevice, _Wrapper):
    """Runs a cell on a device.

    >>> tf.nn.rnn_cell.DeviceWrapper(tf.nn.rnn_cell.GRUCell(4), "/cpu:0")
    """

"""Recurrent layers as one op, and the equivalent loop for exported graphs."""
from __future__ import annotations

import functools
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.functions import add_to_library
from penstock._src.models.keras import activations
from penstock._src.models.keras import backend as K
from penstock._src.ops.nn.recurrent_layer import layer
from penstock.compat import v1 as tf

_NAMES = {activations.tanh: "tanh", activations.sigmoid: "sigmoid", activations.relu: "relu", activations.linear: "linear",
          activations.hard_sigmoid: "hard_sigmoid"}


def name_of(activation: Any) -> str | None:
    """The op's name of an activation; None if it has none."""
    return "linear" if activation is None else _NAMES.get(activation)


def over_time(kind: str, activation: str, gate_activation: str, x: Any, h0: Any, weights: Any, bias: Any, mask: Any) -> Any:
    """The states after all steps, [time, batch, units], from input products [time, batch, ...]. `mask` may be None."""
    name = ""
    if not context.executing_eagerly():
        function = _loop(kind, activation, gate_activation, mask is not None)
        add_to_library(context.current_graph(), function)
        name = function.name
    mask = tf.zeros([0], tf.bool) if mask is None else mask
    bias = tf.zeros([0], x.dtype) if bias is None else bias
    return layer(x, h0, weights, bias, mask, kind=kind, activation=activation, gate_activation=gate_activation,
                 written_as=name).h


@functools.cache
def _loop(kind: str, activation: str, gate_activation: str, masked: bool) -> Any:
    """A function that computes the op's outputs in a loop."""
    act, gate = (next(f for f, n in _NAMES.items() if n == name) for name in (activation, gate_activation))

    def step(inputs: Any, states: Any, weights: Any, bias: Any) -> tuple:
        x, h = inputs[0], states[0]
        if kind == "simple":
            new = act(x + tf.matmul(h, weights))
            kept = [new]
        else:
            inner = tf.nn.bias_add(tf.matmul(h, weights), bias)
            (xz, xr, xh), (hz, hr, hh) = tf.split(x, 3, axis=1), tf.split(inner, 3, axis=1)
            z, reset = gate(xz + hz), gate(xr + hr)
            candidate = act(xh + reset * hh)
            new, kept = candidate + z * (h - candidate), [z, reset, candidate, hh]
        new = tf.where_v2(inputs[1], new, h) if masked else new
        return tf.concat([new, *kept], 1), [new]

    def run(x: Any, h0: Any, weights: Any, bias: Any, mask: Any) -> tuple:
        inputs = (x, mask[..., None]) if masked else (x,)
        _, outputs, _ = K.rnn(lambda now, states: step(now, states, weights, bias), inputs, [h0], time_major=True)
        if kind == "simple":
            return tf.split(outputs, 2, axis=2)[0], tf.zeros([0]), tf.zeros([0])
        h, z, reset, candidate, hh = tf.split(outputs, 5, axis=2)
        return h, tf.concat([z, reset, candidate], 2), hh
    shapes = [[None] * 3, [None] * 2, [None] * 2, [None]]
    specs = [tf.TensorSpec(s, tf.float32) for s in shapes] + [tf.TensorSpec([None, None] if masked else [0], tf.bool)]
    with tf.init_scope():
        return tf.function(run, autograph=False).get_concrete_function(*specs).graph_function

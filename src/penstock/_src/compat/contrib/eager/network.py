"""tf.contrib.eager.Network and Sequential: models of layers, before `tf.keras.Model` took their place."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Any:
    return export(v1=[f"contrib.eager.{name}", f"contrib.eager.python.tfe.{name}"])


@_export("Network")
class Network(tf.keras.Model):
    """A model of the layers that are tracked; its variables are theirs.

    >>> class Net(tfe.Network):
    ...     def __init__(self): super().__init__(); self.dense = self.track_layer(tf.layers.Dense(2))
    ...     def call(self, x): return self.dense(x)
    """

    def __init__(self, name: str | None = None):
        super().__init__(name=name)

    def track_layer(self, layer: Any) -> Any:
        """Takes a layer, or a network, into this one, and returns it."""
        if not isinstance(layer, tf.keras.layers.Layer):
            raise TypeError(f"Network.track_layer() passed type {type(layer)}, not a tf.layers.Layer")
        if not any(layer is known for known in self.layers):
            setattr(self, f"tracked_{len(self.layers)}", layer)
        return layer


@_export("Sequential")
class Sequential(Network):
    """Layers and functions, in sequence.

    >>> tfe.Sequential([tf.layers.Dense(4), tf.nn.relu])
    """

    def __init__(self, layers_funcs: Any = None, name: str | None = None):
        super().__init__(name)
        self._steps: Any = tf.contrib.checkpoint.NoDependency([])
        for step in layers_funcs or ():
            self.add(step)

    def add(self, layer_func: Any) -> None:
        """Adds a layer or a function at the end."""
        if isinstance(layer_func, tf.keras.layers.Layer):
            self.track_layer(layer_func)
        elif not callable(layer_func):
            raise TypeError(f"Sequential.add() needs a layer or a function, got {layer_func!r}")
        self._steps = tf.contrib.checkpoint.NoDependency([*self._steps, layer_func])

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The result of the last step."""
        for step in self._steps:
            inputs = step(inputs)
        return inputs

"""TFOptimizer: an optimizer of tf.train, as models use Keras' own."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.trackable import Trackable
from penstock._src.training.train.global_step import get_global_step
from penstock.keras import backend


class TFOptimizer(Trackable):
    """Wraps an optimizer of tf.train. Its steps are counted in `iterations`, or in the graph's global step if any."""

    def __init__(self, optimizer: Any, iterations: Any = None):
        self.optimizer = optimizer
        self._track_trackable(optimizer, name="optimizer")
        if iterations is None:
            with backend.name_scope(type(self).__name__):
                iterations = backend.variable(0, dtype="int64", name="iterations")
        self.iterations = iterations
        self._track_trackable(iterations, name="global_step")

    def minimize(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Any:
        """Runs one training step."""
        if callable(loss):
            pairs = self.optimizer.compute_gradients(loss, var_list, grad_loss=grad_loss)
        else:
            if tape is None:
                raise ValueError("A loss that is a tensor needs the `tape` that recorded it.")
            pairs = list(zip(tape.gradient(loss, var_list, grad_loss), var_list, strict=True))
        return self.apply_gradients(pairs)

    def get_grads(self, loss: Any, params: Any) -> list:
        """Pairs of gradient and variable."""
        return self.optimizer.compute_gradients(loss, params)

    def get_gradients(self, loss: Any, params: Any) -> list:
        """The gradients of a loss in a graph."""
        return [g for g, _ in self.get_grads(loss, params)]

    def apply_gradients(self, grads_and_vars: Iterable, name: str | None = None, **kwargs: Any) -> Any:
        """Applies gradients, and counts the step."""
        return self.optimizer.apply_gradients(list(grads_and_vars), global_step=self.iterations, name=name)

    def get_updates(self, loss: Any, params: Any) -> list:
        """The op that applies the gradients of a loss, in a list."""
        pairs = list(zip(self.get_gradients(loss, params), params, strict=True)) if params else []
        if not params:
            return [self.iterations.assign_add(1)]
        step = None if context.executing_eagerly() else get_global_step()
        return [self.optimizer.apply_gradients(pairs, self.iterations if step is None else step)]

    weights = property(lambda self: self._no_weights(), doc="Not there: optimizers of tf.train do not list their state.")

    def _no_weights(self) -> Any:
        raise NotImplementedError("Optimizers of tf.train have no list of weights; use an optimizer of tf.keras.optimizers.")

    def get_config(self) -> dict[str, Any]:
        """Not supported: optimizers of tf.train have no configuration."""
        raise NotImplementedError("Optimizers of tf.train have no configuration; use an optimizer of tf.keras.optimizers.")

    def from_config(self, config: Any) -> Any:
        """Not supported: optimizers of tf.train have no configuration."""
        raise NotImplementedError("Optimizers of tf.train have no configuration; use an optimizer of tf.keras.optimizers.")

"""CompressedKerasOptimizer: any optimizer of tf.keras, with gradients that are encoded where they are computed."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.compression.codec import described
from penstock._src.models.compression.memory import LEAST, Compressor
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers.around import OptimizerAround
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.models.keras.optimizers.serialization import deserialize, serialize
from penstock._src.ops.core import group


@export("distribute.experimental.compression.CompressedKerasOptimizer")
class CompressedKerasOptimizer(OptimizerAround):
    """An optimizer of tf.keras around another; see CompressedOptimizer. The error feedback is part of its checkpoints.

    >>> model.compile(CompressedKerasOptimizer(tf.keras.optimizers.SGD(0.1), "one_bit"), loss="mse")
    """

    _own = frozenset({"_optimizer", "_compressor", "_hyper"})

    def __init__(self, opt: Any, codec: Any, error_feedback: bool = True, momentum: float = 0.0, least_size: int = LEAST):
        if not isinstance(opt, Optimizer):
            raise TypeError(f"CompressedKerasOptimizer is for optimizers of tf.keras, got {type(opt).__name__}")
        made = Compressor(codec, error_feedback, momentum, least_size, self._watch)
        self.__dict__.update(_hyper={}, _optimizer=opt, _compressor=made)
        self._track_trackable(opt, "base_optimizer")

    compressor = property(lambda self: self._compressor, doc="What encodes, keeps and counts.")

    def _watch(self, name: str, variable: Any) -> None:
        backend.track_variable(variable)
        self._track_trackable(variable, name, overwrite=True)

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> list:
        return self._optimizer._compute_gradients(loss, var_list, grad_loss, tape)

    def get_gradients(self, loss: Any, params: Any) -> list:
        """The gradients of a loss in a graph."""
        return self._optimizer.get_gradients(loss, params)

    def apply_gradients(self, grads_and_vars: Iterable, name: str | None = None, **kwargs: Any) -> Any:
        """Sends encoded gradients, applies the decoded ones, and keeps the error."""
        pairs, updates = self._compressor.compress([(g, v) for g, v in grads_and_vars if g is not None])
        done = self._optimizer.apply_gradients(pairs, name=name, **kwargs)
        if context.executing_eagerly() or context.current_graph().building_function:      # updates run on their own there
            return done
        return group(*(getattr(d, "op", d) for d in (done, *updates) if d is not None))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the optimizer."""
        return {"opt": serialize(self._optimizer), "codec": described(self._compressor.codec), **self._compressor.config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer of a configuration."""
        config = dict(config)
        return cls(deserialize(config.pop("opt"), custom_objects), **config)

"""CompressedOptimizer: any optimizer of tf.train, with gradients that are encoded where they are computed."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.compression.memory import LEAST, Compressor
from penstock._src.ops.core import group
from penstock._src.training.train.optimizer import Optimizer
from penstock._src.training.train.optimizer_around import OptimizerAround


@export("distribute.experimental.compression.CompressedOptimizer")
class CompressedOptimizer(OptimizerAround):
    """An optimizer around another: gradients are encoded beside the ops that compute them, and decoded beside the variables.

    With variables on parameter servers, what goes over the network is what `codec` makes of the gradients. What it leaves out
    is added to the next step's (`error_feedback`), in local variables of the worker, which are not among `variables()`: run
    `tf.local_variables_initializer()`.

    >>> opt = CompressedOptimizer(tf.train.GradientDescentOptimizer(0.1), TopK(0.01), momentum=0.9)
    >>> train_op = opt.minimize(loss)
    """

    def __init__(self, opt: Any, codec: Any, error_feedback: bool = True, momentum: float = 0.0, least_size: int = LEAST):
        if not isinstance(opt, Optimizer):
            raise TypeError(f"CompressedOptimizer is for optimizers of tf.train, got {type(opt).__name__}. For those of "
                            "tf.keras there is CompressedKerasOptimizer; compression.compress takes both.")
        super().__init__(opt, opt._use_locking, opt.get_name())
        self._track_trackable(opt, "base_optimizer")
        self._compressor = Compressor(codec, error_feedback, momentum, least_size)

    compressor = property(lambda self: self._compressor, doc="What encodes, keeps and counts.")

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """An op that sends encoded gradients, applies the decoded ones, and keeps the error."""
        pairs, updates = self._compressor.compress(list(grads_and_vars))
        return group(self._opt.apply_gradients(pairs, global_step, name), *updates)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_opt":
            raise AttributeError(name)
        return getattr(self._opt, name)

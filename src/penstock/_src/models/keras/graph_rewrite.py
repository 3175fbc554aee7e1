"""enable_mixed_precision_graph_rewrite: half-precision training for user programs of 1.15.

The optimizer gets a loss scale, as it does in TensorFlow. Ops keep the types that the program gave them: layers compute in half
precision if a policy requests it (`models/keras/mixed_precision.py`), and no graph is rewritten.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.keras.optimizers.loss_scale import LossScaleOptimizerV1
from penstock._src.models.keras.optimizers.optimizer import Optimizer as KerasOptimizer
from penstock._src.training.train.loss_scale import MixedPrecisionLossScaleOptimizer
from penstock._src.training.train.optimizer import Optimizer

_WRAPPERS: dict[type, tuple[Callable, type]] = {Optimizer: (MixedPrecisionLossScaleOptimizer, MixedPrecisionLossScaleOptimizer),
                                                KerasOptimizer: (LossScaleOptimizerV1, LossScaleOptimizerV1)}


@export("__internal__.mixed_precision.register_loss_scale_wrapper")
def register_loss_scale_wrapper(optimizer_cls: type, wrapper_fn: Callable, wrapper_cls: type | None = None) -> None:
    """Registers how optimizers of a class get a loss scale in `enable_mixed_precision_graph_rewrite`.

    `wrapper_fn(optimizer, loss_scale)` returns one of `wrapper_cls`, which is `wrapper_fn` itself by default.
    """
    _WRAPPERS[optimizer_cls] = wrapper_fn, wrapper_cls or wrapper_fn  # type: ignore[assignment]


@export("train.experimental.enable_mixed_precision_graph_rewrite", v1=["mixed_precision.enable_mixed_precision_graph_rewrite"])
def enable_mixed_precision_graph_rewrite(opt: Any, loss_scale: Any = "dynamic") -> Any:
    """The optimizer with a loss scale: a number, "dynamic", or a LossScale.

    >>> opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(tf.train.AdamOptimizer())
    """
    around, made_by = next((w for kind, w in _WRAPPERS.items() if isinstance(opt, kind)), (None, None))
    if around is None or made_by is None:
        raise ValueError('"opt" must be an instance of a tf.train.Optimizer or a tf.keras.optimizers.Optimizer, but got: '
                         f"{opt}")
    if isinstance(opt, tuple(cls for _, cls in _WRAPPERS.values())):
        raise ValueError(f'"opt" must not already be an instance of a {made_by.__name__.removesuffix("V1")}.')
    made = around(opt, loss_scale)
    tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
    return made


@export("train.experimental.disable_mixed_precision_graph_rewrite",
        v1=["mixed_precision.disable_mixed_precision_graph_rewrite"])
def disable_mixed_precision_graph_rewrite() -> None:
    """Reverts `enable_mixed_precision_graph_rewrite`; optimizers keep their loss scales."""
    if tf.config.optimizer.get_experimental_options().get("auto_mixed_precision"):
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": False})

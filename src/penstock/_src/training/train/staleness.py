"""Asynchronous training with old gradients dropped or scaled down.

A worker reads the variables, computes, and applies its gradients to variables that others have changed in the meantime. The age
of its gradients is the number of steps taken in between.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import colocate_with, control_dependencies, name_scope
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get
from penstock._src.state.variables.functions import assign_add
from penstock._src.state.variables.variable import VariableV1
from penstock._src.training.train.global_step import get_global_step
from penstock._src.training.train.optimizer import cast
from penstock._src.training.train.optimizer_around import OptimizerAround


@export(v1=["train.experimental.StaleGradientOptimizer"])
class StaleGradientOptimizer(OptimizerAround):
    """An optimizer that drops gradients older than `staleness` steps, or (`policy="scale"`) makes them smaller.

    A gradient of age a > k is scaled by (k + 1) / (a + 1).

    >>> opt = tf.train.experimental.StaleGradientOptimizer(tf.train.GradientDescentOptimizer(0.1), staleness=4)
    >>> train_op = opt.minimize(loss, global_step=tf.train.get_global_step())
    """

    def __init__(self, opt: Any, staleness: int, policy: str = "drop", use_locking: bool = False, name: str = "StaleGradient"):
        super().__init__(opt, use_locking, name)
        if policy not in ("drop", "scale"):
            raise ValueError(f"policy must be 'drop' or 'scale', got {policy!r}")
        if staleness < 0:
            raise ValueError(f"staleness must not be negative, got {staleness}")
        self._staleness, self._policy = staleness, policy
        self._begun_at: Any = None
        self._counters: dict[str, Any] = {}

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> list:
        """The gradients of the optimizer inside; records the global step before they are computed."""
        step = get_global_step()
        if step is None:
            raise ValueError("Global step is required to tell how old gradients are.")
        with colocate_with(loss):
            self._begun_at = identity(step)
            with control_dependencies([self._begun_at]):
                loss = identity(loss)
        return self._opt.compute_gradients(loss, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """An op that applies the gradients, unless they are too old, and counts."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None or self._begun_at is None:
            raise ValueError("Global step is required, and compute_gradients has to be called first.")
        self._make_counters()
        computed = [g.values if isinstance(g, IndexedSlices) else g for g, _ in pairs]
        with name_scope(name or self._name), control_dependencies(computed):
            with colocate_with(global_step):
                age = cast(identity(global_step), dtypes.int64) - cast(self._begun_at, dtypes.int64)
                old = get("Greater")(age, cast(self._staleness, dtypes.int64))
            if self._policy == "scale":
                return self._smaller(pairs, age, old, global_step)
            return cond(old, lambda: self._counted(group(assign_add(global_step, cast(0, global_step.dtype.base_dtype))),
                                                   stale=1, dropped=1),
                        lambda: self._counted(self._opt.apply_gradients(pairs, global_step), applied=1)).op

    def _smaller(self, pairs: list, age: Any, old: Any, global_step: Any) -> Any:
        part = cast(self._staleness + 1, dtypes.float32) / cast(age + cast(1, dtypes.int64), dtypes.float32)
        part = get("Minimum")(part, 1.0)
        scaled = [(_times(g, part), v) for g, v in pairs]
        return self._counted(self._opt.apply_gradients(scaled, global_step), applied=1, stale=cast(old, dtypes.int64)).op

    def _make_counters(self) -> None:
        """Counters of this worker, kept on it."""
        with colocate_with(get("NoOp")()):
            self._counters = {what: VariableV1(0, trainable=False, dtype=dtypes.int64, name=f"{what}_gradients",
                                               collections=[GraphKeys.LOCAL_VARIABLES])
                              for what in ("applied", "stale", "dropped")}

    def _counted(self, done: Any, **counts: Any) -> Any:
        with control_dependencies([done]):
            counted = [assign_add(self._counters[what], cast(n, dtypes.int64)) for what, n in counts.items()]
        with control_dependencies([group(*counted)]):
            return identity(convert(True))

    def gradient_counts(self, session: Any) -> dict[str, int]:
        """How many gradients of this worker were applied, were stale, and were dropped."""
        return {what: int(n) for what, n in session.run(self._counters).items()}


def _times(grad: Any, part: Any) -> Any:
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(_times(grad.values, part), grad.indices, grad.dense_shape)
    return grad * cast(part, grad.dtype)

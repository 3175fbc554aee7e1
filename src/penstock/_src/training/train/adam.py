"""Adam."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import colocate_with, control_dependencies, init_scope
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.training.train.optimizer import RuleOptimizer, cast


@export(v1=["train.AdamOptimizer"])
class AdamOptimizer(RuleOptimizer):
    """Averaged gradients (m) divided by the root of averaged squares (v), with bias correction.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        beta1: Decay of the averaged gradients.
        beta2: Decay of the averaged squares.
        epsilon: Small number added to a denominator.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the slot variables' names.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w * w))
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print(sess.run(w))
    [0.90000004 1.9       ]
    """

    rule, slots = "Adam", ("m", "v")

    def __init__(self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8,
                 use_locking: bool = False, name: str = "Adam"):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        with init_scope():
            graph = None if context.executing_eagerly() else context.current_graph()
            return (self._get_non_slot_variable("beta1_power", graph), self._get_non_slot_variable("beta2_power", graph))

    def _create_slots(self, var_list: list) -> None:
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        self._create_non_slot_variable(self._call_if_callable(self._beta2), "beta2_power", first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._lr, "learning_rate"), "beta1": (self._beta1, "beta1"), "beta2": (self._beta2, "beta2"),
                "epsilon": (self._epsilon, "epsilon")}

    def _arguments(self) -> dict[str, Any]:
        beta1_power, beta2_power = self._get_beta_accumulators()
        return {**self._given, "beta1_power": beta1_power.value(), "beta2_power": beta2_power.value()}

    def _sparse(self, grad: Any, var: Any, indices: Any, add_rows: Callable) -> Any:
        """All of m and v decay, the rows that have gradients move, and the whole variable takes a step."""
        dtype = var.dtype.base_dtype
        given = {n: cast(t, dtype) for n, t in self._arguments().items()}
        one = cast(1, dtype)
        rate = given["lr"] * get("Sqrt")(one - given["beta2_power"]) / (one - given["beta1_power"])
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        decayed_m = m.assign(m.value() * given["beta1"], use_locking=self._use_locking)
        with control_dependencies([decayed_m]):
            new_m = add_rows(m, indices, grad * (one - given["beta1"]))
        decayed_v = v.assign(v.value() * given["beta2"], use_locking=self._use_locking)
        with control_dependencies([decayed_v]):
            new_v = add_rows(v, indices, (grad * grad) * (one - given["beta2"]))
        step = rate * new_m / (get("Sqrt")(new_v) + given["epsilon"])
        done = var.assign_sub(step, use_locking=self._use_locking)
        return group(done, new_m, new_v)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        def add_rows(x: Any, i: Any, rows: Any) -> Any:
            return x.scatter_add(IndexedSlices(rows, i), use_locking=self._use_locking)
        return self._sparse(grad.values, var, grad.indices, add_rows)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        def add_rows(x: Any, i: Any, rows: Any) -> Any:
            done = get("ResourceScatterAdd")(x.handle, i, rows)
            with control_dependencies([] if done is None else [done]):
                return x.value()
        return self._sparse(grad, handle, indices, add_rows)

    def _finish(self, update_ops: list, name_scope: str) -> Any:
        """Updates the powers of the betas after all variables."""
        powers = self._get_beta_accumulators()
        with control_dependencies([u for u in update_ops if u is not None]):
            with colocate_with(powers[0]):
                moved = [p.assign(p.value() * cast(self._given[b], p.dtype.base_dtype), use_locking=self._use_locking)
                         for p, b in zip(powers, ("beta1", "beta2"), strict=True)]
        return group(*update_ops, *moved, name=name_scope)

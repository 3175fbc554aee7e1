"""Adadelta."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.training.train.optimizer import RuleOptimizer


@export(v1=["train.AdadeltaOptimizer"])
class AdadeltaOptimizer(RuleOptimizer):
    """Gradients scaled by the root mean square of recent steps over that of recent gradients.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        rho: Decay of the averages.
        epsilon: Small number added to a denominator.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the slot variables' names.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     train = tf.train.AdadeltaOptimizer(1.0).minimize(tf.reduce_sum(w * w))
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print((sess.run(w) < [1., 2.]).all())
    True
    """

    rule, slots = "Adadelta", ("accum", "accum_update")

    def __init__(self, learning_rate: Any = 0.001, rho: Any = 0.95, epsilon: Any = 1e-8, use_locking: bool = False,
                 name: str = "Adadelta"):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            self._zeros_slot(v, "accum", self._name)
            self._zeros_slot(v, "accum_update", self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._lr, "lr"), "rho": (self._rho, "rho"), "epsilon": (self._epsilon, "epsilon")}

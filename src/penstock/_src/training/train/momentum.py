"""Gradient descent with momentum."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.training.train.optimizer import RuleOptimizer


@export(v1=["train.MomentumOptimizer"])
class MomentumOptimizer(RuleOptimizer):
    """accum = momentum * accum + gradient; var -= learning_rate * accum (or Nesterov's look ahead).

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        momentum: Fraction of the accumulated gradient that is kept in each step.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the slot variables' names.
        use_nesterov: Whether to evaluate the step after the momentum.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     train = tf.train.MomentumOptimizer(0.1, momentum=0.9).minimize(tf.reduce_sum(w * w))
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print(sess.run(w))
    [0.8 1.6]
    """

    rule, slots = "Momentum", ("momentum",)

    def __init__(self, learning_rate: Any, momentum: Any, use_locking: bool = False, name: str = "Momentum",
                 use_nesterov: bool = False):
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum, self._use_nesterov = learning_rate, momentum, use_nesterov

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._learning_rate, "learning_rate"), "momentum": (self._momentum, "momentum")}

    def _options(self) -> dict[str, Any]:
        return {"use_nesterov": self._use_nesterov}

"""FTRL: follow the regularized leader."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.training.train.adagrad import constant_slot
from penstock._src.training.train.optimizer import RuleOptimizer


@export(v1=["train.FtrlOptimizer"])
class FtrlOptimizer(RuleOptimizer):
    """Sparse weights for online learning: l1 keeps small ones at zero.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        learning_rate_power: Exponent of the accumulated squares; not above 0.
        initial_accumulator_value: First value of the sums of squares.
        l1_regularization_strength: Factor of the absolute values.
        l2_regularization_strength: Factor of the squares.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the slot variables' names.
        accum_name: Name of the slot of squares.
        linear_name: Name of the linear slot.
        l2_shrinkage_regularization_strength: Factor of squares that acts on the gradient alone.
        beta: What the root of the accumulated squares starts with, in place of an initial accumulator.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     train = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=10.).minimize(tf.reduce_sum(w * w))
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print(sess.run(w))
    [0.25118843 1.4934666 ]
    """

    slots = ("accum", "linear")

    def __init__(self, learning_rate: Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "Ftrl", accum_name: str | None = None,
                 linear_name: str | None = None, l2_shrinkage_regularization_strength: float = 0.0,
                 beta: float | None = None):
        super().__init__(use_locking, name)
        for what, value in (("initial_accumulator_value", initial_accumulator_value),
                            ("l1_regularization_strength", l1_regularization_strength),
                            ("l2_regularization_strength", l2_regularization_strength),
                            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength)):
            if value < 0.0:
                raise ValueError(f"{what} {value} needs to be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        self._beta = beta or 0.0
        self._learning_rate, self._learning_rate_power = learning_rate, learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self._accum_name, self._linear_name = accum_name, linear_name
        self.rule = "FtrlV2" if l2_shrinkage_regularization_strength > 0.0 else "Ftrl"

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            constant_slot(self, v, "accum", self._initial_accumulator_value, self._accum_name or self._name)
            self._zeros_slot(v, "linear", self._linear_name or self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        rate = self._learning_rate() if callable(self._learning_rate) else self._learning_rate
        l2 = self._l2_regularization_strength + self._beta / (2.0 * rate) if self._beta else self._l2_regularization_strength
        return {"lr": (self._learning_rate, "learning_rate"),
                "l1": (self._l1_regularization_strength, "l1_regularization_strength"),
                "l2": (l2, "l2_regularization_strength"),
                "l2_shrinkage": (self._l2_shrinkage_regularization_strength, "l2_shrinkage_regularization_strength"),
                "lr_power": (self._learning_rate_power, "learning_rate_power")}

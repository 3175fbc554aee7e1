"""Adagrad."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.ops.registry import get
from penstock._src.state.embeddings.variable import is_keyed
from penstock._src.state.variables.initializers import Constant
from penstock._src.training.train.optimizer import RuleOptimizer, cast


@export(v1=["train.AdagradOptimizer"])
class AdagradOptimizer(RuleOptimizer):
    """Steps divided by the root of the sum of all squared gradients.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        initial_accumulator_value: First value of the sums of squares; must be positive.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the slot variables' names.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(w * w))
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print(sess.run(w))
    [0.90122706 1.900311  ]
    """

    rule = "Adagrad"
    slots: tuple[str, ...] = ("accumulator",)

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1, use_locking: bool = False,
                 name: str = "Adagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._initial_accumulator_value = learning_rate, initial_accumulator_value

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            constant_slot(self, v, "accumulator", self._initial_accumulator_value, self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._learning_rate, "learning_rate")}


def constant_slot(optimizer: Any, var: Any, slot: str, value: float, op_name: str) -> None:
    """A slot of the variable's shape filled with a value, also where the shape is only known at run time."""
    dtype = var.dtype.base_dtype
    if var.get_shape().is_fully_defined() or is_keyed(var):
        optimizer._get_or_make_slot_with_initializer(var, Constant(value, dtype), var.get_shape(), dtype, slot, op_name)
        return

    def initial() -> Any:
        return get("Fill")(get("Shape")(var), cast(value, dtype))
    optimizer._get_or_make_slot_with_initializer(var, initial, var.get_shape(), dtype, slot, op_name)

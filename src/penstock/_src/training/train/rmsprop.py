"""RMSProp."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.ops.registry import get
from penstock._src.state.embeddings.variable import is_keyed
from penstock._src.state.variables.initializers import Ones
from penstock._src.training.train.optimizer import RuleOptimizer


@export(v1=["train.RMSPropOptimizer"])
class RMSPropOptimizer(RuleOptimizer):
    """Steps divided by the root of averaged squared gradients, with momentum; `centered` takes their mean out.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        decay: Decay of the averaged squares.
        momentum: Fraction of the last step that is added to the next.
        epsilon: Small number added to a denominator.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        centered: Whether to subtract the squared mean of the gradients, which estimates their variance.
        name: Prefix of the slot variables' names.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     train = tf.train.RMSPropOptimizer(0.1, momentum=0.9).minimize(tf.reduce_sum(w * w))
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print(sess.run(w))
    [0.8245884 1.7470179]
    """

    def __init__(self, learning_rate: Any, decay: Any = 0.9, momentum: Any = 0.0, epsilon: Any = 1e-10,
                 use_locking: bool = False, centered: bool = False, name: str = "RMSProp"):
        super().__init__(use_locking, name)
        self._learning_rate, self._decay, self._momentum = learning_rate, decay, momentum
        self._epsilon, self._centered = epsilon, centered
        self.rule = "CenteredRMSProp" if centered else "RMSProp"
        self.slots = ("mg", "rms", "momentum") if centered else ("rms", "momentum")

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            dtype = v.dtype.base_dtype
            if v.get_shape().is_fully_defined() or is_keyed(v):
                self._get_or_make_slot_with_initializer(v, Ones(dtype), v.get_shape(), dtype, "rms", self._name)
            else:
                self._get_or_make_slot(v, get("OnesLike")(v), "rms", self._name)
            if self._centered:
                self._zeros_slot(v, "mg", self._name)
            self._zeros_slot(v, "momentum", self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._learning_rate, "learning_rate"), "rho": (self._decay, "decay"),
                "momentum": (self._momentum, "momentum"), "epsilon": (self._epsilon, "epsilon")}

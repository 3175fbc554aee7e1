"""Gradient descent."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.ops.registry import get
from penstock._src.training.train.optimizer import RuleOptimizer, cast


@export(v1=["train.GradientDescentOptimizer"])
class GradientDescentOptimizer(RuleOptimizer):
    """var -= learning_rate * gradient.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the operations' names.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w * w))
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print(sess.run(w))
    [0.8 1.6]
    """

    rule = "GradientDescent"

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"alpha": (self._learning_rate, "learning_rate")}

    def _step(self, values: Any) -> Any:
        return get("Mul")(values, cast(self._given["alpha"], values.dtype.base_dtype))

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        delta = IndexedSlices(self._step(grad.values), grad.indices, grad.dense_shape)
        return var.scatter_sub(delta, use_locking=self._use_locking)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        return get("ResourceScatterSub")(handle.handle, indices, self._step(grad))

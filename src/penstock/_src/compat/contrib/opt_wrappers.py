"""tf.contrib.opt: optimizers around optimizers (norms of variables, missing losses, stale gradients); RegAdagrad."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_APPLY = ("_apply_dense", "_resource_apply_dense", "_apply_sparse", "_resource_apply_sparse")


def _export(thing: Any) -> Any:
    return export(v1=[f"contrib.opt.{thing.__name__}"])(thing)


class _Around(tf.train.Optimizer):
    """An optimizer whose gradients and slots are those of another one."""

    def __init__(self, opt: Any, use_locking: bool, name: str):
        super().__init__(use_locking, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the other optimizer."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the other optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The names of its slots."""
        return self._opt.get_slot_names(*args, **kwargs)


@_export
class VariableClippingOptimizer(_Around):
    """Scales variables down after each step, to an L2 norm of at most `max_norm` along dimensions; not the gradients.

    Args:
        opt: Optimizer that makes the steps.
        vars_to_clip_dims: For each variable, the dimensions that a norm is computed along.
        max_norm: Largest norm.
        use_locking: Accepted.
        colocate_clip_ops_with_vars: Whether norms are computed on the device of their variable.
        name: Name of the ops.

    >>> tf.contrib.opt.VariableClippingOptimizer(tf.train.AdamOptimizer(), {table: [1]}, max_norm=2.0).minimize(loss)
    """

    def __init__(self, opt: Any, vars_to_clip_dims: dict, max_norm: Any, use_locking: bool = False,
                 colocate_clip_ops_with_vars: bool = False, name: str = "VariableClipping"):
        super().__init__(opt, use_locking, name)
        self._dims, self._max_norm = {v.op.name: list(dims) for v, dims in vars_to_clip_dims.items()}, max_norm
        self._near = colocate_clip_ops_with_vars

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """One step of the other optimizer, then the norms of the variables that it has changed."""
        pairs = list(grads_and_vars)
        with tf.name_scope(name, self._name) as name:
            step = self._opt.apply_gradients(pairs, global_step=global_step)
            with tf.control_dependencies([step]):
                clips = [self._clip(g, v) for g, v in pairs if g is not None and v.op.name in self._dims]
            return tf.group(step, *clips, name=name)

    def _clip(self, grad: Any, var: Any) -> Any:
        dims = self._dims[var.op.name]
        if isinstance(grad, tf.IndexedSlices) and 0 not in dims:        # the other rows are as they were
            indices = tf.unique(grad.indices)[0]
            rows = tf.gather(var, indices)
            return tf.scatter_update(var, indices, self._clipped(var, rows, dims))
        return tf.assign(var, self._clipped(var, var.read_value(), dims))

    def _clipped(self, var: Any, value: Tensor, dims: list) -> Tensor:
        with tf.colocate_with(var) if self._near else contextlib.nullcontext():
            return tf.clip_by_norm(value, self._max_norm, dims)


def _is_zero(grad: Any) -> Tensor:
    return tf.equal(tf.count_nonzero(grad.values if isinstance(grad, tf.IndexedSlices) else grad), 0)


@_export
class MultitaskOptimizerWrapper:
    """Has an optimizer leave variables, and their slots, as they are where a gradient consists of zeros.

    In a loss for several tasks, such a gradient means that a batch has no examples of a task.

    >>> optimizer = tf.contrib.opt.MultitaskOptimizerWrapper(tf.train.MomentumOptimizer(0.1, 0.9))
    >>> pairs, _ = tf.contrib.opt.clip_gradients_by_global_norm(optimizer.compute_gradients(loss), 15.0)
    >>> train = optimizer.apply_gradients(pairs)
    """

    def __init__(self, opt: Any):
        if not isinstance(opt, tf.train.Optimizer):
            raise TypeError("Supplied optimizer must be an instance of tf.train.Optimizer")
        self._opt = opt
        for name in _APPLY:
            setattr(opt, name, self._unless_zero(getattr(opt, name)))

    @staticmethod
    def _unless_zero(apply: Any) -> Any:
        def changed(grad: Any, *args: Any, **kwargs: Any) -> Any:
            def step() -> Any:
                with tf.control_dependencies([apply(grad, *args, **kwargs)]):
                    return tf.no_op()
            return tf.cond(_is_zero(grad), tf.no_op, step)
        return changed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opt, name)


@_export
def clip_gradients_by_global_norm(gradients_variables: Any, clip_norm: Any = 20.0) -> tuple[list, Tensor]:
    """Gradients scaled down so that their global norm is at most `clip_norm`, with their variables; and the norm.

    >>> pairs, norm = tf.contrib.opt.clip_gradients_by_global_norm(optimizer.compute_gradients(loss), 5.0)
    """
    gradients, variables = zip(*gradients_variables, strict=True)
    norm = tf.global_norm(gradients)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=tf.maximum(norm, 1e-10))     # there may be only zeros
    return list(zip(clipped, variables, strict=True)), norm


@_export
class DropStaleGradientOptimizer(_Around):
    """Drops the gradients of a worker if others have made more than `staleness` steps since it read the variables.

    >>> tf.contrib.opt.DropStaleGradientOptimizer(optimizer, staleness=10).minimize(loss, tf.train.get_global_step())
    """

    def __init__(self, opt: Any, staleness: int, use_locking: bool = False, name: str = "DropStaleGradient"):
        super().__init__(opt, use_locking, name)
        self._staleness = staleness

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the other optimizer, after the global step is read."""
        self._local_step = tf.train.get_global_step() + 0
        with tf.control_dependencies([self._local_step]):
            return self._opt.compute_gradients(tf.identity(loss), *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """A step if the gradients are fresh; returns the number of times that they were not."""
        pairs = list(grads_and_vars)
        dropped = tf.get_variable("stale_counter", [], initializer=tf.zeros_initializer(), trainable=False)

        def accept() -> Tensor:
            with tf.control_dependencies([self._opt.apply_gradients(pairs, global_step=global_step, name=name)]):
                return tf.constant(0.0)
        with tf.control_dependencies([g.values if isinstance(g, tf.IndexedSlices) else g for g, _ in pairs if g is not None]):
            age = tf.identity(global_step) - self._local_step
        count = tf.assign_add(dropped, tf.cond(age <= self._staleness, accept, lambda: tf.constant(1.0)))
        tf.summary.scalar("Gradient staleness percentage", dropped / tf.cast(global_step + 1, tf.float32))
        return count


@_export
class RegAdagradOptimizer(tf.train.AdagradOptimizer):
    """Adagrad with steps that leave its accumulators alone, so that regularization does not change the learning rates.

    >>> optimizer = tf.contrib.opt.RegAdagradOptimizer(0.1)
    >>> step = optimizer.minimize(loss)
    >>> with optimizer.avoid_updating_slots():
    ...     shrink = optimizer.minimize(penalty)
    """

    _update_slots = True

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1, use_locking: bool = False,
                 name: str = "RegAdagrad"):
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)

    @contextlib.contextmanager
    def avoid_updating_slots(self) -> Iterator[None]:
        """A context in which steps do not change the accumulators."""
        before, self._update_slots = self._update_slots, False
        try:
            yield
        finally:
            self._update_slots = before

    def _shortened(self, grad: Tensor, accumulated: Tensor) -> Tensor:
        return tf.cast(self._learning_rate_tensor, grad.dtype.base_dtype) * grad * tf.rsqrt(accumulated)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        if self._update_slots:
            return super()._apply_dense(grad, var)
        return tf.assign_sub(var, self._shortened(grad, self.get_slot(var, "accumulator"))).op

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return super()._resource_apply_dense(grad, var) if self._update_slots else self._apply_dense(grad, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return super()._apply_sparse(grad, var) if self._update_slots else self._rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return super()._resource_apply_sparse(grad, var, indices) if self._update_slots else self._rows(grad, var, indices)

    def _rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        accumulated = tf.gather(self.get_slot(var, "accumulator"), indices)
        return tf.group(tf.scatter_sub(var, indices, self._shortened(grad, accumulated)))

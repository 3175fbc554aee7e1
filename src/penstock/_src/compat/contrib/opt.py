"""tf.contrib.opt: more optimizers: LazyAdam, decoupled weight decay, moving averages, Nadam, AddSign and PowerSign, LARS,
scipy's."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.state.embeddings.variable import KeyedRows
from penstock.compat import v1 as tf

_Optimizer = tf.train.Optimizer


def _export(thing: Any) -> Any:
    return export(v1=[f"contrib.opt.{thing.__name__}"])(thing)


def _adam_numbers(optimizer: Any, dtype: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The bias-corrected rate of this step, both betas and epsilon, in a type."""
    given = {name: tf.cast(t, dtype) for name, t in optimizer._arguments().items()}
    rate = given["lr"] * tf.sqrt(1 - given["beta2_power"]) / (1 - given["beta1_power"])
    return rate, given["beta1"], given["beta2"], given["epsilon"]


@_export
class LazyAdamOptimizer(tf.train.AdamOptimizer):
    """Adam that, for sparse gradients, changes the moments of only the rows that have a gradient.

    >>> tf.contrib.opt.LazyAdamOptimizer(0.001).minimize(loss)
    """

    def _rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        rate, beta1, beta2, epsilon = _adam_numbers(self, var.dtype.base_dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * new_m / (tf.sqrt(new_v) + epsilon)
        return tf.group(tf.scatter_update(m, indices, new_m), tf.scatter_update(v, indices, new_v),
                        tf.scatter_sub(var, indices, step))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        return self._rows(grad, var, indices)


class DecoupledWeightDecayExtension:
    """Subtracts `weight_decay` times each variable, besides the optimizer's update (https://arxiv.org/abs/1711.05101)."""

    def __init__(self, weight_decay: Any, **kwargs: Any):
        self._decay_var_list: Any = None
        self._weight_decay = weight_decay
        super().__init__(**kwargs)

    def minimize(self, loss: Any, global_step: Any = None, var_list: Any = None, gate_gradients: int = 1,
                 aggregation_method: Any = None, colocate_gradients_with_ops: bool = False, name: str | None = None,
                 grad_loss: Any = None, decay_var_list: Any = None) -> Any:
        """One step; `decay_var_list` are the variables that decay, all if None."""
        self._decay_var_list = None if decay_var_list is None else {id(v) for v in decay_var_list}
        return super().minimize(loss, global_step=global_step, var_list=var_list, gate_gradients=gate_gradients,
                                aggregation_method=aggregation_method, name=name, grad_loss=grad_loss,
                                colocate_gradients_with_ops=colocate_gradients_with_ops)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None,
                        decay_var_list: Any = None) -> Any:
        """The same for existing gradients."""
        if decay_var_list is not None:
            self._decay_var_list = {id(v) for v in decay_var_list}
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _decayed(self, var: Any) -> list:
        owner = var.variable if isinstance(var, KeyedRows) else var
        if self._decay_var_list is not None and id(owner) not in self._decay_var_list:
            return []
        decay = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        return [tf.assign_sub(var, tf.cast(decay, var.dtype.base_dtype) * var)]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._resource_apply_sparse(grad, var, indices)


@export(v1=["contrib.opt.extend_with_decoupled_weight_decay"])
def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """An optimizer class with decoupled weight decay."""
    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """The base optimizer, with decoupled weight decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any):
            if args:
                import inspect
                names = list(inspect.signature(base_optimizer.__init__).parameters)[1:]
                kwargs.update(zip(names, args, strict=False))
            super().__init__(weight_decay, **kwargs)
    return OptimizerWithDecoupledWeightDecay


_export(DecoupledWeightDecayExtension)


@export(v1=["contrib.opt.AdamWOptimizer", "train.AdamWOptimizer"])
class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(self, weight_decay: Any, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, use_locking: bool = False, name: str = "AdamW"):
        super().__init__(weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
                         use_locking=use_locking, name=name)


@_export
class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(self, weight_decay: Any, learning_rate: Any, momentum: Any, use_locking: bool = False,
                 name: str = "MomentumW", use_nesterov: bool = False):
        super().__init__(weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking, name=name,
                         use_nesterov=use_nesterov)


class _Elementwise(_Optimizer):
    """An optimizer given by the change of a variable; sparse gradients are made dense."""

    def _change(self, grad: Tensor, var: Any) -> Tensor:
        raise NotImplementedError

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return tf.assign_sub(var, self._change(grad, var)).op

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return var.assign_sub(self._change(grad, var))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._apply_dense(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._resource_apply_dense(tf.scatter_nd(tf.cast(indices, tf.int32)[:, tf.newaxis], grad, tf.shape(var)), var)


class _Sign(_Elementwise):
    """The common part of AddSign and PowerSign: a moving average of gradients, whose sign is compared with the gradient's."""

    def __init__(self, learning_rate: Any, beta: float, decay_fn: Any, use_locking: bool, name: str):
        super().__init__(use_locking, name)
        self._lr, self._beta, self._decay_fn = learning_rate, beta, decay_fn

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """One step."""
        self._decay = None if self._decay_fn is None else self._decay_fn(global_step)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            self._zeros_slot(v, "m", self._name)

    def _agreement(self, grad: Tensor, var: Any) -> Tensor:
        m = self.get_slot(var, "m")
        m = tf.assign(m, self._beta * m + (1 - self._beta) * grad)
        agreed = tf.sign(grad) * tf.sign(m)
        return agreed if self._decay is None else tf.cast(self._decay, grad.dtype) * agreed


@_export
class AddSignOptimizer(_Sign):
    """(alpha + sign(g) * sign(m)) * g (https://arxiv.org/abs/1709.07417)."""

    def __init__(self, learning_rate: Any = 0.1, alpha: float = 1.0, beta: float = 0.9, sign_decay_fn: Any = None,
                 use_locking: bool = False, name: str = "AddSignOptimizer"):
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._alpha = alpha

    def _change(self, grad: Tensor, var: Any) -> Tensor:
        return tf.cast(self._lr, grad.dtype) * (self._alpha + self._agreement(grad, var)) * grad


@_export
class PowerSignOptimizer(_Sign):
    """base ** (sign(g) * sign(m)) * g (https://arxiv.org/abs/1709.07417)."""

    def __init__(self, learning_rate: Any = 0.1, base: float = np.e, beta: float = 0.9, sign_decay_fn: Any = None,
                 use_locking: bool = False, name: str = "PowerSignOptimizer"):
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._log_base = float(np.log(base))

    def _change(self, grad: Tensor, var: Any) -> Tensor:
        return tf.cast(self._lr, grad.dtype) * tf.exp(self._log_base * self._agreement(grad, var)) * grad


@_export
class LARSOptimizer(_Elementwise):
    """Layer-wise adaptive rates (https://arxiv.org/abs/1708.03888)."""

    def __init__(self, learning_rate: Any, momentum: float = 0.9, weight_decay: float = 0.0001, eeta: float = 0.001,
                 epsilon: float = 0.0, name: str = "LARSOptimizer", skip_list: Any = None, use_nesterov: bool = False):
        super().__init__(False, name)
        if momentum < 0.0:
            raise ValueError(f"momentum should be positive: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"weight_decay should be positive: {weight_decay}")
        self._lr, self._momentum, self._weight_decay, self._eeta = learning_rate, momentum, weight_decay, eeta
        self._epsilon, self._skip, self._nesterov = epsilon, skip_list, use_nesterov

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _change(self, grad: Tensor, var: Any) -> Tensor:
        rate = tf.cast(self._lr, grad.dtype)
        if self._skip is None or not any(v in var.name for v in self._skip):
            w, g = tf.norm(var), tf.norm(grad)
            ratio = self._eeta * w / (g + self._weight_decay * w + self._epsilon)
            rate = rate * tf.where((w > 0) & (g > 0), ratio, tf.ones_like(ratio))
            grad = grad + self._weight_decay * var
        grad, slot = rate * grad, self.get_slot(var, "momentum")        # rates of earlier steps stay in the sum
        total = tf.assign(slot, self._momentum * slot + grad)
        return grad + self._momentum * total if self._nesterov else total

    def _rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        """Momentum without adaptive rates, for the rows that have a gradient."""
        rate, slot = tf.cast(self._lr, grad.dtype), self.get_slot(var, "momentum")
        total = self._momentum * tf.gather(slot, indices) + grad
        change = rate * (grad + self._momentum * total if self._nesterov else total)
        with tf.control_dependencies([change]):
            return tf.group(tf.scatter_update(slot, indices, total), tf.scatter_sub(var, indices, change))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._rows(grad, var, indices)


@_export
class NadamOptimizer(tf.train.AdamOptimizer):
    """Adam with Nesterov momentum."""

    def _change(self, grad: Tensor, var: Any) -> Tensor:
        rate, beta1, beta2, epsilon = _adam_numbers(self, grad.dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m = tf.assign(m, beta1 * m + (1 - beta1) * grad)
        v = tf.assign(v, beta2 * v + (1 - beta2) * tf.square(grad))
        ahead = grad * (1 - beta1) + beta1 * m
        return rate * ahead / (tf.sqrt(v) + epsilon)

    _apply_dense = _Elementwise._apply_dense
    _resource_apply_dense = _Elementwise._resource_apply_dense
    _apply_sparse = _Elementwise._apply_sparse
    _resource_apply_sparse = _Elementwise._resource_apply_sparse


@_export
class MovingAverageOptimizer(_Optimizer):
    """An optimizer around another one, which keeps moving averages of the variables; its saver swaps them in.

    >>> optimizer = tf.contrib.opt.MovingAverageOptimizer(tf.train.AdamOptimizer())
    """

    def __init__(self, opt: Any, average_decay: float = 0.9999, num_updates: Any = None, sequential_update: bool = True):
        super().__init__(False, "MovingAverageOptimizer")
        self._optimizer, self._sequential_update = opt, sequential_update
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._swapped: dict[str, Any] | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Those of the inner optimizer."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """One step, then the averages."""
        grads_and_vars = list(grads_and_vars)
        train = self._optimizer.apply_gradients(grads_and_vars, global_step=global_step, name=name)
        variables = [v for _, v in grads_and_vars]
        with tf.control_dependencies([train] if self._sequential_update else []):
            average = self._ema.apply(variables)
        self._swapped = {}
        for v in variables:
            mean = self._ema.average(v)
            self._swapped[v.op.name], self._swapped[mean.op.name] = mean, v
        return tf.group(train, average, name="train_with_avg")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Any:
        """A saver that writes averages under the names of the variables."""
        if self._swapped is None:
            raise RuntimeError("swapping_saver() needs the averages: call minimize() or apply_gradients() first")
        variables = tf.global_variables() if var_list is None else var_list
        named = variables if isinstance(variables, dict) else {v.op.name: v for v in variables}
        return tf.train.Saver({key: self._swapped.get(v.op.name, v) for key, v in named.items()}, name=name, **kwargs)


@_export
class ExternalOptimizerInterface:
    """An optimizer outside of the graph: the loss and its gradient as a function of one vector."""

    def __init__(self, loss: Any, var_list: Any = None, equalities: Any = None, inequalities: Any = None,
                 var_to_bounds: Any = None, **optimizer_kwargs: Any):
        self._loss, self._vars = loss, list(tf.trainable_variables() if var_list is None else var_list)
        self._equalities, self._inequalities = list(equalities or ()), list(inequalities or ())
        self.optimizer_kwargs = optimizer_kwargs
        self._bounds = None if var_to_bounds is None else {v.name: b for v, b in var_to_bounds.items()}
        self._functions = [loss, *self._equalities, *self._inequalities]
        self._gradients = [tf.concat([tf.reshape(tf.zeros_like(v) if g is None else g, [-1]) for g, v in zip(
            tf.gradients(f, self._vars), self._vars, strict=True)], 0) for f in self._functions]
        self._fed = [tf.placeholder(v.dtype.base_dtype, v.shape) for v in self._vars]
        self._assign = tf.group(*[tf.assign(v, p) for v, p in zip(self._vars, self._fed, strict=True)])

    def _set(self, session: Any, flat: np.ndarray) -> None:
        parts = np.split(flat, np.cumsum([v.shape.num_elements() for v in self._vars])[:-1])
        session.run(self._assign, {p: part.reshape(p.shape.as_list()) for p, part in zip(self._fed, parts, strict=True)})

    def minimize(self, session: Any = None, feed_dict: Any = None, fetches: Any = None, step_callback: Any = None,
                 loss_callback: Any = None, **run_kwargs: Any) -> None:
        """Minimizes, and leaves the best values in the variables."""
        session, feed = session or tf.get_default_session(), feed_dict or {}
        start = np.concatenate([np.reshape(v, [-1]) for v in session.run(self._vars)]).astype(np.float64)

        def function(index: int) -> Any:
            def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
                self._set(session, x)
                value, gradient, *more = session.run([self._functions[index], self._gradients[index], *(fetches or ())], feed)
                if index == 0 and loss_callback is not None:
                    loss_callback(*more)
                return float(value), np.asarray(gradient, np.float64)
            return evaluate

        best = self._minimize(start, function, step_callback)
        self._set(session, best)

    def _minimize(self, start: np.ndarray, function: Any, step_callback: Any) -> np.ndarray:
        raise NotImplementedError("Subclasses of ExternalOptimizerInterface must define _minimize().")


@_export
class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """Minimizes with scipy.optimize.minimize (L-BFGS-B, SLSQP with constraints, ...); scipy must be installed.

    >>> tf.contrib.opt.ScipyOptimizerInterface(loss, options={"maxiter": 100}).minimize(session)
    """

    def _minimize(self, start: np.ndarray, function: Any, step_callback: Any) -> np.ndarray:
        import scipy.optimize
        kwargs = dict(self.optimizer_kwargs)
        constraints = []
        for i in range(1, len(self._functions)):
            kind = "eq" if i <= len(self._equalities) else "ineq"
            f = function(i)
            constraints.append({"type": kind, "fun": lambda x, f=f: f(x)[0], "jac": lambda x, f=f: f(x)[1]})
        kwargs.setdefault("method", "SLSQP" if constraints else "L-BFGS-B")
        bounds = None
        if self._bounds is not None:
            bounds = []
            for v in self._vars:
                low, high = self._bounds.get(v.name, (-np.inf, np.inf))
                shape = v.shape.as_list()
                bounds += list(zip(np.broadcast_to(low, shape).ravel(), np.broadcast_to(high, shape).ravel(), strict=True))
        return scipy.optimize.minimize(function(0), start, jac=True, callback=step_callback, constraints=constraints,
                                       bounds=bounds, **kwargs).x


@_export
class AdaMaxOptimizer(_Elementwise):
    """Adam with the largest gradient so far, which decays, in place of the mean of squares."""

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 use_locking: bool = False, name: str = "AdaMax"):
        super().__init__(use_locking, name)
        self._numbers = learning_rate, beta1, beta2, epsilon

    def _create_slots(self, var_list: Any) -> None:
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(initial_value=self._numbers[1], name="beta1_power", colocate_with=first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _power(self) -> Any:
        return self._get_non_slot_variable("beta1_power", graph=tf.get_default_graph())

    def _step(self, grad: Tensor, m: Any, v: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The new moments, and the change of the variable."""
        numbers = [tf.cast(n() if callable(n) else n, grad.dtype) for n in (*self._numbers, self._power())]
        rate, beta1, beta2, epsilon, power = numbers
        m, v = beta1 * m + (1 - beta1) * grad, tf.maximum(beta2 * v, tf.abs(grad))
        return m, v, rate / (1 - power) * m / (v + epsilon)

    def _change(self, grad: Tensor, var: Any) -> Tensor:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m, new_v, change = self._step(grad, m, v)
        with tf.control_dependencies([change]), tf.control_dependencies([tf.assign(m, new_m), tf.assign(v, new_v)]):
            return tf.identity(change)

    def _rows(self, grad: Tensor, var: Any, indices: Tensor) -> Any:
        """Moments of rows without a gradient stay as they are."""
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m, new_v, change = self._step(grad, tf.gather(m, indices), tf.gather(v, indices))
        with tf.control_dependencies([change]):
            return tf.group(tf.scatter_update(m, indices, new_m), tf.scatter_update(v, indices, new_v),
                            tf.scatter_sub(var, indices, change))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._rows(grad, var, indices)

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        with tf.control_dependencies(update_ops):
            power = self._power()
            return tf.group(*update_ops, tf.assign(power, power * self._numbers[1]), name=name_scope)

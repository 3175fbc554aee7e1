"""The base of Keras' optimizers: hyperparameters that are variables, slots beside the variables, and one update per step.

`apply_gradients` makes what is missing (the step counter, the hyperparameters, the slots), computes what all updates share
once per device and type (`_prepare_local`), and lets the subclass say how one gradient changes one variable, with the ops of
`ops/nn/training.py`. The same code builds a graph, runs at once, or is traced into a function.

The optimizers of the two APIs differ in details (where epsilon stands, what a configuration holds): `_modern` tells which.
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.eager.tape import GradientTape
from penstock._src.graph import context, scopes
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import gradients
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, init_scope, name_scope
from penstock._src.graph.trackable import VARIABLE_VALUE_KEY, Trackable
from penstock._src.models.distribute.cross_device_ops import mirrored
from penstock._src.models.keras import backend, initializers
from penstock._src.models.keras.optimizers import schedules
from penstock._src.models.keras.optimizers.averages import MovingAverages
from penstock._src.models.keras.optimizers.custom import CustomSteps
from penstock._src.models.keras.utils.generic_utils import to_snake_case
from penstock._src.ops.array.array import shape
from penstock._src.ops.core import group, identity
from penstock._src.ops.math import clip
from penstock._src.ops.registry import get
from penstock._src.state.embeddings.options import constant_of
from penstock._src.state.embeddings.variable import KeyedRows, is_keyed
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization
from penstock._src.state.variables.variable import Variable, VariableV1
from penstock._src.training.train.optimizer import cast, deduplicated, is_resource, replica_of_strategy, run_on_rows
from penstock._src.training.train.schedules import LearningRateSchedule
from penstock._src.training.train.slot_creator import beside

_OPTIONS = ("clipnorm", "clipvalue", "global_clipnorm")


class CallableList(list):
    """A list that returns itself when it is called: `variables` is a property in Keras 3 and a method before."""

    def __call__(self) -> CallableList:
        return self


def _var_key(var: Any) -> str:
    """The name under which the slots of a variable are kept."""
    container = getattr(var, "_distributed_container", None)
    if container is not None:
        var = container()
    return var._unique_id if is_resource(var) else var.op.name


def new_variable(name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool = False, **kwargs: Any) -> Any:
    """A variable of an optimizer; `initializer` is a function of shape and dtype, or the value itself."""
    kwargs.pop("use_resource", None)
    value = functools.partial(initializer, shape, dtype=dtype) if callable(initializer) else initializer
    with init_scope():
        return VariableV1(value, name=name, dtype=dtype, trainable=trainable, use_resource=True, **kwargs)


class _Hyper:
    """Hyperparameters read as attributes: an optimizer's `learning_rate` is the value in its table."""

    _hyper: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        name = "learning_rate" if name == "lr" else name
        if name not in ("_hyper", "_hypers_created") and name in self.__dict__.get("_hyper", ()):
            return self._hyper_attribute(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        name = "learning_rate" if name == "lr" else name
        if name in self.__dict__.get("_hyper", ()):
            self._set_hyper(name, value)
        else:
            super().__setattr__(name, value)

    def _set_hyper(self, name: str, value: Any) -> None:
        """Sets a hyperparameter: a number, a tensor, a function or a schedule."""
        raise NotImplementedError

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        raise NotImplementedError


def aggregates(options: dict[str, Any]) -> bool:
    """Whether `apply_gradients` with these keywords is to add up the gradients of all replicas."""
    return options.get("experimental_aggregate_gradients", not options.get("skip_gradients_aggregation", False))


@export(v1=["keras.optimizers.Optimizer"], v2=["keras.optimizers.legacy.Optimizer"])
class Optimizer(_Hyper, CustomSteps, MovingAverages, Trackable):
    """Base of the optimizers. A subclass has `_create_slots`, `_resource_apply_dense`, `_resource_apply_sparse`, `get_config`.

    >>> opt = tf.keras.optimizers.SGD(0.1)
    >>> opt.minimize(lambda: x * x, [x])
    """

    _modern = False
    _HAS_AGGREGATE_GRAD = True
    # The slots of a variable, by group, with their names in the newer optimizers: a group's are kept variable by variable.
    _slot_groups: tuple[dict[str, str], ...] = ()
    clipnorm: Any = None
    clipvalue: Any = None
    global_clipnorm: Any = None

    def __init__(self, name: Any = None, **kwargs: Any):
        if name is not None and not isinstance(name, str):       # Keras 3 has the learning rate first
            kwargs["learning_rate"], name = name, kwargs.pop("name", None)
        rate = kwargs.pop("learning_rate", None)
        allowed = {*_OPTIONS, *self._averaging_options, "lr", "decay", "weight_decay", "jit_compile", "is_legacy_optimizer"}
        for key, value in kwargs.items():
            if key not in allowed:
                raise TypeError(f"Unexpected keyword argument passed to optimizer: {key}")
            if value is not None and not callable(value) and not isinstance(value, (Tensor, Variable)) and value < 0:
                raise ValueError(f"Expected {key} >= 0, received: {value}")
        self._use_locking = True
        self._init_set_name(name)
        self._hyper: dict[str, Any] = {}
        self._slots: dict[str, dict[str, Any]] = {}
        self._slot_names: list[str] = []
        self._weights: list[Any] = []
        self._iterations: Any = None
        self._deferred_slot_restorations: dict[tuple, list] = {}
        self._initial_decay = kwargs.pop("decay", None) or 0.0
        self._weight_decay = kwargs.pop("weight_decay", None)
        self.jit_compile = bool(kwargs.pop("jit_compile", False))
        self._init_averages(kwargs)
        for key in _OPTIONS:
            if kwargs.get(key) is not None:
                setattr(self, key, kwargs[key])
        if self.clipnorm is not None and self.global_clipnorm is not None:
            raise ValueError(f"Pass `clipnorm` or `global_clipnorm`, not both: got `clipnorm` {self.clipnorm}, "
                             f"`global_clipnorm` {self.global_clipnorm}")
        self._hypers_created = self._is_built = False
        if rate is not None:
            self._set_hyper("learning_rate", rate)

    def _init_set_name(self, name: str | None, zero_based: bool = True) -> None:
        if not name:
            name = backend.unique_object_name(to_snake_case(type(self).__name__), zero_based=zero_based)
        self._name = name

    name = property(lambda self: self._name, doc="The name of the optimizer.")
    weight_decay = property(lambda self: self._weight_decay, doc="How much of each variable goes at each step, times the rate.")

    # -- gradients ----------------------------------------------------------------------------------------------------
    def minimize(self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None, tape: Any = None) -> Any:
        """Runs one training step on `loss`, a function (or a tensor that `tape` recorded)."""
        given = {} if tape is None else {"tape": tape}         # subclasses written before 2.4 take no tape
        return self.apply_gradients(self._compute_gradients(loss, var_list=var_list, grad_loss=grad_loss, **given), name=name)

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> list:
        """Pairs (gradient, variable)."""
        if not callable(loss) and tape is None:
            raise ValueError("A loss that is a tensor needs the `tape` that recorded it.")
        if callable(loss):
            with GradientTape() as tape:
                if not callable(var_list):
                    tape.watch(var_list)
                loss = loss()
        var_list = nest.flatten(var_list() if callable(var_list) else var_list)
        with name_scope(self._name + "/gradients"):
            grads = tape.gradient(loss, var_list, grad_loss)
        pairs = list(zip(grads, var_list, strict=True))
        self._assert_valid_dtypes([v for g, v in pairs if g is not None and v.dtype != dtypes.resource])
        return pairs

    def get_gradients(self, loss: Any, params: Any) -> list:
        """The gradients of a loss in a graph."""
        params = nest.flatten(params)
        with backend.get_graph().as_default(), name_scope(self._name + "/gradients"):
            grads = gradients(loss, params)
            for grad, param in zip(grads, params, strict=True):
                if grad is None:
                    raise ValueError(f"Variable {param} has `None` for gradient. Please make sure that all of your ops have a "
                                     "gradient defined (i.e. are differentiable). Common ops without gradient: K.argmax, "
                                     "K.round, K.eval.")
            return grads if self._modern else self._clip(grads)

    def get_updates(self, loss: Any, params: Any) -> list:
        """The op that applies the gradients of a loss, in a list."""
        pairs = list(zip(self.get_gradients(loss, params), params, strict=True))
        self._assert_valid_dtypes([v for g, v in pairs if g is not None and v.dtype != dtypes.resource])
        return [self.apply_gradients(pairs)]

    def _clip(self, grads: list) -> list:
        """The clipped gradients."""
        if self.clipvalue is not None:
            grads = [g if g is None else clip.clip_by_value(g, -self.clipvalue, self.clipvalue) for g in grads]
        if self.clipnorm is not None:
            grads = [g if g is None else clip.clip_by_norm(g, self.clipnorm) for g in grads]
        if self.global_clipnorm is not None:
            grads = list(clip.clip_by_global_norm(grads, self.global_clipnorm)[0])
        return grads

    # -- updates ------------------------------------------------------------------------------------------------------
    def apply_gradients(self, grads_and_vars: Iterable, name: str | None = None, **kwargs: Any) -> Any:
        """Applies gradients to variables, and counts the step.

        >>> opt.apply_gradients(zip(tape.gradient(loss, vs), vs))
        """
        for key in kwargs:
            if key not in ("experimental_aggregate_gradients", "skip_gradients_aggregation"):
                raise TypeError(f"apply_gradients() got an unexpected keyword argument '{key}'")
        pairs = self._filter_grads(grads_and_vars)
        if not pairs:
            return group()
        replica = replica_of_strategy([v for _, v in pairs])
        if replica is not None:
            return replica.merge_call(self._distributed_apply, args=(pairs,),
                                      kwargs={"name": name, "aggregate": aggregates(kwargs)})
        var_list = [v for _, v in pairs]
        with name_scope(self._name):
            self._build_outside(var_list)
            pairs = self._clipped_at_last(pairs)
            state = self._prepare(var_list)
            with name_scope(name or self._name):
                return self._finish(self._updates(pairs, state), var_list)

    def _clipped_at_last(self, pairs: list) -> list:
        """Clips the gradients when they are applied; once more those of `get_gradients`, which changes nothing."""
        if all(getattr(self, o) is None for o in _OPTIONS):
            return pairs
        with name_scope("clip"):
            return list(zip(self._clip([g for g, _ in pairs]), [v for _, v in pairs], strict=True))

    def _distributed_apply(self, strategy: Any, pairs: Any, name: str | None = None, aggregate: bool = True) -> Any:
        """Applies the sum of the replicas' gradients to all copies of the variables."""
        extended = strategy.extended
        if aggregate:
            summed = extended.batch_reduce_to("SUM", pairs)
            pairs = [(g, v) for g, (_, v) in zip(summed, pairs, strict=True)]
        var_list = [v for _, v in pairs]
        with name_scope(self._name):
            self._build_outside(var_list)
            state = self._prepare([copy for v in var_list for copy in strategy.experimental_local_results(v)])
            pairs = self._clipped_across(strategy, pairs)

            def update(copy: Any, grad: Any) -> Any:
                return self._update_one(grad, copy, state)
            with name_scope(name or self._name):
                done = [u for g, v in pairs for u in extended.update(v, update, args=(g,), group=False)]
                return self._finish(done, var_list)

    def _clipped_across(self, strategy: Any, pairs: list) -> list:
        """As `_clipped_at_last`, for each copy of the gradients."""
        if all(getattr(self, o) is None for o in _OPTIONS):
            return pairs
        copies = [strategy.experimental_local_results(g) for g, _ in pairs]
        cut = [self._clipped_at_last([(c[min(i, len(c) - 1)], None) for c in copies])
               for i in range(max(map(len, copies)))]
        return [(mirrored([row[k][0] for row in cut]), v) for k, (_, v) in enumerate(pairs)]

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Applies gradients in the order of the variables, as Keras 3 has it."""
        if trainable_variables is not None:
            self._trained = list(trainable_variables)
        self.apply_gradients(list(zip(grads, self._trained, strict=True)))

    def _build_outside(self, var_list: list) -> None:
        """Builds outside of the function that is traced: a subclass may make variables in `build`."""
        if type(self).build is Optimizer.build:
            self.build(var_list)
            return
        with init_scope():
            self.build(var_list)

    def build(self, var_list: Any) -> None:
        """Makes the step counter, the hyperparameters and the slots of the variables, as far as they are missing."""
        with init_scope():
            _ = self.iterations
            self._create_hypers()
            first = len(self._weights)
            self._create_averages(var_list)
            self._create_slots(var_list)
            self._arrange_new_weights(first, var_list)
            self._trained = list(var_list)
            if self._has_step():
                self._build_index_dict(var_list)
            self._is_built = True

    def _arrange_new_weights(self, first: int, var_list: Any) -> None:
        """Called by `build` with the number of weights before it."""

    def slots_by_variable(self, var_list: Any) -> list:
        """The slots of variables in the order of newer optimizers: those of a group variable by variable, then the next group.

        Files of Keras have them in this order.
        """
        groups = ({"average": "average"}, *(self._slot_groups or ({n: n for n in self._slot_names if n != "average"},)))
        return [self.get_slot(v, name) for group in groups for v in var_list for name in group if self._has_slot(v, name)]

    def _has_slot(self, var: Any, slot_name: str) -> bool:
        first = var.variables[0] if hasattr(var, "is_sharded_variable") else var
        return slot_name in self._slots.get(_var_key(first), {})

    _var_key = staticmethod(_var_key)
    _trainable_variables = property(lambda self: self._trained, doc="The variables that it changes.")
    built = property(lambda self: self._is_built, doc="Whether it has its variables.")

    def _updates(self, pairs: list, state: dict) -> list:
        done = []
        for grad, var in pairs:
            own = "update" if context.eager_outside_functions() else "update_" + var.op.name
            with name_scope(own), scopes.colocate_with(var):
                done.append(self._update_one(grad, var, state))
        return done

    def _update_one(self, grad: Any, var: Any, state: dict) -> Any:
        if isinstance(var, Tensor):
            raise NotImplementedError(f"Trying to update a Tensor, which is no variable: {var}. Is the pair swapped? It is "
                                      "(gradient, variable).")
        if is_keyed(var):
            return self._update_rows(grad, var, state)
        before = self._decay_weights(var, state)
        with control_dependencies([] if before is None else [before]):
            if self._has_step():
                return self._step(grad, var, state)
            if isinstance(grad, IndexedSlices):
                if var.constraint is not None:
                    raise RuntimeError("Variables with sparse gradients cannot have a constraint.")
                given = {"apply_state": state} if "apply_state" in _arguments(type(self)._resource_apply_sparse) else {}
                return self._resource_apply_sparse_duplicate_indices(grad.values, var, grad.indices, **given)
            given = {"apply_state": state} if "apply_state" in _arguments(type(self)._resource_apply_dense) else {}
            update = self._resource_apply_dense(grad, var, **given)
        if var.constraint is None:
            return update
        with control_dependencies([] if update is None else [update]):
            return var.assign(var.constraint(var))

    def _update_rows(self, grad: Any, var: Any, state: dict) -> Any:
        """Updates the looked-up rows of an embedding variable as a dense variable."""
        rows = KeyedRows(var, grad, type(self).__name__, cast(self.iterations, dtypes.int64))
        before = self._decay_weights(rows, state)
        with control_dependencies([] if before is None else [before]):
            given = {"apply_state": state} if "apply_state" in _arguments(type(self)._resource_apply_dense) else {}
            return rows.close(self._resource_apply_dense(rows.gradient, rows, **given))

    def _finish(self, updates: list, var_list: list) -> Any:
        """Counts the step when all updates are done."""
        if context.executing_eagerly():
            self._update_averages(var_list)
            return self.iterations.assign_add(1)
        with control_dependencies([u for u in updates if u is not None]):
            averaged = self._update_averages(var_list)
        with control_dependencies([u for u in updates if u is not None] + averaged):
            return self.iterations.assign_add(1, read_value=context.current_graph().building_function)

    def _decay_weights(self, var: Any, state: dict) -> Any:
        if not self._weight_decay or not self._uses_weight_decay(var):
            return None
        rate, decay = self._coefficients(var, state)["lr_t"], cast(self._weight_decay, var.dtype.base_dtype)
        if not isinstance(var, KeyedRows) and is_resource(var):
            return get("_ResourceDecayWeights")(var.handle, rate, decay)
        return var.assign_sub(var * rate * decay)

    def _prepare(self, var_list: list) -> dict:
        """The tensors shared by all updates, by device and type."""
        state: dict = {}
        for device, dtype in dict.fromkeys((v.device, v.dtype.base_dtype) for v in var_list):
            state[device, dtype] = {}
            with scopes.device(device or None):
                self._prepare_local(device, dtype, state)
        return state

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        """Adds to `apply_state[var_device, var_dtype]` the tensors that updates of such variables take."""
        if "learning_rate" in self._hyper:
            rate = identity(self._decayed_lr(var_dtype))
            apply_state[var_device, var_dtype].update(lr_t=rate, lr=rate)

    def _fallback_apply_state(self, var_device: Any, var_dtype: Any) -> dict:
        state: dict = {(var_device, var_dtype): {}}
        self._prepare_local(var_device, var_dtype, state)
        return state[var_device, var_dtype]

    def _coefficients(self, var: Any, apply_state: dict | None) -> dict:
        """The result of `_prepare_local` for a variable's device and type."""
        key = var.device, var.dtype.base_dtype
        return (apply_state or {}).get(key) or self._fallback_apply_state(*key)

    def _rule(self, rule: str, var: Any, slots: Iterable[str], given: dict, grad: Any, indices: Any = None,
              **attrs: Any) -> Any:
        """Runs a training op: its arguments after the states are found in `given` by their names. A rule for which TensorFlow
        has no op begins with an underscore."""
        if isinstance(var, KeyedRows):
            done = run_on_rows(rule, var, list(slots), given, attrs)
            if done is not NotImplemented:
                return done
        resource = is_resource(var)
        where = f"{'Resource' if resource else ''}{'' if indices is None else 'Sparse'}Apply"
        opdef = get(f"_{where}{rule[1:]}" if rule[0] == "_" else where + rule)
        states = [var, *(self.get_slot(var, s) for s in slots)]
        found = {"grad": grad, "delta": grad, "indices": indices}
        args = [found[n] if n in found else given[n] for n in opdef.input_names[len(states):]]
        done = opdef(*(s.handle if resource else s._ref() for s in states), *args, use_locking=self._use_locking, **attrs)
        return done if resource else done.op

    # -- what subclasses say ------------------------------------------------------------------------------------------
    def _create_slots(self, var_list: list) -> None:
        """Creates the slots of the variables."""

    def _resource_apply_dense(self, grad: Any, handle: Any, apply_state: dict | None = None) -> Any:
        """How a gradient changes a variable; a subclass in the newer styles has `update_step` instead."""
        raise NotImplementedError(f"{type(self).__name__} must implement _resource_apply_dense or update_step.")

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any, **kwargs: Any) -> Any:
        if self._modern:
            return self._apply_keras(grad, handle, self._coefficients(handle, kwargs.get("apply_state")), indices)
        values, unique = deduplicated(grad, indices)
        return self._resource_apply_sparse(values, handle, unique, **kwargs)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any, apply_state: dict | None = None) -> Any:
        """How a gradient of some rows changes a variable: as one of all rows, unless a subclass overrides it."""
        dense = self._spread(grad, handle, indices)
        given = {"apply_state": apply_state} if "apply_state" in _arguments(type(self)._resource_apply_dense) else {}
        return self._resource_apply_dense(dense, handle, **given)

    @staticmethod
    def _spread(rows: Any, var: Any, indices: Any) -> Any:
        """Rows at their places among zeros; those of repeated indices added up."""
        return get("ScatterNd")(get("ExpandDims")(indices, -1), rows, cast(shape(var.value()), indices.dtype))

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        """How gradients change a variable in the 2.x optimizers. With sparse ones all rows move, and rows of repeated
        indices are added up first."""
        return self._resource_apply_dense(grad if indices is None else self._spread(grad, var, indices), var)

    def _resource_scatter_add(self, x: Any, i: Any, v: Any) -> Any:
        done = get("ResourceScatterAdd")(x.handle, i, v)
        with control_dependencies([] if done is None else [done]):
            return x.value()

    def _resource_scatter_update(self, x: Any, i: Any, v: Any) -> Any:
        done = get("ResourceScatterUpdate")(x.handle, i, v)
        with control_dependencies([] if done is None else [done]):
            return x.value()

    def _decayed_rows(self, slot: Any, decay: Any, indices: Any, rows: Any) -> Any:
        """All of a slot times `decay`, plus rows; returns its new value."""
        shrunk = slot.assign(slot * decay, use_locking=self._use_locking)
        with control_dependencies([shrunk]):
            return self._resource_scatter_add(slot, indices, rows)

    # -- hyperparameters ----------------------------------------------------------------------------------------------
    def _set_learning_rate(self, learning_rate: Any, kwargs: dict) -> None:
        """The hyperparameters that every optimizer has."""
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)

    def _set_hyper(self, name: str, value: Any) -> None:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"`{name}` of {type(self).__name__} must be a number, a tensor, a schedule or a function, got "
                            f"{value!r}.")
        if isinstance(value, Trackable) and not isinstance(value, Tensor):
            self._track_trackable(value, name, overwrite=True)
        before = self._hyper.get(name)
        if isinstance(before, Variable) and not isinstance(value, LearningRateSchedule) and not callable(value):
            backend.set_value(before, value)
        else:
            self._hyper[name] = value

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        """A hyperparameter: a variable, a tensor or a schedule; for a function, its current result."""
        if not self._hypers_created:
            self._create_hypers()
        value = self._hyper[name]
        if isinstance(value, LearningRateSchedule):
            return value
        value = value() if callable(value) else value
        return cast(value, dtypes.as_dtype(dtype)) if dtype else value

    def _create_hypers(self) -> None:
        if self._hypers_created:
            return
        with init_scope():
            for name, value in sorted(self._hyper.items()):
                if not isinstance(value, (Tensor, Variable)) and not callable(value):
                    self._hyper[name] = self._new_hyper(name, float(value))
        self._hypers_created = True

    def _new_hyper(self, name: str, value: float) -> Any:
        """The variable of a hyperparameter."""
        return self.add_weight(name, shape=[], trainable=False, initializer=value,
                               aggregation=VariableAggregation.ONLY_FIRST_REPLICA)

    def _decayed_lr(self, var_dtype: Any) -> Any:
        """The rate of this step, in a type."""
        rate = self._get_hyper("learning_rate", var_dtype)
        if isinstance(rate, LearningRateSchedule):
            rate = cast(rate(cast(self.iterations, var_dtype)), var_dtype)
        if self._initial_decay > 0:
            rate = rate / (1.0 + self._get_hyper("decay", var_dtype) * cast(self.iterations, var_dtype))
        return rate

    def _serialize_hyperparameter(self, hyperparameter_name: str) -> Any:
        """A hyperparameter as a configuration has it."""
        value = self._hyper[hyperparameter_name]
        if isinstance(value, LearningRateSchedule):
            return schedules.serialize(value)
        if callable(value):
            return value()
        return backend.get_value(value) if isinstance(value, (Tensor, Variable)) else value

    # -- variables ----------------------------------------------------------------------------------------------------
    @property
    def iterations(self) -> Any:
        """The variable that counts the steps."""
        if self._iterations is None:
            with init_scope():
                self._iterations = self._new_counter()
            self._weights.append(self._iterations)
        return self._iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        if self._iterations is not None:
            raise RuntimeError("`iterations` cannot be replaced after the optimizer has made its variables")
        self._iterations = variable
        self._weights.append(variable)

    def _new_counter(self) -> Any:
        return self.add_weight("iter", shape=[], dtype=dtypes.int64, trainable=False,
                               aggregation=VariableAggregation.ONLY_FIRST_REPLICA)

    def add_weight(self, name: str, shape: Any, dtype: Any = None, initializer: Any = "zeros", trainable: bool | None = None,
                   synchronization: Any = VariableSynchronization.AUTO, aggregation: Any = VariableAggregation.NONE) -> Any:
        """A variable that belongs to the optimizer, saved under its name."""
        if isinstance(initializer, str) or callable(initializer):
            initializer = initializers.get(initializer)
        if synchronization == VariableSynchronization.ON_READ:
            if trainable:
                raise ValueError("Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable "
                                 "variables. You have specified trainable=True and "
                                 "synchronization=VariableSynchronization.ON_READ.")
            trainable = False
        made = self._add_variable_with_custom_getter(
            name=name, shape=shape, getter=new_variable, overwrite=True, initializer=initializer,
            dtype=dtypes.float32 if dtype is None else dtypes.as_dtype(dtype),
            trainable=True if trainable is None else trainable,
            use_resource=True, synchronization=synchronization, aggregation=aggregation)
        backend.track_variable(made)
        return made

    def add_slot(self, var: Any, slot_name: str, initializer: Any = "zeros") -> Any:
        """A variable like `var` beside it."""
        if slot_name not in self._slot_names:
            self._slot_names.append(slot_name)
        if is_keyed(var):
            initial = constant_of(initializers.get(initializer) if isinstance(initializer, str) else initializer)
            if initial is None:
                raise ValueError(f"Slot {slot_name} of embedding variable {var.name} must be initialized with one constant")
            return var.add_slot(f"{type(self).__name__}/{slot_name}", initial)
        slots = self._slots.setdefault(_var_key(var), {})
        if slot_name not in slots:
            if isinstance(initializer, str) or callable(initializer):
                initializer = functools.partial(initializers.get(initializer), shape=var.shape, dtype=var.dtype.base_dtype)
            with beside(var):
                made = VariableV1(initializer, name=self._slot_title(var._shared_name, slot_name), dtype=var.dtype.base_dtype,
                                  trainable=False, use_resource=is_resource(var))
            backend.track_variable(made)
            slots[slot_name] = made
            self._restore_slot_variable(slot_name, var, made)
            self._weights.append(made)
        return slots[slot_name]

    def _slot_title(self, variable: str, slot_name: str) -> str:
        """The name of a slot's variable."""
        return f"{variable}/{slot_name}"

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """The slot of a variable; of one in shards, those of the shards as one."""
        if hasattr(var, "is_sharded_variable"):
            return var._beside([self.get_slot(v, slot_name) for v in var.variables], slot_name)
        if isinstance(var, KeyedRows):
            return var.row_slot(slot_name)
        return self._slots[_var_key(var)][slot_name]

    def get_slot_names(self) -> list[str]:
        """The names of the slots, in the order in which they were created."""
        return self._slot_names

    variables = property(lambda self: CallableList(self._weights), doc="The optimizer's variables, in the order of making.")
    weights = property(lambda self: self._weights, doc="The optimizer's variables, in the order of making.")

    def get_weights(self) -> list[np.ndarray]:
        """The values of the optimizer's variables."""
        return backend.batch_get_value(self.weights)

    def set_weights(self, weights: Any) -> None:
        """Sets the optimizer's variables, in the order of `get_weights`."""
        params = self.weights
        if len(params) != len(weights):
            raise ValueError(f"You called `set_weights(weights)` on optimizer {self._name} with a  weight list of length "
                             f"{len(weights)}, but the optimizer was expecting {len(params)} weights. Provided weights: "
                             f"{str(weights)[:50]}...")
        for p, w in zip(params, weights, strict=True):
            if tuple(p.shape.as_list()) != np.shape(w):
                raise ValueError(f"Optimizer weight shape {p.shape} not compatible with provided weight shape {np.shape(w)}")
        backend.batch_set_value(list(zip(params, weights, strict=True)))

    # -- configuration ------------------------------------------------------------------------------------------------
    _config_hypers: tuple[str, ...] = ()
    _config_fields: tuple[str, ...] = ()

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the optimizer, without its state."""
        config: dict[str, Any] = {"name": self._name}
        config.update({key: getattr(self, key) for key in _OPTIONS if getattr(self, key) is not None})
        if self._weight_decay is not None:
            config["weight_decay"] = self._weight_decay
        config.update(self._averages_config())
        for key in self._config_hypers:
            config[key] = self._initial_decay if key == "decay" else self._serialize_hyperparameter(key)
        for key in self._config_fields:
            config[key] = getattr(self, key)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer of a configuration."""
        config = dict(config)
        if "lr" in config:
            config["learning_rate"] = config.pop("lr")
        if isinstance(config.get("learning_rate"), dict):
            config["learning_rate"] = schedules.deserialize(config["learning_rate"], custom_objects=custom_objects)
        return cls(**config)

    # -- checks -------------------------------------------------------------------------------------------------------
    def _valid_dtypes(self) -> set:
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
                *((dtypes.complex64, dtypes.complex128) if context.process.eager else ())}       # not in 1.x

    def _assert_valid_dtypes(self, tensors: Iterable) -> None:
        for t in tensors:
            if t.dtype.base_dtype not in self._valid_dtypes():
                raise ValueError(f"Invalid type {t.dtype.base_dtype!r} for {t.name}, expected: {list(self._valid_dtypes())}.")

    def _call_if_callable(self, param: Any) -> Any:
        return param() if callable(param) else param

    @staticmethod
    def _filter_grads(grads_and_vars: Iterable) -> list:
        """The pairs that have a gradient; a ValueError if none has, a warning if some have not."""
        pairs = list(grads_and_vars)
        kept = [(_as_gradient(g), v) for g, v in pairs if g is not None]
        if pairs and not kept:
            raise ValueError(f"No gradients provided for any variable: {[v.name for _, v in pairs]}.")
        missing = [v.name for g, v in pairs if g is None]
        if missing:
            logging.warning("Gradients do not exist for variables %s when minimizing the loss.", missing)
        return kept

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def _restore_slot_variable(self, slot_name: str, variable: Any, slot_variable: Any) -> None:
        """Restores a new slot from pending restores, the newest first."""
        waiting = self._deferred_slot_restorations.pop((slot_name, _var_key(variable)), ())
        for position in sorted(waiting, key=lambda p: p.restore_uid, reverse=True):
            position.restore(slot_variable)

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, slot_name: str, variable: Any) -> None:
        """Restores a slot. In eager mode it is created for that; in graphs the value waits until the slot exists."""
        if hasattr(variable, "is_sharded_variable"):
            for v in variable.variables:
                self.add_slot(v, slot_name)
            slot_variable_position.restore(self.get_slot(variable, slot_name))
            return
        slot = self._slots.get(_var_key(variable), {}).get(slot_name)
        if slot is None and context.executing_eagerly() and slot_variable_position.is_simple_variable():
            value = slot_variable_position.value_tensors()[VARIABLE_VALUE_KEY]
            slot = self.add_slot(variable, slot_name, initializer=value)
        if slot is not None:
            slot_variable_position.restore(slot)
        else:
            self._deferred_slot_restorations.setdefault((slot_name, _var_key(variable)), []).append(slot_variable_position)


@functools.cache
def _arguments(method: Any) -> frozenset:
    return frozenset(inspect.signature(method).parameters)


def _as_gradient(grad: Any) -> Any:
    if isinstance(grad, (Tensor, IndexedSlices)):
        return grad
    return convert(grad)

"""Optimizer: gradients of a loss, and the ops that apply them to variables.

`minimize` calls `compute_gradients` and `apply_gradients`. A subclass defines how one gradient is applied to one variable: by
overriding `_apply_dense`, `_apply_sparse` and their `_resource_` forms, or, for the optimizers of this package, by naming the
update op and its arguments (`RuleOptimizer`).
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.eager.tape import GradientTape
from penstock._src.graph import context, scopes
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import gradients
from penstock._src.graph.indexed_slices import IndexedSlices, convert_to_tensor_or_indexed_slices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, init_scope, name_scope
from penstock._src.graph.strategies import active_frame, active_strategy
from penstock._src.graph.trackable import VARIABLE_VALUE_KEY, Trackable, TrackableReference
from penstock._src.ops.core import group, tuple_
from penstock._src.ops.registry import get
from penstock._src.ops.state.keyed import training_op
from penstock._src.state.embeddings.options import constant_of
from penstock._src.state.embeddings.variable import KeyedRows, is_keyed
from penstock._src.state.variables.collections import trainable_variables
from penstock._src.state.variables.variable import Variable, VariableV1
from penstock._src.training.train import slot_creator
from penstock._src.training.train.global_step import get_global_step
from penstock._src.training.train.loss_reduction import get_loss_reduction


def _var_key(var: Any) -> Any:
    """The key of a variable's slots; copies on several devices share that of the variable."""
    container = getattr(var, "_distributed_container", None)
    var = getattr(var if container is None else container(), "_primary", var)
    op = getattr(var, "op", None)                      # None if eager
    return (op.graph, op.name) if op is not None else var._unique_id


def is_resource(var: Any) -> bool:
    """Whether a variable has a handle."""
    return not isinstance(var, Tensor) and hasattr(var, "handle")


def is_eager_variable(var: Any) -> bool:
    """Whether a variable owns its value, outside of any graph."""
    return is_resource(var) and not var._in_graph_mode


def cast(value: Any, dtype: Any) -> Any:
    """A number or tensor as a tensor of `dtype`."""
    t = value if isinstance(value, Tensor) else convert(value)
    return t if t.dtype.base_dtype == dtype else get("Cast")(t, DstT=dtype)


def call_if_callable(param: Any) -> Any:
    """A hyperparameter may be a function of no arguments."""
    return param() if callable(param) else param


def deduplicated(values: Any, indices: Any) -> tuple[Any, Any]:
    """Rows of repeated indices added up, and the distinct indices."""
    unique, where = get("Unique")(indices)
    return get("UnsortedSegmentSum")(values, where, get("Shape")(unique)[0]), unique


@export(v1=["train.Optimizer"])
class Optimizer(Trackable):
    """Base of the optimizers.

    >>> opt = tf.train.GradientDescentOptimizer(0.1)
    >>> train = opt.minimize(loss)
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str):
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking, self._name = use_locking, name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._non_slot_dict: dict[tuple, Any] = {}
        self._deferred_slot_restorations: dict[tuple, list] = {}

    def get_name(self) -> str:
        """The name of the optimizer."""
        return self._name

    # -- the two halves -----------------------------------------------------------------------------------------------
    def minimize(self, loss: Any, global_step: Any = None, var_list: Any = None, gate_gradients: int = GATE_OP,
                 aggregation_method: Any = None, colocate_gradients_with_ops: bool = False, name: str | None = None,
                 grad_loss: Any = None) -> Any:
        """An op that changes the variables so that `loss` (in eager mode: a function) gets smaller."""
        pairs = self.compute_gradients(loss, var_list=var_list, gate_gradients=gate_gradients,
                                       aggregation_method=aggregation_method,
                                       colocate_gradients_with_ops=colocate_gradients_with_ops, grad_loss=grad_loss)
        if all(g is None for g, _ in pairs):
            raise ValueError("No gradients provided for any variable, check your graph for ops that do not support "
                             f"gradients, between variables {[str(v) for _, v in pairs]} and loss {loss}.")
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(self, loss: Any, var_list: Any = None, gate_gradients: int = GATE_OP,
                          aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                          grad_loss: Any = None) -> list:
        """Pairs (gradient, variable); the gradient is a tensor, IndexedSlices or None."""
        loss = self._scaled(loss)
        if callable(loss):
            return self._compute_by_tape(loss, var_list, grad_loss)
        if context.executing_eagerly():
            raise RuntimeError("`loss` passed to Optimizer.compute_gradients should be a function when eager execution "
                               "is enabled.")
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError("gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, "
                             f"Optimizer.GATE_GRAPH.  Not {gate_gradients}")
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        if var_list is None:
            graph = context.current_graph()
            var_list = trainable_variables() + graph.get_collection(GraphKeys.TRAINABLE_RESOURCE_VARIABLES)
        else:
            var_list = nest.flatten(var_list)
        targets = [_target(v) for v in var_list]
        if not var_list:
            raise ValueError("No variables to optimize.")
        grads = gradients(loss, targets, grad_ys=grad_loss, gate_gradients=gate_gradients == self.GATE_OP,
                          aggregation_method=aggregation_method,
                          colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gate_gradients == self.GATE_GRAPH:
            grads = tuple_(grads)
        pairs = list(zip(grads, var_list, strict=True))
        self._assert_valid_dtypes([v for g, v in pairs if g is not None and v.dtype != dtypes.resource])
        return pairs

    @staticmethod
    def _scaled(loss: Any) -> Any:
        """An estimator's loss, in a replica: divided by the number of replicas, if their mean is wanted."""
        strategy = active_strategy()
        count = 1 if strategy is None else strategy.num_replicas_in_sync
        if count == 1 or get_loss_reduction().value != "MEAN":
            return loss
        return (lambda: loss() / count) if callable(loss) else loss / count

    def _compute_by_tape(self, loss: Any, var_list: Any, grad_loss: Any) -> list:
        with GradientTape() as tape:
            if var_list is not None:
                tape.watch(var_list)
            value = loss()
        if var_list is None:
            var_list = tape.watched_variables()
        with control_dependencies([value]):
            grads = tape.gradient(value, var_list, grad_loss)
        return list(zip(grads, var_list, strict=True))

    def apply_gradients(self, grads_and_vars: Iterable, global_step: Any = None, name: str | None = None) -> Any:
        """An op that applies gradients, and then increments `global_step`."""
        pairs = [(_checked_gradient(g), v) for g, v in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        for _, v in pairs:
            _target(v)
        var_list = [v for g, v in pairs if g is not None]
        if not var_list:
            raise ValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
        replica = replica_of_strategy(var_list)
        if replica is not None:
            return replica.merge_call(self._distributed_apply, args=(pairs, global_step, name))
        with init_scope():
            self._create_slots(var_list)
        name = name if name is not None else self.get_name()
        with name_scope(name, self._name) as scope:
            self._prepare()
            updates = [self._update_one(g, v) for g, v in pairs if g is not None]
            done = self._finish(updates, scope) if global_step is None else \
                self._count(global_step, updates, scope)
            return _collected(done)

    def _distributed_apply(self, distribution: Any, grads_and_vars: Any, global_step: Any = None,
                           name: str | None = None) -> Any:
        """Applies the sum of the replicas' gradients to all copies of the variables."""
        extended = distribution.extended
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        var_list = [v for _, v in pairs]
        reduced = extended.batch_reduce_to("SUM", pairs)
        with init_scope():
            self._create_slots(var_list)
        with name_scope(name if name is not None else self.get_name(), self._name) as scope:
            self._prepare()
            updates = [u for g, v in zip(reduced, var_list, strict=True)
                       for u in extended.update(v, lambda copy, grad: self._update_one(grad, copy), args=(g,), group=False)]
            finished = extended.update_non_slot(extended.non_slot_devices(var_list), lambda: self._finish(updates, "update"),
                                                group=False)
            if global_step is None:
                return _collected(group(*finished, name=scope))
            with control_dependencies([f for f in nest.flatten(finished) if f is not None]):
                counted = extended.update(global_step, lambda copy, one: copy.assign_add(one, read_value=False), args=(1,),
                                          group=False)
            return _collected(group(*counted, name=scope))

    def _count(self, global_step: Any, updates: list, scope: str) -> Any:
        finished = self._finish(updates, "update")
        with control_dependencies([] if finished is None else [finished]), scopes.colocate_with(global_step):
            if is_resource(global_step):
                return get("AssignAddVariableOp")(global_step.handle, convert(1, global_step.dtype), name=scope)
            return get("AssignAdd")(global_step, convert(1, global_step.dtype.base_dtype), name=scope)

    def _update_one(self, grad: Any, var: Any) -> Any:
        if isinstance(var, Tensor):
            raise NotImplementedError(f"Trying to update a Tensor, which is no variable: {var}. Is the pair swapped? It is "
                                      "(gradient, variable).")
        own = "" if context.executing_eagerly() or is_eager_variable(var) else var.op.name
        with name_scope("update_" + own), scopes.colocate_with(var):
            if is_keyed(var):
                rows = KeyedRows(var, grad, self._name, current_step())
                return rows.close(self._resource_apply_dense(rows.gradient, rows))
            if isinstance(grad, IndexedSlices):
                if var.constraint is not None:
                    raise RuntimeError("Cannot use a constraint function on a sparse variable.")
                if is_resource(var):
                    return self._resource_apply_sparse_duplicate_indices(grad.values, var, grad.indices)
                return self._apply_sparse_duplicate_indices(grad, var)
            update = self._resource_apply_dense(grad, var) if is_resource(var) else self._apply_dense(grad, var)
            if var.constraint is None:
                return update
            with control_dependencies([] if update is None else [update]):
                return var.assign(var.constraint(var))

    # -- slots and other state ----------------------------------------------------------------------------------------
    def get_slot(self, var: Any, name: str) -> Any:
        """The slot of a variable, or None."""
        if isinstance(var, KeyedRows):
            return var.row_slot(name)
        return self._slots.get(name, {}).get(_var_key(var))

    def get_slot_names(self) -> list[str]:
        """The names of the slots, sorted."""
        return sorted(self._slots)

    def variables(self) -> list:
        """The variables that hold the optimizer's state in the current graph."""
        graph = context.current_graph()
        found = [*self._non_slot_variables(), *(v for slots in self._slots.values() for v in slots.values())]
        return sorted((v for v in found if (v._graph_key if is_eager_variable(v) else v.op.graph) is graph),
                      key=lambda v: v.name)

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        """A variable that is not a slot, made once per graph."""
        key = (name, None if context.executing_eagerly() else colocate_with.graph)
        if key not in self._non_slot_dict:
            with slot_creator.beside(colocate_with):
                restored = self._preload_simple_restoration(name) if context.executing_eagerly() else None
                made = VariableV1(initial_value if restored is None else restored, name=name, trainable=False,
                                  use_resource=is_resource(colocate_with))
            self._non_slot_dict[key] = made
            self._handle_deferred_dependencies(name=name, trackable=made)
        return self._non_slot_dict[key]

    def _get_non_slot_variable(self, name: str, graph: Any = None) -> Any:
        return self._non_slot_dict.get((name, graph))

    def _non_slot_variables(self) -> Any:
        return self._non_slot_dict.values()

    def _slot_dict(self, slot_name: str) -> dict:
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Any:
        slots = self._slot_dict(slot_name)
        if _var_key(var) not in slots:
            slots[_var_key(var)] = slot_creator.create_slot(var, val, op_name)
            self._restore_slot_variable(slot_name, var, slots[_var_key(var)])
        return slots[_var_key(var)]

    def _get_or_make_slot_with_initializer(self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str,
                                           op_name: str) -> Any:
        if is_keyed(var):
            return self._keyed_slot(var, slot_name, constant_of(initializer))
        slots = self._slot_dict(slot_name)
        if _var_key(var) not in slots:
            slots[_var_key(var)] = slot_creator.create_slot_with_initializer(var, initializer, shape, dtype, op_name)
            self._restore_slot_variable(slot_name, var, slots[_var_key(var)])
        return slots[_var_key(var)]

    def _keyed_slot(self, var: Any, slot_name: str, initial: float | None) -> Any:
        """A slot of an embedding variable, which its rows carry."""
        if initial is None:
            raise ValueError(f"Slot {slot_name} of embedding variable {var.name} must begin with one number in all places")
        return var.add_slot(f"{self._name}/{slot_name}", initial)

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        if is_keyed(var):
            return self._keyed_slot(var, slot_name, 0.0)
        slots = self._slot_dict(slot_name)
        if _var_key(var) not in slots:
            slots[_var_key(var)] = slot_creator.create_zeros_slot(var, op_name)
            self._restore_slot_variable(slot_name, var, slots[_var_key(var)])
        return slots[_var_key(var)]

    # -- checkpoints of objects ---------------------------------------------------------------------------------------
    @property
    def _checkpoint_dependencies(self) -> list:
        """The variables of the current graph that are not slots."""
        key = None if context.executing_eagerly() else context.current_graph()
        own = [TrackableReference(name, v) for (name, graph), v in self._non_slot_dict.items() if graph is key]
        return sorted(own, key=lambda d: d.name) + super()._checkpoint_dependencies

    def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any:
        found = super()._lookup_dependency(name)
        if found is not None:
            return found
        return self._get_non_slot_variable(name, None if context.executing_eagerly() else context.current_graph())

    def _restore_slot_variable(self, slot_name: str, variable: Any, slot_variable: Any) -> None:
        """Restores a new slot from pending restores, the newest first."""
        waiting = self._deferred_slot_restorations.pop((slot_name, _var_key(variable)), ())
        for position in sorted(waiting, key=lambda p: p.restore_uid, reverse=True):
            position.restore(slot_variable)

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, slot_name: str, variable: Any) -> None:
        """Restores a slot. In eager mode it is created for that; in graphs the value waits until the slot exists."""
        slot = self._slot_dict(slot_name).get(_var_key(variable))
        if slot is None and context.executing_eagerly() and slot_variable_position.is_simple_variable():
            value = slot_variable_position.value_tensors()[VARIABLE_VALUE_KEY]
            slot = self._get_or_make_slot(variable, value, slot_name, self._name)
        if slot is not None:
            slot_variable_position.restore(slot)
        else:
            self._deferred_slot_restorations.setdefault((slot_name, _var_key(variable)), []).append(slot_variable_position)

    # -- what subclasses override ------------------------------------------------------------------------------------------
    def _valid_dtypes(self) -> set:
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _assert_valid_dtypes(self, tensors: Iterable) -> None:
        for t in tensors:
            if t.dtype.base_dtype not in self._valid_dtypes():
                raise ValueError(f"Invalid type {t.dtype.base_dtype!r} for {t.name}, expected: "
                                 f"{list(self._valid_dtypes())}.")

    def _create_slots(self, var_list: list) -> None:
        """Makes the slots of the variables."""

    def _prepare(self) -> None:
        """Makes the tensors that all updates share."""

    def _call_if_callable(self, param: Any) -> Any:
        return call_if_callable(param)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        raise NotImplementedError

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        values, indices = deduplicated(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._resource_apply_sparse(*_swapped(*deduplicated(grad, indices), handle))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        raise NotImplementedError

    def _finish(self, update_ops: list, name_scope: str) -> Any:
        return group(*update_ops, name=name_scope)


def replica_of_strategy(var_list: list) -> Any:
    """The replica that gradients are applied in, under a strategy; None without one.

    RuntimeError across replicas, and for variables with several copies outside of their strategy: one alone would change.
    """
    frame = active_frame()
    if frame is not None:
        if frame.replica is None:
            raise RuntimeError("`apply_gradients() cannot be called in cross-replica context. Use "
                               "`tf.distribute.Strategy.run` to enter replica context.")
        return frame.replica
    for v in var_list:
        if getattr(v, "_own_saveable", False):
            raise RuntimeError(f"Variable '{v.name}' of shape {v.shape} was made under {v._distribute_strategy}: gradients can "
                               "be applied to it only inside of the replicas, in a function that `strategy.run` calls.")
    return None


def _collected(done: Any) -> Any:
    """The op that applies gradients, put into the graph's collection of such ops."""
    if not context.executing_eagerly():
        done = done.op if isinstance(done, Tensor) else done
        collection = context.current_graph().get_collection_ref(GraphKeys.TRAIN_OP)
        if done not in collection:
            collection.append(done)
    return done


def _swapped(values: Any, indices: Any, handle: Any) -> tuple:
    return values, handle, indices


def _target(v: Any) -> Any:
    """The tensor to differentiate by; NotImplementedError for unsupported types."""
    if isinstance(v, Tensor) or is_resource(v):
        return v
    if isinstance(v, Variable):
        return v._ref()  # type: ignore[attr-defined]
    if hasattr(v, "op"):
        raise NotImplementedError(f"Trying to optimize unsupported type {v}")
    raise AttributeError(f"'{type(v).__name__}' object has no attribute 'op'")


def _checked_gradient(grad: Any) -> Any:
    if grad is None:
        return None
    try:
        grad = convert_to_tensor_or_indexed_slices(grad)
    except TypeError:
        raise TypeError(f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {grad}") from None
    return grad


def current_step() -> Any:
    """The global step, for the versions of keys; -1 without one."""
    step = get_global_step()
    return convert(-1, dtypes.int64) if step is None else cast(step if isinstance(step, Tensor) else step.value(), dtypes.int64)


def run_on_rows(rule: str, rows: Any, slots: list[str], given: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """Updates rows of an embedding variable by the rule of a training op; NotImplemented if the op has to run on a copy."""
    update = training_op(rule)
    numbers = [cast(given[n], rows.dtype) for n in update.input_names[len(slots) + 1:] if n not in ("grad", "delta")]
    option = attrs.get("use_nesterov", attrs.get("update_slots", "update_slots" in update.attrs))
    return rows.apply(rule, slots, numbers, option)


class RuleOptimizer(Optimizer):
    """An optimizer whose updates are ops: `rule` names the family (see ops/nn/training.py), `slots` its states."""

    rule = ""
    slots: tuple[str, ...] = ()

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        """Numbers, tensors or functions by the names of the op's arguments, with names for their tensors."""
        raise NotImplementedError

    def _prepare(self) -> None:
        self._given = {argument: convert(call_if_callable(value), name=name)
                       for argument, (value, name) in self._hyper().items()}
        for argument, (_, name) in self._hyper().items():        # subclasses read them under one of these names
            setattr(self, f"_{argument}_t", self._given[argument])
            setattr(self, f"_{name}_tensor", self._given[argument])

    def _arguments(self) -> dict[str, Any]:
        """The arguments of the op; they are cast to the variable's type."""
        return self._given

    def _options(self) -> dict[str, Any]:
        """Attributes of the op."""
        return {}

    def _states(self, var: Any) -> list:
        return [var, *(self.get_slot(var, s) for s in self.slots)]

    def _run(self, grad: Any, var: Any, indices: Any = None) -> Any:
        if isinstance(var, KeyedRows):
            done = run_on_rows(self.rule, var, list(self.slots), self._arguments(), self._options())
            if done is not NotImplemented:
                return done
        resource = is_resource(var)
        hidden = "_" if self.rule[0] == "_" else ""
        kind = f"{'Resource' if resource else ''}{'' if indices is None else 'Sparse'}"
        opdef = get(f"{hidden}{kind}Apply{self.rule[len(hidden):]}")
        states = [s.handle if resource else s._ref() for s in self._states(var)]
        dtype, given = var.dtype.base_dtype, self._arguments()
        args = [grad if n in ("grad", "delta") else indices if n == "indices" else given[n] if n == "global_step"
                else cast(given[n], dtype) for n in opdef.input_names[len(states):]]
        done = opdef(*states, *args, use_locking=self._use_locking, **self._options())
        return done if resource else done.op

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._run(grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._run(grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._run(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._run(grad, handle, indices)


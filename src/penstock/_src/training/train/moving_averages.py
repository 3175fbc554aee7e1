"""Moving averages of variables and tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.graph.strategies import active_replica
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.state.variables import collections as variable_lists
from penstock._src.state.variables import functions
from penstock._src.state.variables.initializers import Zeros
from penstock._src.state.variables.scope import get_variable, get_variable_scope, variable_scope
from penstock._src.state.variables.variable import Variable
from penstock._src.training.train import slot_creator
from penstock._src.training.train.optimizer import cast


@export("__internal__.train.assign_moving_average")
def assign_moving_average(variable: Any, value: Any, decay: Any, zero_debias: bool = True,
                          name: str | None = None) -> Any:
    """variable = decay * variable + (1 - decay) * value, optionally corrected for a start at zero.

    In a replica of a strategy, `value` is the mean over all replicas.
    """
    replica = active_replica() if getattr(variable, "_own_saveable", False) else None
    if replica is not None:
        def merge(strategy: Any, values: Any) -> Any:
            mean = strategy.extended.reduce_to("MEAN", values, variable)
            return assign_moving_average(variable, strategy.experimental_local_results(mean)[0], decay, zero_debias, name)
        return replica.merge_call(merge, args=(convert(value),))
    with name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope:
        rate = cast(convert(1.0 - decay, name="decay"), variable.dtype.base_dtype)
        if zero_debias:
            return _zero_debiased(variable, value, rate)
        return _move(variable, value, rate, scope)


def _move(variable: Any, value: Any, rate: Any, name: str | None = None) -> Any:
    """Moves the variable towards a value by a fraction of the difference."""
    return functions.assign_sub(variable, (variable.value() - value) * rate, name=name)


def _unused(name: str) -> str:
    """`name`, with _1, _2 … appended when a variable of the open scope has it, unless variables are reused."""
    scope = get_variable_scope()
    if scope.reuse:
        return name
    taken = {v.op.name for v in scope.global_variables() if hasattr(v, "op")}
    full, i = f"{scope.name}/{name}", 0
    while (f"{full}_{i}" if i else full) in taken:
        i += 1
    return f"{name}_{i}" if i else name


def _zero_debiased(variable: Any, value: Any, rate: Any) -> Any:
    """Keeps the biased average and the number of updates, to divide the bias out."""
    dtype = variable.dtype.base_dtype
    with variable_scope(variable.name[:-2], values=[variable, value, rate]):
        biased = get_variable(_unused("biased"), initializer=Zeros(), shape=variable.get_shape(), dtype=dtype,
                              trainable=False)
        steps = get_variable(_unused("local_step"), shape=[], dtype=dtype, initializer=Zeros(), trainable=False)
    moved = _move(biased, value, rate)
    one = cast(1.0, dtype)
    unmoved = get("Pow")(one - rate, steps.assign_add(one))
    scope = "" if context.executing_eagerly() else context.current_graph().get_name_scope() + "/"
    return functions.assign(variable, moved / (one - unmoved), name=scope or None)


def weighted_moving_average(value: Any, decay: Any, weight: Any, truediv: bool = True, collections: Any = None,
                            name: str | None = None) -> Any:
    """moving_average(value * weight) / moving_average(weight)."""
    collections = [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections
    with variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        sums = []
        for own, t in (("value_x_weight", value * weight), ("weight", weight)):
            like = value if own == "value_x_weight" else weight
            held = get_variable(own, shape=like.get_shape(), dtype=like.dtype, initializer=Zeros(), trainable=False,
                                collections=collections)
            sums.append(assign_moving_average(held, t, decay, zero_debias=False))
        kind = "RealDiv" if truediv or value.dtype.is_floating else "FloorDiv"
        return get(kind)(*sums, name=scope.name)


def _plain_name(v: Any) -> str:
    """The name of a variable without the number of the output. Variables of eager execution have no op."""
    return v.name.rsplit(":", 1)[0]


@export("train.ExponentialMovingAverage")
class ExponentialMovingAverage:
    """Keeps shadow variables that follow variables (or tensors) with an exponential decay.

    Args:
        decay: Part of the old average that is kept, such as 0.999.
        num_updates: Step counter; with it the decay is smaller in the first steps.
        zero_debias: Whether averages of tensors are corrected for beginning at 0.
        name: Prefix of the shadow variables' names.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     w = tf.Variable(1.)
    ...     ema = tf.train.ExponentialMovingAverage(decay=0.9)
    ...     update = ema.apply([w])
    ...     sess.run(tf.compat.v1.global_variables_initializer())
    ...     w.load(11.)
    ...     sess.run(update)
    ...     print(sess.run(ema.average(w)))
    2.0000002
    """

    def __init__(self, decay: Any, num_updates: Any = None, zero_debias: bool = False,
                 name: str = "ExponentialMovingAverage"):
        self._decay, self._num_updates, self._zero_debias, self._name = decay, num_updates, zero_debias, name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """The name of this object, and the last part of the shadow variables' names."""
        return self._name

    def apply(self, var_list: Any = None) -> Any:
        """An op that moves the averages; makes the shadow variables on the first call."""
        var_list = variable_lists.trainable_variables() if var_list is None else var_list
        for v in var_list:
            if hasattr(v, "_value"):
                raise TypeError("tf.train.ExponentialMovingAverage does not support non-Variable tensors when eager "
                                "execution is enabled.")
            if v.dtype.base_dtype not in (dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64):
                raise TypeError(f"The variables must be half, float, or double: {v.name}")
        debiased = {v.ref() for v in var_list if v.ref() not in self._averages and self._shadow(v)}
        with name_scope(self.name) as scope:
            decay = self._current_decay()
            return group(*[assign_moving_average(self._averages[v.ref()], v, decay, v.ref() in debiased)
                           for v in var_list], name=scope)

    def _shadow(self, v: Any) -> bool:
        """Makes the shadow of a variable or tensor; returns whether its average needs bias correction."""
        with init_scope():
            if isinstance(v, Variable):
                made = slot_creator.create_slot(v, v.initialized_value(), self.name)
                context.current_graph().add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, v)
            else:
                made = slot_creator.create_zeros_slot(v, self.name, colocate_with_primary=v.dtype._is_ref_dtype)
        self._averages[v.ref()] = made
        return not isinstance(v, Variable) and self._zero_debias

    def _current_decay(self) -> Any:
        decay = convert(self._decay, name="decay")
        if self._num_updates is None:
            return decay
        n = get("Cast")(self._num_updates, DstT=dtypes.float32, name="num_updates")
        return get("Minimum")(decay, (n + 1.0) / (n + 10.0))

    def average(self, var: Any) -> Any:
        """The shadow variable of `var`, or None."""
        return self._averages.get(var.ref())

    def average_name(self, var: Any) -> str:
        """The name that the shadow variable of `var` has, or would have."""
        if var.ref() in self._averages:
            return _plain_name(self._averages[var.ref()])
        return context.current_graph().unique_name(f"{_plain_name(var)}/{self.name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """Variables by the names to restore them from: averages where there are any."""
        if moving_avg_variables is None:
            moving_avg_variables = variable_lists.trainable_variables() + variable_lists.moving_average_variables()
        averaged = {v.ref(): v for v in moving_avg_variables}
        names = {self.average_name(v): v for v in averaged.values()}
        for v in variable_lists.global_variables():
            if v.ref() not in averaged:
                names.setdefault(_plain_name(v), v)
        return names

"""DeepRec's Adam and Adagrad, for asynchronous training and for unbounded data."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.scopes import colocate_with, control_dependencies
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.state.embeddings.variable import KeyedRows
from penstock._src.training.train.adagrad import AdagradOptimizer, constant_slot
from penstock._src.training.train.optimizer import RuleOptimizer, call_if_callable, cast, convert


@export(v1=["train.AdamAsyncOptimizer"])
class AdamAsyncOptimizer(RuleOptimizer):
    """Adam whose powers of the betas belong to each variable, so that workers do not share any. Sparse gradients change the
    averages of their rows only.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        beta1: Decay of the averaged gradients.
        beta2: Decay of the averaged squares.
        epsilon: Small number added to a denominator.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        apply_sparse_rmsprop: Whether rows of sparse gradients are updated by RMSProp, with beta1 as its momentum.
        name: Prefix of the slot variables' names.

    >>> train = tf.train.AdamAsyncOptimizer(0.001).minimize(loss)
    """

    def __init__(self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8,
                 use_locking: bool = False, apply_sparse_rmsprop: bool = False, name: str = "AdamAsync"):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._sparse_rmsprop = apply_sparse_rmsprop

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)
            for beta, power in (self._beta1, "beta1_power"), (self._beta2, "beta2_power"):
                self._create_non_slot_variable(call_if_callable(beta), self._power(v, power), v)

    def _power(self, var: Any, name: str) -> str:
        return f"{var._shared_name if context.executing_eagerly() else var.op.name}/{self._name}/{name}"

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._lr, "learning_rate"), "beta1": (self._beta1, "beta1"), "beta2": (self._beta2, "beta2"),
                "epsilon": (self._epsilon, "epsilon")}

    def _run(self, grad: Any, var: Any, indices: Any = None) -> Any:
        given, owner = self._given, var.variable if isinstance(var, KeyedRows) else var
        if self._sparse_rmsprop and (indices is not None or owner is not var):
            self.rule, self.slots = "RMSProp", ("v", "m")
            self._given = {"lr": given["lr"], "rho": given["beta2"], "momentum": given["beta1"], "epsilon": given["epsilon"]}
            done = super()._run(grad, var, indices)
            self._given = given
            return done
        graph = None if context.executing_eagerly() else context.current_graph()
        powers = [self._get_non_slot_variable(self._power(owner, n), graph) for n in ("beta1_power", "beta2_power")]
        self.rule, self.slots = "_LazyAdam", ("m", "v")
        self._given = {**given, "beta1_power": powers[0].value(), "beta2_power": powers[1].value()}
        done = super()._run(grad, var, indices)
        self._given = given
        with control_dependencies([] if done is None else [done]), colocate_with(powers[0]):
            moved = [p.assign(p.value() * cast(given[b], p.dtype.base_dtype), use_locking=self._use_locking)
                     for p, b in zip(powers, ("beta1", "beta2"), strict=True)]
        return group(*([] if done is None else [done]), *moved)


@export(v1=["train.AdagradDecayOptimizer"])
class AdagradDecayOptimizer(AdagradOptimizer):
    """Adagrad whose sums of squares decay every so many steps, but not below their first value, so that steps do not vanish
    in unbounded training. A row of an embedding decays when it next has a gradient, once per update.

    Args:
        learning_rate: Step size: a number, a tensor or a function without arguments.
        global_step: The variable that counts the steps.
        initial_accumulator_value: First and least value of the sums of squares; must be positive.
        accumulator_decay_step: After how many steps the sums decay.
        accumulator_decay_rate: What they are multiplied by.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the slot variables' names.

    >>> train = tf.train.AdagradDecayOptimizer(0.1, global_step).minimize(loss, global_step)
    """

    rule, slots = "_AdagradDecay", ("accumulator", "accumulator_decay_power")

    def __init__(self, learning_rate: Any, global_step: Any, initial_accumulator_value: float = 0.1,
                 accumulator_decay_step: int = 100000, accumulator_decay_rate: float = 0.9, use_locking: bool = False,
                 name: str = "AdagradDecay"):
        if accumulator_decay_step <= 0:
            raise ValueError(f"accumulator_decay_step must be positive: {accumulator_decay_step}")
        if not 0.0 < accumulator_decay_rate < 1.0:
            raise ValueError(f"accumulator_decay_rate must be in (0.0, 1.0): {accumulator_decay_rate}")
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._global_step, self._decay_step, self._decay_rate = global_step, accumulator_decay_step, accumulator_decay_rate

    def _create_slots(self, var_list: list) -> None:
        super()._create_slots(var_list)
        for v in var_list:
            constant_slot(self, v, "accumulator_decay_power", 0.0, self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {**super()._hyper(), "decay_rate": (self._decay_rate, "accumulator_decay_rate"),
                "baseline": (self._initial_accumulator_value, "accumulator_baseline")}

    def _prepare(self) -> None:
        super()._prepare()
        step = convert(self._global_step.value() if hasattr(self._global_step, "value") else self._global_step)
        self._given["periods"] = get("FloorDiv")(step + cast(1, step.dtype), cast(self._decay_step, step.dtype))

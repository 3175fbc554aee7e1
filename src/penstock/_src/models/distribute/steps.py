"""Several steps at once: a function that is called for each of some elements of an iterator, in one loop."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import control_dependencies
from penstock._src.models.distribute.contexts import get_replica_context, get_strategy, in_cross_replica_context
from penstock._src.ops.control.control_flow import while_loop
from penstock._src.ops.core import group, identity
from penstock._src.state.variables.reduce_op import ReduceOp


class MultiStepContext:
    """The outputs of a multi-step run: those of the last step, and non-tensors."""

    def __init__(self) -> None:
        self._last_step_outputs: dict[str, Any] = {}
        self._last_step_outputs_reduce_ops: dict[str, Any] = {}
        self._non_tensor_outputs: dict[str, Any] = {}
        self.run_op: Any = None

    last_step_outputs = property(lambda self: self._last_step_outputs, doc="The outputs of the last step, by name.")
    non_tensor_outputs = property(lambda self: self._non_tensor_outputs, doc="What is no tensor, by name.")

    def _set_last_step_outputs(self, outputs: dict) -> None:
        self._last_step_outputs = outputs

    def set_last_step_output(self, name: str, output: Any, reduce_op: Any = None) -> None:
        """Sets an output tensor of the last step; with `reduce_op`, reduced over the replicas."""
        if in_cross_replica_context():
            self._last_step_outputs_reduce_ops[name] = reduce_op
            self._last_step_outputs[name] = output if reduce_op is None else get_strategy().reduce(reduce_op, output, axis=None)
            return

        def merge(strategy: Any, value: Any) -> None:
            self._last_step_outputs_reduce_ops[name] = reduce_op
            if reduce_op is None:
                self._last_step_outputs[name] = value
            else:
                self._last_step_outputs[name] = strategy.reduce(ReduceOp.of(reduce_op), value, axis=None)
        get_replica_context().merge_call(merge, args=(output,))

    def set_non_tensor_output(self, name: str, output: Any) -> None:
        """Sets an output that is not a tensor."""
        if in_cross_replica_context():
            self._non_tensor_outputs[name] = output
            return

        def merge(strategy: Any, value: Any) -> None:
            self._non_tensor_outputs[name] = strategy.experimental_local_results(value)
        get_replica_context().merge_call(merge, args=(output,))


def run_steps(strategy: Any, fn: Any, iterator: Any, iterations: int, initial_loop_values: Any) -> MultiStepContext:
    """Calls `fn(context, inputs)` for the next `iterations` elements: at once in eager mode, else in a loop of the graph."""
    made = MultiStepContext()
    if context.executing_eagerly():
        for _ in range(iterations):
            fn(made, iterator.get_next())
        return made
    initial = nest.flatten(initial_loop_values or {})

    def body(i: Any, *args: Any) -> list:
        done = fn(made, iterator.get_next())
        flat = [identity(convert(v)) for v in nest.flatten(made.last_step_outputs)]
        with control_dependencies([group(*nest.flatten(done))] if done is not None else []):
            return [i + 1, *map(identity, flat)]
    if not initial:
        result = while_loop(lambda i, *a: i < iterations, lambda i: body(i)[:1], [convert(0)], parallel_iterations=1,
                            back_prop=False)
    else:
        result = while_loop(lambda i, *a: i < iterations, body, [convert(0), *initial], parallel_iterations=1, back_prop=False)
    result = nest.flatten(result)
    made.run_op = group(*result)
    if initial:
        outputs = nest.pack_sequence_as(made.last_step_outputs, result[1:])
        made._set_last_step_outputs(outputs)
    return made

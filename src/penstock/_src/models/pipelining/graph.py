"""Pipelines in plain graphs: stages as functions, each on a device; micro-batches in sequence.

Every micro-batch gets its own ops in every stage. Control dependencies put the tasks of a stage in the order of the schedule; a
session runs each device's ops on its own thread, so that stages overlap. The gradients are those of the whole batch.

    grads_and_vars, loss = pipelined_gradients([encoder, decoder], cross_entropy, x, y, micro_batches=8,
                                               devices=["/cpu:0", "/cpu:1"])
    train_op = optimizer.apply_gradients(grads_and_vars)
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import gradients
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import control_dependencies, device, name_scope
from penstock._src.models.pipelining import schedule as schedules
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.variables.collections import trainable_variables
from penstock._src.training.train.gradient_sums import added


@export("distribute.experimental.pipelined_gradients")
def pipelined_gradients(stages: Sequence[Callable], loss_fn: Callable, inputs: Any, targets: Any, micro_batches: int,
                        devices: Sequence[str], schedule: str = "1f1b",
                        variables: Sequence[list] | None = None) -> tuple[list, Any]:
    """Pairs (gradient, variable) of the mean loss over a batch, and that loss, computed in a pipeline.

    A stage is a function from what the one before it returns (a tensor or a structure of tensors) to what the next one takes;
    the first takes `inputs`. `loss_fn(outputs, targets)` is the mean loss of a micro-batch. Stages make their variables when
    they are called first, and are then called again with the same ones (`tf.get_variable`, layers); `variables` names those of
    each stage, where they are there already.

    >>> pairs, loss = pipelined_gradients([f, g], mean_loss, x, y, 4, ["/cpu:0", "/cpu:1"])
    """
    if context.executing_eagerly():
        raise RuntimeError("pipelined_gradients builds a graph; in eager execution there is "
                           "tf.distribute.experimental.PipelineModel.")
    if len(stages) != len(devices) or variables is not None and len(variables) != len(stages):
        raise ValueError(f"There are {len(stages)} stages, {len(devices)} devices and {len(variables or stages)} lists of "
                         "variables: pass one device for each stage, and one list of variables for each stage if any.")
    plan = schedules.schedule(schedule, len(stages), micro_batches)
    with name_scope("pipeline"):
        build = _Pipeline(stages, loss_fn, devices, _split(inputs, micro_batches), _split(targets, micro_batches))
        for own, given in zip(build.variables, variables or ()):
            own.extend(given)
        for stage, task in schedules.in_order(plan):
            build.run(stage, task)
        return build.results()


def _split(batch: Any, parts: int) -> list:
    """A structure for each part of a batch."""
    def split(t: Any) -> list:
        t = convert(t)
        size = t.shape[0] if t.shape.rank is not None else None
        if size is not None and size % parts:
            raise ValueError(f"A batch of {size} rows cannot be cut into {parts} micro-batches of the same size.")
        return get("Split")(0, t, num_split=parts)
    columns = [split(t) for t in nest.flatten(batch)]
    return [nest.pack_sequence_as(batch, [c[i] for c in columns]) for i in range(parts)]


class _Pipeline:
    """What has been built: activations and their gradients by stage and micro-batch."""

    def __init__(self, stages: Sequence[Callable], loss_fn: Callable, devices: Sequence[str], inputs: list, targets: list):
        self.stages, self.loss_fn, self.devices = stages, loss_fn, devices
        self.inputs, self.targets, self.count = inputs, targets, len(inputs)
        self.taken: dict[tuple[int, int], list] = {}        # (stage, micro-batch): inputs, as the stage got them
        self.given: dict[tuple[int, int], Any] = {}
        self.back: dict[tuple[int, int], list] = {}         # gradients with respect to `taken`
        self.done: list[list] = [[] for _ in stages]        # tensors of each stage's last task
        self.variables: list[list] = [[] for _ in stages]
        self.total: list[list] = [[] for _ in stages]
        self.losses: list = []

    def run(self, stage: int, task: schedules.Task) -> None:
        """Builds the ops of one task, after those of the stage's last one."""
        with device(self.devices[stage]), name_scope(f"stage{stage}/{task.kind}{task.micro}"):
            made = self._forward(stage, task.micro) if task.kind == "forward" else self._backward(stage, task.micro)
        self.done[stage] = [t for t in made if t is not None]

    def _after_last(self, stage: int, values: list) -> list:
        with control_dependencies(self.done[stage]):
            return [None if v is None else identity(v) for v in values]

    def _forward(self, stage: int, micro: int) -> list:
        source = self.given[stage - 1, micro] if stage else self.inputs[micro]
        taken = self.taken[stage, micro] = self._after_last(stage, nest.flatten(source))
        before = trainable_variables()
        given = self.stages[stage](nest.pack_sequence_as(source, taken))
        known = {id(v) for v in before}
        self.variables[stage] += [v for v in trainable_variables() if id(v) not in known]
        if stage == len(self.stages) - 1:
            given = self.loss_fn(given, self.targets[micro]) / self.count
            self.losses.append(given)
        self.given[stage, micro] = given
        return nest.flatten(given)

    def _backward(self, stage: int, micro: int) -> list:
        last = stage == len(self.stages) - 1
        outputs = [t for t in nest.flatten(self.given.pop((stage, micro))) if t.dtype.is_floating]
        starts = [get("OnesLike")(outputs[0])] if last else self.back[stage + 1, micro]
        pairs = [(o, g) for o, g in zip(outputs, self._after_last(stage, starts), strict=True) if g is not None]
        taken = [t for t in self.taken.pop((stage, micro)) if t.dtype.is_floating]
        own = self.variables[stage]
        found = gradients([o for o, _ in pairs], taken + own, grad_ys=[g for _, g in pairs])
        self.back[stage, micro] = found[:len(taken)] if stage else []
        grads = found[len(taken):]
        self.total[stage] = [added(a, b) for a, b in zip(self.total[stage], grads)] if self.total[stage] else grads
        made = self.back[stage, micro] + self.total[stage]
        return [t.values if isinstance(t, IndexedSlices) else t for t in made]

    def results(self) -> tuple[list, Any]:
        """Pairs of all stages, and the loss."""
        pairs = [(g, v) for grads, own in zip(self.total, self.variables) for g, v in zip(grads, own)]
        with device(self.devices[-1]):
            return pairs, get("AddN")(self.losses)


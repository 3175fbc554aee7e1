"""The order in which the stages of a pipeline process micro-batches, and its cost. Pure: no tensors, no threads.

A batch of m micro-batches goes forward and backward through p stages. A schedule is, for each stage, the order of its 2·m
tasks. While the pipeline fills and drains, stages wait: with stages of equal cost that is (p - 1) / (m + p - 1) of the time,
for both schedules. They differ in how many micro-batches a stage holds between forward and backward: all m, or at most p.
"""
from __future__ import annotations

from typing import Literal, NamedTuple


class Task(NamedTuple):
    """One pass of one micro-batch through one stage."""

    kind: Literal["forward", "backward"]
    micro: int


Schedule = list[list[Task]]


def _forward(i: int) -> Task:
    return Task("forward", i)


def _backward(i: int) -> Task:
    return Task("backward", i)


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """All forward passes, then all backward passes."""
    order = [_forward(i) for i in range(micro_batches)] + [_backward(i) for i in range(micro_batches)]
    return [list(order) for _ in range(stages)]


def one_f_one_b(stages: int, micro_batches: int) -> Schedule:
    """As soon as the pipeline is full, one forward and one backward pass in turns."""
    made = []
    for stage in range(stages):
        ahead = min(stages - stage, micro_batches)          # forward passes before the first backward pass
        order = [_forward(i) for i in range(ahead)]
        for i in range(micro_batches):
            order.append(_backward(i))
            if ahead + i < micro_batches:
                order.append(_forward(ahead + i))
        made.append(order)
    return made


SCHEDULES = {"gpipe": gpipe, "1f1b": one_f_one_b}


def schedule(name: str, stages: int, micro_batches: int) -> Schedule:
    """The schedule of that name; ValueError if there is none, or nothing to schedule."""
    if name not in SCHEDULES:
        raise ValueError(f"Unknown schedule {name!r}. Known schedules: {', '.join(SCHEDULES)}.")
    if stages < 1 or micro_batches < 1:
        raise ValueError(f"A pipeline has at least one stage and one micro-batch, got {stages} and {micro_batches}.")
    return SCHEDULES[name](stages, micro_batches)


def bubble(stages: int, micro_batches: int) -> float:
    """The fraction of the time that stages of equal cost wait."""
    return (stages - 1) / (micro_batches + stages - 1)


def needs(stages: int, stage: int, task: Task) -> list[tuple[int, Task]]:
    """The tasks of stages whose results a task takes."""
    if task.kind == "forward":
        return [(stage - 1, task)] if stage else []
    return [(stage, _forward(task.micro))] + ([(stage + 1, task)] if stage + 1 < stages else [])


def in_order(plan: Schedule) -> list[tuple[int, Task]]:
    """All tasks, each after those it needs and after those before it in its stage; ValueError for a plan that would block."""
    done: set[tuple[int, Task]] = set()
    made: list[tuple[int, Task]]
    at, made = [0] * len(plan), []
    while len(made) < sum(map(len, plan)):
        before = len(made)
        for stage, tasks in enumerate(plan):
            if at[stage] < len(tasks) and all(n in done for n in needs(len(plan), stage, tasks[at[stage]])):
                made.append((stage, tasks[at[stage]]))
                done.add(made[-1])
                at[stage] += 1
        if len(made) == before:
            waiting = [t[i] for t, i in zip(plan, at) if i < len(t)]
            raise ValueError(f"The schedule deadlocks: stages wait for each other at {waiting}")
    return made


def times(plan: Schedule, forward: float = 1.0, backward: float = 1.0) -> dict[tuple[int, Task], tuple[float, float]]:
    """When each task begins and ends, if passes take that long and nothing else takes time."""
    ends: dict[tuple[int, Task], tuple[float, float]] = {}
    free = [0.0] * len(plan)
    for stage, task in in_order(plan):
        start = max([free[stage], *(ends[n][1] for n in needs(len(plan), stage, task))])
        free[stage] = start + (forward if task.kind == "forward" else backward)
        ends[stage, task] = start, free[stage]
    return ends


def idle(spans: list[list[tuple[float, float]]]) -> float:
    """The part of the time, from the first begin to the last end, for which stages did nothing; one list of spans for each."""
    begin, end = min(s for stage in spans for s, _ in stage), max(e for stage in spans for _, e in stage)
    busy = sum(e - s for stage in spans for s, e in stage)
    return 1 - busy / (len(spans) * (end - begin))


def most_held(plan: Schedule) -> list[int]:
    """The maximum number of micro-batches that each stage holds between forward and backward."""
    found = []
    for tasks in plan:
        held = most = 0
        for task in tasks:
            held += 1 if task.kind == "forward" else -1
            most = max(most, held)
        found.append(most)
    return found

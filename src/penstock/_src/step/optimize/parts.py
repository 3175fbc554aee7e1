"""Parts of a step for torch.compile, where `jit_compile=True`, `global_jit_level` or `tf.config.optimizer.set_jit` ask for it.

Ops that compute tensors from tensors, on one device, with no state in between, are taken together into one op, which holds
them as a part (step/compile/part.py). What has effects, waits, calls functions or handles text stays as it is, in its order.
"""
from __future__ import annotations

from typing import Any

from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.registry import get
from penstock._src.step.optimize.step import StepGraph

_FEWEST = 2                  # ops that are worth it


def take_parts(step: StepGraph) -> None:
    """Puts one op in the place of each group of ops that may be compiled."""
    if step.has_control_flow:
        return
    stages = _stages(step)
    groups: dict[tuple, list[Operation]] = {}
    order: list[tuple[int, int, Any]] = []
    for op in step.ops:
        stage, pure = stages[op]
        if not pure:
            order.append((stage, 0, op))
        elif _constant(op):
            order.append((-1, 0, op))
        else:
            groups.setdefault((stage, _place(step, op)), []).append(op)
    users = step.users()
    wanted = {id(t) for t in step.fetches}
    made: list[tuple[int, int, Any]] = []
    by: dict[int, Tensor] = {}
    for (stage, _), ops in groups.items():
        if len(ops) < _FEWEST:
            made += [(stage, 1, op) for op in ops]
        else:
            made.append((stage, 1, _part(step, ops, users, wanted, by)))
    order = sorted([*order, *made], key=lambda item: item[:2])          # stable: what has effects keeps its order
    step.ops = [op for _, _, op in order]
    step.substitute(by)
    step.prune()


def _stages(step: StepGraph) -> dict[Operation, tuple[int, bool]]:
    """For each op how many times the way to it changes between what is compiled and what is not, and which it is.

    In one stage, what is not compiled comes first. Its stages never fall, so that its order stays.
    """
    stages: dict[Operation, tuple[int, bool]] = {}
    waited = {c for op in step.ops for c in op._control_inputs} | set(step.targets)
    last = 0
    for op in step.ops:
        pure = _may_be_compiled(op, step) and op not in waited
        place = _place(step, op)
        stage = 0 if pure else last
        for before in (*(t._op for t in op._inputs if id(t) not in step.fed), *op._control_inputs):
            if before not in stages or _constant(before):
                continue
            at, was_pure = stages[before]
            together = pure and was_pure and _place(step, before) is place
            stage = max(stage, at + (was_pure and not together))
        stages[op] = stage, pure
        if not pure:
            last = stage
    return stages


def _place(step: StepGraph, op: Operation) -> Any:
    return None if step._where is None else step._where[op._origin]


def _constant(op: Operation) -> bool:
    return op.opdef.constant


def _may_be_compiled(op: Operation, step: StepGraph) -> bool:
    """Whether an op computes tensors from tensors, and nothing else."""
    opdef = op.opdef
    if not opdef.foldable or opdef.calls or opdef.inert or opdef.consumes or opdef.client_code or op._control_inputs or \
            not op.outputs or any(id(t) in step.fed for t in op.outputs):
        return False
    if any(t._dtype._is_ref_dtype or t._dtype.torch is None for t in (*op._inputs, *op.outputs)):
        return False
    return _constant(op) or bool(op._inputs) and any(t._dtype.is_floating for t in (*op._inputs, *op.outputs)) \
        and not _reads_on_host(op)


def _reads_on_host(op: Operation) -> bool:
    """Whether an op looks at a number that is not a constant: what torch.compile is given looks at shapes alone."""
    counts = op._counts or (None,) * len(op.opdef.inputs)
    arguments = [arg for arg, n in zip(op.opdef.inputs, counts, strict=True) for _ in range(1 if n is None else n)]
    return any(arg.name in op.opdef.host_inputs and t._dtype.is_integer and not _constant(t._op)
               for arg, t in zip(arguments, op._inputs, strict=True))


def _part(step: StepGraph, ops: list[Operation], users: dict[int, list[Operation]], wanted: set[int],
          by: dict[int, Tensor]) -> Operation:
    """One op for several; `by` gets its results for theirs."""
    from penstock._src.step.compile.part import Part
    inside = set(ops)
    inputs: dict[int, Tensor] = {}
    constants: dict[Operation, None] = {}
    for op in ops:
        for t in op._inputs:
            if _constant(t._op) and id(t) not in step.fed:
                constants[t._op] = None
            elif t._op not in inside or id(t) in step.fed:
                inputs[id(t)] = t
    outputs = [t for op in ops for t in op.outputs
               if id(t) in wanted or any(u not in inside for u in users.get(id(t), ()))]
    placed = None if step._where is None else {op: step._where[op._origin] for op in (*constants, *ops)}
    given = list(inputs.values())
    attrs = {"Targs": [t._dtype for t in given], "Tresults": [t._dtype for t in outputs],
             "part": Part([*constants, *ops], given, outputs, placed)}
    made = step.make(get("_CompiledPart"), [by.get(id(t), t) for t in given], attrs, ops[-1], [t._dims for t in outputs],
                     [t._dtype for t in outputs], [])
    made._counts = (len(given),)
    by.update({id(t): new for t, new in zip(outputs, made.outputs, strict=True)})
    return made

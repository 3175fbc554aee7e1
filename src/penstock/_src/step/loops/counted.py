"""Which tensors of a loop are Python numbers (step/compile/numbers.py)."""
from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from penstock._src.graph.frames import Frame, Frames
from penstock._src.ops.registry import get
from penstock._src.step.compile.numbers import find_numbers, sources_of
from penstock._src.step.ir import Node, Value


def numbers_of_body(ops: Iterable[Node], feeds: Sequence[Value], fetches: Sequence[Value]) -> set[int]:
    """The ids of the tensors that are numbers in a loop with these ops; in the next iteration `fetches` are the `feeds`."""
    staying = {id(t) for t, following in zip(feeds, fetches, strict=True) if t is following}
    pairs: list[tuple[Value, Sequence[Value]]] = [(t, [following]) for t, following in zip(feeds, fetches, strict=True)
                                                  if t is not following]
    identity = get("Identity")
    for op in ops:
        given = op.inputs if op.opdef is identity else sources_of(op)
        if given is not None:
            pairs.append((op.outputs[0], given))
    return find_numbers(pairs, lambda t: id(t) in staying)


def made_of(wanted: Iterable[Value], sources: Callable[[Value], Iterable[Value]]) -> set[int]:
    """The ids of tensors and of all that they are computed from. On a GPU only what a loop is controlled by becomes a number:
    to read other values from the device would stop the host for nothing."""
    left = list(wanted)
    found = {id(t) for t in left}
    while left:
        new = [t for t in sources(left.pop()) if id(t) not in found]
        found.update(map(id, new))
        left += new
    return found


def controlling(frames: Frames, frame: Frame, fed: Container[int]) -> set[int]:
    """The ids of the tensors that the conditions of a dataflow loop are computed from."""
    inside = {op for op in frame.ops if op not in frames.child}
    tests = [op.inputs[0] if op.opdef.control_flow == "loop_cond" else op.inputs[1] for op in inside
             if op.opdef.control_flow in ("loop_cond", "switch")]
    return made_of(tests, lambda t: t.op.inputs if t.op in inside and id(t) not in fed else ())


def numbers_of_frame(frames: Frames, frame: Frame, taken: Container[int], fed: Container[int]) -> set[int]:
    """The ids of the tensors that are numbers in a dataflow loop; `taken` are the ids of those that are used."""
    identity = get("Identity")

    def passes_on(op: Node) -> Sequence[Value] | None:
        kind = op.opdef.control_flow
        if kind == "merge" and id(op.outputs[1]) not in taken:
            return op.inputs
        if kind in ("switch", "next", "exit", "loop_cond") or op.opdef is identity:
            return op.inputs[:1]
        return sources_of(op)
    pairs = ((t, given) for op in frame.ops if op not in frames.child and (given := passes_on(op)) is not None
             for t in op.outputs if id(t) not in fed)
    return find_numbers(pairs, lambda t: frames.child.get(t.op) is frame)

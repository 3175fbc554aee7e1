"""Which tensors of a functional loop are Python numbers (step/compile/numbers.py)."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

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

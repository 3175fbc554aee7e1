"""partial_run by compiled pieces: each call is a separate step over the ops that have not run yet.

Steps across tasks, steps with conditionals or loops, and those that come again run in this way. Values that later calls need
are fetched too, and fed to them. Some cannot be: handles mean nothing in another process, a branch that is not taken computes
nothing, and values inside of a loop belong to one iteration. The ops of such values run again in the call that needs them.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.base import dtypes, errors
from penstock._src.execute.partial import PartialRun
from penstock._src.graph.frames import Frames
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed

_MOST = 64           # sequences of calls that are kept


class Course:
    """What partial steps with the same fetches and feeds have in common: most run in the same pieces.

    Which ops a call runs follows from the calls before it, so it is found once.
    """

    def __init__(self, elements: list, feeds: list[Tensor]):
        fetched, targets = split(elements)
        fed = {id(t) for t in feeds}
        self.all = needed(fetched, targets, fed)
        self.has_control_flow = any(op.opdef.control_flow for op in self.all)
        self.passing = _in_branches(self.all, fed) if self.has_control_flow else set()
        # whether ops pass on references to variables: a piece would return their values
        self.has_references = any(t.dtype._is_ref_dtype and t.op.inputs for op in self.all for t in op.inputs)
        self.pieces: dict[tuple, Piece | None] = {}            # by the calls so far: None where nothing is left to run


class Piece(NamedTuple):
    """What one call runs."""
    runnable: Any
    fetches: list[int]             # ids of the values that it returns
    feeds: list[int]               # and of those that it takes
    done: set[Operation]


class PiecewiseRun(PartialRun):
    """One partial step of an engine that compiles its pieces (`engine.piece`)."""

    def __init__(self, elements: list, feeds: list[Tensor], engine: Any, course: Course | None = None):
        super().__init__(elements, feeds, engine.context(None))
        self._engine = engine
        self._course = course or Course(elements, feeds)

    def _compute(self, elements: list) -> None:
        pieces = self._course.pieces
        if self._calls not in pieces:
            found = self._planned(elements)
            if len(pieces) >= _MOST:
                pieces.clear()
            pieces[self._calls] = found
        piece = pieces[self._calls]
        if piece is not None:
            values = [self._values[i] for i in piece.feeds]
            results = piece.runnable.pick(values).run(self.ctx, *values)
            self._values.update(zip(piece.fetches, results, strict=True))
            self._done.update(piece.done)

    def _planned(self, elements: list) -> Piece | None:
        """The piece that computes what these elements still need."""
        wanted, targets = split([e for e in elements if id(e) not in self._values])
        ops = [op for op in needed(wanted, targets, {*self._values, *self._feedable}) if op not in self._done]
        self._check_feeds(ops, wanted)
        if not ops:
            return None
        inside = set(ops)
        later = {id(t) for op in self._course.all if op not in inside and op not in self._done for t in op.inputs}
        later.update(self._fetchable)
        again = {op for op in ops if any(id(t) in later and not self._can_be_kept(t) for t in op.outputs)}
        self._check_effects(again)
        kept = {id(t): t for op in ops for t in op.outputs if id(t) in later and self._can_be_kept(t)}
        fetches = list({**{id(t): t for t in wanted}, **kept}.values())
        feeds = list({id(t): t for op in ops for t in op.inputs if id(t) in self._values}.values())
        runnable = self._engine.piece(ops, fetches, targets, feeds)
        return Piece(runnable, list(map(id, fetches)), list(map(id, feeds)), inside - again)

    def _check_feeds(self, ops: list[Operation], wanted: list[Tensor]) -> None:
        for t in [*wanted, *(t for op in ops for t in op.inputs)]:
            if id(t) in self._feedable and id(t) not in self._values:
                raise errors.InvalidArgumentError(None, None, f"Must feed {t.name} before fetching what depends on it.")

    def _can_be_kept(self, t: Tensor) -> bool:
        return not _is_handle(t) and t.op not in self._course.passing

    def _check_effects(self, again: set[Operation]) -> None:
        """An op with an effect must not run twice."""
        for op in again & self._course.passing:
            if op.opdef.stateful and not any(map(_is_handle, op.outputs)):
                raise errors.UnimplementedError(
                    op.node_def, op, f"{op.name} is in a branch or a loop of which a later call of partial_run needs more, and "
                    "cannot run twice. Fetch what depends on it in one call.")


def split(elements: list) -> tuple[list[Tensor], list[Operation]]:
    return [e for e in elements if isinstance(e, Tensor)], [e for e in elements if isinstance(e, Operation)]


def _is_handle(t: Tensor) -> bool:
    """Whether a tensor is a resource handle: it is meaningless in another process, and its op may run again."""
    return t.dtype is dtypes.resource or t.dtype._is_ref_dtype and not t.op.inputs


def _in_branches(ops: list[Operation], fed: set[int]) -> set[Operation]:
    """The ops that are in a loop, or may be in a branch that is not taken."""
    frames = Frames(ops, fed)
    found: set[Operation] = set()
    loops = {frame for frame in frames.child.values() if frame.parent is frames.root}
    entered_in_branch: set[Any] = set()
    for op in ops:
        kind = op.opdef.control_flow
        if frames.of[op] is not frames.root:
            if kind != "exit" or frames.of[op] not in loops or frames.of[op] in entered_in_branch:
                found.add(op)
        elif kind == "switch" or kind != "merge" and any(s in found for s in _sources(op, fed)):
            found.add(op)
            if op in frames.child:
                entered_in_branch.add(frames.child[op])
    return found | {op for op in frames.child if frames.of[op] is frames.root}


def _sources(op: Operation, fed: set[int]) -> list[Operation]:
    return [*(t.op for t in op.inputs if id(t) not in fed), *op.control_inputs]

"""Regular expressions in time linear in the text: automata that follow all possibilities at once.

A pattern is a program of character tests, splits, marks and assertions. A search runs it on ordered threads, so that the
match and its groups are those that backtracking would find first. A full match needs neither: it only has the set of places in
the program, and remembers which set follows which after a character (a deterministic automaton, made as it is needed).
"""
from __future__ import annotations

from bisect import bisect_right
from typing import Any

from penstock._src.base import errors
from penstock._src.kernels.re2_syntax import At, Chars, Choice, Group, Ranges, Repeat, Sequence

_MAX_PROGRAM = 50_000
_MAX_STEPS = 50_000_000       # instructions that one search or match may run
_MAX_KEPT = 1_000_000         # places in remembered sets


class Match:
    """A match of the automaton, with the methods of re.Match."""

    def __init__(self, text: str, slots: tuple):
        self._text, self._slots = text, slots

    def span(self) -> tuple[int, int]:
        return self._slots[0], self._slots[1]

    def group(self, index: int) -> str | None:
        start, end = self._slots[2 * index], self._slots[2 * index + 1]
        return None if start is None or end is None else self._text[start:end]


class Automaton:
    """A program of character tests, splits, marks and assertions, run on all its threads at once.

    Threads are kept in order of preference, so that the match is the one that backtracking would find first.
    """

    def __init__(self, tree: Any, groups: int):
        self._program: list[list] = []
        self._slots = 2 * groups + 2
        self._emit("mark", 0)
        self._compile(tree)
        self._emit("mark", 1)
        self._emit("match")
        self._sets: dict[tuple[frozenset[int], str], _Set] = {}
        self._kept = 0

    # Instructions: [kind, argument]; "split" has [first, second]; "jump" has [target].
    def _emit(self, kind: str, argument: Any = None) -> int:
        if len(self._program) >= _MAX_PROGRAM:
            raise errors.invalid("Invalid pattern: pattern too large - compile failed")
        self._program.append([kind, argument])
        return len(self._program) - 1

    def _compile(self, tree: Any) -> None:
        if isinstance(tree, Chars):
            self._emit("chars", _membership(tree.ranges))
        elif isinstance(tree, At):
            self._emit("at", tree.kind)
        elif isinstance(tree, Sequence):
            for item in tree.items:
                self._compile(item)
        elif isinstance(tree, Group):
            self._emit("mark", 2 * tree.index)
            self._compile(tree.item)
            self._emit("mark", 2 * tree.index + 1)
        elif isinstance(tree, Choice):
            self._compile_choice(tree)
        else:
            self._compile_repeat(tree)

    def _compile_choice(self, tree: Choice) -> None:
        ends = []
        for item in tree.items[:-1]:
            split = self._emit("split")
            self._compile(item)
            ends.append(self._emit("jump"))
            self._program[split][1] = (split + 1, len(self._program))
        self._compile(tree.items[-1])
        for end in ends:
            self._program[end][1] = len(self._program)

    def _compile_repeat(self, tree: Repeat) -> None:
        for _ in range(tree.low if tree.high is not None or tree.low == 0 else tree.low - 1):
            self._compile(tree.item)
        if tree.high is None:
            skip = self._emit("split") if tree.low == 0 else None
            start = len(self._program)
            self._compile(tree.item)
            self._set_split(self._emit("split"), start, None, tree.greedy)
            if skip is not None:
                self._set_split(skip, skip + 1, None, tree.greedy)
            return
        splits = []
        for _ in range(tree.high - tree.low):
            splits.append(self._emit("split"))
            self._compile(tree.item)
        for s in splits:
            self._set_split(s, s + 1, None, tree.greedy)

    def _set_split(self, at: int, inside: int, outside: int | None, greedy: bool) -> None:
        outside = len(self._program) if outside is None else outside
        self._program[at][1] = (inside, outside) if greedy else (outside, inside)

    # -- running -----------------------------------------------------------------------------------------------------
    def search(self, text: str, at: int = 0) -> Match | None:
        """The first match at or after a position."""
        return self._run(text, at)

    def fullmatch(self, text: str) -> bool:
        """Whether the whole text matches."""
        now, steps = self._set(frozenset([0]), "start"), 0
        for char in text:
            after = now.after.get(char)
            if after is None:
                steps += len(self._program)
                _check_steps(steps)
                closed = self._closed(now, _kind(char))
                places = frozenset(pc + 1 for pc in closed if self._program[pc][0] == "chars" and self._program[pc][1](char))
                after = now.after[char] = self._set(places, _kind(char))
            now = after
        return any(self._program[pc][0] == "match" for pc in self._closed(now, "end"))

    def _set(self, places: frozenset[int], kind: str) -> _Set:
        """The set of these places after a kind of character. If too many are kept, the others are forgotten."""
        found = self._sets.get((places, kind))
        if found is None:
            self._kept += len(places) + 1
            if self._kept > _MAX_KEPT:
                self._sets, self._kept = {}, len(places) + 1
            found = self._sets[places, kind] = _Set(places, kind)
        return found

    def _closed(self, now: _Set, following: str) -> set[int]:
        """Places that are reached without a character, before one of a kind."""
        seen: set[int] = set()
        stack = list(now.places)
        while stack:
            pc = stack.pop()
            if pc not in seen:
                seen.add(pc)
                kind, argument = self._program[pc]
                if kind == "split":
                    stack.extend(argument)
                elif kind == "jump":
                    stack.append(argument)
                elif kind == "mark" or kind == "at" and _holds(argument, now.kind, following):
                    stack.append(pc + 1)
        return seen

    def _run(self, text: str, at: int) -> Match | None:
        program, found, steps = self._program, None, 0
        threads: list[tuple[int, tuple]] = []
        blank = (None,) * self._slots
        for position in range(at, len(text) + 1):
            if found is None:
                threads.append((0, blank))
            threads = self._closure(threads, text, position)
            steps += len(threads) + 1
            _check_steps(steps)
            char = text[position] if position < len(text) else None
            following: list[tuple[int, tuple]] = []
            for pc, slots in threads:
                kind, argument = program[pc]
                if kind == "match":
                    found = slots
                    break                          # threads of lower preference are out
                if char is not None and argument(char):
                    following.append((pc + 1, slots))
            threads = following
            if not threads and found is not None:
                break
        return None if found is None else Match(text, found)

    def _closure(self, threads: list, text: str, position: int) -> list:
        """Follows everything that takes no character; each instruction once, for the thread that comes first."""
        out: list = []
        seen: set[int] = set()
        before = _kind(text[position - 1]) if position else "start"
        after = _kind(text[position]) if position < len(text) else "end"
        stack = threads[::-1]
        while stack:
            pc, slots = stack.pop()
            if pc in seen:
                continue
            seen.add(pc)
            kind, argument = self._program[pc]
            if kind == "split":
                stack.append((argument[1], slots))
                stack.append((argument[0], slots))
            elif kind == "jump":
                stack.append((argument, slots))
            elif kind == "mark":
                stack.append((pc + 1, (*slots[:argument], position, *slots[argument + 1:])))
            elif kind == "at":
                if _holds(argument, before, after):
                    stack.append((pc + 1, slots))
            else:
                out.append((pc, slots))
        return out


def _membership(ranges: Ranges) -> Any:
    """A function of a character: whether it is in the set."""
    lows = [low for low, _ in ranges]
    known: dict[str, bool] = {}

    def test(char: str) -> bool:
        found = known.get(char)
        if found is None:
            c = ord(char)
            i = bisect_right(lows, c) - 1
            found = known[char] = i >= 0 and c <= ranges[i][1]
        return found
    return test


class _Set:
    """Places in a program after a kind of character, and the sets that follow after characters."""
    __slots__ = ("after", "kind", "places")

    def __init__(self, places: frozenset[int], kind: str):
        self.places, self.kind = places, kind
        self.after: dict[str, _Set] = {}


def _check_steps(steps: int) -> None:
    if steps > _MAX_STEPS:
        raise errors.ResourceExhaustedError(
            None, None, f"A regular expression needs more than {_MAX_STEPS} steps for a text: use a smaller pattern")


def _kind(char: str) -> str:
    """What an assertion beside a character depends on."""
    if char == "\n":
        return "line"
    return "word" if char.isascii() and (char.isalnum() or char == "_") else "other"


def _holds(assertion: str, before: str, after: str) -> bool:
    """Whether an assertion holds between two kinds of characters; the text has a "start" and an "end"."""
    if assertion == "text_start":
        return before == "start"
    if assertion == "text_end":
        return after == "end"
    if assertion == "line_start":
        return before in ("start", "line")
    if assertion == "line_end":
        return after in ("end", "line")
    return ((before == "word") != (after == "word")) == (assertion == "boundary")

"""Running RE2's regular expressions, in linear time where Python's own engine would not be.

A pattern is parsed (`re2_syntax`) and then given to Python's `re`, which is quick but backtracks. Where a repeat is
ambiguous (two ways to continue with the same character inside a loop, as in ``(a+)+``), backtracking could take time
exponential in the text: those patterns run on an automaton that keeps all possibilities at once, slower per
character but linear, as RE2 does for all of them.

Text is UTF-8; invalid bytes match no set, and are kept unchanged.
"""
from __future__ import annotations

import functools
import re
from bisect import bisect_right
from typing import Any

from penstock._src.base import errors
from penstock._src.kernels import strings
from penstock._src.kernels.re2_syntax import At, Chars, Choice, Group, Ranges, Repeat, Sequence, complement, parse, unrolled

_LONG_LOOP = 10           # repeats, of nested loops together, above which ambiguity inside them is considered dangerous
_MAX_PROGRAM = 50_000
_BETWEEN = b"\xff"         # the separator of texts that are matched as one: no set has it, and UTF-8 has no such byte


def decode(text: bytes) -> str:
    """Text for matching; other bytes become lone surrogates."""
    return text.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The opposite of `decode`."""
    return text.encode("utf-8", "surrogateescape")


class Pattern:
    """A compiled pattern: `full_match` and `replace`."""

    def __init__(self, pattern: bytes):
        tree, self.groups = parse(pattern)
        self._never_empty = _shortest(tree) > 0
        ambiguous = _ambiguous(tree)
        self._alone = _one_set(tree)
        self._local = self._never_empty and not ambiguous and not _anchored(tree)
        self._engine: Any = _Automaton(tree, self.groups) if ambiguous else _python(pattern, tree)

    def full_match(self, text: bytes) -> bool:
        """Whether the whole text matches."""
        return self._engine.fullmatch(decode(text)) is not None

    def replace(self, text: bytes, rewrite: Rewrite, everywhere: bool) -> bytes:
        """The text with the first match, or all of them, rewritten."""
        if rewrite.highest > self.groups:
            raise errors.invalid(f"Invalid rewrite: it refers to group {rewrite.highest}, but the pattern has "
                                 f"{self.groups} group(s)")
        plain = decode(text)
        if self._never_empty and isinstance(self._engine, re.Pattern):
            return encode(self._engine.sub(rewrite, plain, 0 if everywhere else 1))
        return encode(self._replace_step_by_step(plain, rewrite, everywhere))

    def replace_all(self, texts: list[bytes], rewrite: Rewrite, everywhere: bool) -> list[bytes]:
        """`replace` for many texts: as one text, where no match can reach from one into the next."""
        joined = _BETWEEN.join(texts)
        if everywhere and self._alone is not None and not rewrite.parts and b"".join(texts).isascii():
            return joined.translate(None, self._alone).split(_BETWEEN) if texts else []
        plain = rewrite.plain(len(joined))
        if plain is None or not (everywhere and len(texts) > 1 and self._local) or joined.count(_BETWEEN) != len(texts) - 1:
            return [self.replace(text, rewrite, everywhere) for text in texts]
        return encode(self._engine.sub(plain.replace("\\", r"\\"), decode(joined))).split(_BETWEEN)

    def _replace_step_by_step(self, text: str, rewrite: Rewrite, everywhere: bool) -> str:
        """An empty match counts only where the match before it did not end."""
        out, at, last_end = [], 0, -1
        while at <= len(text):
            match = self._engine.search(text, at)
            if match is None:
                break
            start, end = match.span()
            out.append(text[at:start])
            if start == end == last_end:
                out.append(text[at:at + 1])
                at += 1
                continue
            out.append(rewrite(match))
            at = last_end = end
            if not everywhere:
                break
        return "".join(out) + text[at:]


@functools.lru_cache(maxsize=256)
def compiled(pattern: bytes) -> Pattern:
    """A pattern, compiled; InvalidArgumentError if it is not one."""
    return Pattern(pattern)


class Rewrite:
    """A replacement: text with ``\\0`` to ``\\9`` for groups and ``\\\\`` for a backslash. Called with a match."""

    def __init__(self, rewrite: bytes):
        self.parts: list[str | int] = []
        text = decode(rewrite)
        for plain, escaped in re.findall(r"([^\\]+)|\\(.?)", text, re.DOTALL):
            if plain:
                self.parts.append(plain)
            elif escaped == "\\":
                self.parts.append("\\")
            elif escaped and escaped in "0123456789":
                self.parts.append(int(escaped))
            else:
                raise errors.invalid(f"Invalid rewrite: {text}: '\\' must be followed by a digit or '\\'")
        self.highest = max((p for p in self.parts if isinstance(p, int)), default=0)
        self._made = 0

    def plain(self, length: int) -> str | None:
        """The replacement of every match, if it does not depend on the match and keeps texts small."""
        text = "".join(p for p in self.parts if isinstance(p, str))
        fixed = all(isinstance(p, str) for p in self.parts) and _BETWEEN not in encode(text)
        return text if fixed and len(text) * length <= strings.MAX_BYTES else None

    def __call__(self, match: Any) -> str:
        out = "".join([p if isinstance(p, str) else match.group(p) or "" for p in self.parts])
        self._made += len(out)
        if self._made > strings.MAX_BYTES:
            strings.check_bytes(self._made, "RegexReplace")
        return out


def _shortest(tree: Any) -> int:
    """The length of the shortest match."""
    if isinstance(tree, Chars):
        return 1
    if isinstance(tree, Sequence):
        return sum(map(_shortest, tree.items))
    if isinstance(tree, Choice):
        return min(map(_shortest, tree.items))
    if isinstance(tree, Repeat):
        return tree.low * _shortest(tree.item)
    return _shortest(tree.item) if isinstance(tree, Group) else 0


def _one_set(tree: Any) -> bytes | None:
    """The ASCII characters of a pattern that matches any one of them, or a run of them; None for other patterns."""
    if isinstance(tree, Repeat) and tree.low == 1 and tree.high is None and tree.greedy:
        tree = tree.item
    if not isinstance(tree, Chars):
        return None
    return bytes(c for c in range(128) if any(low <= c <= high for low, high in tree.ranges))


def _anchored(tree: Any) -> bool:
    """Whether a match depends on where the text or a line begins or ends."""
    if isinstance(tree, At):
        return tree.kind not in ("boundary", "no_boundary")
    if isinstance(tree, (Sequence, Choice)):
        return any(map(_anchored, tree.items))
    return isinstance(tree, (Repeat, Group)) and _anchored(tree.item)


# -- Python's engine --------------------------------------------------------------------------------------------------
_ASSERTIONS = {"text_start": r"\A", "text_end": r"\Z", "line_start": "(?m:^)", "line_end": "(?m:$)",
               "boundary": r"(?a:\b)", "no_boundary": r"(?!(?a:\b))"}


def _python(pattern: bytes, tree: Any) -> re.Pattern:
    try:
        return re.compile(_written(tree))
    except (re.error, RecursionError, OverflowError) as e:
        raise errors.invalid(f"Invalid pattern: {pattern.decode()}, error: {e}") from None


def _written(tree: Any) -> str:
    """A tree in the syntax of Python's re."""
    if isinstance(tree, Chars):
        return _written_set(tree.ranges)
    if isinstance(tree, At):
        return _ASSERTIONS[tree.kind]
    if isinstance(tree, Sequence):
        return "".join(map(_written, tree.items))
    if isinstance(tree, Choice):
        return "(?:" + "|".join(map(_written, tree.items)) + ")"
    if isinstance(tree, Group):
        return f"({_written(tree.item)})"
    high = "" if tree.high is None else tree.high
    return f"(?:{_written(tree.item)}){{{tree.low},{high}}}{'' if tree.greedy else '?'}"


def _written_set(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    others = complement(ranges)
    if len(others) < len(ranges):
        return "[^" + "".join(map(_written_range, (*others, (0xD800, 0xDFFF)))) + "]"
    return "[" + "".join(map(_written_range, ranges)) + "]" if ranges else "(?!)"


def _written_range(bounds: tuple[int, int]) -> str:
    low, high = (f"\\U{c:08x}" if c > 0xFFFF else f"\\u{c:04x}" for c in bounds)
    return low if low == high else f"{low}-{high}"


# -- ambiguity --------------------------------------------------------------------------------------------------------
def _ambiguous(tree: Any) -> bool:
    """Whether some loop has two ways to continue with the same character, or a turn that takes none."""
    steps: list[tuple[Any, Any]] = []       # pairs of sets that can follow each other, once per way
    return _follow(tree, steps)[3]


def _follow(tree: Any, steps: list) -> tuple[list, list, bool, bool]:
    """First and last sets of a tree, whether it can be empty, and whether a loop in it is ambiguous.

    Sets are told apart by identity: `steps` gets a pair for each way in which one can come after another.
    """
    if isinstance(tree, Chars):
        leaf = [tree.ranges, object()]
        return [leaf], [leaf], False, False
    if isinstance(tree, Group):
        return _follow(tree.item, steps)
    if isinstance(tree, Choice):
        parts = [_follow(t, steps) for t in tree.items]
        return ([x for p in parts for x in p[0]], [x for p in parts for x in p[1]], any(p[2] for p in parts),
                any(p[3] for p in parts))
    if isinstance(tree, Sequence):
        return _follow_sequence(tree, steps)
    if isinstance(tree, Repeat):
        mine: list = []
        first, last, empty, found = _follow(tree.item, mine)
        if tree.high is None or tree.high > 1:
            mine.extend((a, b) for a in last for b in first)
        if tree.high is None or unrolled(tree) >= _LONG_LOOP:
            found = found or empty or _clash(mine, first)     # an empty turn of a loop has its own rules
        steps.extend(mine)
        return first, last, empty or tree.low == 0, found
    return [], [], True, False


def _follow_sequence(tree: Sequence, steps: list) -> tuple[list, list, bool, bool]:
    first: list = []
    last: list = []
    empty, found = True, False
    for item in tree.items:
        f, l, e, clash = _follow(item, steps)
        steps.extend((a, b) for a in last for b in f)
        first = first + f if empty else first
        last = last + l if e else l
        empty, found = empty and e, found or clash
    return first, last, empty, found


def _clash(steps: list, first: list) -> bool:
    """Whether two ways out of one set, or two ways in, share a character."""
    following: dict[int, list] = {}
    for a, b in steps:
        following.setdefault(id(a), []).append(b)
    return any(_overlap([leaf[0] for leaf in group]) for group in (*following.values(), first))


def _overlap(sets: list[Ranges]) -> bool:
    bounds = sorted(r for ranges in sets for r in ranges)
    return any(a[1] >= b[0] for a, b in zip(bounds, bounds[1:], strict=False))


# -- the automaton ----------------------------------------------------------------------------------------------------
class _Match:
    """A match of the automaton, with the methods of re.Match."""

    def __init__(self, text: str, slots: tuple):
        self._text, self._slots = text, slots

    def span(self) -> tuple[int, int]:
        return self._slots[0], self._slots[1]

    def group(self, index: int) -> str | None:
        start, end = self._slots[2 * index], self._slots[2 * index + 1]
        return None if start is None or end is None else self._text[start:end]


class _Automaton:
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
    def search(self, text: str, at: int = 0) -> _Match | None:
        """The first match at or after a position."""
        return self._run(text, at, anywhere=True, to_end=False)

    def fullmatch(self, text: str) -> _Match | None:
        """The match of the whole text."""
        return self._run(text, 0, anywhere=False, to_end=True)

    def _run(self, text: str, at: int, anywhere: bool, to_end: bool) -> _Match | None:
        program, found = self._program, None
        threads: list[tuple[int, tuple]] = []
        blank = (None,) * self._slots
        for position in range(at, len(text) + 1):
            if found is None and (anywhere or position == at):
                threads.append((0, blank))
            threads = self._closure(threads, text, position)
            char = text[position] if position < len(text) else None
            following: list[tuple[int, tuple]] = []
            for pc, slots in threads:
                kind, argument = program[pc]
                if kind == "match":
                    if not to_end or char is None:
                        found = slots
                        break                          # threads of lower preference are out
                elif char is not None and argument(char):
                    following.append((pc + 1, slots))
            threads = following
            if not threads and (found is not None or not anywhere):
                break
        return None if found is None else _Match(text, found)

    def _closure(self, threads: list, text: str, position: int) -> list:
        """Follows everything that takes no character; each instruction once, for the thread that comes first."""
        out: list = []
        seen: set[int] = set()
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
                if _holds(argument, text, position):
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


def _holds(kind: str, text: str, at: int) -> bool:
    if kind == "text_start":
        return at == 0
    if kind == "text_end":
        return at == len(text)
    if kind == "line_start":
        return at == 0 or text[at - 1] == "\n"
    if kind == "line_end":
        return at == len(text) or text[at] == "\n"
    before, after = at > 0 and _is_word(text[at - 1]), at < len(text) and _is_word(text[at])
    return (before != after) == (kind == "boundary")


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")

"""Running RE2's regular expressions, in linear time where Python's own engine would not be.

A pattern is parsed (`re2_syntax`) and then given to Python's `re`, which is quick but backtracks. Where that could take too
long for a text (`re2_cost`), the pattern runs on an automaton (`re2_automaton`), slower per character but linear, as RE2 does
for all of them.

Text is UTF-8; invalid bytes match no set, and are kept unchanged.
"""
from __future__ import annotations

import functools
import math
import re
import sys
from typing import Any

from penstock._src.base import errors
from penstock._src.kernels import strings
from penstock._src.kernels.re2_automaton import Automaton
from penstock._src.kernels.re2_cost import EXPONENTIAL, degree
from penstock._src.kernels.re2_syntax import At, Chars, Choice, Group, Ranges, Repeat, Sequence, complement, parse

_MAX_WORK = 10 ** 9        # ways to match a text that backtracking may have to try
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
        self._pattern = pattern
        self._tree, self.groups = parse(pattern)
        self._never_empty = _shortest(self._tree) > 0
        self._alone = _one_set(self._tree)
        self._local = self._never_empty and not _anchored(self._tree)
        self._longest_match, self._longest_search = _longest(self._tree, self._alone is not None)

    @functools.cached_property
    def _quick(self) -> re.Pattern:
        return _python(self._pattern, self._tree)

    @functools.cached_property
    def _linear(self) -> Automaton:
        return Automaton(self._tree, self.groups)

    def full_match(self, text: bytes) -> bool:
        """Whether the whole text matches."""
        plain = decode(text)
        if len(plain) > self._longest_match:
            return self._linear.fullmatch(plain)
        return self._quick.fullmatch(plain) is not None

    def replace(self, text: bytes, rewrite: Rewrite, everywhere: bool) -> bytes:
        """The text with the first match, or all of them, rewritten."""
        if not self._rewritten_by(rewrite, everywhere):
            return text
        plain = decode(text)
        engine: Any = self._quick if len(plain) <= self._longest_search else self._linear
        if self._never_empty and engine is self._quick:
            return encode(engine.sub(rewrite, plain, 0 if everywhere else 1))
        return encode(_replace_step_by_step(engine, plain, rewrite, everywhere))

    def _rewritten_by(self, rewrite: Rewrite, everywhere: bool) -> bool:
        """Whether RE2 would replace anything: texts stay as they are if the rewrite refers to a group that is absent, or if
        one match is to be replaced by an invalid rewrite. If all are, the part before the invalid one counts."""
        return rewrite.highest <= self.groups and (everywhere or rewrite.valid)

    def replace_all(self, texts: list[bytes], rewrite: Rewrite, everywhere: bool) -> list[bytes]:
        """`replace` for many texts: as one text, where no match can reach from one into the next."""
        if not self._rewritten_by(rewrite, everywhere):
            return texts
        joined = _BETWEEN.join(texts)
        if everywhere and self._alone is not None and not rewrite.parts and b"".join(texts).isascii():
            return joined.translate(None, self._alone).split(_BETWEEN) if texts else []
        plain = rewrite.plain(len(joined))
        if plain is None or not (everywhere and len(texts) > 1 and self._local) or joined.count(_BETWEEN) != len(texts) - 1 \
                or max(map(len, texts)) > self._longest_search:
            return [self.replace(text, rewrite, everywhere) for text in texts]
        return encode(self._quick.sub(plain.replace("\\", r"\\"), decode(joined))).split(_BETWEEN)


def _replace_step_by_step(engine: Any, text: str, rewrite: Rewrite, everywhere: bool) -> str:
    """An empty match counts only where the match before it did not end."""
    out, at, last_end = [], 0, -1
    while at <= len(text):
        match = engine.search(text, at)
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


def _longest(tree: Any, one_set: bool) -> list[int]:
    """The longest texts for which backtracking takes bounded time, in a full match and in a search.

    A search begins at each character: that is one more loop, unless nothing can fail after a character has matched.
    """
    power = degree(tree)
    return [_longest_for(power + more) for more in (0, int(power > 0 and not one_set))]


def _longest_for(power: int) -> int:
    """The length whose `power` gives `_MAX_WORK`: so many loops split a text in length ** power / power! ways."""
    if power < 2:
        return sys.maxsize if power == 0 else _MAX_WORK
    return int(math.exp((math.log(_MAX_WORK) + math.lgamma(power + 1)) / power)) if power < EXPONENTIAL else -1


@functools.lru_cache(maxsize=256)
def compiled(pattern: bytes) -> Pattern:
    """A pattern, compiled; InvalidArgumentError if it is not one."""
    return Pattern(pattern)


class Rewrite:
    """A replacement: text with ``\\0`` to ``\\9`` for groups and ``\\\\`` for a backslash. Called with a match.

    `parts` ends before the first backslash that is followed by something else; `highest` is the largest group of the whole.
    """

    def __init__(self, rewrite: bytes):
        self.parts: list[str | int] = []
        self.valid = True
        text = decode(rewrite)
        for plain, escaped in re.findall(r"([^\\]+)|\\(.?)", text, re.DOTALL):
            if plain:
                self.parts.append(plain)
            elif escaped == "\\":
                self.parts.append("\\")
            elif escaped and escaped in "0123456789":
                self.parts.append(int(escaped))
            else:
                self.valid = False
                break
        self.highest = max((int(n) for n in re.findall(r"\\([0-9])", text.replace(r"\\", ""))), default=0)
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

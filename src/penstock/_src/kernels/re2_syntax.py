"""The syntax of RE2's regular expressions, as a tree.

RE2 is the language of TensorFlow's regex ops: Perl's, without features that need backtracking (lookaround, back references), on
UTF-8 text. Sets of characters are resolved here, case folding included, so that a tree only has sets, assertions, sequences,
choices, repeats and groups.
"""
from __future__ import annotations

import dataclasses
import functools
import unicodedata

from penstock._src.base import errors
from penstock._src.kernels.unicode_data import script_ranges

Ranges = tuple[tuple[int, int], ...]          # sorted, disjoint, inclusive

MAX_REPEAT = 1000
MAX_DEPTH = 100
_LAST = 0x10FFFF
_ALL: Ranges = ((0, 0xD7FF), (0xE000, _LAST))      # without surrogates: bytes that are not UTF-8 become those


@dataclasses.dataclass(frozen=True)
class Chars:
    """One character of a set."""
    ranges: Ranges


@dataclasses.dataclass(frozen=True)
class At:
    """An assertion: "text_start", "text_end", "line_start", "line_end", "boundary" or "no_boundary"."""
    kind: str


@dataclasses.dataclass(frozen=True)
class Sequence:
    """One after the other."""
    items: tuple


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several, the first that leads to a match."""
    items: tuple


@dataclasses.dataclass(frozen=True)
class Repeat:
    """`low` to `high` times (None: without limit)."""
    item: object
    low: int
    high: int | None
    greedy: bool


@dataclasses.dataclass(frozen=True)
class Group:
    """A numbered group."""
    item: object
    index: int


# -- sets -------------------------------------------------------------------------------------------------------------
def union(*many: Ranges) -> Ranges:
    """All characters of several sets."""
    out: list[list[int]] = []
    for low, high in sorted(r for ranges in many for r in ranges):
        if out and low <= out[-1][1] + 1:
            out[-1][1] = max(out[-1][1], high)
        else:
            out.append([low, high])
    return tuple((low, high) for low, high in out)


def complement(ranges: Ranges) -> Ranges:
    """All characters that are not in a set."""
    out, start = [], 0
    for low, high in union(ranges, ((0xD800, 0xDFFF),)):
        if low > start:
            out.append((start, low - 1))
        start = high + 1
    if start <= _LAST:
        out.append((start, _LAST))
    return tuple(out)


def _ascii(text: str) -> Ranges:
    return union(*(((ord(c), ord(c)),) for c in text))


_DIGIT: Ranges = ((0x30, 0x39),)
_UPPER: Ranges = ((0x41, 0x5A),)
_LOWER: Ranges = ((0x61, 0x7A),)
_WORD = union(_DIGIT, _UPPER, _LOWER, _ascii("_"))
_PERL = {"d": _DIGIT, "s": _ascii("\t\n\f\r "), "w": _WORD}
_POSIX = {
    "alnum": union(_DIGIT, _UPPER, _LOWER), "alpha": union(_UPPER, _LOWER), "ascii": ((0, 0x7F),), "blank": _ascii("\t "),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)), "digit": _DIGIT, "graph": ((0x21, 0x7E),), "lower": _LOWER,
    "print": ((0x20, 0x7E),), "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": _ascii("\t\n\v\f\r "), "upper": _UPPER, "word": _WORD,
    "xdigit": union(_DIGIT, ((0x41, 0x46),), ((0x61, 0x66),)),
}


@functools.cache
def _categories() -> dict[str, Ranges]:
    """The characters of each general category, under its two letters and its first one."""
    found: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, ""
    for c in range(_LAST + 2):
        kind = unicodedata.category(chr(c)) if c <= _LAST else ""
        if kind != current:
            if current and current not in ("Cn", "Cs"):
                found.setdefault(current, []).append((start, c - 1))
                found.setdefault(current[0], []).append((start, c - 1))
            start, current = c, kind
    return {name: union(tuple(ranges)) for name, ranges in found.items()}


@functools.cache
def _case_variants() -> dict[int, tuple[int, ...]]:
    """For every character that has other cases, all of them."""
    groups: dict[str, set[int]] = {}
    for c in range(0x1E944):                   # there are no cases beyond
        text = chr(c)
        lower, upper = text.lower(), text.upper()
        if lower == upper:
            continue
        for other in {lower, upper.lower()}:
            if len(other) == 1:
                groups.setdefault(other, set()).update((c, ord(other)))
    return {c: tuple(g) for g in groups.values() if len(g) > 1 for c in g}


def fold(ranges: Ranges) -> Ranges:
    """A set with the other cases of its characters."""
    variants = _case_variants()
    if sum(high - low + 1 for low, high in ranges) < len(variants):
        found = [variants.get(c, ()) for low, high in ranges for c in range(low, high + 1)]
    else:
        found = [others for c, others in variants.items() if _holds(ranges, c)]
    more = [c for others in found for c in others]
    return union(ranges, tuple((c, c) for c in more))


def _holds(ranges: Ranges, c: int) -> bool:
    return any(low <= c <= high for low, high in ranges)


# -- the parser -------------------------------------------------------------------------------------------------------
class _Parser:
    """Recursive descent over a pattern. Flags: i (fold case), m (lines), s (. takes newlines), U (swap greed)."""

    def __init__(self, text: str):
        self.text, self.at, self.groups, self.depth = text, 0, 0, 0
        self.flags: frozenset[str] = frozenset()

    def fail(self, what: str, part: str | None = None) -> errors.OpError:
        """An InvalidArgumentError with RE2's message."""
        detail = what if part == "" else f"{what}: {self.text if part is None else part}"
        return errors.invalid(f"Invalid pattern: {self.text}, error: {detail}")

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def parse(self) -> object:
        tree = self.choice()
        if self.at < len(self.text):
            raise self.fail("unexpected )")
        return tree

    def choice(self) -> object:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail("expression nesting too deep")
        flags = self.flags
        items = [self.sequence()]
        while self.take("|"):
            items.append(self.sequence())
        self.flags = flags
        self.depth -= 1
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def sequence(self) -> object:
        items: list = []
        repeat_at = None                       # where a repetition that has just been read began
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            start = self.at
            bounds = self.repetition()
            if bounds is None:
                items.extend(self.atom())
                repeat_at = None
                continue
            operator = self.text[start:self.at]
            if repeat_at is not None:
                raise self.fail("bad repetition operator", self.text[repeat_at:self.at])
            if not items or items[-1] is None:
                raise self.fail("no argument for repetition operator", operator)
            items[-1] = self.repeat(items[-1], *bounds, operator)
            repeat_at = start
        items = [i for i in items if i is not None]
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def repetition(self) -> tuple[int, int | None, bool] | None:
        """Bounds and greed, if a repetition operator is here."""
        c = self.text[self.at]
        if c in "*+?":
            self.at += 1
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[c]
        elif c == "{":
            end = self.text.find("}", self.at)
            first, comma, last = self.text[self.at + 1:end].partition(",") if end > 0 else ("", "", "")
            if not first.isascii() or not first.isdigit() or last and not (last.isascii() and last.isdigit()):
                return None
            if len(first) > 9 or len(last) > 9:
                raise self.fail("invalid repetition size", self.text[self.at:end + 1])
            self.at = end + 1
            low = int(first)
            high = int(last) if last else None if comma else low
        else:
            return None
        return low, high, self.take("?") == ("U" in self.flags)

    def repeat(self, item: object, low: int, high: int | None, greedy: bool, operator: str) -> Repeat:
        if max(low, high or 0) > MAX_REPEAT or high is not None and high < low \
                or unrolled(item) * max(low, high or 0, 1) > MAX_REPEAT and operator[0] == "{" and unrolled(item) > 1:
            raise self.fail("invalid repetition size", operator)
        return Repeat(item, low, high, greedy)

    def atom(self) -> list:
        """The next item (a few for quoted text; None represents a change of flags)."""
        c = self.text[self.at]
        if c == "(":
            return [self.group()]
        if c == "[":
            return [Chars(self.char_class())]
        if c == "\\":
            return self.escape()
        self.at += 1
        if c == "^":
            return [At("line_start" if "m" in self.flags else "text_start")]
        if c == "$":
            return [At("line_end" if "m" in self.flags else "text_end")]
        if c == ".":
            return [Chars(_ALL if "s" in self.flags else complement(((10, 10),)))]
        return [self.literal(c)]

    def literal(self, c: str) -> Chars:
        ranges = ((ord(c), ord(c)),)
        return Chars(fold(ranges) if "i" in self.flags else ranges)

    def group(self) -> object:
        start = self.at
        self.at += 1
        index, flags = None, self.flags
        if not self.take("?"):
            self.groups += 1
            index = self.groups
        elif self.take("P<"):
            end = self.text.find(">", self.at)
            name = self.text[self.at:end] if end >= 0 else ""
            if not name or not all(c == "_" or c.isalnum() for c in name):
                raise self.fail("invalid named capture group", self.text[start:end + 1 if end >= 0 else None])
            self.at = end + 1
            self.groups += 1
            index = self.groups
        elif self.change_flags(start):
            return None
        item = self.choice()
        self.flags = flags
        if not self.take(")"):
            raise self.fail("missing )")
        return item if index is None else Group(item, index)

    def change_flags(self, start: int) -> bool:
        """Reads `i-s:` or `i-s)` after `(?`; whether it was the latter, which lasts to the end of the group."""
        on = True
        flags = set(self.flags)
        while self.at < len(self.text):
            c = self.text[self.at]
            self.at += 1
            if c in "imsU":
                (flags.add if on else flags.discard)(c)
            elif c == "-" and on:
                on = False
            elif c in ":)":
                self.flags = frozenset(flags)
                return c == ")"
            else:
                break
        raise self.fail("invalid perl operator", self.text[start:self.at])

    def escape(self) -> list:
        following = self.text[self.at + 1:self.at + 2]
        if not following:
            raise self.fail("trailing \\", "")
        if following == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 2:end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            return [self.literal(c) for c in quoted] or [Sequence(())]
        kinds = {"A": "text_start", "z": "text_end", "b": "boundary", "B": "no_boundary"}
        if following in kinds:
            self.at += 2
            return [At(kinds[following])]
        ranges = self.escaped_class()
        if ranges is not None:
            return [Chars(ranges)]
        if following == "C":
            raise errors.UnimplementedError(None, None, f"Invalid pattern: {self.text}: \\C (any byte) is not supported; "
                                            "use (?s:.) for any character")
        return [self.literal(chr(self.escaped_char()))]

    def escaped_class(self) -> Ranges | None:
        """The set of \\d, \\W, \\pL, \\p{Greek} …, if one is here."""
        c = self.text[self.at + 1:self.at + 2]
        if c.lower() in _PERL and c:
            self.at += 2
            found = _PERL[c.lower()]
            return complement(found) if c.isupper() else found
        if c not in ("p", "P"):
            return None
        start, negated = self.at, c == "P"
        self.at += 2
        if self.take("{"):
            end = self.text.find("}", self.at)
            name = self.text[self.at:end] if end >= 0 else ""
            self.at = end + 1 if end >= 0 else len(self.text)
        else:
            name = self.text[self.at:self.at + 1]
            self.at += 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        found = _ALL if name == "Any" else _categories().get(name) or script_ranges(name)
        if not found:
            raise self.fail("invalid character class range", self.text[start:self.at])
        if "i" in self.flags:
            found = fold(found)
        return complement(found) if negated else found

    def escaped_char(self) -> int:
        """The character of \\n, \\x41, \\x{263a}, \\07, \\. …"""
        start = self.at
        c = self.text[self.at + 1:self.at + 2]
        self.at += 2
        if c and ord(c) < 128 and not c.isalnum():
            return ord(c)
        if c in "afnrtv" and c:
            return {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}[c]
        if c and c in "01234567":
            digits = c
            while len(digits) < 3 and self.text[self.at:self.at + 1] in tuple("01234567"):
                digits += self.text[self.at]
                self.at += 1
            if c == "0" or len(digits) > 1:
                return int(digits, 8)
        elif c == "x":
            return self.hexadecimal(start)
        raise self.fail("invalid escape sequence", self.text[start:self.at])

    def hexadecimal(self, start: int) -> int:
        if self.take("{"):
            end = self.text.find("}", self.at)
            digits = self.text[self.at:end] if end >= 0 else ""
            self.at = end + 1 if end >= 0 else len(self.text)
        else:
            digits = self.text[self.at:self.at + 2]
            digits = digits if len(digits) == 2 else ""
            self.at += 2
        known = bool(digits) and len(digits) <= 8 and all(d in "0123456789abcdefABCDEF" for d in digits)
        value = int(digits, 16) if known else _LAST + 1
        if value > _LAST:
            raise self.fail("invalid escape sequence", self.text[start:self.at])
        return value

    def char_class(self) -> Ranges:
        start = self.at
        self.at += 1
        negated = self.take("^")
        sets: list[Ranges] = []
        first = True
        while first or not self.peek("]"):
            if self.at >= len(self.text):
                raise self.fail("missing ]", self.text[start:])
            first = False
            sets.append(self.class_item())
        self.at += 1
        found = union(*sets)
        if "i" in self.flags:
            found = fold(found)
        return complement(found) if negated else found

    def class_item(self) -> Ranges:
        if self.peek("[:"):
            end = self.text.find(":]", self.at + 2)
            if end >= 0:
                name = self.text[self.at + 2:end]
                found = _POSIX.get(name.removeprefix("^"))
                if found is None:
                    raise self.fail("invalid character class range", self.text[self.at:end + 2])
                self.at = end + 2
                return complement(found) if name.startswith("^") else found
        if self.peek("\\"):
            found = self.escaped_class()
            if found is not None:
                return found
        start = self.at
        low = self.class_char()
        if not self.peek("-") or self.text[self.at + 1:self.at + 2] in ("]", ""):
            return ((low, low),)
        self.at += 1
        high = self.class_char()
        if high < low:
            raise self.fail("invalid character class range", self.text[start:self.at])
        return ((low, high),)

    def class_char(self) -> int:
        if self.at >= len(self.text):
            raise self.fail("missing ]")
        if not self.peek("\\"):
            self.at += 1
            return ord(self.text[self.at - 1])
        if self.at + 1 >= len(self.text):
            raise self.fail("trailing \\", "")
        return self.escaped_char()


def unrolled(item: object) -> int:
    """How often the most repeated part of a tree is repeated, counting {n} only."""
    if isinstance(item, Repeat):
        times = max(item.low, item.high or 0)
        return unrolled(item.item) * max(times, 1)
    if isinstance(item, Group):
        return unrolled(item.item)
    if isinstance(item, (Sequence, Choice)):
        return max(map(unrolled, item.items), default=1)
    return 1


def parse(pattern: bytes) -> tuple[object, int]:
    """The tree of a pattern, and its number of groups."""
    try:
        parser = _Parser(pattern.decode("utf-8"))
    except UnicodeDecodeError:
        raise errors.invalid(f"Invalid pattern: {pattern!r}, error: invalid UTF-8") from None
    return parser.parse(), parser.groups

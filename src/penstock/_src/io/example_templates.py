"""tf.Example messages to columns with numpy, where there is no compiled scanner.

Rows of one data set look alike: the same keys in the same order, in the form that serializers write. So the
first row is read byte by byte and becomes a *template*: which bytes every such row has, and where its lengths are. Then
all rows are compared with it at once, in numpy, and the values lie in spans that are known for all of them. Rows that
are like no template (other keys, another order, packed in another way, broken) are left to `examples.py`.

Nothing is allocated by a length that a row claims: every span has been checked to lie in its row.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock._src.io.example_columns import BYTES, FLOAT, INT64, MISSING, Column, Values, packed

_INLINE = 64                                       # fixed values of at most so many bytes are compared over
_KEPT, _NEW = 8, 3                                 # templates that are kept, and tried again per batch
_MARGIN = 1024                                     # bytes after the last row, beside the reach of templates
_MANY = 64                                         # rows from which on lists of strings are walked side by side


class Irregular(Exception):
    """Rows do not match their template, and must be parsed by protobuf."""


# -- templates --------------------------------------------------------------------------------------------------------
class _Segment:
    """Bytes of equal length in all rows, followed by a payload whose length they contain (or is the same for all).

    Rows in which the lengths take more or fewer bytes have their own alternative.
    """

    def __init__(self) -> None:
        self.data, self.cover = bytearray(), bytearray()
        self.lengths: list[tuple[int, int, int]] = []      # offset, width, what it is more than the payload: last 0
        self.payload = 0                                   # its length, if there are no lengths
        self.inline: list[tuple[int, int, int]] = []       # column, offset, bytes of fixed values within the segment
        self.column: int | None = None                     # of the payload
        self.alternatives: list[_Segment] = []

    def add(self, data: bytes, cover: int = 0xFF) -> None:
        """Bytes that are the same in all rows, as far as `cover` has bits."""
        self.data += data
        self.cover += bytes([cover]) * len(data)

    def add_length(self, data: bytes, more: int) -> None:
        """A length that differs from row to row, but not in its width."""
        self.lengths.append((len(self.data), len(data), more))
        self.add(data, 0x80)

    def finish(self) -> _Segment:
        """Prepares the comparison."""
        self.width = len(self.data)
        self.mask = np.frombuffer(bytes(self.cover), np.uint8).copy()
        self.static = np.frombuffer(bytes(self.data), np.uint8) & self.mask
        self.narrow = all(width == 1 for _, width, _ in self.lengths)
        if self.lengths and self.narrow:
            # Every length of one byte is the last one and a constant: subtracted, it is the same in all rows.
            self.last = self.lengths[-1][0]
            self.share = np.zeros(self.width, np.uint8)
            for offset, _, more in self.lengths[:-1]:
                self.share[offset], self.mask[offset], self.static[offset] = 1, 0xFF, more
            self.most = np.uint8(0x7F - self.lengths[0][2])
        return self

    def check(self, window: np.ndarray) -> tuple[Any, Any]:
        """Which rows match the segment (None: all of them), and the lengths of their payloads."""
        if not self.lengths:
            same = (window & self.mask) == self.static
            return None if _true(same) else same.all(1), self.payload
        if not self.narrow:
            return self._check_wide(window)
        last = window[:, self.last]
        same = ((window - last[:, None] * self.share) & self.mask) == self.static
        fits = last <= self.most
        good = None if _true(same) and _true(fits) else same.all(1) & fits
        return good, last.astype(np.int64)

    def _check_wide(self, window: np.ndarray) -> tuple[Any, Any]:
        good = ((window & self.mask) == self.static).all(1)
        found = [_lengths(window, offset, width) for offset, width, _ in self.lengths]
        for value, (_, _, more) in zip(found[:-1], self.lengths, strict=False):
            good &= value == found[-1] + more
        return None if good.all() else good, found[-1]


def _true(mask: np.ndarray) -> bool:
    """mask.all(), which is slower to call."""
    return np.count_nonzero(mask) == mask.size


class _Template:
    """The layout of a row: the entries of its feature map, as segments. Read from data[at:end]."""

    def __init__(self, data: bytes, at: int, end: int, columns: Sequence[Column], index: dict[bytes, int],
                 first: bool = False):
        self.segments: list[_Segment] = []
        self.empty: list[int] = []                         # columns without values
        self.seen: set[int] = set()
        self._now = _Segment()
        self._columns, self._index = columns, index
        while at < end and not (first and self.segments):
            at = self._entry(data, at, end)
        if not self.segments or self._now.data:
            self._close()
        # What the comparison may inspect beyond the end of the last row.
        self.reach = sum(s.width + 128 for s in self.segments)

    def _close(self) -> None:
        self.segments.append(self._now.finish())
        self._now = _Segment()

    def _entry(self, row: bytes, start: int, limit: int) -> int:
        """One feature: key, then value."""
        now = self._now
        length, at = _varint(row, start + 1)
        end = at + length
        size, key_at = _varint(row, at + 1)
        value_at = key_at + size
        if row[start] != 0x0A or row[at] != 0x0A or value_at > end or end > limit:
            raise Irregular
        length, feature_at = _varint(row, value_at + 1)
        if row[value_at] != 0x12 or feature_at + length != end:
            raise Irregular
        column = self._index.get(row[key_at:value_at])
        if column is None:
            now.add(row[start:start + 1])
            now.add_length(row[start + 1:at], feature_at - at)
            now.add(row[at:value_at + 1])
            now.add_length(row[value_at + 1:feature_at], 0)
            self._close()
            return end
        if column in self.seen:
            raise Irregular
        self.seen.add(column)
        if not length:
            now.add(row[start:end])                        # no kind: treated as absent
            return end
        self._feature(row, start, at, value_at, feature_at, end, column)
        return end

    def _feature(self, row: bytes, start: int, at: int, value_at: int, feature_at: int, end: int, column: int) -> None:
        now, (_, kind, size) = self._now, self._columns[column]
        length, list_at = _varint(row, feature_at + 1)
        if row[feature_at] != kind or list_at + length != end:
            raise Irregular
        if not length:
            if size is not None:
                raise Irregular
            self.empty.append(column)
            now.add(row[start:end])
            return
        body = list_at
        if kind != BYTES or size == 1:                     # one packed field, or one string
            length, body = _varint(row, list_at + 1)
            if row[list_at] != 0x0A or body + length != end:
                raise Irregular
        if kind == FLOAT and (length % 4 or size is not None and length != 4 * size):
            raise Irregular
        if kind == FLOAT and size is not None:
            self._fixed(row, start, body, end, column)
            return
        now.column = column
        now.add(row[start:start + 1])
        now.add_length(row[start + 1:at], body - at)
        now.add(row[at:value_at + 1])
        now.add_length(row[value_at + 1:feature_at], body - feature_at)
        now.add(row[feature_at:feature_at + 1])
        now.add_length(row[feature_at + 1:list_at], body - list_at)
        if body > list_at:
            now.add(row[list_at:list_at + 1])
            now.add_length(row[list_at + 1:body], 0)
        self._close()

    def _fixed(self, row: bytes, start: int, body: int, end: int, column: int) -> None:
        """Values of the same size in all rows: every length is."""
        now = self._now
        now.add(row[start:body])
        if end - body <= _INLINE:
            now.inline.append((column, len(now.data), end - body))
            now.add(row[body:end], 0)
        else:
            now.column, now.payload = column, end - body
            self._close()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of at most five bytes, and where it ends."""
    value = shift = 0
    while shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Irregular


def _lengths(window: np.ndarray, offset: int, width: int) -> np.ndarray:
    """The varints of a width at an offset of each row."""
    value = (window[:, offset] & 0x7F).astype(np.int64)
    for i in range(1, width):
        value |= (window[:, offset + i] & 0x7F).astype(np.int64) << (7 * i)
    return value


# -- a batch ----------------------------------------------------------------------------------------------------------
def _length_word(length: np.ndarray, width: int) -> np.ndarray:
    """The tag 0x0A and a length in `width` bytes, as a little-endian number."""
    word = (length & 0x7F) << 8 | 0x0A
    for i in range(1, width):
        word |= ((length >> (7 * i)) & 0x7F) << (8 * i + 8) | 0x80 << (8 * i)
    return word


_WIDTHS = (129, 16386, 2097155, 268435460)         # the longest rows whose features have a length of 1, 2, … bytes


_NO_ROWS = np.zeros(0, np.int64)


class _Batch:
    """Rows in one piece of memory, which can be inspected from any byte on."""

    def __init__(self, rows: Sequence[bytes], pad: int):
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        self.ends = np.cumsum(sizes)
        self.starts = self.ends - sizes
        self.pad = pad
        self.data = b"".join([*rows, bytes(pad)])
        self.limit = len(self.data) - pad + 1              # where no row ends
        self.bytes = np.frombuffer(self.data, np.uint8)
        self._find_entries(sizes)

    def _find_entries(self, sizes: np.ndarray) -> None:
        """A row is one field with all features, whose length is as short as can be: where do they begin?"""
        least, most = int(np.minimum.reduce(sizes)), int(np.maximum.reduce(sizes))
        width: Any = 1 + sum(most > n for n in _WIDTHS)
        words = self.words("<i8")[self.starts]
        if width == 1 + sum(least > n for n in _WIDTHS) and least > width:
            length = sizes - (width + 1)
            self.regular = (words & ((1 << (8 * width + 8)) - 1)) == _length_word(length, width)
            self.entries = self.starts + (width + 1)
            return
        self.regular, width = np.zeros(len(sizes), bool), np.ones_like(sizes)
        for n in _WIDTHS:
            width += sizes > n
        for w in set(width.tolist()):
            mine = (width == w) & (sizes > w)
            self.regular[mine] = (words[mine] & ((1 << (8 * w + 8)) - 1)) == _length_word(sizes[mine] - (w + 1), w)
        self.entries = self.starts + width + 1

    def words(self, dtype: str) -> np.ndarray:
        """The numbers that begin at each byte."""
        return np.ndarray((len(self.data) - int(dtype[2]) + 1,), dtype, self.data, 0, (1,))

    def windows(self, width: int) -> np.ndarray:
        """The stretches of bytes that begin at each byte."""
        return np.ndarray((len(self.data) - width + 1, width), np.uint8, self.data, 0, (1, 1))

    def match(self, template: _Template, rows: Any, learn: Callable[[int, int], _Segment]) -> tuple[Any, dict[int, Any]]:
        """Which rows (of all, if None) do not match the template (None: all match), and where their payloads are.

        `learn` creates a segment from the bytes of a row, as an alternative to one that does not match.
        """
        pos, ends, regular = self.entries, self.ends, self.regular
        if rows is not None:
            pos, ends, regular = pos[rows], ends[rows], regular[rows]
        bad = None if _true(regular) else ~regular
        found: dict[int, Any] = {}
        for segment in template.segments:
            window = self.windows(segment.width)[pos]
            good, length = segment.check(window)
            width: Any = segment.width
            if good is not None:
                width = np.full(len(pos), segment.width)
                wrong = ~good if bad is None else ~good & ~bad
                if segment.lengths:
                    wrong = self._alternatives(segment, pos, ends, wrong, width, length, learn)
                bad = wrong if bad is None else bad | wrong
                if bad.all():
                    return bad, {}
                width[bad] = 0
                if segment.lengths:
                    length[bad] = 0
            for column, offset, size in segment.inline:
                found[column] = ("inline", window, offset, size)
            pos = pos + width
            if segment.column is not None:
                found[segment.column] = ("span", pos, length)
            pos = pos + length
            if good is not None or not segment.narrow or not segment.lengths:
                pos = np.minimum(pos, self.limit)
        whole = pos == ends
        if not _true(whole):
            bad = ~whole if bad is None else bad | ~whole
        return (None if bad is None or not bad.any() else bad), found

    def _alternatives(self, segment: _Segment, pos: np.ndarray, ends: np.ndarray, wrong: np.ndarray, width: np.ndarray,
                      length: np.ndarray, learn: Callable[[int, int], _Segment]) -> np.ndarray:
        """Retries the mismatched rows with lengths of other widths; returns those that still do not match."""
        left = np.flatnonzero(wrong)
        for n in itertools.count():
            if not len(left):
                break
            if n == len(segment.alternatives):
                if n >= _KEPT:
                    break
                try:
                    other = learn(int(pos[left[0]]), int(ends[left[0]]))
                except (Irregular, IndexError):
                    break
                if (other.column, other.inline) != (segment.column, segment.inline) or not other.lengths or \
                        other.width > _MARGIN // 2:
                    break
                segment.alternatives.append(other)
            other = segment.alternatives[n]
            good, found = other.check(self.windows(other.width)[pos[left]])
            fine = left if good is None else left[good]
            width[fine] = other.width
            length[fine] = found if good is None else found[good]
            left = left[:0] if good is None else left[~good]
            if n == len(segment.alternatives) - 1 and good is not None and not good.any():
                break
        wrong = np.zeros_like(wrong)
        wrong[left] = True
        return wrong


# -- values -----------------------------------------------------------------------------------------------------------
_KEEP = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)              # the first n bytes of a word
_MORE = np.array([0x8080808080808080 & ((1 << 8 * max(n - 1, 0)) - 1) for n in range(9)], np.uint64)
_HIGH = np.uint64(0x8080808080808080)
_FOLDS = [(np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
          (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
          (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4))]


def _folded(word: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Varints of at most 8 bytes, as the words that begin with them; raises unless they are one varint each."""
    word &= _KEEP[length]
    if not _true((word & _HIGH) == _MORE[length]):
        raise Irregular
    longest = int(np.maximum.reduce(length)) if len(length) else 0
    if longest > 1:
        word &= ~_HIGH
        for low, high, shift in _FOLDS[:3 if longest > 4 else 2 if longest > 2 else 1]:
            word = (word & low) | ((word & high) >> shift)
    return word


def _one_varint(batch: _Batch, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Payloads that are one varint each, as int64."""
    if np.count_nonzero(length) < len(length):
        raise Irregular
    if int(np.maximum.reduce(length)) <= 8:
        return _folded(batch.words("<u8")[start], length).view(np.int64)
    counts, values = _varints(batch, start, length)
    if (counts != 1).any():
        raise Irregular
    return values


def _varints(batch: _Batch, start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Payloads of packed varints: how many each has, and all of them as int64."""
    whole = batch.data
    data = b"".join([whole[a:b] for a, b in zip(start.tolist(), (start + length).tolist(), strict=True)])
    ends = np.cumsum(length)
    each = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(each < 0x80)
    if not len(data) or not (each[ends[length > 0] - 1] < 0x80).all():
        if not len(data):
            return np.zeros(len(start), np.int64), np.zeros(0, np.int64)
        raise Irregular
    counts = np.diff(np.searchsorted(last, ends), prepend=0)
    if len(last) == len(data):
        return counts, each.astype(np.int64)
    begin = np.empty_like(last)
    begin[0], begin[1:] = 0, last[:-1] + 1
    size = last - begin + 1
    words = np.ndarray((len(data) + 1,), "<u8", data + bytes(8), 0, (1,))[begin]
    most = int(size.max())
    if most > 10:
        raise Irregular
    if most <= 8:
        return counts, _folded(words, size).view(np.int64)
    long = np.flatnonzero(size > 8)
    head = words[long] & ~_HIGH                            # eight bytes of seven bits; one or two bytes follow
    for low, high, shift in _FOLDS:
        head = (head & low) | ((head & high) >> shift)
    values = _folded(words, np.where(size > 8, 0, size))
    ninth = each[begin[long] + 8].astype(np.uint64)
    tenth = np.where(size[long] > 9, each[last[long]], 0).astype(np.uint64)
    values[long] = head | (ninth & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
    return counts, values.view(np.int64)


def _floats(batch: _Batch, start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Payloads of packed floats: how many each has, and all of them."""
    if (length % 4).any():
        raise Irregular
    counts = length // 4
    before = np.cumsum(length) - length
    at = np.repeat(start - before, counts) + 4 * np.arange(int(counts.sum()))
    return counts, batch.words("<f4")[at]


def _strings(batch: _Batch, start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, list]:
    """Payloads of lists of strings: advances all rows by one string at a time while there are many, then goes row by row."""
    data, words, ends = batch.data, batch.words("<u8"), start + length
    if len(start) < _MANY:
        spans = [_walk(data, a, b) for a, b in zip(start.tolist(), ends.tolist(), strict=True)]
        return np.array([*map(len, spans)], np.int64), [data[a:b] for s in spans for a, b in s]
    counts = np.zeros(len(start), np.int64)
    steps: list[tuple] = []                                # rows, and where their next string begins and ends
    rows = np.flatnonzero(length)
    at = start[rows]
    while len(rows) >= (_MANY if len(steps) > 64 else 8):
        word = words[at]
        head, size = word & np.uint64(0x80FF), ((word >> np.uint64(8)) & np.uint64(0x7F)).astype(np.int64)
        body = at + 2
        if (head != 0x0A).any():
            if ((word & np.uint64(0xFF)) != 0x0A).any():
                raise Irregular
            for i in np.flatnonzero(head != 0x0A).tolist():
                size[i], body[i] = _varint(data, int(at[i]) + 1)
        after = body + size
        end = ends[rows]
        if (after > end).any():
            raise Irregular
        steps.append((rows, body, after))
        counts[rows] += 1
        going = after < end
        rows, at = rows[going], after[going]
    rest: list[tuple[int, list]] = []
    for row, place in zip(rows.tolist(), at.tolist(), strict=True):
        found = _walk(data, place, int(ends[row]))
        rest.append((row, found))
        counts[row] += len(found)
    return counts, _cut(data, counts, steps, rest)


def _walk(data: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """Where the strings of one list begin and end."""
    spans = []
    while at < end:
        if data[at] != 0x0A:
            raise Irregular
        size, body = data[at + 1], at + 2
        if size > 0x7F:
            size, body = _varint(data, at + 1)
        at = body + size
        spans.append((body, at))
    if at != end:
        raise Irregular
    return spans


def _cut(data: bytes, counts: np.ndarray, steps: list[tuple], rest: list[tuple[int, list]]) -> list[bytes]:
    """The strings in the order of the rows."""
    before = np.cumsum(counts) - counts
    begin, end = np.empty((2, int(counts.sum())), np.int64)
    for n, (rows, body, after) in enumerate(steps):
        to = before[rows] + n
        begin[to], end[to] = body, after
    for row, spans in rest:
        to = int(before[row] + counts[row]) - len(spans)
        begin[to:to + len(spans)], end[to:to + len(spans)] = zip(*spans, strict=True)
    return [data[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]


def _decode(batch: _Batch, column: Column, found: Any, rows: Any) -> Values:
    """The values of one column in the rows that matched (`rows` selects them from those that were compared)."""
    if found[0] == "inline":
        _, window, offset, size = found
        part = window[:, offset:offset + size] if rows is None else window[rows, offset:offset + size]
        return Values(None, np.ascontiguousarray(part).view("<f4").ravel())
    _, start, length = found
    if rows is not None:
        start = start[rows]
        length = length if isinstance(length, int) else length[rows]
    if column.kind == FLOAT:
        if isinstance(length, int):
            return Values(None, batch.windows(length)[start].view("<f4").ravel())
        return Values(*_floats(batch, start, length))
    if column.kind == INT64:
        return Values(None, _one_varint(batch, start, length)) if column.size == 1 else Values(*_varints(batch, start, length))
    if column.size == 1:
        data = batch.data
        return Values(None, packed(BYTES, [data[a:b] for a, b in zip(start.tolist(), (start + length).tolist(), strict=True)]))
    counts, found = _strings(batch, start, length)
    return Values(counts, packed(BYTES, found))


# -- all of them ------------------------------------------------------------------------------------------------------
class Templates:
    """The templates learned so far, for some columns. Threads may share them."""

    def __init__(self, columns: Sequence[Column]):
        self.columns = list(columns)
        self._index = {c.key: i for i, c in enumerate(self.columns)}
        self._templates: list[_Template] = []

    def compare(self, rows: Sequence[bytes]) -> tuple[list, np.ndarray]:
        """Pieces (rows, values of each column) of rows that match a template, and the rows that match none."""
        templates = self._templates
        batch = _Batch(rows, _MARGIN + max((t.reach for t in templates), default=0))
        left: Any = None                                   # all
        pieces, used = [], []
        for n in range(len(templates) + _NEW):
            template = templates[n] if n < len(templates) else self._fresh(batch, left)
            if template is None:
                break
            if template.reach > batch.pad - _MARGIN:
                batch = _Batch(rows, _MARGIN + template.reach)
            bad, found = batch.match(template, left, self._learn(batch))
            here = None if bad is None else np.flatnonzero(~bad)
            if here is None or len(here):
                used.append(template)
                mine = here if left is None else left if here is None else left[here]
                count = len(rows) if mine is None else len(mine)
                pieces.append((mine, [self._values(batch, template, i, c, found, here, count)
                                      for i, c in enumerate(self.columns)]))
                left = _NO_ROWS if bad is None else np.flatnonzero(bad) if left is None else left[bad]
                if not len(left):
                    break
        if used != templates[:len(used)]:
            self._templates = (used + [t for t in templates if t not in used])[:_KEPT]
        return pieces, np.arange(len(rows)) if left is None else left

    def _learn(self, batch: _Batch) -> Callable[[int, int], _Segment]:
        return lambda at, end: _Template(batch.data, at, end, self.columns, self._index, first=True).segments[0]

    def _fresh(self, batch: _Batch, left: Any) -> _Template | None:
        """The template of the first remaining row that can have one."""
        rows = np.flatnonzero(batch.regular) if left is None else left[batch.regular[left]]
        if not len(rows):
            return None
        first = int(rows[0])
        try:
            return _Template(batch.data, int(batch.entries[first]), int(batch.ends[first]), self.columns, self._index)
        except (Irregular, IndexError):
            return None

    def _values(self, batch: _Batch, template: _Template, i: int, column: Column, found: dict, here: Any, count: int) -> Values:
        if i in found:
            return _decode(batch, column, found[i], here)
        return Values(np.full(count, 0 if i in template.empty else MISSING), packed(column.kind, []))

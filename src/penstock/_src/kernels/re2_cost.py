r"""How long backtracking over a regular expression may take, from its tree.

The characters of a tree are leaves, and pairs of leaves that can follow each other form a graph. Inside a loop, two ways to
continue with the same character take time exponential in the text (``(a+)+``). Between loops, text that both could take can be
split anywhere: the ways to match ``a*a*`` grow with the text, and each further loop multiplies them. Two loops share text
only if it also matches what is between them: ``\s*=\s*`` has one way.
"""
from __future__ import annotations

from typing import Any

from penstock._src.kernels.re2_syntax import Chars, Choice, Group, Ranges, Repeat, Sequence, complement, union, unrolled

_LONG_LOOP = 10           # repeats, of nested loops together, above which ambiguity inside them is considered dangerous
_LOOPS = 40               # loops of a pattern whose pairs are compared
_STEPS = 200_000          # pairs of leaves
EXPONENTIAL = 1 << 30     # a degree that no text is short enough for


def degree(tree: Any) -> int:
    """The power of the text's length that bounds the time of a full match, 0 without loops; EXPONENTIAL if there is none."""
    steps: list[tuple[Any, Any]] = []       # pairs of leaves that can follow each other, once per way
    loops: list[list] = []                  # the leaves of outermost loops, in order
    if _follow(tree, steps, loops)[3] or len(loops) > _LOOPS:
        return EXPONENTIAL
    following: dict[int, list] = {}
    for a, b in steps:
        following.setdefault(id(a), []).append(b)
    sets = [union(*(leaf[0] for leaf in loop)) for loop in loops]
    shared: list[int] = []                  # for each loop, the most pairs of loops up to it that share text
    for i, loop in enumerate(loops):
        pairs = [shared[j] + _share(loops[j], sets[j], loop, sets[i], following) for j in range(i)]
        shared.append(max(pairs, default=0))
    return 1 + max(shared) if loops else 0


def _share(first: list, chars: Ranges, second: list, others: Ranges, following: dict[int, list]) -> bool:
    """Whether some text could belong to either of two loops: a path of its characters leads from one to the other."""
    if not _overlap([chars, others]):
        return False
    common = complement(union(complement(chars), complement(others)))
    wanted, found = set(map(id, second)), set(map(id, first))
    stack = list(first)
    while stack:
        for leaf in following.get(id(stack.pop()), ()):
            if id(leaf) not in found and _overlap([leaf[0], common]):
                if id(leaf) in wanted:
                    return True
                found.add(id(leaf))
                stack.append(leaf)
    return False


def _follow(tree: Any, steps: list, loops: list) -> tuple[list, list, bool, bool]:
    """First and last leaves of a tree, whether it can be empty, and whether a loop in it is ambiguous.

    Leaves are told apart by identity: `steps` gets a pair for each way in which one can come after another.
    """
    if isinstance(tree, Chars):
        leaf = [tree.ranges]
        return [leaf], [leaf], False, False
    if isinstance(tree, Group):
        return _follow(tree.item, steps, loops)
    if isinstance(tree, Choice):
        parts = [_follow(t, steps, loops) for t in tree.items]
        return ([x for p in parts for x in p[0]], [x for p in parts for x in p[1]], any(p[2] for p in parts),
                any(p[3] for p in parts))
    if isinstance(tree, Sequence):
        return _follow_sequence(tree, steps, loops)
    if isinstance(tree, Repeat):
        return _follow_repeat(tree, steps, loops)
    return [], [], True, False


def _follow_sequence(tree: Sequence, steps: list, loops: list) -> tuple[list, list, bool, bool]:
    first: list = []
    last: list = []
    empty, found = True, False
    for item in tree.items:
        f, l, e, clash = _follow(item, steps, loops)
        found = found or clash or not _add(steps, last, f)
        first = first + f if empty else first
        last = last + l if e else l
        empty = empty and e
    return first, last, empty, found


def _follow_repeat(tree: Repeat, steps: list, loops: list) -> tuple[list, list, bool, bool]:
    mine: list = []
    outer = len(loops)
    first, last, empty, found = _follow(tree.item, mine, loops)
    if tree.high is None or tree.high > 1:
        found = found or not _add(mine, last, first)
        loops[outer:] = [list({id(leaf): leaf for pair in mine for leaf in pair}.values())]
    if tree.high is None or unrolled(tree) >= _LONG_LOOP:
        found = found or empty or _clash(mine, first)     # an empty turn of a loop has its own rules
    steps.extend(mine)
    return first, last, empty or tree.low == 0, found


def _add(steps: list, before: list, after: list) -> bool:
    """Adds all pairs of two lists of leaves; False if they are too many."""
    if len(steps) + len(before) * len(after) > _STEPS:
        return False
    steps.extend((a, b) for a in before for b in after)
    return True


def _clash(steps: list, first: list) -> bool:
    """Whether two ways out of one set, or two ways in, share a character."""
    following: dict[int, list] = {}
    for a, b in steps:
        following.setdefault(id(a), []).append(b)
    return any(_overlap([leaf[0] for leaf in group]) for group in (*following.values(), first))


def _overlap(sets: list[Ranges]) -> bool:
    bounds = sorted(r for ranges in sets for r in ranges)
    return any(a[1] >= b[0] for a, b in zip(bounds, bounds[1:], strict=False))

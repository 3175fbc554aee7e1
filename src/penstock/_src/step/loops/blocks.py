"""Programs with blocks: what writers of `if` and `while` share.

The last use of a value is known when all blocks are written. The value is then dropped in the block around all of its uses.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock._src.ops import rules
from penstock._src.step.compile.numbers import expression, literal, nonzero, number, wrap
from penstock._src.step.compile.program import Writer, given_away
from penstock._src.step.ir import Node, Value

_NAME = re.compile(r"\b[tvf]\d+\b")
_TAKEN = re.compile(r"\btake\((\w+)\)")


class BlockWriter(Writer):
    """Writes one program with blocks."""

    def __init__(self, ctx: Any, placed: Any = None):
        super().__init__(ctx, placed)
        self.in_numbers: set[int] = set()          # tensors of loops that are Python numbers there
        self.scope.update(truth=truth, number=number, wrap=wrap, nonzero=nonzero)

    def _same(self, t: Value, source: Value) -> None:
        if id(source) in self.numbers:
            self.numbers[id(t)] = self.numbers[id(source)]
            if id(source) not in self.names:
                return
        self.names[id(t)] = self.names[id(source)]
        if id(source) in self.refs:
            self.refs.add(id(t))

    def _write_number(self, op: Node) -> None:
        """An op of which the result is a Python number in its loop."""
        t = op.outputs[0]
        if op.opdef.constant:
            self._op(-1, op)
            self.numbers[id(t)] = literal(op)
        elif op.opdef not in rules.numbers.text:                                   # an identity
            self._same(t, op.inputs[0])
        else:
            name = self.numbers[id(t)] = self._new_name("n")
            self._line(f"{name} = {expression(op, [self.numbers[id(s)] for s in op.inputs])}", op)

    def _as_number(self, t: Value) -> str:
        """Converts a value that enters a loop to a Python number."""
        if id(t) in self.numbers:
            return self.numbers[id(t)]
        if t.op.opdef.constant and not t.op.inputs and id(t) not in self.fed:
            return literal(t.op)                   # its tensor may be on a device
        return f"number({self._value(t)})"

    def _taken(self, name: str, t: Value, index: int) -> str:
        """A value that a kernel may overwrite if this is its last use, which is known when all blocks are written."""
        return f"take({name})" if name[0] in "tv" and name.isalnum() else name

    def _resolve_taken(self) -> None:
        """Donates values at their last use, so that kernels can detect it from the reference count."""
        for i, line in enumerate(self.body):
            for name in _TAKEN.findall(line):
                gone = self._unread(i, name) and len(re.findall(rf"\b{name}\b", line.split("  # ")[0])) == 1
                line = line.replace(f"take({name})", given_away(name) if gone else name)
            self.body[i] = line

    def _unread(self, i: int, name: str) -> bool:
        """Whether a name is dead after line `i`: it is assigned, or the block that defines it ends."""
        depth = _depth(self.body[i])
        use = re.compile(rf"\b{name}\b")
        for line in self.body[i + 1:]:
            if _depth(line) < depth:
                break
            code = line.split("  # ")[0]
            if use.search(code):
                left, _, right = code.partition(" = ")
                return bool(right) and not use.search(right) and _depth(line) == depth and "(" not in left
        for line in reversed(self.body[:i]):
            if _depth(line) < depth:
                return False
            if use.search(line.split("  # ")[0].partition(" = ")[0]):
                return _depth(line) == depth
        return False

    # -- dropping values ------------------------------------------------------------------------------------------------
    def _reusing(self, index: int, op: Node, bound: Callable) -> Callable:
        """Not in blocks, where the order of ops does not determine last uses."""
        return bound

    def _drop(self, index: int, op: Node, unwanted: bool = False) -> None:
        """Not while writing: last uses are known when all blocks are written."""
        if unwanted:
            self._text("del _")

    def _drop_after_last_use(self, results: str) -> None:
        """Releases each value after its last use, in the block around all its uses."""
        self._resolve_taken()
        depths = [_depth(line) for line in self.body]
        kept = set(_NAME.findall(results))
        uses: dict[str, list[int]] = {}
        for i, line in enumerate(self.body):
            for name in set(_NAME.findall(line.split("  # ")[0])) - kept:
                uses.setdefault(name, []).append(i)
        after: dict[int, list[tuple[int, str]]] = {}
        for name, lines in uses.items():
            # the block that holds the definition (of a feed: the function's) and all uses
            around = 1 if name[0] == "f" else min(depths[lines[0]:lines[-1] + 1])
            last = lines[-1]
            while last + 1 < len(depths) and (depths[last + 1] > around or depths[last + 1] == around and
                                              self.body[last + 1].lstrip().startswith("else:")):
                last += 1
            after.setdefault(last, []).append((around, name))
        self._insert(after)

    def _insert(self, after: dict[int, list[tuple[int, str]]]) -> None:
        body: list[str] = []
        lines: dict[int, Node] = {}
        for i, line in enumerate(self.body):
            body.append(line)
            if i + 2 in self.lines:
                lines[len(body) + 1] = self.lines[i + 2]
            by_depth: dict[int, list[str]] = {}
            for depth, name in after.get(i, ()):
                by_depth.setdefault(depth, []).append(name)
            for depth in sorted(by_depth, reverse=True):
                body.append("    " * depth + " = ".join([*sorted(by_depth[depth]), "None"]))
        self.body, self.lines = body, lines


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // 4


def truth(value: Any) -> bool:
    """The Python boolean of a predicate."""
    return bool(value)

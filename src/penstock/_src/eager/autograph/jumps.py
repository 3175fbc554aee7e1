"""Replaces break, continue and early returns by flags.

After this pass a statement list runs from its first to its last statement: statements that a jump would skip are guarded by `if
not flag`, and a loop with a jump tests the flag first. A `return` at the end of the function stays.
"""
from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from penstock._src.eager.autograph.analysis import walk_scope

RETURNED, RESULT = "ag__returned", "ag__result"
_numbers = itertools.count(1)


def lower_jumps(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a function without jumps."""
    early = any(isinstance(n, ast.Return) for s in body if not isinstance(s, ast.Return) for n in walk_scope([s]))
    if early:
        body = _tail_returns(body if _ends(body) else body + parse("return None", body[-1]))
    new, _ = _Lowering(early).block(body, None)
    if not early:
        return new
    start = parse(f"{RETURNED} = False", body[0])
    end = parse(f"return ag__.result({RETURNED}, lambda: {RESULT})", body[-1])
    return [*start, *new, *end]


def parse(text: str, like: ast.AST) -> list[ast.stmt]:
    """Statements from text, at the position of `like`."""
    out = ast.parse(text).body
    for statement in out:
        for node in ast.walk(statement):
            ast.copy_location(node, like)
    return out


def _tail_returns(body: list[ast.stmt]) -> list[ast.stmt]:
    """A block that always returns, with what follows an `if` that may return moved into its branches: each has a result."""
    for i, s in enumerate(body):
        if not isinstance(s, ast.If):
            for block in _blocks(s):
                block[:] = _tail_returns(block) if _returns(block) else block
            continue
        rest = body[i + 1:]
        if _returns(s.body) or rest and s.orelse and _returns(s.orelse):
            if not _ends(s.body):
                s.body = s.body + rest
            elif not _ends(s.orelse):
                s.orelse = s.orelse + rest
            s.body, s.orelse = (_tail_returns(b) if _returns(b) else b for b in (s.body, s.orelse))
            return body[:i + 1]
    return body


def _blocks(s: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement, without those of the functions and classes that it defines."""
    if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for holder in (s, *getattr(s, "handlers", ()), *getattr(s, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(holder, name, None)
            if isinstance(block, list):
                yield block


def _returns(body: list[ast.stmt]) -> bool:
    """Whether a block always ends in return or raise, at least once in return."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return):
        return True
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse) and (_returns(last.body) or _returns(last.orelse))
    return isinstance(last, ast.With) and _returns(last.body)


def _ends(body: list[ast.stmt]) -> bool:
    """Whether what follows a block never runs."""
    return bool(body) and (isinstance(body[-1], ast.Raise) or _returns(body) or _endless(body[-1]))


def _endless(s: ast.stmt) -> bool:
    """Whether a statement is a loop that only a return ends."""
    if not isinstance(s, ast.While) or not isinstance(s.test, ast.Constant) or not s.test.value:
        return False
    return not any(_breaks(b) for b in s.body)


def _breaks(s: ast.AST) -> bool:
    if isinstance(s, (ast.While, ast.For)):
        return any(_breaks(b) for b in s.orelse)
    return isinstance(s, ast.Break) or any(_breaks(c) for c in ast.iter_child_nodes(s) if isinstance(c, _BLOCKS))


_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


class _Lowering:
    """Rewrites the blocks of one function."""

    def __init__(self, early_returns: bool):
        self._early = early_returns

    def block(self, body: list[ast.stmt], loop: str | None) -> tuple[list[ast.stmt], set[str]]:
        """The block without jumps, and the flags that it may have set. `loop`: the suffix of the loop's flags."""
        out: list[ast.stmt] = []
        for i, s in enumerate(body):
            new, flags = self._statement(s, loop)
            out += new
            if isinstance(s, (ast.Break, ast.Continue, ast.Return)):
                return out, flags                         # nothing behind a jump runs
            if flags:
                rest, more = self.block(body[i + 1:], loop)
                if rest:
                    guard = ast.If(_none_of(flags, rest[0]), rest, [])
                    out.append(ast.copy_location(guard, rest[0]))
                return out, flags | more
        return out, set()

    def _statement(self, s: ast.stmt, loop: str | None) -> tuple[list[ast.stmt], set[str]]:
        if isinstance(s, ast.Break):
            return parse(f"ag__break_{loop} = True", s), {f"ag__break_{loop}"}
        if isinstance(s, ast.Continue):
            return parse(f"ag__continue_{loop} = True", s), {f"ag__continue_{loop}"}
        if isinstance(s, ast.Return):
            return self._return(s)
        if isinstance(s, (ast.While, ast.For)):
            return self._loop(s, loop)
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return [s], set()
        flags: set[str] = set()
        for holder in (s, *getattr(s, "handlers", ()), *getattr(s, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(holder, name, None)
                if isinstance(inner, list) and inner:
                    new, set_here = self.block(inner, loop)
                    if name == "finalbody" and RETURNED in flags & set_here:
                        new = self._last_word(new)
                    if flags and name == "orelse" and not isinstance(s, ast.If):     # of a try whose body may jump
                        new = [ast.copy_location(ast.If(_none_of(flags, new[0]), new, []), new[0])]
                    setattr(holder, name, new)
                    flags |= set_here
        return [s], flags

    def _last_word(self, final: list[ast.stmt]) -> list[ast.stmt]:
        """A `finally` that may return after its `try` did: its own return counts, else that of the `try` does."""
        before = f"ag__before_{next(_numbers)}"
        return [*parse(f"{before} = {RETURNED}\n{RETURNED} = False", final[0]), *final,
                *parse(f"{RETURNED} = {before} or {RETURNED}", final[-1])]

    def _return(self, s: ast.Return) -> tuple[list[ast.stmt], set[str]]:
        if not self._early:
            return [s], set()
        result = parse(f"{RESULT} = None", s)[0]
        if s.value is not None:
            result.value = s.value  # type: ignore[attr-defined]
        return [result, *parse(f"{RETURNED} = True", s)], {RETURNED}

    def _loop(self, s: ast.While | ast.For, outer: str | None) -> tuple[list[ast.stmt], set[str]]:
        number = str(next(_numbers))
        stop, skip = f"ag__break_{number}", f"ag__continue_{number}"
        body, flags = self.block(s.body, number)
        before: list[ast.stmt] = []
        if skip in flags:
            body = parse(f"{skip} = False", s) + body
        if stop in flags:
            before = parse(f"{stop} = False", s)
        s.body = body
        leaving = flags & {stop, RETURNED}
        if leaving:
            test = _none_of(leaving, s)
            if isinstance(s, ast.While):
                s.test = ast.copy_location(ast.BoolOp(ast.And(), [test, s.test]), s.test)
            else:
                s.ag_test = test  # type: ignore[attr-defined]
        out: list[ast.stmt] = [*before, s]
        if s.orelse:
            orelse, more = self.block(s.orelse, outer)
            s.orelse = []
            out += [ast.copy_location(ast.If(_none_of(leaving, s), orelse, []), s)] if leaving else orelse
            return out, flags & {RETURNED} | more
        return out, flags & {RETURNED}


def _none_of(flags: set[str], like: ast.AST) -> ast.expr:
    """An expression that is true if none of some flags is set."""
    text = f"not {next(iter(flags))}" if len(flags) == 1 else f"not ({' or '.join(sorted(flags))})"
    return parse(text, like)[0].value  # type: ignore[attr-defined]

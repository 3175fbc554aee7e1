"""Liveness analysis: which names a block of statements assigns, and which of those are read later.

Works on trees without break and continue (jumps.py replaces them). In doubt a name is considered read: this costs a branch or
loop an extra result, and is always correct.
"""
from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def walk_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of a function's scope. Nested functions and classes are returned, but not entered."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            if not isinstance(node, ast.Lambda):
                todo.extend(node.decorator_list)
            if not isinstance(node, ast.ClassDef):
                todo.extend(d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None)
        else:
            todo.extend(ast.iter_child_nodes(node))


def assigned(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that are bound or deleted."""
    out: set[str] = set()
    for node in walk_scope(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            out.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            out.update((a.asname or a.name).split(".")[0] for a in node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            out.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            out.add(node.rest)
    return out - _comprehension_names(nodes)


def _comprehension_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are bound only by comprehensions, which have separate scopes."""
    inside: set[str] = set()
    outside: set[str] = set()
    for node in nodes:
        for child in walk_scope([node]):
            if isinstance(child, ast.comprehension):
                inside.update(n.id for n in ast.walk(child.target) if isinstance(n, ast.Name))
    if inside:
        stores = [c for n in nodes for c in _without_comprehensions(n)]
        outside = {n.id for n in stores if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    return inside - outside


def _without_comprehensions(node: ast.AST) -> Iterator[ast.AST]:
    todo = [node]
    while todo:
        n = todo.pop()
        yield n
        if not isinstance(n, (ast.comprehension, *FUNCTIONS, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(n))


def assigned_parts(nodes: Iterable[ast.AST]) -> list[str]:
    """Attributes (`self.x`) and items under constant keys (`d['k']`) of plain names that are assigned."""
    out: dict[str, None] = {}
    for node in walk_scope(nodes):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store) and _is_part(node):
            out[ast.unparse(node)] = None
    return sorted(out)


def _is_part(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) or _is_part(node.value)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and (isinstance(node.value, ast.Name) or _is_part(node.value))
    return False


def root(part: str) -> str:
    """The name that an attribute or item belongs to."""
    node: ast.AST = ast.parse(part, mode="eval").body
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def read(nodes: Iterable[ast.AST | None]) -> set[str]:
    """The names that are read, including nested functions and comprehensions."""
    return {n.id for node in nodes if node is not None for n in ast.walk(node)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def captured(body: list[ast.stmt]) -> set[str]:
    """The names that nested functions read or change: they may be called at any time."""
    out: set[str] = set()
    for node in walk_scope(body):
        if isinstance(node, FUNCTIONS):
            inner = node.body if isinstance(node.body, list) else [node.body]
            out |= read(inner)
            out.update(n for s in ast.walk(node) if isinstance(s, ast.Nonlocal) for n in s.names)
    return out


class Liveness:
    """Notes at every `if`, `while` and `for` of a function which names are read after it: `node.ag_live`; and at every `if`
    which are read in its else block and after it: `node.ag_else`."""

    def __init__(self, body: list[ast.stmt]):
        self._always = captured(body)
        self._block(body, set())

    def _block(self, body: list[ast.stmt], after: set[str]) -> set[str]:
        live = after | self._always
        for statement in reversed(body):
            live = self._statement(statement, live)
        return live

    def _statement(self, s: ast.stmt, after: set[str]) -> set[str]:
        if isinstance(s, ast.If):
            s.ag_live = after  # type: ignore[attr-defined]
            s.ag_else = self._block(s.orelse, after)  # type: ignore[attr-defined]
            return read([s.test]) | self._block(s.body, after) | s.ag_else  # type: ignore[attr-defined]
        if isinstance(s, (ast.While, ast.For)):
            return self._loop(s, after)
        if isinstance(s, (ast.With, ast.AsyncWith)):
            inside = self._block(s.body, after)
            return read([i.context_expr for i in s.items]) | (inside - assigned(s.items))
        if isinstance(s, (ast.Try, *_TRY_STAR, ast.Match)):
            return self._several(s, after)
        if isinstance(s, (ast.Return, ast.Raise)):
            return read([s]) | self._always
        if isinstance(s, ast.AugAssign):
            return after | read([s]) | {n.id for n in [s.target] if isinstance(n, ast.Name)}
        return (after - assigned([s])) | read([s])

    def _loop(self, s: ast.While | ast.For, after: set[str]) -> set[str]:
        test = read([s.test]) if isinstance(s, ast.While) else read([getattr(s, "ag_test", None)])
        own = set() if isinstance(s, ast.While) else assigned([s.target])
        head = after | test
        while True:
            grown = head | (self._block(s.body, head) - own)
            if grown == head:
                break
            head = grown
        s.ag_live = head  # type: ignore[union-attr]
        return head if isinstance(s, ast.While) else head | read([s.iter])

    def _several(self, s: ast.stmt, after: set[str]) -> set[str]:
        """Statements some of whose blocks run, maybe partly: a name read in one of them is live in all."""
        live = after | read([s])
        for node in ast.iter_child_nodes(s):
            for block in (node.body if isinstance(node, (ast.ExceptHandler, ast.match_case)) else ()),:
                self._block(list(block), live)
        for name in ("body", "orelse", "finalbody"):
            self._block(getattr(s, name, []), live)
        return live


_TRY_STAR = (ast.TryStar,)

"""Rewrites the syntax tree of a function: its control flow becomes calls of `ag__`, which is operators.py.

The blocks of a statement become functions inside of the user's function, which share its variables by `nonlocal`:

    if x > 0:                       def ag__get_1(): return (ag__.value(lambda: y),)
        y = f(x)                    def ag__set_1(ag__v): nonlocal y; y = ag__v[0]; ...
    else:                    ──►    def ag__then_1(): nonlocal y; y = ag__.call(f)(x)
        y = -x                      def ag__else_1(): nonlocal y; y = -x
                                    ag__.if_stmt(x > 0, ag__then_1, ag__else_1, ag__get_1, ag__set_1, ('y',))

`get` and `set` reach the values that the blocks change and that are read later; a variable without a value is
`ag__.UNDEFINED` there, and is deleted again when it is set back. Generated lines carry the line number of the statement
that they represent.
"""
from __future__ import annotations

import ast
import copy
import itertools
from typing import Any

from penstock._src.eager.autograph.analysis import Liveness, assigned, assigned_parts, root, walk_scope
from penstock._src.eager.autograph.jumps import lower_jumps, parse

_OPTIONS = ("parallel_iterations", "swap_memory", "maximum_iterations", "shape_invariants")


class Unsupported(Exception):
    """A function that cannot be rewritten."""


def transform(tree: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
    """A rewritten copy of the tree of a function."""
    tree = copy.deepcopy(tree)
    made = _Transformer()
    if isinstance(tree, ast.Lambda):
        tree.body = made.visit(tree.body)
        return tree
    tree.decorator_list, tree.returns = [], None
    return made.function(tree)


class _Scope:
    """A function of the user that is being rewritten."""

    def __init__(self, node: ast.FunctionDef):
        args = node.args
        self.parameters = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg) if a]
        self.first = self.parameters[0] if self.parameters else None
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.shared: set[str] = set()              # variables of this function that its blocks change


class _Transformer(ast.NodeTransformer):
    """Rewrites statements and expressions of one function, and of the functions in it."""

    def __init__(self) -> None:
        self._scopes: list[_Scope] = []
        self._numbers = itertools.count(1)

    # -- functions ----------------------------------------------------------------------------------------------------
    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function with its body rewritten."""
        for n in walk_scope(node.body):
            if isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)):
                raise Unsupported("generators and coroutines are not rewritten")
        for a in ast.walk(node.args):
            if isinstance(a, ast.arg):
                a.annotation = None
        scope = _Scope(node)
        self._scopes.append(scope)
        _Declarations(scope).strip(node)
        body = lower_jumps(node.body)
        Liveness(body)
        body = self._block(body)
        self._scopes.pop()
        node.body = [*self._declared(scope, node), *body]
        return node

    def _declared(self, scope: _Scope, node: ast.FunctionDef) -> list[ast.stmt]:
        """Declarations at the top: what is global or nonlocal, and which variables are the function's own."""
        lines = [f"global {n}" for n in sorted(scope.globals)] + [f"nonlocal {n}" for n in sorted(scope.nonlocals)]
        own = sorted(scope.shared - scope.globals - scope.nonlocals - set(scope.parameters))
        if own:
            lines.append(f"if False: {' = '.join(own)} = None")
        return parse("\n".join(lines), node) if lines else []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        try:
            return _Transformer().function(copy.deepcopy(node))
        except Unsupported:
            return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    # -- statements ---------------------------------------------------------------------------------------------------
    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            new = self.visit(s)
            out.extend(new if isinstance(new, list) else [new])
        return out

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """Drops the annotation, which Python does not evaluate in functions: an annotated name cannot be `nonlocal`."""
        made = ast.Pass() if node.value is None else ast.Assign([node.target], self.visit(node.value))
        return ast.copy_location(made, node)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        n = next(self._numbers)
        state = self._state([*node.body, *node.orelse], node.ag_live)  # type: ignore[attr-defined]
        restored = sorted((assigned(node.body) & node.ag_else) - set(state))  # type: ignore[attr-defined]
        made = parse(f"{self._accessors(n, (*state, *restored))}\ndef ag__then_{n}():\n  pass\ndef ag__else_{n}():\n  pass\n"
                     f"ag__.if_stmt(None, ag__then_{n}, ag__else_{n}, ag__get_{n}, ag__set_{n}, {state!r})", node)
        self._fill(made[2], node.body)
        self._fill(made[3], node.orelse)
        _call_of(made[4]).args[0] = self.visit(node.test)
        return made

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        n = next(self._numbers)
        options = self._options(node)
        state = self._state([*node.body, node.test], node.ag_live)  # type: ignore[attr-defined]
        walrus = self._sharing(assigned([node.test]))
        made = parse(f"{self._accessors(n, state)}\ndef ag__test_{n}():\n  {walrus}\n  return None\n"
                     f"def ag__body_{n}():\n  pass\n"
                     f"ag__.while_stmt(ag__test_{n}, ag__body_{n}, ag__get_{n}, ag__set_{n}, {state!r}, None)", node)
        made[2].body[-1].value = self.visit(node.test)  # type: ignore[attr-defined]
        self._fill(made[3], node.body)
        _call_of(made[4]).args[5] = options
        return made

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        n = next(self._numbers)
        options = self._options(node)
        test = getattr(node, "ag_test", None)
        state = self._state([*node.body, node.target], node.ag_live)  # type: ignore[attr-defined]
        made = parse(f"{self._accessors(n, state)}\ndef ag__body_{n}(ag__item):\n  pass\n"
                     f"ag__.for_stmt(None, None, ag__body_{n}, ag__get_{n}, ag__set_{n}, {state!r}, None)", node)
        item = ast.copy_location(ast.Name("ag__item", ast.Load()), node.target)
        bind = ast.copy_location(ast.Assign([node.target], item), node.target)
        self._fill(made[2], [bind, *node.body])
        call = _call_of(made[3])
        call.args[0], call.args[6] = self.visit(node.iter), options
        if test is not None:
            call.args[1] = _thunk(self.visit(test))
        return made

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        made = parse("ag__.assert_stmt(None, None)", node)
        call = _call_of(made[0])
        call.args[0] = self.visit(node.test)
        if node.msg is not None:
            call.args[1] = _thunk(self.visit(node.msg))
        return made

    def _fill(self, function: Any, body: list[ast.stmt]) -> None:
        """Moves a block into a generated function, which changes the same variables."""
        changed = assigned(body)
        new = self._block(body)
        declaration = self._sharing(changed)
        function.body = [*(parse(declaration, function) if declaration != "pass" else []), *new] or function.body

    def _sharing(self, names: set[str]) -> str:
        """The declaration by which a block's function changes variables of the user's function."""
        scope = self._scopes[-1]
        scope.shared |= names
        outer, own = sorted(names & scope.globals), sorted(names - scope.globals)
        return "; ".join([f"global {', '.join(outer)}"] * bool(outer) + [f"nonlocal {', '.join(own)}"] * bool(own)) or "pass"

    def _state(self, nodes: list[ast.AST], live: set[str]) -> tuple[str, ...]:
        """The state that blocks change and later code reads: names, and attributes and items of names that they do not
        change."""
        names = assigned(nodes)
        parts = [p for p in assigned_parts(nodes) if root(p) not in names]
        return (*sorted(n for n in names if n in live or n in self._scopes[-1].globals | self._scopes[-1].nonlocals), *parts)

    def _accessors(self, n: int, state: tuple[str, ...]) -> str:
        """The functions that read and write the state of a statement."""
        names = {s for s in state if s.isidentifier()}
        lines = [f"def ag__get_{n}():", f"  return ({''.join(f'ag__.value(lambda: {s}), ' for s in state)})",
                 f"def ag__set_{n}(ag__v):", f"  {self._sharing(names)}"]
        for i, s in enumerate(state):
            if s in names:
                lines += [f"  {s} = ag__v[{i}]", f"  if {s} is ag__.UNDEFINED: del {s}"]
            else:
                lines.append(f"  if ag__v[{i}] is not ag__.UNDEFINED: {s} = ag__v[{i}]")
        return "\n".join(lines)

    def _options(self, node: ast.While | ast.For) -> ast.expr:
        """The arguments of set_loop_options in a loop, as a function that returns them; the call goes away."""
        for i, s in enumerate(node.body):
            call = s.value if isinstance(s, ast.Expr) else None
            if isinstance(call, ast.Call) and _last_name(call.func) == "set_loop_options":
                del node.body[i]
                if not node.body:
                    node.body.append(ast.copy_location(ast.Pass(), s))
                given = [ast.keyword(k, v) for k, v in zip(_OPTIONS, call.args, strict=False)] + call.keywords
                made = ast.Call(ast.Name("dict", ast.Load()), [], given)
                return ast.fix_missing_locations(ast.copy_location(_thunk(ast.copy_location(made, call)), call))
        return ast.copy_location(ast.Constant(None), node)

    # -- expressions --------------------------------------------------------------------------------------------------
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        if _binds(node):
            return node
        return _ag("and_" if isinstance(node.op, ast.And) else "or_", [_thunk(v) for v in node.values], node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1 or _binds(node):
            return node
        links = [part for op, right in zip(node.ops, node.comparators, strict=True)
                 for part in (ast.copy_location(ast.Constant(type(op).__name__), node), _thunk(right))]
        return _ag("compare", [node.left, *links], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _ag("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if _binds(node):
            return node
        return _ag("if_exp", [node.test, _thunk(node.body), _thunk(node.orelse)], node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            first = self._scopes[-1].first if self._scopes else None
            if first:                                  # a block's function has no first argument
                node.args = [ast.copy_location(ast.Name(n, ast.Load()), node) for n in ("__class__", first)]
            return node
        if not (isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "ag__"):
            node.func = _ag("call", [node.func], node.func)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        node.body = self.visit(node.body)
        return node


class _Declarations:
    """Removes `global` and `nonlocal` from a function: they are repeated where they are needed."""

    def __init__(self, scope: _Scope):
        self._scope = scope

    def strip(self, node: ast.FunctionDef) -> None:
        for n in walk_scope(node.body):
            if isinstance(n, ast.Global):
                self._scope.globals.update(n.names)
            elif isinstance(n, ast.Nonlocal):
                self._scope.nonlocals.update(n.names)
        if not self._scope.globals and not self._scope.nonlocals:
            return
        for n in (node, *walk_scope(node.body)):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(n, field, None)
                if isinstance(block, list):
                    setattr(n, field, [ast.copy_location(ast.Pass(), s) if isinstance(s, (ast.Global, ast.Nonlocal)) else s
                                       for s in block])


def _ag(name: str, args: list[ast.expr], like: ast.AST) -> ast.Call:
    """A call of one of the operators."""
    made = ast.Call(ast.Attribute(ast.Name("ag__", ast.Load()), name, ast.Load()), args, [])
    ast.copy_location(made, like)
    ast.copy_location(made.func, like)
    ast.copy_location(made.func.value, like)  # type: ignore[attr-defined]
    return made


def _thunk(value: ast.expr) -> ast.Lambda:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(empty, value), value)


def _call_of(statement: Any) -> Any:
    return statement.value


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _binds(node: ast.AST) -> bool:
    """Whether an expression assigns a name, which would become local to a function around it."""
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))

"""Of `autograph.pyct`: syntax trees to functions, and the base of transformers that libraries write."""
from __future__ import annotations

import ast
import linecache
import types
from typing import Any, NamedTuple


class EntityInfo(NamedTuple):
    """Information about the transformed function."""
    name: str
    source_code: str
    source_file: str
    future_features: Any
    namespace: dict[str, Any]


class Context:
    """The context of a transformer."""

    def __init__(self, info: EntityInfo, namer: Any, user_context: Any):
        self.info, self.namer, self.user = info, namer, user_context
        self.current_origin: Any = None


class Base(ast.NodeTransformer):
    """The base of transformers of syntax trees."""

    def __init__(self, ctx: Any):
        self.ctx = ctx


class Namer:
    """Creates unused names."""

    def __init__(self, global_namespace: dict[str, Any]):
        self.generated_names: set[Any]
        self.global_namespace, self.generated_names = global_namespace, set()

    def new_symbol(self, name_root: str, reserved_locals: Any) -> str:
        """A name that begins with `name_root`."""
        taken = {str(r) for r in reserved_locals} | set(self.global_namespace) | self.generated_names
        found, n = name_root, 0
        while found in taken:
            n += 1
            found = f"{name_root}_{n}"
        self.generated_names.add(found)
        return found


_loaded = 0


def load_source(source: str, delete_on_exit: bool = True) -> tuple[types.ModuleType, str]:
    """A module made of source text, whose lines tracebacks can show."""
    global _loaded
    _loaded += 1
    name = f"__autograph_generated_{_loaded}"
    made = types.ModuleType(name)
    linecache.cache[f"<{name}>"] = (len(source), None, source.splitlines(True), f"<{name}>")
    exec(compile(source, f"<{name}>", "exec"), made.__dict__)
    return made, f"<{name}>"


def load_ast(nodes: Any, indentation: str = "  ", include_source_map: bool = False, delete_on_exit: bool = True) -> tuple:
    """A module made of syntax trees, with its source and, if requested, an empty map of lines."""
    body = list(nodes) if isinstance(nodes, (list, tuple)) else [nodes]
    source = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
    module, _ = load_source(source)
    return module, source, {} if include_source_map else None


def getfutureimports(entity: Any) -> tuple[str, ...]:
    """The `__future__` features that the module of a function uses."""
    import __future__
    flags = getattr(getattr(entity, "__code__", None), "co_flags", 0)
    return tuple(n for n in __future__.all_feature_names if flags & getattr(__future__, n).compiler_flag)

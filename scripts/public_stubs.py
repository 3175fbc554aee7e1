"""The text of the `.pyi` files beside the public modules: signatures and types, found by inspecting what is exported.

An object is defined in one stub, under its shortest public name (2.x before 1.x), and imported by the others. Annotations of
the source are kept where they mean something outside of `_src`: builtin types, `typing`, numpy arrays and public classes; all
else is `Any`. Private base classes do not appear: their members are shown in the public classes below them. `public_types.pyi`
has what cannot be found by looking, such as decorators that keep the type of a function.
"""
from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import copy
import enum
import functools
import inspect
import itertools
import keyword
import pathlib
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

TYPES = pathlib.Path(__file__).parent / "public_types.pyi"
GENERIC = {"list": "Any", "set": "Any", "frozenset": "Any", "dict": "Any, Any", "tuple": "Any, ...", "type": "Any",
           "Iterable": "Any", "Iterator": "Any", "Sequence": "Any", "Collection": "Any", "Mapping": "Any, Any",
           "MutableMapping": "Any, Any", "MutableSequence": "Any", "Generator": "Any, Any, Any", "Callable": "..., Any",
           "defaultdict": "Any, Any", "OrderedDict": "Any, Any", "ndarray": "Any, Any", "dtype": "Any", "Set": "Any",
           "AbstractContextManager": "Any", "Hashable": "", "Sized": ""}
BUILTINS = {"int", "float", "bool", "str", "bytes", "complex", "object", "slice", "list", "dict", "tuple", "set", "frozenset",
            "type", "BaseException", "Exception"}
ABSTRACT = {n for n in GENERIC if hasattr(collections.abc, n)}
OPERATORS = {"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"}
SPECIAL = {"__call__", "__enter__", "__exit__", "__getitem__", "__setitem__", "__delitem__", "__iter__", "__next__", "__len__",
           "__contains__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__", "__eq__", "__ne__",
           "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__pos__", "__abs__", "__invert__", "__round__", "__getattr__",
           "__reversed__", "__aiter__", "__await__",
           *(f"__{kind}{op}__" for op in OPERATORS for kind in ("", "r", "i"))}
ARITHMETIC = {"__getitem__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__abs__", "__invert__",
              *(f"__{kind}{op}__" for op in OPERATORS for kind in ("", "r"))}
RESULTS = {"__len__": "int", "__bool__": "bool", "__int__": "int", "__float__": "float", "__index__": "int",
           "__contains__": "bool", "__complex__": "complex", "__exit__": "None", "__setitem__": "None", "__delitem__": "None",
           "__eq__": "Any", "__ne__": "Any", "__init__": "None"}
# Methods that programs override with parameters of their own.
OPEN = {"call", "update_state", "build", "train_step", "test_step", "predict_step", "reset_state", "compute_output_shape"}


class Place(NamedTuple):
    """Where an object is defined: the public module and the name in it."""
    module: str
    name: str


class Public:
    """All public objects, and where each is defined."""

    def __init__(self, tables: dict[str, dict[str, Any]], roots: dict[str, str]):
        self.roots = roots
        self.tables = tables
        self.places: dict[int, Place] = {}
        self.by_class_name: dict[str, set[int]] = {}
        self.objects: dict[int, Any] = {}
        self.results: dict[int, type] = {}           # of functions whose annotations do not say what they return
        for version in ("v2", "v1"):
            for name in sorted(tables[version], key=lambda n: (rank(n), n)):
                obj = tables[version][name]
                if is_defined(obj) and id(obj) not in self.places:
                    self.places[id(obj)] = self.place(version, name)
                    self.objects[id(obj)] = obj
                    if isinstance(obj, type):
                        self.by_class_name.setdefault(obj.__name__, set()).add(id(obj))

    def place(self, version: str, name: str) -> Place:
        """Where a public name is."""
        head, _, last = name.rpartition(".")
        return Place(f"{self.roots[version]}.{head}" if head else self.roots[version], last)

    def named(self, name: str) -> Any:
        """The public class with a name that a source knows only for type checkers, if any such class."""
        found = self.by_class_name.get(name, set())
        return self.objects[next(iter(found))] if len(found) == 1 else None


def rank(name: str) -> tuple[int, int]:
    """Short names of the core first."""
    return name.startswith(("contrib.", "raw_ops.", "__internal__.")), name.count(".")


def is_defined(obj: Any) -> bool:
    """Whether a stub defines an object; of others, it declares the type of the name."""
    return isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType, functools.partial, types.MethodType))


@functools.cache
def source_classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes in the source of a module, by their qualified names."""
    file = getattr(sys.modules.get(module), "__file__", None)
    found: dict[str, ast.ClassDef] = {}

    def visit(nodes: Iterable[ast.AST], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = node
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, (ast.If, ast.Try)):
                visit(node.body, prefix)
    if file and file.endswith(".py"):
        visit(ast.parse(pathlib.Path(file).read_text()).body, "")
    return found


def instance_fields(cls: type) -> dict[str, ast.expr | None]:
    """The public attributes that the methods of a class set, with their annotations."""
    node = source_classes(cls.__module__).get(cls.__qualname__)
    found: dict[str, ast.expr | None] = {}
    for part in ast.walk(node) if node is not None else ():
        targets = part.targets if isinstance(part, ast.Assign) else [part.target] if isinstance(part, ast.AnnAssign) else []
        flat = itertools.chain.from_iterable(t.elts if isinstance(t, ast.Tuple) else [t] for t in targets)
        for t in flat:
            if isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name) and t.value.id == "self" and t.attr[0] != "_":
                annotation = part.annotation if isinstance(part, ast.AnnAssign) else None
                found[t.attr] = annotation or found.get(t.attr)
    return found


class Overrides:
    """What `public_types.pyi` says: definitions in place of what would be found."""

    def __init__(self) -> None:
        self.functions: dict[str, list[ast.FunctionDef]] = {}
        self.members: dict[str, dict[str, list[ast.stmt]]] = {}
        self.results: dict[str, str] = {}
        self.keywords: dict[str, list[str]] = {}
        for node in ast.parse(TYPES.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name.replace("__", "."), []).append(node)
            elif isinstance(node, ast.ClassDef):
                name = node.name.replace("__", ".")
                for part in node.body:
                    key = part.name if isinstance(part, ast.FunctionDef) else \
                        part.target.id if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) else ""
                    self.members.setdefault(name, {}).setdefault(key, []).append(part)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                table = {kind: names.split() for kind, names in ast.literal_eval(node.value).items()}
                if node.targets[0].id == "KEYWORDS":
                    self.keywords = table
                else:
                    self.results = {name: kind for kind, names in table.items() for name in names}


class Stub:
    """One `.pyi` file being written."""

    def __init__(self, module: str, names: dict[str, Any], public: Public, overrides: Overrides):
        self.module, self.names, self.public, self.overrides = module, names, public, overrides
        self.imports: set[str] = set()
        self.aliases: dict[int, str] = {}
        self.scope: set[str] = set(names)
        self.current: type = object          # the class whose members are being written
        self.current_name = ""

    # -- types -----------------------------------------------------------------------------------------------------------
    def builtin(self, name: str) -> str:
        """A builtin type, by another name where the stub has something of that name."""
        if name in self.scope:
            self.imports.add("import builtins as _builtins")
            return f"_builtins.{name}"
        return name

    def known(self, name: str) -> str:
        """A name of `typing` or `collections.abc`."""
        if name in ("Any", "Self", "NamedTuple", "NoReturn", "Literal", "ClassVar", "overload"):
            self.imports.add("from typing import " + (name if name not in self.scope else f"{name} as _{name}"))
        else:
            self.imports.add("from collections.abc import " + (name if name not in self.scope else f"{name} as _{name}"))
        return name if name not in self.scope else f"_{name}"

    def any(self) -> str:
        """`Any`."""
        return self.known("Any")

    def generic(self, text: str, name: str) -> str:
        """A type with `Any` for its parameters, if it has some."""
        arguments = GENERIC.get(name, "")
        return f"{text}[{arguments.replace('Any', self.any())}]" if arguments else text

    def cls(self, cls: Any, bare: bool = False) -> str:
        """How the stub refers to a class; `Any` if users cannot."""
        if cls is type(None):
            return "None"
        if not isinstance(cls, type) or cls is Any:
            return self.any()
        if cls.__module__ == "builtins" and cls.__name__ in (BUILTINS if not issubclass(cls, BaseException) else dir(builtins)):
            name = self.builtin(cls.__name__)
            return name if bare else self.generic(name, cls.__name__)
        if cls.__module__ in ("collections.abc", "typing") and cls.__name__ in ABSTRACT:
            name = self.known(cls.__name__)
            return name if bare else self.generic(name, cls.__name__)
        if cls.__module__ == "numpy" and cls.__name__ in ("ndarray", "dtype", "generic"):
            self.imports.add("import numpy as _np")
            return self.generic(f"_np.{cls.__name__}", cls.__name__)
        if id(cls) in self.public.places:
            return self.refer(cls)
        if cls.__module__.startswith("penstock."):
            base = next((b for b in cls.__mro__[1:] if id(b) in self.public.places), None)
            return self.refer(base) if base is not None and not is_message(base) else self.any()
        if cls.__module__ in ("threading", "unittest.case", "enum", "datetime", "pathlib", "logging", "contextlib") and \
                not cls.__name__.startswith("_"):
            module = cls.__module__.split(".")[0]
            self.imports.add(f"import {module} as _{module}")
            return f"_{module}.{cls.__name__}"
        return self.any()

    def refer(self, obj: Any) -> str:
        """The name of a public object, imported if another stub defines it."""
        place = self.public.places[id(obj)]
        if place.module == self.module:
            return place.name
        if id(obj) not in self.aliases:
            alias = f"_{place.name}"
            taken = set(self.aliases.values())
            while alias in taken or alias in self.scope:
                alias = f"_{alias}"
            self.aliases[id(obj)] = alias
            self.imports.add(f"from {place.module} import {place.name} as {alias}")
        return self.aliases[id(obj)]

    def annotation(self, given: Any, globals_: dict[str, Any]) -> str:
        """An annotation of the source."""
        if given is inspect.Parameter.empty:
            return self.any()
        if given is None:
            return "None"
        if isinstance(given, str):
            try:
                return self.expression(ast.parse(given, mode="eval").body, globals_)
            except SyntaxError:
                return self.any()
        if isinstance(given, type):
            return self.cls(given)
        return self.any()

    def expression(self, node: ast.expr, globals_: dict[str, Any]) -> str:
        """A part of an annotation."""
        if isinstance(node, ast.Constant):
            if node.value is None or node.value is Ellipsis:
                return "None" if node.value is None else "..."
            return self.annotation(node.value, globals_) if isinstance(node.value, str) else self.any()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left, right = self.expression(node.left, globals_), self.expression(node.right, globals_)
            return self.any() if self.any() in (left, right) else f"{left} | {right}"
        if isinstance(node, ast.Subscript):
            return self.subscript(node, globals_)
        if isinstance(node, ast.Name) and node.id == "Self":
            return self.known("Self")
        return self.cls(self.evaluated(node, globals_))

    def subscript(self, node: ast.Subscript, globals_: dict[str, Any]) -> str:
        """A type with parameters."""
        base = self.evaluated(node.value, globals_)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if base is typing.Optional or base is typing.Union:
            found = [self.expression(p, globals_) for p in parts] + ["None"] * (base is typing.Optional)
            return self.any() if self.any() in found else " | ".join(found)
        name = getattr(base, "__name__", "")
        if name not in GENERIC or name in ("ndarray", "dtype") or not GENERIC[name]:
            return self.cls(base)
        if name == "Callable":
            if len(parts) != 2 or not isinstance(parts[0], ast.List):
                return self.cls(base)
            arguments = ", ".join(self.expression(p, globals_) for p in parts[0].elts)
            return f"{self.known(name)}[[{arguments}], {self.expression(parts[1], globals_)}]"
        return f"{self.cls(base, bare=True)}[{', '.join(self.expression(p, globals_) for p in parts)}]"

    def evaluated(self, node: ast.expr, globals_: dict[str, Any]) -> Any:
        """What a name in an annotation represents; a class that only type checkers import is found by its name."""
        if isinstance(node, ast.Attribute):
            return getattr(self.evaluated(node.value, globals_), node.attr, None) or self.public.named(node.attr)
        if not isinstance(node, ast.Name):
            return None
        for place in (globals_, vars(builtins), vars(typing), vars(collections.abc)):
            if node.id in place:
                return place[node.id]
        return self.public.named(node.id)

    # -- definitions -----------------------------------------------------------------------------------------------------
    def text(self) -> str:
        """The whole file."""
        lines: list[str] = []
        for name, obj in sorted(self.names.items()):
            lines += self.definition(name, obj)
        return "\n".join([*sorted(self.imports), "", *lines]) + "\n"

    def definition(self, name: str, obj: Any) -> list[str]:
        """What the stub says of one public name."""
        if isinstance(obj, types.ModuleType):
            head, _, last = obj.__name__.rpartition(".")
            return [f"from {head} import {last} as {name}" if head else f"import {last} as {name}"]
        if not is_defined(obj):
            return [f"{name}: {self.declared(obj)}"]
        place = self.public.places[id(obj)]
        if place.module != self.module:
            if place.name == name:
                return [f"from {place.module} import {name} as {name}"]
            self.imports.add(f"from {place.module} import {place.name} as _{name}")    # such an `as` does not export
            return [f"{name} = _{name}"]
        if place.name != name:
            return [f"{name} = {place.name}"]
        if isinstance(obj, type):
            return self.class_(name, obj)
        full = self.full_name(name)
        if full in self.overrides.functions:
            return [line for node in self.overrides.functions[full] for line in self.written(node, name, "")]
        return [self.function(name, obj, "")]

    def full_name(self, name: str) -> str:
        """A public name without the root, `v1:` before those of 1.x."""
        module = self.module
        v1 = module == "penstock.compat.v1" or module.startswith("penstock.compat.v1.")
        rest = module.removeprefix("penstock.compat.v1" if v1 else "penstock").removeprefix(".")
        return ("v1." if v1 else "") + (f"{rest}.{name}" if rest else name)

    def declared(self, value: Any) -> str:
        """The type of a constant."""
        if value is None or isinstance(value, (dict, tuple, list, set, frozenset, types.SimpleNamespace)):
            return "None" if value is None else self.cls(type(value))
        return self.cls(type(value))

    def written(self, node: ast.stmt, name: str, indent: str) -> list[str]:
        """A definition of `public_types.pyi`, under a name."""
        node = copy.deepcopy(node)
        if isinstance(node, ast.FunctionDef):
            node.name = name
        self.import_names(node)
        return [indent + line for line in ast.unparse(node).replace(":\n    ...", ": ...").splitlines()]

    def import_names(self, tree: ast.AST) -> None:
        """Imports the names that a part of `public_types.pyi` uses; `_Tensor` is the public class Tensor."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.Name):
                continue
            if node.id in ("_P", "_R", "_F", "_C", "_Function"):
                self.imports.add(f"from penstock._typing import {node.id[1:]} as {node.id}")
            elif node.id.startswith("_"):
                node.id = self.refer(self.public.tables["v2"][node.id[1:]])
            elif node.id in BUILTINS:
                node.id = self.builtin(node.id)
            elif node.id in ABSTRACT or node.id in ("Any", "overload", "Self", "Literal"):
                node.id = self.known(node.id)

    def function(self, name: str, obj: Any, indent: str, first: str | None = None) -> str:
        """The line of a function or method; `first` is what comes instead of its first parameter."""
        try:
            signature = inspect.signature(obj)
        except (TypeError, ValueError):
            parameters = ([first] if first else []) + [f"*args: {self.any()}", f"**kwargs: {self.any()}"]
            return f"{indent}def {name}({', '.join(parameters)}) -> {RESULTS.get(name) or self.any()}: ..."
        inner = inspect.unwrap(obj) if callable(obj) else obj
        globals_ = getattr(getattr(inner, "func", inner), "__globals__", {})
        parameters = list(signature.parameters.values())
        if first is not None and parameters and parameters[0].kind in (0, 1):
            parameters = parameters[1:]
        listed = self.parameters(parameters, globals_)
        if first is not None:
            listed = [first, *listed]
        if first is not None and name in OPEN:
            listed = [first, f"*args: {self.any()}", f"**kwargs: {self.any()}"]
        result = self.result(name, obj, signature, globals_)
        known = self.public.results.get(id(obj)) if first is None else self.operand(name)
        if result == self.any() and known is not None:
            result = self.known("Self") if known == "Self" else self.refer(known)
        return f"{indent}def {name}({', '.join(listed)}) -> {result}: ..."

    def operand(self, name: str) -> Any:
        """The class that a method of the current class returns, where its annotation does not say it."""
        if self.overrides.results.get(f"{self.current_name}.{name}") == "Self":
            return "Self"
        tensor, variable = self.public.tables["v2"]["Tensor"], self.public.tables["v2"]["Variable"]
        return tensor if name in ARITHMETIC and issubclass(self.current, (tensor, variable)) else None

    def result(self, name: str, obj: Any, signature: inspect.Signature, globals_: dict[str, Any]) -> str:
        """The type that a function returns."""
        given = signature.return_annotation
        text = self.annotation(given, globals_)
        if given is inspect.Signature.empty:
            return RESULTS.get(name) or (self.known("Self") if name == "__enter__" else text)
        if is_context_manager(obj):
            self.imports.add("import contextlib as _contextlib")
            inner = ast.parse(text, mode="eval").body
            yields = inner.slice.elts[0] if isinstance(inner.slice, ast.Tuple) and "Generator" in text else inner.slice
            return f"_contextlib.AbstractContextManager[{ast.unparse(yields)}]"
        return RESULTS[name] if name in ("__exit__", "__eq__", "__ne__") else text

    def parameters(self, given: list[inspect.Parameter], globals_: dict[str, Any]) -> list[str]:
        """A parameter list."""
        found: list[str] = []
        star = False
        optional = False
        for n, p in enumerate(given):
            text = f"{p.name}: {self.annotation(p.annotation, globals_)}"
            if p.kind is p.VAR_POSITIONAL:
                found.append("*" + text)
                star = True
            elif p.kind is p.VAR_KEYWORD:
                found.append("**" + text)
            else:
                if p.kind is p.KEYWORD_ONLY and not star:
                    found.append("*")
                    star = True
                optional |= p.default is not p.empty
                if p.default is not p.empty or optional and p.kind is not p.KEYWORD_ONLY:
                    if p.default is None and not text.endswith(("Any", "None")):
                        text += " | None"
                    text += f" = {literal(p.default)}"
                found.append(text)
                if p.kind is p.POSITIONAL_ONLY and (n + 1 == len(given) or given[n + 1].kind is not p.POSITIONAL_ONLY):
                    found.append("/")
        return found

    def class_(self, name: str, cls: type) -> list[str]:
        """The lines of a class."""
        if issubclass(cls, enum.Enum):
            self.imports.add("import enum as _enum")
            return [f"class {name}(_enum.{'IntEnum' if issubclass(cls, int) else 'Enum'}):",
                    *(f"    {m} = {literal(cls[m].value)}" for m in cls.__members__)]
        if is_message(cls):
            self.imports.add("from penstock._typing import Message as _Message")
            return [f"class {name}(_Message):",
                    *(f"    {line}" for line in message_fields(cls, self.any()) or ["..."])]
        hidden, bases = split_bases(cls, self.public.places)
        full = self.full_name(name)
        outer, self.scope, self.current = self.scope, self.scope | {m for c in hidden for m in vars(c)}, cls
        self.current_name = full
        lines = self.members(full, cls, hidden)
        self.scope, self.current = outer, object
        if fields := getattr(cls, "_fields", None):
            self.imports.add("from typing import NamedTuple as _NamedTuple")
            bases = [b for b in bases if b is not tuple]
            if not bases and not any("__new__" in vars(c) and "_fields" not in vars(c) for c in hidden):
                return [f"class {name}(_NamedTuple):", *self.named_tuple(cls, fields, lines)]
            bases = bases or [tuple]
            lines = [*(f"    {f}: {self.any()}" for f in fields), self.constructor(cls, "__new__")]
        shown = [b for b in map(self.cls, bases) if b != self.any()]
        head = f"class {name}({', '.join(dict.fromkeys(shown))}):" if shown else f"class {name}:"
        return [head, *lines] if lines else [f"{head} ..."]

    def named_tuple(self, cls: type, fields: tuple[str, ...], lines: list[str]) -> list[str]:
        """The members of a named tuple: its fields, in order, then its methods."""
        defaults = getattr(cls, "_field_defaults", {})
        notes = {k: v for c in reversed(cls.__mro__) for k, v in vars(c).get("__annotations__", {}).items()}
        globals_ = vars(sys.modules.get(cls.__module__, builtins))
        shown = [f"    {f}: {self.annotation(notes.get(f, inspect.Parameter.empty), globals_)}"
                 + (f" = {literal(defaults[f])}" if f in defaults else "") for f in fields]
        return shown + [x for x in lines if not x.startswith(("    def __init__", *(f"    {f}:" for f in fields)))
                        and not any(x.startswith(f"    def {f}(") for f in fields) and x != "    @property"]

    def members(self, full: str, cls: type, hidden: list[type]) -> list[str]:
        """The lines of the members of a class; those of its private bases, too."""
        found: dict[str, list[str]] = {}
        override = self.overrides.members.get(full, {})
        for key, nodes in override.items():
            found[key] = [line for node in nodes for line in self.written(node, key, "    ")]
        for c in hidden:
            globals_ = vars(sys.modules.get(c.__module__, builtins))
            for member, value in vars(c).items():
                if type(value).__name__ == "Absent":            # it says what to call instead
                    continue
                if member in found or member[:1] == "_" and member not in SPECIAL or keyword.iskeyword(member):
                    continue
                found[member] = self.member(cls, member, value)
            for member, note in vars(c).get("__annotations__", {}).items():
                if member[:1] != "_" and (member not in found or not isinstance(vars(c).get(member), property)):
                    found.setdefault(member, [])
                    found[member] = [f"    {member}: {self.annotation(note, globals_)}"]
        inherited = {m for b in cls.__mro__ if b not in hidden for m in vars(b)}
        for c in hidden:
            globals_ = vars(sys.modules.get(c.__module__, builtins))
            slots = vars(c).get("__slots__", ())
            fields = {**{s: None for s in ([slots] if isinstance(slots, str) else slots) if s[0] != "_"}, **instance_fields(c)}
            for field, note in fields.items():
                if (field not in found or field in vars(c).get("__slots__", ())) and field not in inherited:
                    found[field] = [f"    {field}: {self.expression(note, globals_) if note is not None else self.any()}"]
        if "__init__" not in found and any({"__init__", "__new__", "__signature__"} & set(vars(c)) for c in hidden):
            with contextlib.suppress(TypeError, ValueError):
                found["__init__"] = [self.constructor(cls)]
        if "__eq__" in found:
            found["__hash__"] = ["    def __hash__(self) -> int: ..."]
        return [line for member in sorted(found) for line in found[member]]

    def constructor(self, cls: Any, name: str = "__init__") -> str:
        """The `__init__` or `__new__` of a class, with the arguments that the class takes."""
        init = inspect.unwrap(cls.__init__)
        globals_ = getattr(init, "__globals__", None) or vars(sys.modules.get(cls.__module__, builtins))
        listed = ", ".join(["self" if name == "__init__" else "cls",
                            *self.parameters(self.keywords(cls, inspect.signature(cls)), globals_)])
        return f"    def {name}({listed}) -> {'None' if name == '__init__' else self.known('Self')}: ..."

    def keywords(self, cls: type, signature: inspect.Signature) -> list[inspect.Parameter]:
        """The parameters of a class; in place of `**kwargs`, the keywords that its base class takes, if they are known."""
        given = list(signature.parameters.values())
        table = self.public.tables["v2"]
        if not given or given[-1].kind is not inspect.Parameter.VAR_KEYWORD or issubclass(cls, table["keras.Model"]) or \
                any(p.kind is p.VAR_POSITIONAL for p in given):
            return given
        for base, names in self.overrides.keywords.items():
            if issubclass(cls, table[base]):
                more = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=...) for n in names
                        if n not in signature.parameters]
                return given[:-1] + more
        return given

    def member(self, cls: type, name: str, value: Any) -> list[str]:
        """The lines of one member."""
        if isinstance(value, (property, functools.cached_property)):
            getter = value.fget if isinstance(value, property) else value.func
            text = self.function(name, getter, "    ", first="self")
            head, _, result = text.rpartition(") -> ")
            lines = ["    @property", f"    def {name}(self) -> {result}"]
            if isinstance(value, functools.cached_property) or value.fset is not None:
                lines += [f"    @{name}.setter", f"    def {name}(self, value: {self.any()}) -> None: ..."]
            return lines
        if isinstance(value, staticmethod):
            return ["    @staticmethod", self.function(name, value.__func__, "    ")]
        if isinstance(value, classmethod):
            return ["    @classmethod", self.function(name, value.__func__, "    ", first="cls")]
        if isinstance(value, types.FunctionType):
            return [self.function(name, value, "    ", first="self")]
        if isinstance(value, type) or value is None or inspect.isdatadescriptor(value) or hasattr(value, "__get__"):
            return [f"    {name}: {self.any()}"]
        return [f"    {name}: {self.declared(value)}"]


def split_bases(cls: type, places: dict[int, Place]) -> tuple[list[type], list[type]]:
    """The class with those of its bases that users cannot name, and the first ones that they can."""
    hidden: list[type] = []
    shown: list[type] = []

    def visit(c: type) -> None:
        if c not in hidden:
            hidden.append(c)
        for b in c.__bases__:
            if b is object or b.__module__ in ("typing", "abc"):
                continue
            if id(b) in places or not b.__module__.startswith("penstock."):
                if b not in shown:
                    shown.append(b)
            else:
                visit(b)
    visit(cls)
    hidden.sort(key=cls.__mro__.index)
    shown = [b for b in shown if not any(o is not b and issubclass(o, b) for o in shown)]
    return hidden, shown


def is_message(cls: type) -> bool:
    """Whether a class is one of protocol messages."""
    return hasattr(cls, "DESCRIPTOR") and hasattr(cls, "SerializeToString")


def message_fields(cls: Any, any_: str) -> Iterator[str]:
    """The declarations of the fields, enum values and nested messages of a protocol message."""
    kinds = {1: "float", 2: "float", 8: "bool", 9: "str", 12: "bytes", 10: any_, 11: any_}
    found = []
    for field in cls.DESCRIPTOR.fields:
        if not keyword.iskeyword(field.name):
            repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
            found.append(f"{field.name}: {any_ if repeated else kinds.get(field.type, 'int')}")
    for kind in cls.DESCRIPTOR.enum_types:
        found += [f"{value.name}: int" for value in kind.values if not keyword.iskeyword(value.name)]
        found.append(f"{kind.name}: {any_}")
    found += [f"{nested.name}: {any_}" for nested in cls.DESCRIPTOR.nested_types]
    return iter(list(dict.fromkeys(found))) if found else iter(["..."])


def is_context_manager(obj: Any) -> bool:
    """Whether a function was created by contextlib.contextmanager."""
    return getattr(getattr(obj, "__code__", None), "co_filename", "") == contextlib.__file__ and hasattr(obj, "__wrapped__")


def literal(value: Any) -> str:
    """A default as a stub shows it."""
    if value is None or isinstance(value, (bool, int)) and type(value) in (bool, int):
        return repr(value)
    if type(value) is str and len(value) < 30 and value.isprintable():
        return repr(value).replace("'", '"') if '"' not in value and "'" not in value and "\\" not in value else "..."
    if type(value) is float and value == value and abs(value) != float("inf"):
        return repr(value)
    return "..."


def stub_texts(spaces: dict[str, dict[str, Any]], below: dict[str, list[str]], tables: dict[str, dict[str, Any]],
               roots: dict[str, str], mark: str) -> Iterator[tuple[str, str]]:
    """For each public module (its names and objects in `spaces`), the text of its stub."""
    public, overrides = Public(tables, roots), Overrides()
    public.results = {id(tables[v][name]): tables["v2"][kind] for name, kind in overrides.results.items() for v in tables
                      if name in tables[v]}
    unknown = [n for n in overrides.results if n not in tables["v1"] and n not in tables["v2"] and n.rpartition(".")[0] not in
               tables["v2"]]
    if unknown:
        raise SystemExit(f"{TYPES.name} has names that are not public: {unknown}")
    whole: dict[tuple, str] = {}
    for module in sorted(spaces, key=lambda m: (m.startswith("penstock.compat.v"), "contrib" in m, ".python" in m,
                                                m.count("."), m)):
        names = spaces[module]
        modules = [f"from {module} import {m} as {m}" for m in below[module]]
        key = tuple(sorted((n, id(o)) for n, o in names.items()))
        if len(names) > 3 and key in whole and set(below[whole[key]]) <= set(below[module]):
            body = f"from {whole[key]} import *\n"
            modules = [f"from {module} import {m} as {m}" for m in below[module] if m not in below[whole[key]]]
        else:
            whole.setdefault(key, module)
            body = Stub(module, names, public, overrides).text()
        version = ["__version__: str"] if module in (*roots.values(), "penstock.compat.v2") else []
        if module in ("penstock.compat", "penstock.compat.v1.compat"):
            modules += [f"from penstock.compat import {v} as {v}" for v in ("v1", "v2")]
        yield module, "\n".join([mark, *version, *modules, body])

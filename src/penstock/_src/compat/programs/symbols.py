"""The names of TensorFlow's that a program uses, read from its source without running it.

Aliases are followed: `import tensorflow as tf`, `from tensorflow.contrib import slim`, `layers = tf.layers`. A name is written
as programs write it, from `tf` on: `tf.contrib.slim.conv2d`.
"""
from __future__ import annotations

import ast
import dataclasses
import pathlib
from collections.abc import Iterator

from penstock._src.compat.programs import python2
from penstock._src.compat.programs.notebooks import read

ROOTS = ("tensorflow", "tensorflow_core", "tensorflow_estimator")      # the last holds `estimator`, as does the first


@dataclasses.dataclass(frozen=True)
class Use:
    """A name of TensorFlow's, and the line where it is used."""
    name: str
    line: int
    v1: bool = False            # named below tensorflow.compat.v1


@dataclasses.dataclass
class Source:
    """The analysis of a program's source."""
    uses: list[Use]
    attributes: set[str]        # names of attributes of anything
    undefined: set[str]         # names that are read and defined nowhere
    imported: set[str]          # modules that are not TensorFlow's
    asserts_v2: bool = False    # assert tf.__version__.startswith("2.")


def scan(text: str, filename: str = "<program>") -> Source:
    """Reads a source; SyntaxError if it is not Python 3."""
    reader = _Reader()
    reader.visit(ast.parse(text, filename))
    defined = reader.stored | set(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
    return Source(list(dict.fromkeys(reader.uses)), reader.attributes, reader.loaded - defined, reader.imported,
                  reader.asserts_v2)


class _Reader(ast.NodeVisitor):
    """Collects uses; `names` maps a variable of the program to the name of TensorFlow's that it represents."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.uses: list[Use] = []
        self.attributes: set[str] = set()
        self.loaded: set[str] = set()
        self.stored: set[str] = set()
        self.imported: set[str] = set()
        self.asserts_v2 = False
        self.own: set[str] = set()              # names below tf that the program itself makes: tf.model = ...

    def visit_Import(self, node: ast.Import) -> None:
        for a in node.names:
            self.stored.add(a.asname or a.name.split(".")[0])
            if a.name.split(".")[0] not in ROOTS:
                self.imported.add(a.name)
            elif a.asname:
                self.names[a.asname] = a.name
                self._used(a.name, node.lineno)
            else:
                self.names[a.name.split(".")[0]] = a.name.split(".")[0]
                self._used(a.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for a in node.names:
            self.stored.add(a.asname or a.name)
            if node.level or module.split(".")[0] not in ROOTS:
                self.imported.update([module, f"{module}.{a.name}".lstrip(".")])
            elif a.name != "*":
                self.names[a.asname or a.name] = f"{module}.{a.name}"
                self._used(f"{module}.{a.name}", node.lineno)

    def visit_Assign(self, node: ast.Assign) -> None:
        pairs = _pairs(node)
        fulls = [self._full(value) for _, value in pairs]
        self.generic_visit(node)
        for (target, _), full in zip(pairs, fulls):
            if full is not None and isinstance(target, ast.Name):
                self.names[target.id] = full                  # slim = tf.contrib.slim

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes.add(node.attr)
        full = self._full(node)
        if full is None:
            self.generic_visit(node)
            return
        if not isinstance(node.ctx, ast.Load):
            self.own.add(full)
        if any(full == own or full.startswith(own + ".") for own in self.own):
            return
        self._used(full, node.lineno)
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            self.attributes.add(inner.attr)
            inner = inner.value
        self.visit(inner)

    def visit_Assert(self, node: ast.Assert) -> None:
        match node.test:
            case ast.Call(func=ast.Attribute(value=version, attr="startswith"), args=[ast.Constant(value=str(number))]):
                self.asserts_v2 |= number.startswith("2") and self._full(version) in [f"{r}.__version__" for r in ROOTS]
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        (self.loaded if isinstance(node.ctx, ast.Load) else self.stored).add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.stored.add(node.name)
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef      # type: ignore[assignment]

    def visit_arg(self, node: ast.arg) -> None:
        self.stored.add(node.arg)
        self.generic_visit(node)

    def _full(self, node: ast.expr) -> str | None:
        """The name of TensorFlow's that an expression is, or None."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._full(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return None

    def _used(self, full: str, line: int) -> None:
        rest = full.partition(".")[2]
        v1 = False
        for version in ("compat.v1", "_api.v1"):
            if rest == version or rest.startswith(version + "."):
                v1, rest = True, rest[len(version) + 1:]
        if rest:
            self.uses.append(Use(f"tf.{rest}", line, v1))


def _pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Pairs of target and value: `a, b = c, d` is two pairs."""
    target, value = node.targets[0], node.value
    if len(node.targets) > 1:
        return []
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts))
    return [(target, value)]


def text_of(path: pathlib.Path) -> str:
    """The source of a program: a file's text, or the code of a notebook."""
    if path.suffix == ".ipynb":
        return "\n".join(read(path))
    import tokenize
    with tokenize.open(path) as file:
        return file.read()


def _scanned(file: pathlib.Path) -> Source:
    """The names in a file; a source of Python 2 is converted first, where there is a converter."""
    text = text_of(file)
    try:
        return scan(text, str(file))
    except SyntaxError as e:
        try:
            return scan(python2.converted(text), str(file))
        except Exception:                                # whatever the converter raises: it is not Python 2 either
            raise e from None


def _outside(folder: pathlib.Path) -> pathlib.Path:
    """The folder that contains the package of a file: absolute imports of `python -m package.module` are found from there."""
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def with_local_modules(path: pathlib.Path, limit: int = 200) -> Iterator[tuple[pathlib.Path, Source]]:
    """A program and the modules beside it that it imports, and those that those import; what cannot be read is left out."""
    seen: set[pathlib.Path]
    folder, waiting, seen = path.parent, [path], set()
    roots = {folder, _outside(folder)}
    while waiting and len(seen) < limit:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        try:
            source = _scanned(file)
        except (SyntaxError, OSError, ValueError):
            if file == path:
                raise
            continue
        yield file, source
        for name in sorted(source.imported):
            for base in {*roots, file.parent, *({file.parent.parent} if file.parent != folder else ())}:
                place = base.joinpath(*name.split("."))
                waiting += [p for p in (place.with_suffix(".py") if name else place, place / "__init__.py") if p.is_file()]



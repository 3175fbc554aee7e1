"""Layers: what a part of the package may import when it is loaded (ARCHITECTURE.md draws the same picture).

Imports inside functions hide dependencies, so they are counted. None points upwards; those that break a cycle or keep a module
light are in LATE, which may only shrink. All that are not at the top of a module, for type checkers too, are fewer than 60.
"""
import ast
import collections
import functools
import pathlib
import re

import pytest

import penstock
from penstock._src.ops.registry import OPS

ROOT = pathlib.Path(penstock.__file__).parent / "_src"
REGISTRY = {"ops.registry", "ops.signature", "ops.rules"}     # how ops are declared; graph and the stages know no family of ops
PUBLIC = {"penstock"}                              # the public names, for what is written in terms of them
CORE = REGISTRY | {"base", "graph", "session.fetches", "io"}
LIBRARY = CORE | PUBLIC | {"ops", "library.weights"}
STEP = {"step"}

# A part is the longest of these names that a module's name begins with.
MAY_IMPORT = {
    "base": set(),
    "kernels": {"base"},
    "io": {"base", "kernels", "graph.message_names", "graph.messages"},
    "graph": CORE | {"kernels"},
    "session.fetches": {"base", "graph"},
    "session.feeds": {"base", "graph", "kernels"},
    "session.config": {"base", "kernels.devices"},
    "data.queues": {"base", "kernels"},
    "data.pipelines": {"base", "kernels", "io"},
    "collective": {"base"},
    "ops": CORE | PUBLIC | {"collective", "session.feeds", "kernels", "data.queues", "data.pipelines"},
    "step.place": {"base", "graph", "kernels.devices", "ops.rules", "step.ir"},
    "step.runnable": {"graph", "step.ir"},
    "step.ir": CORE,
    "step.spec": {"graph", "step.ir", "step.place", "step.optimize.options"},
    "step.compiler": {"kernels.host_memory", "kernels.sharing", "graph", "step", "execute"},
    "step.called": {"base", "graph", "kernels.sharing", "step"}, "step.bodies": {"graph", "step"},
    "step.optimize": CORE | {"step.ir", "kernels", "step.runnable", "step.loops"},
    "step.loops": CORE | {"step.ir", "kernels", "step.optimize", "step.compile"},
    "step.partition": CORE | {"step.ir", "kernels.devices", "step.place"},
    "step.compile": CORE | {"step.ir", "kernels", "step.place", "step.runnable"},
    "step.tiers": CORE | {"step.ir", "kernels", "step.compile", "step.runnable"},
    "execute": CORE | {"step.ir", "step.compile", "step.partition", "step.place", "step.runnable",
                       "kernels.devices", "kernels.host_threads"},
    "eager": CORE | {"kernels", "ops.control", "step", "execute"},
    "eager.autograph": CORE | {"ops"},
    "session.engine": CORE | STEP | {"execute"},
    "session.local": CORE | STEP | {"session.config", "session.engine", "session.feeds", "kernels", "execute"},
    "cluster": CORE | STEP | {"collective", "kernels", "execute", "session.config", "session.engine", "session.feeds",
                              "session.local"},
    "session": CORE | STEP | {"session", "cluster.remote", "kernels", "execute"},
    "state.variables": LIBRARY | {"eager", "execute", "session"},
    "state.module": LIBRARY | {"state.variables", "state.auto_trackable"},
    "state.containers": LIBRARY | {"eager", "state.variables"}, "state.auto_trackable": LIBRARY | {"eager", "state.containers"},
    "state.asset": LIBRARY, "state.random_generator": LIBRARY | {"state.auto_trackable"},
    "state.table_initializers": LIBRARY | {"state.asset"},
    "state.lookup_tables": LIBRARY | {"state.checkpoint", "state.table_initializers", "state.trackable_resource"},
    "state.vocabulary_tables": LIBRARY | {"state.lookup_tables", "state.table_initializers"},
    "state.checkpoint": LIBRARY | {"eager", "kernels", "session", "step.place", "state.auto_trackable", "state.containers",
                                   "state.variables"},
    "state.trackable_resource": LIBRARY | {"eager"},
    "state.embeddings": LIBRARY | {"eager", "kernels", "state.checkpoint", "state.variables"},
    "state.saved_model": LIBRARY | {"eager", "kernels.hashing", "kernels.keyed", "library.ragged", "state"},
    "training.summary": LIBRARY | {"eager", "library.image", "session"},
    "training.train": LIBRARY | {"cluster", "eager", "execute", "kernels.devices", "session", "state.checkpoint",
                                 "state.embeddings", "state.table_initializers", "state.variables", "training.summary"},
    "training.profiler": CORE | {"execute"},
    "library.lite": {"base"},
    "library.image": LIBRARY, "library.losses": LIBRARY, "library.metrics": LIBRARY, "library.weights": LIBRARY,
    "library.numpy": LIBRARY, "library.compiled_libraries": LIBRARY, "library.xla": LIBRARY | {"step.optimize.options"},
    "library.map_fn": LIBRARY | {"library.ragged"}, "library.vectorized": LIBRARY | {"library.map_fn"},
    "library.linalg": LIBRARY | {"state.module"},
    "library.ragged": LIBRARY | {"data.pipelines"},
    "library.distributions": LIBRARY | {"library.linalg", "state.variables"},
    "library.testing": LIBRARY | {"cluster", "kernels.devices", "session", "library.ragged", "eager", "state.variables"},
    "data.datasets": LIBRARY | {"cluster", "data.pipelines", "eager", "execute", "library.ragged", "state.checkpoint",
                                "state.saved_model.structures", "training"},
    "models.keras": LIBRARY | {"data.datasets", "eager", "library", "models.distribute", "state", "tools.digits", "training"},
    "models.layers": LIBRARY | {"models.keras", "state.variables"},
    "models.dynamic_embedding": LIBRARY | {"models.keras", "state"},
    "models.rnn": LIBRARY | {"state", "models.keras", "models.layers"},
    "models.feature_column": LIBRARY | {"state", "models.keras", "models.layers"},
    "models.estimator": LIBRARY | {"cluster", "data.datasets", "library", "models.feature_column", "models.keras",
                                   "models.layers", "models.distribute", "session", "state", "training"},
    "models.distribute": LIBRARY | {"cluster", "collective", "data", "eager", "execute", "kernels", "session", "state",
                                    "step.place", "training"},
    "models.compression": LIBRARY | {"eager", "models.distribute", "models.keras", "state.variables", "training"},
    "models.pipelining": LIBRARY | {"eager", "models.keras", "state.variables", "training"},
    "compat.contrib": LIBRARY | {"compat.programs.tutorials", "data.datasets", "eager", "library", "models", "session", "state",
                                 "training"},
    "compat.internal": LIBRARY | {"eager", "library", "compat.programs", "models", "state", "training"},
    "compat.programs.tutorials": LIBRARY | {"models.keras"},
    "compat.programs": LIBRARY | {"compat.contrib", "data", "eager", "kernels.devices", "models", "state", "training"},
    "onnx": CORE | STEP | PUBLIC | {"eager", "state.saved_model"},
    "serving": CORE | PUBLIC | {"session", "state.saved_model", "models.distribute"},
    "simulate": CORE | STEP | PUBLIC | {"cluster", "collective", "data.queues", "execute", "kernels.devices", "ops.state",
                                        "state.checkpoint"},
    "tools": {"base", "io", "cluster", "compat.programs", "penstock", "serving", "simulate"},
    "startup": {"base", "graph", "step.bodies"},
    "step": set(), "state": set(), "training": set(), "library": set(), "models": set(), "data": set(), "compat": set(),
    "": set(),
}

# Imports inside functions that a layer allows: they break a cycle between modules, or keep `import penstock` light.
LATE = {
    "compat.programs": 4, "data.datasets": 1, "eager": 1, "eager.autograph": 2, "execute": 1, "graph": 5, "library.ragged":
    2, "models.feature_column": 1, "models.keras": 10, "ops": 4, "session": 1, "state.checkpoint":
    1, "state.saved_model": 1, "state.variables": 1, "step.compile": 2, "tools": 2,
}


# Modules that are loaded on first use (`LazyModule`), by the part that uses them.
LAZY = {
    "io": 2, "library.vectorized": 1, "models.keras": 37, "models.layers": 1, "models.rnn": 2, "ops": 6, "startup": 1,
    "state.embeddings": 1,
}


def within(name, parts):
    """Whether a module lies in one of the parts, or in what is below them."""
    return any(name == p or name.startswith(p + ".") for p in parts)


@functools.cache
def part_of(name):
    return max((p for p in MAY_IMPORT if p and within(name, {p})), key=len, default="" if name == "" else None)


def name_of(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


FILES = {name_of(f): f for f in sorted(ROOT.rglob("*.py"))}


def trees(pattern):
    """Names and syntax trees of the files that match a regular expression: parsing all files takes long."""
    for name, file in FILES.items():
        text = file.read_text()
        if re.search(pattern, text, re.MULTILINE):
            yield name, ast.parse(text)


def own(module):
    """The name of a module below _src; all public modules are one."""
    return module.removeprefix("penstock._src").removeprefix(".") if module.startswith("penstock._src") else "penstock"


def imports(node):
    """The modules of ours that are imported when the code under `node` is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (own(a.name) for a in child.names if a.name.split(".")[0] == "penstock")
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            if child.module.split(".")[0] == "penstock":
                for a in child.names:
                    full = own(f"{child.module}.{a.name}")
                    yield full if full in FILES else own(child.module)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from imports(child)


@functools.cache
def imports_of(name):
    return set(imports(ast.parse(FILES[name].read_text())))


def late_imports(node, inside=False):
    """The modules of ours that functions import when they run."""
    for child in ast.iter_child_nodes(node):
        if inside and isinstance(child, (ast.Import, ast.ImportFrom)):
            yield from imports(ast.Module([child], []))
        yield from late_imports(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))


@functools.cache
def late_counts():
    """Imports inside functions: {(part, imported part): number} of those that point upwards, {part: number} of the others."""
    upward, late = collections.Counter(), collections.Counter()
    for name, tree in trees(r"^\s+(import|from) penstock"):
        part = part_of(name)
        for other in late_imports(tree):
            if within(other, MAY_IMPORT[part] | {part}):
                late[part] += 1
            else:
                upward[part, part_of(other) or other] += 1
    return upward, late


def lazy_modules(tree):
    """The modules of ours that a module names in a LazyModule."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "LazyModule" and node.args:
            yield own(node.args[0].value)


def test_no_new_imports_inside_functions():
    upward, late = late_counts()
    assert not upward
    assert {p: n for p, n in late.items() if n > LATE.get(p, 0)} == {}
    assert sum(late.values()) < 60


def indented_imports(tree):
    """The import statements of ours that are not at the top of their module: inside of functions, `try` or TYPE_CHECKING."""
    top = set(map(id, tree.body))
    return [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) and id(n) not in top
            and any(m.split(".")[0] == "penstock" for m in ([n.module] if isinstance(n, ast.ImportFrom) else
                                                            [a.name for a in n.names]))]


def test_imports_are_at_the_top():
    found = {name: len(late) for name, tree in trees(r"^\s+(import|from) penstock") if (late := indented_imports(tree))}
    assert sum(found.values()) < 60, found
    assert len(indented_imports(ast.parse("import penstock\nif x:\n  import penstock._src.io\ndef f():\n  import os"))) == 1


def test_lazy_modules_point_downwards_too():
    used = collections.Counter()
    for name, tree in trees("LazyModule"):
        part = part_of(name)
        for other in lazy_modules(tree):
            assert within(other, MAY_IMPORT[part] | {part}), f"{name} loads {other} later"
            used[part] += 1
    assert {p: n for p, n in used.items() if n > LAZY.get(p, 0)} == {}
    assert list(lazy_modules(ast.parse('x = LazyModule("penstock._src.io.bundle")'))) == ["io.bundle"]


def test_the_count_sees_imports_inside_functions():
    tree = ast.parse("import penstock\nclass C:\n  def f(self):\n    if self:\n      from penstock._src.ops.nn import conv")
    assert list(late_imports(tree)) == ["ops.nn.conv"]


def test_every_part_has_a_rule():
    assert {n for n in FILES if part_of(n) is None} == set()


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_point_downwards(part):
    allowed = MAY_IMPORT[part] | ({part} if part else set())
    wrong = {f"{name} imports {other}" for name in FILES if part_of(name) == part
             for other in imports_of(name) if not within(other, allowed)}
    assert wrong == set()


def test_the_check_sees_imports():
    assert {"graph.context", "base.static_shape"} <= imports_of("graph.node")
    tree = ast.parse("from penstock._src.ops.nn import conv\n"
                     "def f():\n    import penstock\nclass C:\n    import penstock._src.base.api")
    assert list(imports(tree)) == ["ops.nn.conv", "base.api"]


def test_no_tensorflow():
    """TensorFlow is what penstock is compared with, never something that it needs."""
    for name, tree in trees(r"^\s*(import|from) tensorflow\b"):
        for node in ast.walk(tree):
            found = [a.name for a in node.names] if isinstance(node, ast.Import) else \
                [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [m for m in found if m.split(".")[0] == "tensorflow"], name


def compared(tree):
    """The constants that some value is compared with."""
    return {c.value for n in ast.walk(tree) if isinstance(n, (ast.Compare, ast.MatchValue)) for c in ast.walk(n)
            if isinstance(c, ast.Constant)}


# Op names that a stage may compare with, and why. The list may only shrink.
COMPARED = {
    "graph.constant": {"Const"},                    # the op whose value is an attribute
    "graph.func_graph": {"Const"},
    "graph.control_flow_context": {"SymbolicGradient"},
    "graph.control_flow_grad": {"Const", "Identity", "RefIdentity", "RefSwitch", "Switch"},     # the primitives it is about
    "graph.while_context": {"Rank", "Shape", "Size"},                                           # static inside of a loop
    "eager.lift": {"Placeholder"},
    "graph.graph_util": {"CheckNumerics", "Const", "Identity", "ReadVariableOp", "ResourceGather", "VariableShape"},
    # public tools on GraphDefs, whose nodes have nothing but a name
    "eager.autograph.staged": {"Range"},            # a loop over a Range op becomes a counting loop
    "cluster.status": {"B"},                        # bytes
}


@pytest.mark.parametrize("part", ["step", "execute", "session", "graph", "eager", "cluster"])
def test_stages_compare_no_op_names(part):
    """What a stage must know about an op is a field of the op's declaration."""
    wrong = {name: (compared(ast.parse(file.read_text())) & set(OPS)) - COMPARED.get(name, set())
             for name, file in FILES.items() if within(name, {part})}
    assert not any(wrong.values()), wrong
    assert compared(ast.parse('if op.type in ("Switch", "Merge"): pass')) == {"Switch", "Merge"}


# What operations, tensors and nodes of a step were once read by. Their public names are the same in all of them.
PRIVATE = {"_dims": "static_dims", "_inputs": "inputs", "_op": "op", "_counts": "counts", "_dtype": "dtype",
           "_device": "device", "_value_index": "value_index", "_origin": "origin"}


def private_reads(tree):
    """Reads of such names on any object but `self`; calls are of methods."""
    calls = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in PRIVATE and id(n) not in calls
            and ast.unparse(n.value) not in ("self", "cls", "VariantDataset")]


def test_objects_of_a_graph_are_read_by_their_public_names():
    found = {name: reads for name, tree in trees(rf"\.({'|'.join(PRIVATE)})\b") if (reads := private_reads(tree))}
    assert not found, f"use {PRIVATE}"
    assert private_reads(ast.parse("t._dims; self._op; x._inputs()")) == ["_dims"]

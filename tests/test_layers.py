"""Layers: what a part of the package may import when it is loaded (ARCHITECTURE.md draws the same picture).

Imports inside functions are not counted: they are how a lower layer calls a higher one late (a Tensor's eval needs a session).
"""
import ast
import functools
import pathlib

import pytest

import penstock
from penstock.ops.registry import OPS

ROOT = pathlib.Path(penstock.__file__).parent
BASE = {"api", "version", "dtypes", "errors", "nest", "static_shape", "tf_logging", "tracebacks"}
REGISTRY = {"ops.registry", "ops.signature"}       # how ops are declared; graph and the stages know no family of ops
PUBLIC = {"", "compat"}                            # the public names, for what is written in terms of them
CORE = BASE | REGISTRY | {"graph", "fetches", "io"}
LIBRARY = CORE | PUBLIC | {"ops", "weights"}

MAY_IMPORT = {
    "": BASE,
    "api": set(), "version": {"api"}, "errors": {"api"}, "dtypes": {"api"}, "nest": {"api"}, "tf_logging": {"api"},
    "tracebacks": {"api"},
    "static_shape": {"api", "dtypes"},
    "kernels": BASE,
    "io": BASE | {"kernels", "graph.messages"},
    "place": BASE,
    "config": BASE | {"device_config"}, "device_config": BASE | {"place"},
    "device_lib": BASE | {"device_config", "place"},
    "graph": CORE,
    "fetches": BASE | {"graph"}, "feeds": BASE | {"graph", "kernels"},
    "queues": BASE | {"kernels"},
    "pipelines": BASE | {"kernels", "io"},
    "ops": CORE | PUBLIC | {"collective", "feeds", "kernels", "queues", "pipelines"},
    "collective": BASE,
    "optimize": CORE | {"kernels"},
    "partition": CORE | {"place"},
    "compile": CORE | {"kernels", "place"},
    "execute": CORE | {"compile", "device_config", "kernels.host_threads", "partition", "place"},
    "eager": CORE | {"kernels", "compile", "execute", "device_config", "place"},
    "session": CORE | {"feeds", "kernels", "place", "config", "device_config", "optimize", "compile", "execute", "partition"},
    "autograph": CORE | {"ops"},
    "distributed": CORE | {"collective", "device_config", "kernels", "place", "optimize", "partition", "compile", "execute",
                           "session"},
    "variables": LIBRARY,
    "summary": LIBRARY,
    "saved_model": LIBRARY | {"checkpoint", "eager", "ragged", "variables"},
    "module": LIBRARY | {"variables"},
    "checkpoint": LIBRARY | {"kernels", "place", "variables"},
    "train": LIBRARY | {"checkpoint", "distributed", "variables"},
    "image": LIBRARY, "linalg": LIBRARY | {"module"}, "losses": LIBRARY,
    "metrics": LIBRARY, "ragged": LIBRARY | {"pipelines"}, "weights": LIBRARY,
    "data": LIBRARY | {"ragged", "pipelines"},
    "testing": LIBRARY | {"device_config", "device_lib", "session", "place", "ragged", "eager", "variables"},
    "keras": LIBRARY | {"checkpoint", "data", "digits", "eager", "image", "losses", "module", "ragged", "saved_model",
                        "summary", "train", "variables"},
    "layers": LIBRARY | {"keras", "variables"},
    "rnn": LIBRARY | {"checkpoint", "keras", "layers", "variables"},
    "distributions": LIBRARY | {"linalg", "variables"},
    "feature_column": LIBRARY | {"checkpoint", "keras", "layers", "variables"},
    "estimator": LIBRARY | {"checkpoint", "data", "distributed", "feature_column", "keras", "layers", "losses", "metrics",
                            "saved_model", "session", "summary", "train", "variables"},
    "contrib": LIBRARY | {"checkpoint", "data", "distributions", "eager", "estimator", "feature_column", "image", "keras",
                          "layers", "losses", "metrics", "rnn", "saved_model", "session", "summary", "train", "variables"},
    "distribute": LIBRARY | {"checkpoint", "data", "device_config", "distributed", "eager", "kernels", "keras", "place",
                             "session", "summary", "train", "variables"},
    "programs": LIBRARY | {"contrib", "estimator", "feature_column", "rnn"},
    "profiler": CORE | {"execute"}, "sysconfig": BASE, "resource_loader": BASE, "compiled_libraries": BASE, "xla": BASE,
    "tools": BASE,
    "__main__": {"tools"},
    "compat": PUBLIC | BASE,
    "flags": BASE, "app": BASE | {"flags"},
    "digits": set(), "demo": {"digits", "io"},
}


def name_of(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


FILES = {name_of(f): f for f in sorted(ROOT.rglob("*.py"))}


def imports(node):
    """The modules of ours that are imported when the code under `node` is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (a.name.removeprefix("penstock").removeprefix(".") for a in child.names
                        if a.name.split(".")[0] == "penstock")
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            if child.module.split(".")[0] == "penstock":
                base = child.module.removeprefix("penstock").removeprefix(".")
                for a in child.names:
                    full = f"{base}.{a.name}".removeprefix(".")
                    yield full if full in FILES else base
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from imports(child)


@functools.cache
def imports_of(name):
    return set(imports(ast.parse(FILES[name].read_text())))


def test_every_part_has_a_rule():
    assert {n.split(".")[0] for n in FILES} <= set(MAY_IMPORT)


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_point_downwards(part):
    allowed = MAY_IMPORT[part] | {part}
    wrong = {f"{name} imports {other or 'penstock'}" for name in FILES if name.split(".")[0] == part
             for other in imports_of(name) if other not in allowed and other.split(".")[0] not in allowed}
    assert wrong == set()


def test_the_check_sees_imports():
    assert {"graph.context", "static_shape"} <= imports_of("graph.node")
    tree = ast.parse("from penstock.ops import conv\ndef f():\n    import penstock.session\nclass C:\n    import penstock.api")
    assert list(imports(tree)) == ["ops.conv", "api"]


def test_no_tensorflow():
    """TensorFlow is what penstock is compared with, never something that it needs."""
    for name, file in FILES.items():
        for node in ast.walk(ast.parse(file.read_text())):
            found = [a.name for a in node.names] if isinstance(node, ast.Import) else \
                [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [m for m in found if m.split(".")[0] == "tensorflow"], name


def compared(tree):
    """The constants that some value is compared with."""
    return {c.value for n in ast.walk(tree) if isinstance(n, (ast.Compare, ast.MatchValue)) for c in ast.walk(n)
            if isinstance(c, ast.Constant)}


@pytest.mark.parametrize("part", ["compile", "execute", "partition", "place", "session", "feeds", "fetches"])
def test_stages_compare_no_op_names(part):
    """What a stage must know about an op is a field of the op's declaration."""
    wrong = {name: compared(ast.parse(file.read_text())) & set(OPS) for name, file in FILES.items()
             if name.split(".")[0] == part}
    assert not any(wrong.values()), wrong
    assert compared(ast.parse('if op.type in ("Switch", "Merge"): pass')) == {"Switch", "Merge"}

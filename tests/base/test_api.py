"""The two namespaces: every exported name is reached, under the object that was exported."""
import importlib
import pkgutil
import subprocess
import sys

import pytest

import penstock
import penstock.compat.v1
from penstock._src.base import api

ROOTS = {"v1": penstock.compat.v1, "v2": penstock}


def reach(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root


@pytest.mark.parametrize("version", ROOTS)
def test_every_exported_name_is_reached(version):
    loaded = set()
    while loaded != set(api.LAZY):                  # some parts bring parts of their own
        loaded = set(api.LAZY)
        for word in loaded:
            api.load(word.split(":")[-1], "v2")
    table = api.TABLES[version]
    assert len(table) > 1500
    wrong = []
    for name, exported in list(table.items()):
        exported = exported.get() if isinstance(exported, api.Later) else exported
        try:
            found = reach(ROOTS[version], name)
        except AttributeError as e:
            found = e
        if found is not exported and found != exported:
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("version", ROOTS)
def test_parts_load_when_they_are_asked_for(version):
    """In a fresh process: the name of a part returns all its names, whatever is asked for first."""
    script = f"""
import sys
import {ROOTS[version].__name__} as tf
assert "penstock._src.library.linalg" not in sys.modules
assert "LinearOperator" in dir(tf.linalg) and tf.linalg is tf.linalg and callable(tf.linalg.matmul)
assert callable(tf.image.resize) and tf.train.Example().ByteSize() == 0
assert tf.raw_ops.Add is tf.raw_ops.Add
from {ROOTS[version].__name__}.linalg import LinearOperatorDiag
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_module_hides_behind_a_public_name():
    """`from penstock import x` must be the module x, if there is one: a function named x would hide it."""
    modules = {m.name for m in pkgutil.iter_modules(penstock.__path__)}
    assert not {n for table in api.TABLES.values() for n in table} & modules


def test_import_is_strict(monkeypatch):
    """A module that cannot be imported is an error, not a silent gap."""
    monkeypatch.setitem(sys.modules, "penstock._src.base.tf_logging", None)
    with pytest.raises(ImportError, match="tf_logging"):
        importlib.reload(penstock)


def test_missing_names_say_where_to_look():
    with pytest.raises(AttributeError, match=r"it exists as penstock\.compat\.v1\.placeholder\b"):
        penstock.placeholder  # noqa: B018
    with pytest.raises(AttributeError, match="nearest: .*reduce_sum"):
        penstock.reduce_sums  # noqa: B018
    with pytest.raises(AttributeError, match="^__no_such__$"):
        penstock.__no_such__  # noqa: B018


STATEMENTS = [
    "import penstock.nn; penstock.nn.relu",
    "from penstock.nn import relu",
    "import penstock.compat.v1.nn as nn; nn.relu",
    "from penstock.compat.v1.train import GradientDescentOptimizer, Saver",
    "import penstock.compat.v2.nn",
    "from penstock.linalg import matmul, LinearOperator",
    "from penstock.image import resize, decode_image",
    "from penstock.train import Checkpoint, Example",
    "import penstock.io.gfile as gfile; gfile.GFile",
    "from penstock.summary import scalar",
    "from penstock.data import Dataset",
    "from penstock.data.experimental import AUTOTUNE",
    "import penstock.random.experimental; penstock.random.experimental.Generator",
]


def test_namespaces_are_imported_like_modules():
    """Each statement in a process of its own, a fork of one that has done `import penstock`, with which Python begins."""
    script = f"""
import os, sys, traceback
import penstock
failed = 0
for statement in {STATEMENTS!r}:
    child = os.fork()
    if not child:
        try:
            exec(statement)
        except BaseException:
            print(statement, traceback.format_exc(), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ["penstock.no_such", "penstock.reshape", "penstock.nn.relu", "penstock.compat.v1.nn.no_such"])
def test_what_is_no_namespace_is_not_imported(name):
    with pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(name)


@pytest.mark.parametrize("version", ROOTS)
def test_dir_lists_the_names(version):
    assert {"constant", "nn", "train"} <= set(dir(ROOTS[version]))
    assert {"relu", "softmax"} <= set(dir(ROOTS[version].nn))

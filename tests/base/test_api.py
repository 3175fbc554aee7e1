"""The two namespaces: every exported name is reached, under the object that was exported."""
import importlib
import pathlib
import pickle
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
    names = api.names_below(version)
    assert len(names) > 3000
    wrong = []
    for name in names:
        found = reach(ROOTS[version], name)
        exported = api.TABLES[version][name]
        if found is not (exported.get() if isinstance(exported, api.Later) else exported):
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("version", ROOTS)
def test_dir_hasattr_and_star_agree(version):
    """In a fresh process: what dir() lists is there, nothing else is, and both stay so when everything is loaded."""
    script = f"""
import importlib, pkgutil, sys
import {ROOTS[version].__name__} as tf
def walk(module):
    before[module.__name__] = dir(module)
    for name in module.__public__.modules:
        walk(getattr(module, name))
before = {{}}
walk(tf)
assert len(before) > 100
heavy = [m for m in ("penstock._src.models.keras", "penstock._src.training.train") if m in sys.modules]
assert not heavy, heavy                                  # looking around has loaded nothing
assert hasattr(tf, "profiler")
for name, listed in before.items():
    module = sys.modules[name]
    assert [n for n in listed if not hasattr(module, n)] == [], name
    stars = {{}}
    exec(f"from {{name}} import *", stars)
    assert set(stars) - {{"__builtins__"}} == {{n for n in listed if not n.startswith("_")}} == set(module.__all__), name
for found in pkgutil.walk_packages(sys.modules["penstock._src"].__path__, "penstock._src."):
    importlib.import_module(found.name)
assert hasattr(tf, "profiler")
for name, listed in before.items():
    assert dir(sys.modules[name]) == listed, name
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_public_modules_are_current():
    """The generated files fit what @export declares: `make public` writes them."""
    script = pathlib.Path(__file__).parents[2] / "scripts" / "make_public.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ROOTS)
def test_parts_load_when_they_are_asked_for(version):
    """In a fresh process: the name of a part returns all its names, whatever is requested first."""
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
    """`from penstock import x` must be the module x, if any: a function named x would hide it."""
    for version in ROOTS:
        names = set(api.names_below(version))
        assert not names & {n.rpartition(".")[0] for n in names}
    by_hand = {m.name for m in pkgutil.iter_modules(penstock.__path__)} - set(penstock.__public__.modules)
    assert by_hand == {"_src", "__main__", "digits"} and not by_hand & set(penstock.__public__.names)


def test_import_is_strict():
    """A module that cannot be imported is an error, not a silent gap."""
    script = "import sys; sys.modules['penstock._src.base.tf_logging'] = None; import penstock"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode and "ModuleNotFoundError" in done.stderr and "tf_logging" in done.stderr


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
    "from penstock.compat.v2.keras.layers import Dense; import penstock; assert Dense is penstock.keras.layers.Dense",
    "import penstock.compat.v1 as tf; assert tf.compat.v1 is tf and tf.compat.v2.function",
    "from penstock.compat.v1.contrib import slim; slim.nets.vgg.vgg_16",
]


def test_namespaces_are_imported_like_modules():
    """Each statement in its own process, a fork of one that has done `import penstock`, with which Python begins."""
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


@pytest.mark.parametrize("name", ["nn.relu", "nn.elu", "tanh", "nn.tanh", "math.sin", "add", "matmul", "raw_ops.MatMul",
                                  "compat.v1.log_sigmoid"])
def test_functions_are_pickled_by_a_public_name(name):
    """Models are pickled with the functions that they call."""
    function = reach(penstock, name)
    assert pickle.loads(pickle.dumps(function)) is function

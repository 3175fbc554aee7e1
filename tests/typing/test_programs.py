"""The stubs of the public modules: user programs pass type checkers, mistakes are found, and stubs agree with what is there."""
import ast
import importlib
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import penstock
import penstock.compat.v1
from penstock._src.base import api

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parents[1]
PROGRAMS = sorted((FOLDER / "programs").glob("*.py"))
WRONG = sorted((FOLDER / "wrong").glob("*.py"))
EXAMPLES = [f for f in sorted((ROOT / "examples").rglob("*.py"))
            if "import tensorflow" not in f.read_text()]        # those are programs for `penstock run`, which have no stubs


def mypy(files, tmp_path):
    """The lines that mypy --strict complains about, as (file name, line)."""
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", FOLDER / "mypy.ini", "--cache-dir", tmp_path / "mypy",
                           "--no-error-summary", "--hide-error-context", *files],
                          capture_output=True, text=True, cwd=ROOT, env={**os.environ, "MYPYPATH": "src:examples"})
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {(pathlib.Path(m[1]).name, int(m[2])): m[0] for m in re.finditer(r"^(.+?):(\d+): error: .*$", done.stdout, re.M)}


def pyright(files, tmp_path):
    """The lines that pyright complains about, as (file name, line)."""
    folder = tmp_path / "pyright"
    folder.mkdir()
    for f in files:
        shutil.copy(f, folder)
    config = json.loads((FOLDER / "pyrightconfig.json").read_text())
    (folder / "pyrightconfig.json").write_text(json.dumps({**config, "include": ["."], "extraPaths": [str(ROOT / "src")]}))
    done = subprocess.run([sys.executable, "-m", "pyright", "-p", folder, "--outputjson", "--pythonpath", sys.executable],
                          capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(files), done.stdout + done.stderr
    return {(pathlib.Path(d["file"]).name, d["range"]["start"]["line"] + 1): d["message"] for d in found["generalDiagnostics"]
            if d["severity"] == "error"}


CHECKERS = {"mypy": mypy, "pyright": pyright}


def snippets(tmp_path):
    """The Python examples of README.md, one file each."""
    for n, text in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)):
        file = tmp_path / f"readme_{n}.py"
        file.write_text(text)
        yield file


@pytest.mark.parametrize("checker", CHECKERS)
def test_programs_pass(checker, tmp_path):
    files = [*PROGRAMS, *EXAMPLES, *snippets(tmp_path)]
    assert len(files) >= 15
    assert CHECKERS[checker](files, tmp_path) == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_mistakes_are_found(checker, tmp_path):
    wanted = {(f.name, n) for f in WRONG for n, line in enumerate(f.read_text().splitlines(), 1)
              if re.search(r"  # \w+$", line)}
    assert len(wanted) > 20
    found = CHECKERS[checker](WRONG, tmp_path)
    assert set(found) == wanted, found


@pytest.mark.parametrize("program", [p.stem for p in PROGRAMS])
def test_programs_run(program):
    """What type checkers accept is also what runs."""
    subprocess.run([sys.executable, FOLDER / "programs" / f"{program}.py"], check=True, timeout=240)


def stub_names(module):
    """The names that the stub of a module offers."""
    file = pathlib.Path(module.__file__).with_suffix(".pyi")
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for a in node.names:
                found |= stub_names(importlib.import_module(node.module)) if a.name == "*" else {a.asname} - {None}
        elif isinstance(node, ast.Import):
            found |= {a.asname for a in node.names} - {None}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets}
    return {n for n in found if not n.startswith("_")}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_stubs_have_the_names_of_modules(version):
    spaces = {n.rpartition(".")[0] for n in api.names_below(version)}
    for module in (api.namespace(version, space) for space in sorted(spaces)):
        assert stub_names(module) == set(module.__all__), module.__name__


def test_stubs_have_the_parameters_of_functions():
    """Of every function that the stub of `penstock` itself defines."""
    tree = ast.parse(pathlib.Path(penstock.__file__).with_suffix(".pyi").read_text())
    checked = 0
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            ours = [p.name for p in inspect.signature(getattr(penstock, node.name)).parameters.values()]
            a = node.args
            theirs = [x.arg for x in (*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs,
                                      *([a.kwarg] if a.kwarg else []))]
            assert theirs == ours or node.name in ("custom_gradient", "recompute_grad", "grad_pass_through"), node.name
            checked += 1
    assert checked > 150

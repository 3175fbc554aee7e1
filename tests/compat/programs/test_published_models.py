"""GPT-2 and BERT as published, forward and one training step, against real TensorFlow on the same weights.

The models' code is not kept here: it is read at run time from git directories MIRROR/OWNER+NAME/repo. `make models` says how.
"""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.compat.programs.running import SRC

HERE = pathlib.Path(__file__).parent / "models"
MIRROR, ORACLE = os.environ.get("PENSTOCK_MIRROR"), os.environ.get("PENSTOCK_ORACLE")
SOURCES = {"gpt2": ("openai+gpt-2", "src", ["model.py"]),
           "bert": ("google-research+bert", "", ["modeling.py", "optimization.py"])}

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(4000),
              pytest.mark.skipif(not (MIRROR and ORACLE), reason="needs PENSTOCK_MIRROR (git directories) and "
                                                                 "PENSTOCK_ORACLE (a Python with TensorFlow): make models")]


def extract(name, folder):
    """Writes the published files into a folder."""
    repository, inside, files = SOURCES[name]
    git = pathlib.Path(MIRROR, repository, "repo")
    git = git / ".git" if (git / ".git").is_dir() else git
    for file in files:
        path = f"{inside}/{file}".lstrip("/")
        (folder / file).write_bytes(subprocess.run(["git", f"--git-dir={git}", "show", f"HEAD:{path}"], check=True,
                                                   capture_output=True).stdout)


def run(command, folder, result, python_path):
    env = {**os.environ, "PYTHONPATH": python_path, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    return dict(np.load(result))


@pytest.mark.parametrize("size", ["small", "published"])
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_numbers_of_real_tensorflow(name, size, tmp_path):
    extract(name, tmp_path)
    step, last = str(HERE / "step.py"), ["small"] if size == "small" else []
    ours = run([sys.executable, "-m", "penstock", "run", step, name, "ours.npz", *last], tmp_path, tmp_path / "ours.npz",
               f"{SRC}:{tmp_path}")
    theirs = run([ORACLE, str(HERE / "real_tensorflow.py"), step, name, "theirs.npz", *last], tmp_path, tmp_path / "theirs.npz",
                 str(tmp_path))
    assert ours.keys() == theirs.keys() and ours["count"] == theirs["count"]
    assert size == "small" or ours["count"] > 100_000_000
    assert theirs["losses"][1] < theirs["losses"][0]
    for key in ours:
        scale = max(float(np.abs(theirs[key]).max()), 1.0)
        assert float(np.abs(ours[key] - theirs[key]).max()) <= 1e-4 * scale, key

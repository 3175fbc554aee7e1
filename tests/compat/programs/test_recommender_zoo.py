"""DLRM, DeepFM, wide and deep, DIN, DIEN, DCN and BST as DeepRec publishes them, unchanged, on generated data: the AUC rises.

The programs are not kept here: they are read at run time from a git directory MIRROR/DeepRec-AI+DeepRec/repo (`make models`).
Their own options turn off what needs DeepRec's messages and Parquet files.
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.compat.programs import recommender_data
from tests.compat.programs.running import SRC

MIRROR = os.environ.get("PENSTOCK_MIRROR")
GIT = pathlib.Path(MIRROR or "", "DeepRec-AI+DeepRec", "repo")
OPTIONS = ["--parquet_dataset", "False", "--smartstaged", "False", "--op_fusion", "False", "--batch_size", "512"]
PROGRAMS = {"dlrm": ("criteo", ["--ev", "True"]), "deepfm": ("criteo", ["--learning_rate", "0.01"]),
            "wide_and_deep": ("criteo", ["--ev", "True", "--ev_filter", "counter"]),
            "din": ("taobao", ["--learning_rate", "0.01"]), "dien": ("taobao", ["--learning_rate", "0.01"]),
            "dcn": ("criteo", []), "bst": ("advertising", [])}
STEPS = {"dien": 80, "dcn": 80, "bst": 150}        # the others make one pass over the data

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(2000),
              pytest.mark.skipif(not GIT.is_dir(), reason="needs PENSTOCK_MIRROR, a folder with DeepRec-AI+DeepRec/repo")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Both datasets."""
    made = {}
    for name, rows in ("criteo", 20_000), ("taobao", 10_000), ("advertising", 10_000):
        made[name] = tmp_path_factory.mktemp(name)
        getattr(recommender_data, name)(made[name], rows)
    recommender_data.negatives(made["taobao"])
    return made


def auc(program, folder, options):
    """Runs a program in a folder; returns the AUC that it prints after its evaluation."""
    command = [sys.executable, "-m", "penstock", "run", str(program), "--output_dir", str(folder), *OPTIONS, *options]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}, cwd=folder,
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return float(re.search(r"AUC = ([\d.]+)", done.stdout)[1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_published_program_trains_to_a_rising_auc(name, data, tmp_path):
    shape, options = PROGRAMS[name]
    program = tmp_path / "train.py"
    program.write_bytes(subprocess.run(["git", f"--git-dir={GIT}", "show", f"HEAD:modelzoo/{name}/train.py"], check=True,
                                       capture_output=True).stdout)
    options = ["--data_location", str(data[shape]), *options]
    many = ["--steps", str(STEPS[name])] if name in STEPS else []
    before, after = auc(program, tmp_path, ["--steps", "2", *options]), auc(program, tmp_path, [*many, *options])
    print(f"{name}: AUC {before:.3f} after 2 steps, {after:.3f} after {STEPS.get(name, 'those of one pass over the data')}")
    assert after > 0.7 and after > before + 0.1

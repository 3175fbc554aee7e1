"""Whole models in files, exchanged with real tf.keras both ways: HDF5, .keras, SavedModel (`make oracle`)."""
import os
import subprocess

import pytest

import penstock as tf
from tests.oracle import keras_files
from tests.oracle.test_exchange import HERE, PYTHON

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]


def theirs(folder, what, *how):
    """Has real tf.keras write or read models."""
    done = subprocess.run([PYTHON, os.path.join(HERE, "keras_files.py"), str(folder), *how, what], capture_output=True,
                          text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("how, forms", [
    ((), ["h5", "keras", "exported"]), (("--legacy",), ["h5", "keras", "folder", "served"])], ids=["keras3", "keras2"])
def test_their_files_are_read_here(tmp_path, how, forms):
    theirs(tmp_path, "write", *how)
    differences = keras_files.apart(tf, tmp_path, forms)
    print(differences)
    assert max(differences.values()) < 1e-5, differences


@pytest.mark.parametrize("how", [(), ("--legacy",)], ids=["keras3", "keras2"])
def test_our_files_are_read_there(tmp_path, how):
    keras_files.write(tf, tmp_path, ["h5", "keras", "folder"])
    theirs(tmp_path, "read", *how)

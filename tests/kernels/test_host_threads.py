"""The OpenMP library that is told what to do is the one whose threads run torch's kernels."""
import os
import shutil
import subprocess
import sys

import pytest

from penstock._src.kernels.host_threads import libgomp

BESIDE_ANOTHER = """
import ctypes, sys, torch
from penstock._src.kernels.host_threads import libgomp
other = ctypes.CDLL(sys.argv[1])
other.omp_set_num_threads(7)
torch.set_num_threads(3)
print(libgomp().omp_get_max_threads(), other.omp_get_max_threads())
"""


def test_a_copy_of_the_library_in_another_package_is_left_alone(tmp_path):
    """Packages like scikit-learn bring their own copy; the process has two then."""
    if libgomp() is None:
        pytest.skip("torch does not use GNU's OpenMP here")
    copy = str(tmp_path / "libgomp-0123abcd.so.1.0.0")
    shutil.copy(os.path.realpath(libgomp()._name), copy)
    got = subprocess.run([sys.executable, "-c", BESIDE_ANOTHER, copy], capture_output=True, text=True, timeout=100)
    assert got.stdout.split() == ["3", "7"], got.stderr

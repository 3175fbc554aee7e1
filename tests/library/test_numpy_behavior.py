"""experimental_enable_numpy_behavior: division, indices and NumPy's functions of tensors, in a separate process."""
import subprocess
import sys

PROGRAM = """
import numpy as np
import penstock as tf
import penstock.experimental.numpy as tnp
tnp.experimental_enable_numpy_behavior()
x = tnp.arange(24).reshape(2, 3, 4)
y = tnp.ones([2, 3], dtype=tnp.float32)
checks = [(y / tnp.sqrt(4).astype(tnp.float32), np.full((2, 3), 0.5)), (tf.divide(y, 2.0), np.full((2, 3), 0.5)),
          (tnp.arange(3) / 2, np.arange(3) / 2), (np.sum(y), 6.0), (y.sum(), 6.0), (y.sum(axis=0), [2, 2, 2]),
          (x[:, (True, False, True)], np.arange(24).reshape(2, 3, 4)[:, (True, False, True)]),
          (x[1, (0, 0, 1), tnp.asarray([0, 1, 1])], [12, 13, 17])]
for found, expected in checks:
    np.testing.assert_allclose(np.asarray(found), expected)
"""


def test_division_indices_and_functions():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Sources of Python 2 under `penstock run`, and programs that are started as modules."""
import json

import numpy as np
import pytest

from penstock._src.compat.programs import python2
from tests.compat.programs.running import penstock, program

OLD = '''
"""Counts."""
import tensorflow as tf
import helper

x = tf.placeholder(tf.int32, [None])
half = 7 / 2
total = {"a": 3}
total["a"] /= 2
with tf.Session() as sess:
    print "half", half, helper.third(8), helper.true_third(2), total["a"]
    print sess.run(x / 2, {x: [7, 8]}), sorted(total.iteritems())
    for i in xrange(2):
\tprint i,
'''


def test_a_program_and_its_modules_are_converted(tmp_path):
    program(tmp_path, "def third(n):\n    print 'in', `n`\n    return n / 3\nfrom helper_div import true_third\n", "helper.py")
    program(tmp_path, """
        from __future__ import division
        def true_third(n):
            if n <> 2:
                raise ValueError, 'two'
            return n / 4
        """, "helper_div.py")
    done = penstock("run", program(tmp_path, OLD), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == "in 8 half 3 2 0.5 1 [3 4] [('a', 1)] 0 1".split()
    said = [line for line in done.stderr.splitlines() if "is Python 2" in line]
    assert [line.split()[2] for line in said] == ["program.py", "helper.py", "helper_div.py"]
    assert "TensorFlow 1.x (tf.placeholder)" in done.stderr


def test_what_is_no_python_at_all_keeps_its_error(tmp_path):
    done = penstock("run", program(tmp_path, "import tensorflow as tf\nthis is no program\n"), cwd=tmp_path)
    assert done.returncode == 1 and "SyntaxError" in done.stderr and "converted" not in done.stderr


@pytest.mark.parametrize("x, y, result", [(7, 2, 3), (-7, 2, -4), (7.0, 2, 3.5), (np.int32(7), 2, 3)])
def test_division_of_python_2(x, y, result):
    assert python2.divide(x, y) == result


def test_division_of_arrays_in_place():
    whole, real = np.array([7, 8]), np.array([7.0, 8.0])
    assert python2.divide_in_place(whole, 2) is whole and whole.tolist() == [3, 4]
    assert python2.divide_in_place(real, 2) is real and real.tolist() == [3.5, 4.0]


def test_a_module_of_a_package(tmp_path):
    """The sign of 1.x is in another module of the package, which is imported by its full name."""
    program(tmp_path, "", "translate/__init__.py")
    program(tmp_path, "", "translate/tools/__init__.py")
    program(tmp_path, "import tensorflow as tf\ndef make():\n    return tf.get_variable('w', [2])\n", "translate/model.py")
    program(tmp_path, "from ..model import make\n", "translate/tools/inner.py")
    program(tmp_path, """
        import sys
        import tensorflow as tf
        from translate.tools import inner
        from . import model
        print(__name__, __package__, inner.make().name, tf.executing_eagerly(), sys.argv[1:])
        """, "translate/train.py")
    done = penstock("run", "-m", "translate.train", "--steps", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "__main__ translate w:0 False ['--steps', '3']\n"), done.stderr
    assert "train.py as a program for TensorFlow 1.x (tf.get_variable)" in done.stderr
    assert penstock("run", "-m", "translate.absent", cwd=tmp_path).returncode == 2


def test_cells_of_a_notebook(tmp_path):
    """One cell shows that the notebook is Python 2; the division of another cell is that of Python 2, too."""
    sources = ["import tensorflow as tf\nsess = tf.Session()\nhalf = 7 / 2",
               "%matplotlib inline\nprint half, sess.run(tf.constant(3))",
               "def main(argv):\n    print 'ran'\nmain(_)",
               "from __future__ import division\nquarter = 1 / 4", "print quarter, 1 / 2"]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    (tmp_path / "old.ipynb").write_text(json.dumps({"cells": cells}))
    done = penstock("run", str(tmp_path / "old.ipynb"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "3", "ran", "0.25", "0.5"]
    assert done.stderr.count("is Python 2") == 1

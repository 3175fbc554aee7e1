"""`penstock run`: unchanged programs written for TensorFlow."""
import json
import os
import subprocess
import sys

import pytest

from tests.compat.programs.running import SRC, output, penstock, program


def test_a_program_of_1x(tmp_path):
    done = penstock("run", program(tmp_path, """
        import sys
        import tensorflow as tf
        assert __name__ == "__main__"
        x = tf.placeholder(tf.float32, [None], name="x")
        with tf.Session() as sess:
            print(sess.run(tf.reduce_sum(x), {x: [1, 2]}), sys.argv[1:], tf.__version__)
        """), "--steps", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "3.0 ['--steps', '3'] 1.15.5\n")
    assert done.stderr == "penstock run: program.py as a program for TensorFlow 1.x (tf.placeholder)\n"


def test_file_of_a_program_is_absolute(tmp_path):
    program(tmp_path, "import os, sys\nprint(os.path.isabs(__file__), sys.argv[0])\n")
    assert penstock("run", "program.py", cwd=tmp_path).stdout == "True program.py\n"


def test_without_the_word_run_and_with_a_module_beside_it(tmp_path):
    """The sign of 1.x is in the module that the program imports."""
    program(tmp_path, "import tensorflow as tf\ndef make():\n    return tf.get_variable('w', [2])\n", "model.py")
    done = penstock(program(tmp_path, """
        import tensorflow as tf
        import model
        w = model.make()
        print(w.name, tf.executing_eagerly())
        """))
    assert (done.returncode, done.stdout) == (0, "w:0 False\n"), done.stderr


def test_a_program_of_2x(tmp_path):
    out = penstock("run", program(tmp_path, """
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        print(float(tf.constant([1., 2.])[1]), tf.__version__, v1.__version__)
        print(hasattr(tf, "placeholder"), v1.placeholder.__name__)
        """))
    assert out.stdout == "2.0 2.21.0 2.21.0\nFalse placeholder\n", out.stderr
    assert "TensorFlow 2.x (nothing of 1.x)" not in out.stderr      # compat.v1 is named


def test_api_can_be_chosen(tmp_path):
    path = program(tmp_path, "import tensorflow as tf\nprint(tf.executing_eagerly())\n")
    assert penstock("run", path).stdout == "True\n"
    assert penstock("run", "--api", "v1", path).stdout == "False\n"


def test_modules_below_tensorflow(tmp_path):
    assert output(tmp_path, """
        import tensorflow as tf
        from tensorflow.python.framework import ops, dtypes, tensor_shape
        from tensorflow.python.ops import array_ops, control_flow_ops, gradients, math_ops, gen_math_ops
        from tensorflow.python.client import device_lib, timeline
        from tensorflow.python.platform import gfile, flags, app, tf_logging as logging
        from tensorflow.python.util import compat, nest
        from tensorflow.python.training import moving_averages
        from tensorflow.python.saved_model import signature_constants, tag_constants
        from tensorflow.core.framework import graph_pb2, node_def_pb2
        from tensorflow.core.protobuf import saver_pb2, rewriter_config_pb2
        from tensorflow.core.example import example_pb2
        import tensorflow.python.ops.nn_ops as nn_ops
        import tensorflow_core as core
        x = tf.constant([1., 2.])
        with tf.Session() as sess:
            print(*sess.run([math_ops.reduce_sum(x), array_ops.shape(x)[0], gen_math_ops.mul(x, x)[1],
                            gradients.gradients(x * x, x)[0][1], control_flow_ops.with_dependencies([x], x)[0],
                            nn_ops.relu(-x)[0]]))
        print(device_lib.list_local_devices()[0].device_type, nest.flatten([1, (2, 3)]), compat.as_bytes("a"))
        print(tensor_shape.vector(3), dtypes.as_dtype("int32").name, ops.Tensor is tf.Tensor, core.Graph is tf.Graph)
        print(graph_pb2.GraphDef().node.add() == node_def_pb2.NodeDef(), tag_constants.SERVING,
              signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY, saver_pb2.SaverDef().sharded, gfile.Exists("nothing"))
        example = example_pb2.Example()
        example.features.feature["a"].int64_list.value.append(3)
        print(len(example.SerializeToString()) > 0, rewriter_config_pb2.RewriterConfig.OFF)
        """) == ("3.0 2 4.0 4.0 1.0 0.0\nCPU [1, 2, 3] b'a'\n(3,) int32 True True\nTrue serve serving_default False False\n"
                 "True 2\n")


def test_what_is_missing_raises_when_it_is_used(tmp_path):
    done = penstock("run", program(tmp_path, """
        import tensorflow as tf
        import tensorflow.contrib.nowhere as nowhere
        from tensorflow.contrib.nowhere.inner import Qwzzk, other
        from tensorflow.python.ops import no_such_ops
        try:
            from tensorflow.contrib.nowhere import fallback
        except ImportError:
            fallback = "own"
        print(fallback, hasattr(tf, "no_such_name"), hasattr(tf.nn, "relu"))
        for use in (lambda: nowhere.f(1), lambda: other.x, lambda: no_such_ops.f, lambda: tf.nn.rellu(1.0), lambda: Qwzzk[0]):
            try:
                use()
            except AttributeError as e:
                print(type(e).__name__, "|", str(e).split(" `")[0][:66])
        class Mine(Qwzzk):
            pass
        """))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "own False True",
        "MissingSymbol | tensorflow.contrib.nowhere.f is not in penstock 0.1.0.",
        "MissingSymbol | tensorflow.contrib.nowhere.inner.other.x is not in penstock 0.1.0.",
        "MissingSymbol | tensorflow.python.ops.no_such_ops.f is not in penstock 0.1.0.",
        "MissingSymbol | tensorflow.nn.rellu is not in penstock 0.1.0. Nearest: tf.nn.relu,",
        "MissingSymbol | tensorflow.contrib.nowhere.inner.Qwzzk is not in penstock 0.1.0."]
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith("penstock._src.compat.programs.missing.MissingSymbol: "
                           "tensorflow.contrib.nowhere.inner.Qwzzk is not in penstock")
    assert "penstock check PROGRAM" in last and "open an issue" in last and "class Mine(Qwzzk):" in done.stderr


def test_removed_names_are_supplied_and_said(tmp_path):
    done = penstock("run", program(tmp_path, """
        import collections, inspect, time, unittest
        import cPickle
        from distutils.version import LooseVersion
        import numpy as np
        import tensorflow as tf
        print(np.array([1.5], np.float)[0], np.int(3), np.reshape([1, 2], newshape=[2, 1]).shape)
        print(isinstance([], collections.Iterable), inspect.getargspec(lambda a, b=1: 0).args, time.clock() > 0)
        print(np.arange(2, dtype=np.uint8).tostring(), LooseVersion(tf.__version__) >= "1.4", cPickle.loads(cPickle.dumps(3)))
        class Case(unittest.TestCase):
            def runTest(self):
                self.assertItemsEqual([1, 2], [2, 1])
                self.assertEquals(1, 1)
        print(unittest.TextTestRunner(stream=open("/dev/null", "w")).run(Case()).wasSuccessful(), list(xrange(2)))
        """))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1.5 3 (2, 1)", "True ['a', 'b'] True", r"b'\x00\x01' True 3", "True [0, 1]"]
    said = [line for line in done.stderr.splitlines() if line.startswith("penstock run:")]
    for name in ("np.float ", "np.int ", "collections.Iterable", "inspect.getargspec", "time.clock", "numpy.ndarray.tostring",
                 "unittest.TestCase.assertItemsEqual", "cPickle", "xrange", "newshape"):
        assert len([line for line in said if name in line]) == 1, name


def test_names_that_a_library_has_renamed(tmp_path):
    pytest.importorskip("PIL")
    done = penstock("run", program(tmp_path, """
        import tensorflow as tf
        from PIL import Image
        print(Image.new("L", (4, 4), 7).resize((2, 2), Image.ANTIALIAS).getpixel((0, 0)), hasattr(Image, "nothing"))
        """))
    assert done.stdout == "7 False\n", done.stderr
    assert "PIL.Image.ANTIALIAS was removed since" in done.stderr


def test_names_that_scipy_has_removed(tmp_path):
    pytest.importorskip("PIL")
    pytest.importorskip("scipy")
    done = penstock("run", program(tmp_path, """
        import numpy as np
        import scipy.misc
        import tensorflow as tf
        from scipy.misc import imread, imresize, imsave, logsumexp, toimage
        ramp = np.linspace(0, 1, 16).reshape(4, 4)
        imsave("ramp.png", ramp)
        print(imread("ramp.png")[0].tolist(), *(imresize(ramp, size).shape for size in (0.5, (6, 8), 200)))
        print(toimage(np.zeros((3, 5, 7))).size, scipy.misc.imread("ramp.png", mode="RGB").shape)
        print(scipy.misc.bytescale(np.array([0., 5., 10.])).tolist(), round(float(logsumexp([0., 0.])), 4))
        """), cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "[0, 17, 34, 51] (2, 2) (6, 8) (8, 8)", "(7, 5) (4, 4, 3)", "[0, 128, 255] 0.6931"], done.stderr
    assert done.stderr.count("scipy.misc.imsave was removed since") == 1, done.stderr


def test_matrices_and_functions_of_scipy_under_earlier_names(tmp_path):
    pytest.importorskip("scipy")
    done = penstock("run", program(tmp_path, """
        import numpy as np
        import scipy
        import scipy.integrate
        import scipy.linalg
        import scipy.sparse as sp
        import tensorflow as tf
        from scipy.signal import gaussian
        from scipy.sparse.linalg.eigen.arpack import eigsh
        rows = sp.csr_matrix([[2., 1.], [1., 2.]])
        print(rows.A.tolist(), (rows * 1j).tocoo().H.A[0, 1], eigsh(sp.eye(4).tocsr() * 3., 1)[0].round(3))
        print(scipy.interp(0.5, [0, 1], [0, 2]), scipy.random is np.random, gaussian(3, 1.)[1], scipy.integrate.simps([1., 1.]),
              scipy.linalg.pinv2(np.eye(2) * 2)[0, 0], hasattr(scipy, "nothing"), scipy.sparse is sp)
        """), cwd=tmp_path)
    assert done.stdout.splitlines() == ["[[2.0, 1.0], [1.0, 2.0]] -1j [3.]", "1.0 True 1.0 1.0 0.5 False True"], done.stderr
    assert done.stderr.count("scipy.sparse A was removed since") == 1, done.stderr


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_versions_are_compared_by_their_numbers(tmp_path, api):
    done = penstock("run", "--api", api, program(tmp_path, """
        import importlib.metadata
        import tensorflow as tf
        v = tf.__version__
        print(v >= "1.4", "1.4" <= v, v < "1.9", v > "1.10.0-rc1", v <= v + ".0", v < "2.4", v < "dev", min("3", v) == v)
        print(isinstance(v, str), {v: 1}[str(v)], tf.keras.__version__ > "2.2.3", importlib.metadata.version("tensorflow") == v)
        """), cwd=tmp_path)
    assert done.stdout.splitlines() == [f"True True False True True {api == 'v1'} True True", "True 1 True True"], done.stderr


def test_names_that_pandas_and_scikit_learn_have_removed(tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    done = penstock("run", program(tmp_path, """
        import numpy as np
        import pandas as pd
        import tensorflow as tf
        from sklearn.cross_validation import train_test_split
        frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
        print(frame.as_matrix().tolist(), frame.append({"a": 5, "b": 6}, ignore_index=True).shape, frame.ix[1, "b"])
        print([name for name, _ in frame.iteritems()], pd.np is np, len(train_test_split(np.arange(8))[0]))
        """), cwd=tmp_path)
    assert done.stdout.splitlines() == ["[[1, 3], [2, 4]] (3, 2) 4", "['a', 'b'] True 6"], done.stderr
    for name in ("sklearn.cross_validation", "pandas DataFrame.as_matrix", "pandas DataFrame.ix"):
        assert done.stderr.count(f"{name} was removed since") == 1, done.stderr


def test_libraries_that_are_not_installed_are_not_there(tmp_path):
    """Programs and libraries catch the ImportError of what they can do without."""
    done = penstock("run", program(tmp_path, """
        import importlib, sys
        import tensorflow as tf
        sys.path[:] = []
        for name in ("pandas", "scipy.ndimage", "PIL.Image"):
            for module in [m for m in sys.modules if m.split(".")[0] == name.split(".")[0]]:
                del sys.modules[module]
            try:
                importlib.import_module(name)
            except ImportError as e:
                print(e.name in (name, name.split(".")[0]))
        """), cwd=tmp_path)
    assert done.stdout.splitlines() == ["True"] * 3, done.stderr


def test_numpy_takes_calls_that_it_refuses_since(tmp_path):
    done = penstock("run", program(tmp_path, """
        import numpy as np
        import tensorflow as tf
        print(np.fromstring(b"\\x01\\x02", dtype=np.uint8), np.fromstring("3 4", sep=" "), np.sum(i for i in range(4)))
        print([len(row) for row in np.array([[1, 2], [3]])])
        try:
            tf.constant([[1, 2], [3]])
        except ValueError as e:
            print(type(e).__name__)
        """))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[1 2] [3. 4.] 6", "[2, 1]", "ValueError"]
    for name in ("np.fromstring of bytes", "np.array of rows", "np.sum of a generator"):
        assert len([line for line in done.stderr.splitlines() if name in line]) == 1, name


def test_keras_as_a_package_is_that_of_tensorflow(tmp_path):
    pytest.importorskip("h5py")
    done = penstock("run", "--api", "v1", program(tmp_path, """
        import keras
        import tensorflow as tf
        from keras import backend as K
        from keras.models import Sequential
        from keras.layers.core import Dense
        from keras.utils import np_utils
        from keras.layers.normalization import BatchNormalization
        K.set_session(tf.Session())
        model = Sequential([Dense(2, input_shape=(3,))])
        print(model.count_params(), isinstance(model, tf.keras.Model), keras.layers.Dense is tf.keras.layers.Dense)
        print(np_utils.to_categorical([1, 0]).tolist(), BatchNormalization.__name__)
        print(hasattr(keras, "version"), hasattr(keras, "engine"), getattr(keras.utils, "nothing", None))
        """))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["8 True True", "[[0.0, 1.0], [1.0, 0.0]] BatchNormalization", "False True None"]
    assert done.stderr.count("there is no package keras; using tf.keras") == 1


def test_tf_keras_as_a_package_is_that_of_tensorflow(tmp_path):
    done = penstock("run", program(tmp_path, """
        import tensorflow as tf
        import tf_keras as keras
        from tf_keras.layers import Dense
        from tf_keras.src.utils import losses_utils
        import tf_keras.backend as K
        print(Dense is tf.keras.layers.Dense, K.floatx(), keras.__version__, hasattr(keras, "nothing"))
        print(keras.Sequential([Dense(2, input_shape=(3,))]).count_params())
        """))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True float32 2.15.0 False", "8"]
    assert done.stderr.count("there is no package tf_keras; using tf.keras") == 1


def test_functions_below_folders_that_are_guessed(tmp_path):
    assert output(tmp_path, """
        import tensorflow as tf
        from tensorflow.python.estimator.export import export
        print(export.build_raw_serving_input_receiver_fn is tf.estimator.export.build_raw_serving_input_receiver_fn)
        from tensorflow.contrib.learn.python.learn.utils import no_such_module
        try:
            no_such_module.build_nothing(3)
        except NotImplementedError as e:
            print(str(e).split(" is not in ")[0])
        with tf.Session() as sess:
            print(sess.run(tf.scan(lambda a, x: a + x, tf.constant(["a", "b", "c"]))).tolist())
        """).splitlines() == ["True", "tensorflow.contrib.learn.python.learn.utils.no_such_module.build_nothing",
                              "[b'a', b'ab', b'abc']"]


def test_nothing_is_said_of_what_is_not_used(tmp_path):
    done = penstock("run", "--quiet", program(tmp_path, "import tensorflow as tf\nimport numpy as np\nprint(np.zeros(1))\n"))
    assert (done.stdout, done.stderr) == ("[0.]\n", "")


def test_a_notebook(tmp_path):
    cells = [["%matplotlib inline\n", "!pip install nothing\n", "import tensorflow as tf\n"],
             ["x = tf.placeholder(tf.float32, [])"],
             ["sess = tf.Session()\n", "sess.run(x * 2, {x: 21.0})"], ["'not shown';"], ["%%bash\n", "ls /"], ["print('end')"]]
    book = {"cells": [{"cell_type": "markdown", "source": ["# Title"]},
                      *({"cell_type": "code", "source": c, "outputs": []} for c in cells)]}
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps(book))
    done = penstock("run", path)
    assert (done.returncode, done.stdout) == (0, "np.float32(42.0)\nend\n"), done.stderr
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "a = 1\nb = a.none"}]}))
    failed = penstock("run", path)
    assert failed.returncode == 1 and "book.ipynb[0]\", line 2" in failed.stderr and "b = a.none" in failed.stderr


@pytest.mark.parametrize("code, status", [("import sys; sys.exit(3)", 3), ("raise ValueError('bad')", 1), ("", 0)])
def test_exit_status(tmp_path, code, status):
    done = penstock("run", program(tmp_path, "import tensorflow as tf\n" + code))
    assert done.returncode == status
    if status == 1:                  # the traceback begins in the program
        assert done.stderr.splitlines()[1:3] == ["Traceback (most recent call last):",
                                                 f'  File "{tmp_path / "program.py"}", line 2, in <module>']


def test_errors_of_ops_show_only_lines_of_the_program(tmp_path):
    done = penstock("run", program(tmp_path, """
        import tensorflow as tf
        x = tf.placeholder(tf.float32, name="x")
        tf.Session().run(x + 1)
        """))
    trace = done.stderr.split("Original stack trace for 'x':")[1]
    files = [line for line in trace.splitlines() if line.startswith("  File ")]
    assert files == [f'  File "{tmp_path / "program.py"}", line 3, in <module>']


def test_no_such_file(tmp_path):
    done = penstock("run", tmp_path / "none.py")
    assert done.returncode == 2 and "there is no file" in done.stderr


def test_app_run_with_flags(tmp_path):
    assert output(tmp_path, """
        import tensorflow as tf
        flags = tf.app.flags
        flags.DEFINE_integer("steps", 1, "How many.")
        FLAGS = flags.FLAGS
        FLAGS._parse_flags()
        print([(name, flag.value) for name, flag in FLAGS.__flags.items() if name == "steps"])
        def main(argv):
            print(FLAGS.steps, argv[1:])
        if __name__ == "__main__":
            tf.app.run()
        """, "--steps=5", "rest") == "[('steps', 5)]\n5 ['rest']\n"


def test_install_in_a_process(tmp_path):
    """A TensorFlow that is installed is not touched."""
    fake = tmp_path / "tensorflow"
    fake.mkdir()
    (fake / "__init__.py").write_text("raise RuntimeError('the installed one was loaded')")
    code = ("import penstock; penstock.install('v1'); import tensorflow as tf\n"
            "print(tf.Session().run(tf.constant(3) + 4), tf.__name__)\npenstock.install('v1')\n"
            "try:\n    penstock.install('v2')\nexcept RuntimeError as e:\n    print(e)")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100,
                          env={"PYTHONPATH": f"{SRC}:{tmp_path}", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"})
    assert done.stdout == "7 tensorflow\npenstock.install() was called before, with api='v1'\n", done.stderr


@pytest.mark.parametrize("line, api", [("tf.placeholder(tf.float32)", "v1"), ("tf.function(abs)", "v2")])
def test_install_finds_the_api_of_the_program(tmp_path, line, api):
    program = tmp_path / "program.py"
    program.write_text(f"import penstock\npenstock.install()\nimport tensorflow as tf\n{line}\n"
                       "print('v2' if tf.executing_eagerly() else 'v1')\npenstock.install()\n")
    environment = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100, env=environment)
    assert done.stdout == f"{api}\n", done.stderr
    bare = subprocess.run([sys.executable, "-c", "import penstock; penstock.install(); import tensorflow as tf\n"
                           "print(tf.executing_eagerly())"], capture_output=True, text=True, timeout=100, env=environment)
    assert bare.stdout == "True\n", bare.stderr


def test_names_from_before_1_0(tmp_path):
    assert output(tmp_path, """
        import tensorflow as tf
        x = tf.pack([tf.mul(2., 3.), tf.sub(5., 1.), tf.neg(1.)])
        init = tf.initialize_all_variables()
        tf.scalar_summary("a", x[0])
        merged = tf.merge_all_summaries()
        sess = tf.Session(target=str.encode(""))
        sess.run(init)
        print(sess.run(x), len(sess.run(merged)) > 0)
        """) == "[ 6.  4. -1.] True\n"


def test_processes_that_a_program_starts_find_penstock_too(tmp_path):
    program(tmp_path, "import tensorflow as tf\nprint('worker', tf.Session().run(tf.constant(2) * 3), tf.__version__[0])\n",
            "worker.py")
    text = """
        import multiprocessing, os, subprocess, sys
        import tensorflow as tf

        def squared(x):
            return int(tf.Session().run(tf.square(tf.constant(x))))

        if __name__ == "__main__":
            print(tf.Session().run(tf.constant(1)), flush=True)
            subprocess.run([sys.executable, "worker.py"], check=True)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(squared, [2, 3]), flush=True)
            subprocess.run([sys.executable, "-c", "import sys; print('torch' in sys.modules)"], check=True)
    """
    assert output(tmp_path, text, timeout=280).split("\n")[:4] == ["1", "worker 6 1", "[4, 9]", "False"]


def test_a_sitecustomize_of_the_user_still_runs_in_children(tmp_path):
    program(tmp_path, "import builtins\nbuiltins.mine = 5\n", "site/sitecustomize.py")
    text = """
        import os, subprocess, sys
        os.environ["PYTHONPATH"] += os.pathsep + "site"
        subprocess.run([sys.executable, "-c", "import tensorflow; print(mine, tensorflow.__version__[0])"], check=True)
    """
    assert output(tmp_path, text, timeout=280).startswith("5 2")


def test_a_program_sees_tensorflow_as_installed(tmp_path):
    done = penstock("run", program(tmp_path, """
        import importlib.metadata as m
        import tensorflow as tf
        print(m.version('tensorflow') == tf.__version__, type(tf.constant(1)).__module__)
        print(tf.data.Dataset.__module__, tf.RaggedTensor.__module__, tf.SparseTensor.__module__)
        """), cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "True tensorflow.python.framework.ops",
        "tensorflow.python.data.ops.dataset_ops tensorflow.python.ops.ragged.ragged_tensor "
        "tensorflow.python.framework.sparse_tensor"], done.stderr


@pytest.mark.parametrize("program_text, legacy, expected", [
    ("import keras\nimport tensorflow as tf\nimport tensorflow.keras.layers as n\n"
     "print(keras.WORD, tf.keras.WORD, n.WORD)", "0", "keras shared layers"),
    ("import tensorflow as tf\nprint(hasattr(tf.keras, 'WORD'))", "0", "False"),
    ("import keras\nimport tensorflow as tf\nprint(keras.WORD, tf.keras.__version__)", "1", "keras 2.15.0")])
def test_a_program_that_uses_both_kerases_gets_one(tmp_path, program_text, legacy, expected):
    shared = tmp_path / "site" / "keras" / "_tf_keras" / "keras"
    (shared / "layers").mkdir(parents=True)
    (tmp_path / "site" / "keras" / "__init__.py").write_text("WORD = 'keras'")
    (shared.parent / "__init__.py").write_text("")
    (shared / "__init__.py").write_text("WORD = 'shared'")
    (shared / "layers" / "__init__.py").write_text("WORD = 'layers'")
    information = tmp_path / "site" / "keras-3.9.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: keras\nVersion: 3.9.0\n")
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join([SRC, str(tmp_path / "site")]), "TF_USE_LEGACY_KERAS": legacy}
    done = subprocess.run([sys.executable, "-m", "penstock", "run", program(tmp_path, program_text)], env=settings,
                          capture_output=True, text=True, check=False)
    assert done.stdout == f"{expected}\n", done.stderr


def test_commands_of_notebooks_over_several_lines(tmp_path):
    cells = [["!command --first \\\n", "  --second \\\n", "  --third\n", "x = 1\n"], ["files = !ls \\\n", " -l\n", "print(x)"]]
    notebook = {"cells": [{"cell_type": "code", "source": c} for c in cells], "nbformat": 4}
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook))
    done = penstock("run", str(tmp_path / "n.ipynb"))
    assert done.stdout == "1\n", done.stderr


def test_names_that_installed_libraries_look_for_are_not_reported(tmp_path):
    """A library under site-packages that tries a removed name gets it, silently; the program's own use is reported."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "old_library.py").write_text("from itertools import izip\nPAIRS = list(izip([1], [2]))\n")
    done = penstock("run", program(tmp_path, f"""
        import sys
        import tensorflow as tf
        sys.path.insert(0, {str(library)!r})
        import old_library
        from itertools import imap
        print(old_library.PAIRS, list(imap(abs, [-1])))
        """), cwd=tmp_path)
    assert done.stdout.splitlines() == ["[(1, 2)] [1]"], done.stderr
    assert "imap was removed since" in done.stderr and "izip" not in done.stderr


def test_lines_of_notebooks_that_begin_with_an_operator(tmp_path):
    cell = ['print("%d %s"\n', "      % (1,\n", "         'a'))\n", "%matplotlib inline\n", "x = 7 \\\n", "  % 4\n",
            'text = """\n', "%not a command\n", '!nor this"""\n', "!command (\n", "print(x, text.split())\n"]
    cell += ["import tensorflow as tf\n", "import os\n", "os.environ['PATH'] = ''\n",
             "tf.keras.utils.plot_model(tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])]))\n", "print('end')"]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": cell}], "nbformat": 4}))
    done = penstock("run", str(tmp_path / "n.ipynb"))
    assert "Install Graphviz" in done.stdout.splitlines()[-2] and done.stdout.endswith("\nend\n")
    assert done.stdout.startswith("1 a\n3 ['%not', 'a', 'command', '!nor', 'this']\n"), done.stderr

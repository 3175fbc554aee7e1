"""What is printed of an error has the user's lines only: in a program, in a thread, in IPython."""
import os
import pathlib
import subprocess
import sys
import textwrap
import types

import pytest

from penstock._src.base import tracebacks

ROOT = pathlib.Path(__file__).parents[2]
MODEL = """
import threading, sys
import numpy as np
import penstock as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
model.compile("sgd", "mse")

def bad(x):
    return tf.reshape(x, [7])
"""


LINES = {
    "model.fit(np.ones((32, 5)), np.ones((32, 2)))": 1,
    "model.fit(np.ones((32, 3)), np.ones((31, 2)), verbose=0)": 1,
    "model.compile('adamm')": 1,
    "list(tf.data.Dataset.from_tensors(tf.ones([4])).map(bad))": 2,
    "tf.function(bad)(tf.ones([4]))": 2,
    "tf.distribute.MirroredStrategy(['cpu:0']).run(bad, [tf.ones([4])])": 2,
    "tf.compat.v1.Session(graph=tf.Graph()).run('x:0')": 1,
    "tf.keras.layers.Dense('a')": 1,
    "tf.train.Checkpoint(a=tf.Variable(1)).restore('/no/such/file')": 1,
}
THREAD = "t = threading.Thread(target=lambda: list(tf.data.Dataset.from_tensors(tf.ones([4])).map(bad))); t.start(); t.join()"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """(files in the traceback, its error) of each line of a program, as Python would print it; then of a thread, and of the
    first line without the filter."""
    program = tmp_path_factory.mktemp("tracebacks") / "program.py"
    text = MODEL
    for line in LINES:
        text += f"try:\n    {line}\nexcept Exception:\n    sys.excepthook(*sys.exc_info())\nprint('=' * 9, file=sys.stderr)\n"
    text += f"{THREAD}\nprint('=' * 9, file=sys.stderr)\ntf.debugging.disable_traceback_filtering()\n{next(iter(LINES))}\n"
    program.write_text(text)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=200,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"})
    found = []
    for part in done.stderr.split("=" * 9):
        lines = part.strip().splitlines()
        files = [line.split('"')[1] for line in lines if line.startswith('  File "')]
        found.append((files, " ".join(line for line in lines if line and line[0] != " ")))
    return dict(zip([*LINES, "thread", "whole"], found, strict=True)), str(program)


@pytest.mark.parametrize("line", LINES)
def test_a_program_ends_with_its_own_lines(line, printed):
    (files, last), program = printed[0][line], printed[1]
    assert files == [program] * LINES[line] and "Error: " in last


def test_everything_is_there_on_request(printed):
    assert any("penstock" in f for f in printed[0]["whole"][0])


def test_threads(printed):
    (files, last), program = printed[0]["thread"], printed[1]
    assert [f for f in files if "threading" not in f] == [program] * 2 and "reshape" in last


def test_a_hook_of_the_program_is_called(tmp_path):
    """A hook that was set before the import sees the short traceback; one that is set later takes over."""
    program = textwrap.dedent("""
        import sys, traceback
        sys.excepthook = lambda kind, error, tb: print("before", len(traceback.extract_tb(tb)))
        import numpy as np, penstock as tf
        tf.ones([2]) + tf.ones([3])
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert done.stdout == "before 1\n"


# -- in this process ----------------------------------------------------------------------------------------------------
class Shell:
    """What IPython's shell does with an error."""

    def _get_exc_info(self, given=None):
        return given


def raised(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def frames(error):
    at, found = error.__traceback__, []
    while at is not None:
        found.append(at.tb_frame.f_globals["__name__"])
        at = at.tb_next
    return found


@pytest.fixture
def filtering(monkeypatch):
    monkeypatch.setattr(tracebacks._State, "filtering", True)


def library(name, source):
    """The functions of a module of the library."""
    scope = {"__name__": f"penstock._src.{name}"}
    exec(source, scope)
    return types.SimpleNamespace(**scope)


def test_ipython(filtering, monkeypatch):
    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    for hooks, name in ((sys, "excepthook"), (tracebacks.threading, "excepthook")):
        monkeypatch.setattr(hooks, name, getattr(hooks, name))
    tracebacks.install()
    error = raised(lambda: library("x", "def f():\n  return {}[1]").f())
    _, same, tb = shell._get_exc_info((type(error), error, error.__traceback__))
    assert same is error and tb is error.__traceback__ and frames(error) == [__name__] * 2


def test_frames_between_the_users(filtering):
    calls = library("x", "def call(f):\n  return inner(f)\ndef inner(f):\n  return f()")
    error = raised(lambda: calls.call(lambda: 1 / 0))
    assert len(frames(error)) == 5
    tracebacks.shown(error)
    assert frames(error) == [__name__] * 3


def test_causes_are_shortened_and_circles_end(filtering):
    calls = library("x", "def call(f):\n  try:\n    f()\n  except Exception as e:\n    raise ValueError(1) from e")
    error = raised(lambda: calls.call(lambda: 1 / 0))
    error.__cause__.__cause__ = error
    tracebacks.shown(error)
    assert frames(error) == [__name__] * 2 and set(frames(error.__cause__)) == {__name__}


def test_an_assertion_of_the_library_is_shown_whole(filtering):
    error = raised(lambda: library("x", "def f():\n  assert False, 'inside'").f())
    before = frames(error)
    tracebacks.shown(error)
    assert frames(error) == before and len(before) == 3


def test_frames_between_are_dropped_where_a_function_of_the_user_is_called_once(filtering):
    calls = library("x", "def call(f):\n  return inner(f)\ndef inner(f):\n  return f()")
    error = raised(lambda: calls.call(lambda: 1 / 0))
    tracebacks.shorten(error)
    assert len(frames(error)) == 5
    tracebacks.shorten(error, between=True)
    assert frames(error) == [__name__] * 3


def test_a_caught_error_of_a_trace_has_the_users_frames(filtering):
    import penstock as tf

    @tf.function
    def f(x):
        return tf.reshape(x, [7])

    assert frames(raised(lambda: f(tf.ones([4])))) == [__name__] * 3


@pytest.mark.parametrize("line", ["tf.ones([2]) + tf.ones([3])", "[1, 2] - tf.ones([3])", "tf.Variable()",
                                  "tf.Variable('a', dtype=tf.int32)"])
def test_a_caught_error_of_an_operator_or_a_variable(line, filtering):
    import penstock as tf

    assert frames(raised(lambda: eval(line, {"tf": tf, "__name__": __name__}))) == [__name__] * 3

"""Patterns that make tests fail on another or a busy machine, found in the syntax of the tests.

    sleep    a fixed sleep; in a `while` loop it polls, and that is right (`tests/checks.py:eventually`)
    clock    an assertion about wall-clock time
    limit    a wait, or the waits of a test together, that may take longer than the test itself may
    random   numbers that `tests/conftest.py` does not seed: drawn while a module is loaded, or from an unseeded generator
    port     a port with a fixed number
    ulp      `assert_allclose` without a tolerance: numpy's is less than an ulp of float32
    scale    `assert_allclose` with `rtol` alone, in a program that runs without the assertion of `tests/checks.py`

What is left is listed with its reason; the list may only shrink.
"""
import ast
import collections
import pathlib
import re

import numpy as np
import pytest

TESTS = pathlib.Path(__file__).parent
DEFAULT = int(re.search(r"^timeout = (\d+)", (TESTS.parent / "pyproject.toml").read_text(), re.MULTILINE)[1])
CLOCKS = {f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter") for unit in ("", "_ns")}
WAITS = {"wait", "join", "result", "communicate", "get", "acquire", "eventually", "run", "check_output", "check_call"}
DRAWS = {"random", "randint", "choice", "choices", "shuffle", "randrange", "uniform", "getrandbits", "sample", "gauss", "rand",
         "randn", "normal", "permutation", "bytes", "standard_normal", "random_sample"}
MADE = {"random.Random", "np.random.default_rng", "np.random.RandomState"}
FAULT = "a fault lasts that long; nothing is asserted about when it ends"
ALLOWED = {
    ("clock", "base/test_clock.py", "test_steady_time_is_the_time_of_day"): "compares with a whole day",
    ("clock", "data/queues/threads.py", "until"): "the limit of a loop that polls",
    ("clock", "ops/control/test_print.py", "test_timestamp"): "the order of three times, not their distance",
    ("limit", "oracle/run.py", "ask"): "a program, not a test",
    ("sleep", "chaos/mirrored.py", "main"): "a step of a training that faults have to strike",
    ("sleep", "chaos/storm.py", "_cut"): FAULT,
    ("sleep", "chaos/storm.py", "_full"): FAULT,
    ("sleep", "chaos/storm.py", "_open"): FAULT,
    ("sleep", "chaos/storm.py", "_slow"): FAULT,
    ("sleep", "chaos/storm.py", "_stop"): FAULT,
    ("sleep", "chaos/storm.py", "rest"): "the time between two faults",
    ("sleep", "cluster/test_acceptor.py", "test_a_handshake_has_one_deadline"): "a slow client; a slower one is refused, too",
    ("sleep", "cluster/test_recovery.py", "test_a_process_is_stopped_and_goes_on"): FAULT,
    ("sleep", "cluster/test_recovery.py", "test_a_short_cut_is_not_noticed"): "a fiftieth of the time that would be noticed",
    ("sleep", "execute/test_lanes.py", "test_a_step_that_takes_too_long_has_failed"): "25 times as long as it may take",
    ("sleep", "execute/test_lanes.py", "test_threads_of_a_session_that_was_left_open_end"): "any pause must be right",
    ("sleep", "state/checkpoint/test_crash.py", "kill_while_saving"): "any moment of a save must be right",
    ("sleep", "state/embeddings/kills.py", "_round"): "any moment of a save must be right",
    ("sleep", "step/place/test_cost_placer.py", "nap"): "an op whose time is measured",
}


class Found:
    """What one file has, as (rule, function) with the lines."""

    def __init__(self, tree, test=True):
        self._test = test
        self.found = collections.defaultdict(list)
        marks = [_limit(n) for n in ast.walk(tree) if _limit(n)]
        self._file = max([DEFAULT, *marks])
        own = [_limit(n) for s in tree.body if isinstance(s, ast.Assign) and _dotted(s.targets[0]) == "pytestmark"
               for n in ast.walk(s) if _limit(n)]
        self._module = own[0] if own else DEFAULT
        self._visit(tree, "", [])

    def _visit(self, node, function, around):
        """Looks at what is below a node; `around` are the nodes that it is in."""
        for child in ast.iter_child_nodes(node):
            name = function
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = name or child.name
                if not function:
                    self._function(child)
            self._look(child, name, around)
            self._visit(child, name, [*around, child])

    def _look(self, node, function, around):
        if not isinstance(node, ast.Call):
            return
        called, given = _dotted(node.func), node.args or node.keywords
        last, inside = called.rpartition(".")[2], bool(function) or any(isinstance(n, ast.Lambda) for n in around)
        if called in ("time.sleep", "sleep") and not any(isinstance(n, ast.While) for n in around):
            self.found["sleep", function].append(node.lineno)
        if called in MADE and not given or called == "os.urandom" or called.startswith(("secrets.", "uuid.")):
            self.found["random", function].append(node.lineno)
        if called.startswith(("random.", "np.random.")) and last in DRAWS and not inside:
            self.found["random", function].append(node.lineno)
        if last == "bind" and node.args and isinstance(node.args[0], ast.Tuple) and _number(node.args[0].elts[-1]):
            self.found["port", function].append(node.lineno)
        words = {k.arg for k in node.keywords}
        if last == "assert_allclose" and len(node.args) < 3 and not words & {"rtol", "atol", None}:
            self.found["ulp", function].append(node.lineno)
        elif last == "assert_allclose" and not self._test and len(node.args) < 4 and not words & {"atol", None}:
            self.found["scale", function].append(node.lineno)

    def _function(self, node):
        """The rules about a function as a whole."""
        names: set[str] = set()
        for _ in range(3):                                       # a name of a name of a time
            for part in ast.walk(node):
                if isinstance(part, ast.Assign) and _timed(part.value, names):
                    names |= {n.id for target in part.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        lines = [n.lineno for n in ast.walk(node) if isinstance(n, ast.Assert) and _timed(n.test, names)]
        self.found["clock", node.name] += lines
        own = [_limit(d) for d in node.decorator_list if _limit(d)]
        test = node.name.startswith("test")
        outer = (own[0] if own else self._module) if test else self._file
        waits = [(n.lineno, _waited(n)) for n in ast.walk(node) if _waited(n)]
        if sum(w for _, w in waits) > outer if test else any(w > outer for _, w in waits):
            self.found["limit", node.name] += [line for line, _ in waits]


def _dotted(node):
    """a.b.c, or what of it is known."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _number(node):
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (int, float) else 0


def _limit(node):
    """The limit of a `pytest.mark.timeout(...)`."""
    if isinstance(node, ast.Call) and _dotted(node.func) == "pytest.mark.timeout" and node.args:
        return _number(node.args[0])
    return 0


def _timed(node, names):
    """Whether an expression has to do with the time of day or of the machine."""
    return any(isinstance(n, ast.Call) and _dotted(n.func) in CLOCKS or isinstance(n, ast.Name) and n.id in names
               for n in ast.walk(node))


def _waited(node):
    """The seconds that a call waits at most, if it says so."""
    if not isinstance(node, ast.Call) or _limit(node):
        return 0
    last = _dotted(node.func).rpartition(".")[2]
    limits = [_number(k.value) for k in node.keywords if k.arg == "timeout"]
    if last in WAITS and node.args and not limits:
        limits = [_number(node.args[-1])] if len(node.args) == 1 or last == "eventually" else []
    return limits[0] if limits else 0


def _all():
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        for (rule, function), lines in Found(ast.parse(text), path.name.startswith("test_")).found.items():
            if lines:
                found[rule, path.relative_to(TESTS).as_posix(), function] = lines
    return found


@pytest.fixture(scope="module")
def found():
    return _all()


def test_no_other_test_depends_on_the_machine(found):
    more = "\n".join(f"{rule}: tests/{path}:{found[rule, path, name][0]} in {name}"
                     for rule, path, name in sorted(found.keys() - ALLOWED.keys()))
    assert not more, f"see the top of this file:\n{more}"
    assert not ALLOWED.keys() - found.keys(), "repaired: take these out of the list"


@pytest.mark.parametrize("rule, text", [
    ("sleep", "def test():\n    time.sleep(1)"),
    ("clock", "def test():\n    start = time.monotonic()\n    took = time.time() - start\n    assert took < 1"),
    ("limit", "@pytest.mark.timeout(110)\ndef test():\n    a.wait(60)\n    b.join(timeout=60)"),
    ("limit", "def helper():\n    subprocess.run(['x'], timeout=10_000)"),
    ("random", "X = np.random.randn(3)"),
    ("random", "def test():\n    rng = np.random.default_rng()"),
    ("port", "def test():\n    s.bind(('localhost', 2222))"),
    ("ulp", "def test():\n    np.testing.assert_allclose(f(2), 3)")])
def test_each_pattern_is_found(rule, text):
    assert [r for (r, _), lines in Found(ast.parse(text)).found.items() if lines] == [rule]


def test_small_numbers_are_compared_with_the_largest():
    np.testing.assert_allclose([1.0, 1e-9], [1.0, 2e-9], rtol=1e-6)
    np.testing.assert_allclose([1j, np.nan, np.inf, 0.0], [1j, np.nan, np.inf, 1e-7], rtol=1e-6)
    np.testing.assert_allclose([], [], rtol=1e-6)
    for actual, desired, options in (([1.0, 1e-5], [1.0, 2e-5], {}), ([1e-9], [2e-9], {}), ([np.inf, 1.0], [np.inf, 2.0], {}),
                                     ([1.0, 1e-9], [1.0, 2e-9], {"atol": 0})):
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            np.testing.assert_allclose(actual, desired, rtol=1e-6, **options)


def test_a_program_gives_both_tolerances():
    text = "def main():\n    np.testing.assert_allclose(f(2), 3, rtol=1e-6{})"
    assert Found(ast.parse(text.format("")), test=False).found["scale", "main"]
    assert not Found(ast.parse(text.format(", atol=1e-6")), test=False).found["scale", "main"]


@pytest.mark.parametrize("text", [
    "def test():\n    while not done():\n        time.sleep(0.01)", "def test():\n    a.wait(60)\n    b.wait(60)",
    "X = np.random.default_rng(0)", "def test():\n    x = np.random.randn(3)", "def test():\n    s.bind(('localhost', 0))",
    "def test():\n    np.testing.assert_allclose(f(2), 3, rtol=1e-6)", "def test():\n    end = time.monotonic() + 3"])
def test_what_is_right_is_not(text):
    assert not any(Found(ast.parse(text)).found.values())

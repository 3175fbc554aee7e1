"""tf.test.TestCase and the other helpers: that they pass what is right, and fail what is wrong."""
import collections
import itertools
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf

Pair = collections.namedtuple("Pair", ["a", "b"])


class Case(tf.test.TestCase):
    """A case whose methods the tests call."""

    __test__ = False

    def runTest(self):
        """Nothing of its own."""


@pytest.fixture
def case():
    made = Case()
    made.setUp()
    yield made
    made.tearDown()


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


def run_case(body, **more):
    """The result of a test class with one method."""
    import unittest
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(type("Made", (tf.test.TestCase,), {"testIt": body, **more}))
    result = unittest.TestResult()
    suite.run(result)
    return result


@pytest.mark.parametrize("good, bad", [
    (([1, 2], np.array([1, 2])), ([1, 2], [1, 3])),
    ((penstock.constant([1.5]), [1.5]), (penstock.constant([1.5]), [[1.5]])),
    (([np.nan], [np.nan]), ([np.nan], [0.0])),
    ((b"a", b"a"), (b"a", b"b")),
    ((penstock.ragged.constant([[1], [2, 3]]), [[1], [2, 3]]), (penstock.ragged.constant([[1], [2, 3]]), [[1], [2]])),
])
def test_all_equal(case, good, bad):
    """assertAllEqual and its opposite."""
    case.assertAllEqual(*good)
    case.assertNotAllEqual(*bad)
    with pytest.raises(AssertionError):
        case.assertAllEqual(*bad)
    with pytest.raises(AssertionError):
        case.assertNotAllEqual(*good)


@pytest.mark.parametrize("good, bad", [
    (([1.0], [1.0 + 1e-7]), ([1.0], [1.001])),
    (({"x": [1.0], "y": 2}, {"x": (1.0,), "y": 2}), ({"x": [1.0]}, {"x": [2.0]})),
    (({"x": 1.0}, {"x": 1.0}), ({"x": 1.0}, {"y": 1.0})),
    ((Pair(1.0, [2.0, 3.0]), Pair(1.0, [2.0, 3.0])), (Pair(1.0, 2.0), Pair(1.0, 3.0))),
    (([[1.0], [2.0, 3.0]], [[1.0], [2.0, 3.0]]), ([[1.0], [2.0, 3.0]], [[1.0], [2.0, 4.0]])),
    (([penstock.ones([2]), 3.0], [[1.0, 1.0], 3.0]), ([penstock.ones([2])], [[1.0, 1.1]])),
    (([np.inf], [np.inf]), ([np.inf], [-np.inf])),
    ((penstock.ragged.constant([[1.0], []]), [[1.0], []]), (penstock.ragged.constant([[1.0], []]), [[1.0], [2.0]])),
])
def test_all_close(case, good, bad):
    """assertAllClose and its opposite, on structures too."""
    case.assertAllClose(*good)
    case.assertNotAllClose(*bad)
    with pytest.raises(AssertionError):
        case.assertAllClose(*bad)


def test_close_says_where(case):
    """The message names the place and both values."""
    with pytest.raises(AssertionError, match=r"value\['w'\](.|\n)*\(1,\): 2.0 and 5.0"):
        case.assertAllClose({"w": [1.0, 2.0]}, {"w": [1.0, 5.0]})
    with pytest.raises(AssertionError, match=r"Shape mismatch: expected \(2,\), got \(3,\)"):
        case.assertAllClose([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="Can't compare dict to non-dict"):
        case.assertAllClose({"a": 1}, [1])


def test_close_according_to_type(case):
    """Coarser types have wider tolerances."""
    near, half = np.array([1.0005]), np.array([1.0])
    case.assertAllCloseAccordingToType(half.astype(np.float16), near)
    case.assertAllCloseAccordingToType(penstock.constant([1.0], penstock.bfloat16), np.array([1.005]))
    with pytest.raises(AssertionError):
        case.assertAllCloseAccordingToType(half.astype(np.float32), near)


def test_order_and_membership(case):
    """Each assertion passes one array and fails another."""
    x = penstock.constant([1.0, 2.0, 3.0])
    for name, good, bad in [("assertAllGreater", 0.5, 1.0), ("assertAllLess", 3.5, 3.0), ("assertAllGreaterEqual", 1.0, 1.5),
                            ("assertAllLessEqual", 3.0, 2.5)]:
        getattr(case, name)(x, good)
        with pytest.raises(AssertionError):
            getattr(case, name)(x, bad)
    case.assertAllInRange(x, 1, 3)
    for wrong in [dict(open_lower_bound=True), dict(open_upper_bound=True)]:
        with pytest.raises(AssertionError, match="1 of the 3 element"):
            case.assertAllInRange(x, 1, 3, **wrong)
    with pytest.raises(AssertionError, match="NaN"):
        case.assertAllInRange([np.nan], 0, 1)
    with pytest.raises(AssertionError, match="ordered numeric type"):
        case.assertAllInRange(["a"], 0, 1)
    case.assertAllInSet([1, 2, 2], {1, 2})
    with pytest.raises(AssertionError, match="not in the set"):
        case.assertAllInSet([1, 4], {1, 2})


def test_numbers_and_shapes(case):
    """The smaller assertions."""
    case.assertNear(1.0, 1.1, 0.2)
    case.assertArrayNear([1.0], [1.1], 0.2)
    case.assertNDArrayNear(np.zeros(2), np.full(2, 0.1), 0.2)
    case.assertShapeEqual(np.zeros([2, 3]), penstock.zeros([2, 3]))
    case.assertDTypeEqual(penstock.zeros([1]), np.float32)
    case.assertDeviceEqual("/job:a/cpu:0", "/job:a/device:CPU:0")
    case.assertStartsWith("abc", "ab")
    case.assertItemsEqual([1, 2], [2, 1])
    for failing in (lambda: case.assertNear(1.0, 1.5, 0.2), lambda: case.assertArrayNear([1.0], [1.5], 0.2),
                    lambda: case.assertNDArrayNear(np.zeros(2), np.ones(2), 0.2),
                    lambda: case.assertShapeEqual(np.zeros([2]), penstock.zeros([3])),
                    lambda: case.assertDTypeEqual(penstock.zeros([1]), np.float64),
                    lambda: case.assertDeviceEqual("/cpu:0", "/cpu:1"), lambda: case.assertStartsWith("abc", "b")):
        with pytest.raises(AssertionError):
            failing()
    with pytest.raises(TypeError):
        case.assertShapeEqual([1], penstock.zeros([1]))


def test_messages(case):
    """Messages compare with messages and with text."""
    node = tf.NodeDef(name="a", op="NoOp")
    case.assertProtoEquals("name: 'a' op: 'NoOp'", node)
    case.assertProtoEquals(tf.NodeDef(name="a", op="NoOp"), node)
    with pytest.raises(AssertionError):
        case.assertProtoEquals("name: 'b' op: 'NoOp'", node)
    with pytest.raises(AssertionError, match="Can't compare"):
        case.assertProtoEquals(tf.GraphDef(), node)
    with tf.Graph().as_default() as g:
        tf.no_op(name="a")
    case.assertProtoEqualsVersion("node { name: 'a' op: 'NoOp' }", g.as_graph_def(),
                                  producer=g.graph_def_versions.producer)


def test_graph_defs(graph):
    """Graphs are equal with their nodes in another order."""
    a, b = tf.constant(1, name="a"), tf.constant(2, name="b")
    one = graph.as_graph_def()
    other = tf.GraphDef()
    other.node.extend(reversed(one.node))
    tf.test.assert_equal_graph_def(one, other)
    tf.add(a, b)
    with pytest.raises(AssertionError, match="different nodes"):
        tf.test.assert_equal_graph_def(one, graph.as_graph_def())
    other.node[0].device = "/cpu:1"
    with pytest.raises(AssertionError, match="Node 'b' differs"):
        tf.test.assert_equal_graph_def(one, other)
    with pytest.raises(TypeError, match="Expected tf.GraphDef"):
        tf.test.assert_equal_graph_def(one, "text")


def test_errors(case):
    """assertRaisesOpError inspects the message and at the type."""
    def failing():
        penstock.debugging.assert_equal(1, 2, message="not at all")
    with case.assertRaisesOpError("not at all"):
        failing()
    with case.assertRaisesWithPredicateMatch(tf.errors.InvalidArgumentError, lambda e: "all" in e.message):
        failing()
    with pytest.raises(AssertionError, match="Exception of type"):
        with case.assertRaisesOpError("something else"):
            failing()
    with pytest.raises(AssertionError, match="not raised"):
        with case.assertRaisesOpError("not at all"):
            pass


def test_sessions(case, graph):
    """session makes new ones, cached_session keeps one; both are the default in their block."""
    with case.cached_session() as first:
        assert tf.get_default_session() is first
        v = tf.Variable(1)
        assert v.device == "/device:CPU:0"
        first.run(v.initializer)
    with case.cached_session() as second:
        assert second is first
        assert case.evaluate(v) == v.eval() == 1
    with pytest.raises(ValueError, match="config used to get the cached session is different"):
        with case.cached_session(config=tf.ConfigProto(log_device_placement=True)):
            pass
    with case.test_session() as third:
        assert third is first
    with case.session(graph=tf.Graph()) as other:
        assert other is not first and tf.get_default_graph() is other.graph
        assert case.evaluate({"x": [tf.constant(3)]}) == {"x": [3]}
    with pytest.raises(RuntimeError):
        other.run([])


def test_evaluate_eagerly(case):
    """Composite tensors become their values."""
    assert case.evaluate([penstock.constant(1), {"a": penstock.constant(2)}]) == [1, {"a": 2}]
    sparse = case.evaluate(penstock.sparse.from_dense([[0, 7]]))
    assert isinstance(sparse, tf.SparseTensorValue) and sparse.values.tolist() == [7]
    assert case.evaluate(penstock.ragged.constant([[1], []])).to_list() == [[1], []]
    slices = case.evaluate(penstock.IndexedSlices(penstock.ones([1, 2]), penstock.constant([3])))
    assert slices.indices.tolist() == [3] and slices.dense_shape is None
    with case.session() as sess:
        assert sess.run(penstock.constant(5)) == 5
        with pytest.raises(RuntimeError, match="Feeds are not supported"):
            sess.run(penstock.constant(5), feed_dict={"x": 1})
    with pytest.raises(ValueError, match="Unsupported type"):
        case.evaluate(object())


def test_threads():
    """A thread that raises, or is not joined, fails the test; one that is fine does not."""
    def good(self):
        t = self.checkedThread(lambda x: None, args=(1,))
        t.start()
        t.join()

    def raising(self):
        t = self.checkedThread(lambda: 1 / 0)
        t.start()
        t.join()

    def left(self):
        event = threading.Event()
        t = self.checkedThread(event.wait, args=(0.01,))
        t.start()
    assert run_case(good).wasSuccessful()
    assert "division by zero" in str(run_case(raising).failures)
    assert "checkedThread" in str(run_case(left).failures)


def test_fresh_start():
    """Each test has an empty default graph, the same random numbers and its own folder."""
    seen = []

    def body(self):
        seen.append((np.random.rand(), self.evaluate(tf.random.uniform([])), self.get_temp_dir()))
        self.assertTrue(os.path.isdir(self.get_temp_dir()))
    assert run_case(body).wasSuccessful() and run_case(body).wasSuccessful()
    assert seen[0][:2] == seen[1][:2] and seen[0][2] != seen[1][2]


def test_set_up_again_inside_of_a_graph():
    """A test may run its body again in a graph: the block's graph stays the default, and is left as usual."""
    seen = []

    def body(self):
        self.tearDown()
        with tf.Graph().as_default() as graph:
            self.setUp()
            seen.append(tf.get_default_graph() is graph and self.evaluate(tf.constant(2) + 1) == 3)
    assert run_case(body).wasSuccessful()
    assert seen == [True]


def test_capture(case):
    """What is written to a file descriptor is caught, and the stream is put back."""
    with open(os.path.join(case.get_temp_dir(), "stream"), "w+") as stream:
        with case.captureWritesToStream(stream) as captured:
            stream.write("inside")
            assert captured.contents() == "inside"
        stream.write("after")
        stream.flush()
        stream.seek(0)
        assert stream.read() == "after"


def test_stubs():
    """Replaced attributes come back."""
    class Base:
        @staticmethod
        def f():
            return 1

    class Derived(Base):
        pass
    stubs = tf.test.StubOutForTesting()
    stubs.SmartSet(Derived, "f", lambda: 2)
    assert Base.f() == 2
    stubs.SmartUnsetAll()
    assert Base.f() == 1 and Base().f() == 1
    stubs.Set(os, "sep", "|")
    assert os.sep == "|"
    stubs.UnsetAll()
    assert os.sep != "|"
    with pytest.raises(AttributeError):
        stubs.SmartSet(Derived, "nothing", 1)


def test_platform():
    """What is said of the machine agrees with the devices that there are."""
    gpus = tf.config.experimental.list_physical_devices("GPU")
    assert tf.test.is_gpu_available() == bool(gpus) == bool(tf.test.gpu_device_name())
    assert not tf.test.is_gpu_available(min_cuda_compute_capability=(99, 0))
    assert isinstance(tf.test.is_built_with_cuda(), bool)
    assert os.path.isdir(tf.test.get_temp_dir())
    assert tf.test.test_src_dir_path("a/b").endswith("a/b")
    assert tf.test.mock.Mock


def test_benchmark(graph, capsys):
    """A benchmark reports the method that ran it."""
    class Null(tf.test.Benchmark):
        def benchmarkNull(self):
            with tf.Session() as sess:
                self.result = self.run_op_benchmark(sess, tf.no_op(), min_iters=3, mbs=1)
    null = Null()
    null.benchmarkNull()
    assert "Benchmark [Null.benchmarkNull] iters: 3" in capsys.readouterr().out
    assert null.result["wall_time"] > 0
    with pytest.raises(TypeError):
        null.report_benchmark(extras=[1])


PROGRAM = """
import sys
import penstock.compat.v1 as tf
tf.disable_v2_behavior()
class ATest(tf.test.TestCase):
    def testGood(self):
        with self.test_session():
            self.assertAllEqual(tf.constant([1, 2]).eval(), [1, 2])
    def testOther(self):
        self.assertEqual(len(tf.get_default_graph().get_operations()), 0)
    def testBad(self):
        self.assertEqual("bad", sys.argv[0])
class ABenchmark(tf.test.Benchmark):
    def benchmarkIt(self):
        self.report_benchmark(iters=1, wall_time=0.5)
if __name__ == "__main__":
    tf.test.main()
"""


@pytest.mark.parametrize("argument, code, text", [
    ("ATest.testGood", 0, "Ran 1 test"), ("", 1, "Ran 4 tests"), ("--benchmarks=all", 0, "Benchmark [ABenchmark.benchmarkIt]")])
def test_main(tmp_path, argument, code, text):
    """tf.test.main runs the tests that the command line requests, and says whether they passed."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run([sys.executable, str(program), *filter(None, [argument])], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == code, done.stderr
    assert text in done.stdout + done.stderr


def test_shapes_of_arrays_and_tensors_are_compared():
    case = penstock.test.TestCase()
    for a, b in itertools.product((np.zeros([2, 3]), penstock.zeros([2, 3])), repeat=2):
        case.assertShapeEqual(a, b)
    with pytest.raises(AssertionError):
        case.assertShapeEqual(penstock.zeros([2]), np.zeros([3]))
    with pytest.raises(TypeError, match="input_b must be a Numpy ndarray, Numpy scalar, or a Tensor"):
        case.assertShapeEqual(penstock.zeros([2]), [0, 0])

"""TestCase: unittest's (and absl's) test case, with sessions, evaluation, threads and temporary files."""
from __future__ import annotations

import contextlib
import os
import random
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl.testing import absltest

from penstock._src.base import errors, nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.context import get_default_session
from penstock._src.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from penstock._src.graph.random_seed import DEFAULT_GRAPH_SEED, set_seed
from penstock._src.graph.scopes import reset_default_graph
from penstock._src.graph.sparse_tensor import SparseTensor, SparseTensorValue
from penstock._src.kernels.devices.device_spec import canonical_name
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock._src.library.testing import platform
from penstock._src.library.testing.arrays import ArrayAssertions
from penstock._src.library.testing.graphs import messages_equal
from penstock._src.session.session import Session


@export("test.TestCase")
class TestCase(ArrayAssertions, absltest.TestCase):
    """Base of test cases. Each test starts with a new default graph and fixed seeds.

    >>> class AddTest(tf.test.TestCase):
    ...     def testAdd(self):
    ...         with self.cached_session():
    ...             self.assertAllEqual((tf.constant([1]) + 1).eval(), [2])
    """

    def __init__(self, methodName: str = "runTest"):
        super().__init__(methodName)
        self._begun = False
        self._threads: list[CheckedThread] = []
        self._tempdir: str | None = None
        self._cached_session: Session | None = None
        self._cached_arguments: tuple = ()

    def setUp(self) -> None:
        """Resets the state: no session, an empty default graph, fixed seeds."""
        super().setUp()
        self._ClearCachedSession()
        random.seed(DEFAULT_GRAPH_SEED)
        np.random.seed(DEFAULT_GRAPH_SEED % 2 ** 32)
        if not (self._begun and context.state.graphs):    # a running test may call this again inside of a graph's block
            context.state.graphs.clear()                  # a test that failed inside of a graph's block may have left it there
            reset_default_graph()
        self._begun = True
        set_seed(DEFAULT_GRAPH_SEED)
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")

    def tearDown(self) -> None:
        """Checks that threads have ended, and closes the session."""
        for thread in self._threads:
            thread.check_termination()
        self._ClearCachedSession()
        super().tearDown()

    def _ClearCachedSession(self) -> None:
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None

    # -- sessions ---------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def session(self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False) -> Iterator[Any]:
        """A new session, with its graph and itself as defaults, for a block. Ops go to the CPU unless a GPU is allowed."""
        if context.executing_eagerly():
            yield EagerSession(self)
        else:
            with _make_session(graph, config, force_gpu) as session, _defaults(session, use_gpu, force_gpu):
                yield session

    @contextlib.contextmanager
    def cached_session(self, graph: Any = None, config: Any = None, use_gpu: bool = False,
                       force_gpu: bool = False) -> Iterator[Any]:
        """As `session`, but every block of one test has the same session. Different arguments are an error."""
        if context.executing_eagerly():
            yield EagerSession(self)
        else:
            session = self._get_cached_session(graph, config, force_gpu, check=True)
            with _defaults(session, use_gpu, force_gpu):
                yield session

    @contextlib.contextmanager
    def test_session(self, graph: Any = None, config: Any = None, use_gpu: bool = False,
                     force_gpu: bool = False) -> Iterator[Any]:
        """The older form: `cached_session` without a graph, else `session`; None when executing eagerly."""
        if context.executing_eagerly():
            yield None
        elif graph is not None:
            with self.session(graph, config, use_gpu, force_gpu) as session:
                yield session
        else:
            session = self._get_cached_session(graph, config, force_gpu, check=False)
            with _defaults(session, use_gpu, force_gpu):
                yield session

    def _get_cached_session(self, graph: Any, config: Any, force_gpu: bool, check: bool) -> Session:
        if self._cached_session is None:
            self._cached_session = _make_session(graph, config, force_gpu)
            self._cached_arguments = (graph, config, force_gpu)
        elif check:
            for what, old, new in zip(("graph", "config", "force_gpu"), self._cached_arguments, (graph, config, force_gpu)):
                if (old is not new) if what == "graph" else (old != new):
                    raise ValueError(f"The {what} used to get the cached session is different than the one that was used to "
                                     "create the session. Maybe create a new session with self.session()")
        return self._cached_session

    def evaluate(self, tensors: Any) -> Any:
        """The values of a structure of tensors, in the default session or as they are when executing eagerly.

        >>> self.evaluate({"sum": tf.reduce_sum([1., 2.])})
        {'sum': 3.0}
        """
        if context.executing_eagerly():
            return _eager_values(tensors)
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.test_session() as session:
            return session.run(tensors)

    # -- files and streams ------------------------------------------------------------------------------------------------
    def get_temp_dir(self) -> str:
        """A folder for the files of this test."""
        if self._tempdir is None:
            self._tempdir = tempfile.mkdtemp(dir=platform.get_temp_dir())
        return self._tempdir

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[CapturedWrites]:
        """Collects what is written to a stream with a file descriptor, such as sys.stderr, in a block.

        >>> with self.captureWritesToStream(sys.stderr) as captured: ...
        >>> captured.contents()
        """
        stream.flush()
        descriptor = stream.fileno()
        file, path = tempfile.mkstemp(dir=self.get_temp_dir())
        saved = os.dup(descriptor)
        os.dup2(file, descriptor)
        try:
            yield CapturedWrites(path, stream)
        finally:
            stream.flush()
            os.dup2(saved, descriptor)
            os.close(saved)
            os.close(file)

    # -- threads ----------------------------------------------------------------------------------------------------------
    def checkedThread(self, target: Callable, args: Any = None, kwargs: Any = None) -> CheckedThread:
        """A thread whose exceptions fail the test, and which must be joined before its end.

        >>> t = self.checkedThread(target=enqueue, args=(sess,)); t.start(); t.join()
        """
        thread = CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    # -- assertions -------------------------------------------------------------------------------------------------------
    def assertProtoEquals(self, expected_message_maybe_ascii: Any, message: Any, msg: str | None = None) -> None:
        """Fails unless two messages are equal; the expected one may be given as text."""
        from google.protobuf import text_format
        expected = expected_message_maybe_ascii
        if isinstance(expected, str):
            expected = text_format.Parse(expected, type(message)(), descriptor_pool=message.DESCRIPTOR.file.pool)
        if not isinstance(expected, type(message)):
            raise AssertionError(f"Can't compare protos of type {type(expected)} and {type(message)}. {msg or ''}")
        if not messages_equal(expected, message):
            self.assertMultiLineEqual(text_format.MessageToString(expected), text_format.MessageToString(message), msg)

    def assertProtoEqualsVersion(self, expected: str, actual: Any, producer: int = 134, min_consumer: int = 0,
                                 msg: str | None = None) -> None:
        """assertProtoEquals for a GraphDef whose version the text does not say."""
        text = f"versions {{ producer: {producer} min_consumer: {min_consumer} }};\n{expected}"
        self.assertProtoEquals(text, actual, msg=msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """Fails unless a text begins with another."""
        if not actual.startswith(expected_start):
            self.fail(f"{actual!r} does not start with {expected_start!r}" + (f" : {msg!r}" if msg else ""))

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Fails unless two names or DeviceSpecs mean the same device.

        >>> self.assertDeviceEqual("/cpu:0", "/device:CPU:0")
        """
        first, second = canonical_name(device1), canonical_name(device2)
        self.assertEqual(first, second, f"Devices {first} and {second} are not equal. {msg or ''}")

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(                          # type: ignore[override]
            self, exception_type: Any, expected_err_re_or_predicate: Any) -> Iterator[None]:
        """A context that must raise an error that a function accepts, or whose message matches a regular expression."""
        wanted = expected_err_re_or_predicate
        accepts = wanted if callable(wanted) else lambda e: re.search(wanted, _message(e))
        try:
            yield
        except Exception as e:
            if not isinstance(e, exception_type) or not accepts(e):
                raise AssertionError(f"Exception of type {type(e)}: {e}") from e
        else:
            self.fail(f"{getattr(exception_type, '__name__', exception_type)} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """A context in which an op must fail with a given message.

        >>> with self.assertRaisesOpError("negative"): sess.run(y)
        """
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    assertItemsEqual = absltest.TestCase.assertCountEqual
    assertRaisesRegexp = absltest.TestCase.assertRaisesRegex


class CapturedWrites:
    """What was written to a stream so far."""

    def __init__(self, path: str, stream: Any):
        self._path = path
        self._stream = stream

    def contents(self) -> str:
        """The text."""
        self._stream.flush()
        with open(self._path) as f:
            return f.read()


class EagerSession:
    """Takes the place of a session in eager tests: `run` returns the values."""

    def __init__(self, case: TestCase):
        self._case = case

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        """The values of existing tensors; what is fed cannot change them."""
        if kwargs.pop("feed_dict", None) or args or kwargs:
            raise RuntimeError("Feeds are not supported in eager execution: call the function with its inputs instead.")
        return self._case.evaluate(fetches)


class CheckedThread:
    """A thread of a test. Created by TestCase.checkedThread."""

    def __init__(self, case: TestCase, target: Callable, args: Any = None, kwargs: Any = None):
        self._case = case
        self._exception: BaseException | None = None
        self._joined = False
        self._thread = threading.Thread(target=self._run, args=(target, args or (), kwargs or {}))

    def _run(self, target: Callable, args: Any, kwargs: Any) -> None:
        try:
            target(*args, **kwargs)
        except Exception as e:
            self._exception = e

    def start(self) -> None:
        """Starts it."""
        self._thread.start()

    def join(self) -> None:
        """Waits for its end; fails the test if the thread raised an exception."""
        self._joined = True
        self._thread.join()
        if self._exception is not None:
            self._case.fail(f"Error in checkedThread: {self._exception}")

    def is_alive(self) -> bool:
        """Whether it is running."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Fails the test if the thread was not joined, or still runs."""
        if self.is_alive():
            self._case.fail("A checkedThread was still running at the end of the test.")
        if not self._joined and self._thread.ident is not None:
            self._case.fail("A checkedThread was not joined.")


def _make_session(graph: Any, config: Any, force_gpu: bool) -> Session:
    from tensorboard.compat.proto.config_pb2 import ConfigProto
    made = ConfigProto()
    if config is None:
        made.allow_soft_placement = not force_gpu
    else:
        made.CopyFrom(config)
        if force_gpu:
            made.allow_soft_placement = False
    return Session(graph=graph, config=made)


@contextlib.contextmanager
def _defaults(session: Session, use_gpu: bool, force_gpu: bool) -> Iterator[None]:
    """Makes a session and its graph the defaults, with the device that new ops go to."""
    device = (platform.gpu_device_name() or "/device:GPU:0") if force_gpu else None if use_gpu else "/device:CPU:0"
    with session.graph.as_default(), session.as_default():
        with session.graph.device(device) if device else contextlib.nullcontext():
            yield


def _eager_values(tensors: Any) -> Any:
    if tensors is None:
        return None
    return nest.map_structure(_eager_value, tensors)


def _eager_value(tensor: Any) -> Any:
    if tensor is None:
        return None
    if isinstance(tensor, SparseTensor):
        return SparseTensorValue(*(t.numpy() for t in (tensor.indices, tensor.values, tensor.dense_shape)))
    if isinstance(tensor, RaggedTensor):
        return RaggedTensorValue(_eager_value(tensor.values), _eager_value(tensor.row_splits))
    if isinstance(tensor, IndexedSlices):
        return IndexedSlicesValue(values=tensor.values.numpy(), indices=tensor.indices.numpy(),
                                  dense_shape=_eager_value(tensor.dense_shape))
    if hasattr(tensor, "numpy"):
        return tensor.numpy()
    if callable(tensor):
        return _eager_values(tensor())
    if isinstance(tensor, (np.ndarray, np.generic, bool, int, float, complex, str, bytes)):
        return tensor
    raise ValueError(f"Unsupported type {type(tensor)}.")


def _message(error: BaseException) -> str:
    """The text that assertRaisesOpError searches: the message, and the names of the failed ops."""
    if not isinstance(error, errors.OpError):
        return str(error)
    text, op = error.message, error.op
    while op is not None:
        text += f"\nCaused by: {op.name}"
        op = getattr(op, "_original_op", None)
    return text

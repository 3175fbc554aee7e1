"""Of `framework.test_util`: the test case, and decorators that choose a mode."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.graph import context


def __getattr__(name: str) -> Any:
    if name == "TensorFlowTestCase":
        return tf.test.TestCase
    raise AttributeError(name)


@contextlib.contextmanager
def _graph_mode() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def run_deprecated_v1(func: Callable) -> Callable:
    """Runs a test, or every test of a class, in its own graph."""
    if isinstance(func, type):
        return _decorate_class(func, run_deprecated_v1)

    @functools.wraps(func)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _graph_mode():
            return func(self, *args, **kwargs)
    return run


run_v1_only = deprecated_graph_mode_only = lambda reason=None, func=None: (
    run_deprecated_v1(reason) if callable(reason) else run_deprecated_v1)


def run_in_graph_and_eager_modes(func: Callable | None = None, config: Any = None, use_gpu: bool = True,
                                 **kwargs: Any) -> Callable:
    """Runs a test twice: in a graph, with a session, and eagerly."""
    if func is None:
        return functools.partial(run_in_graph_and_eager_modes, config=config, use_gpu=use_gpu, **kwargs)
    if isinstance(func, type):
        return _decorate_class(func, run_in_graph_and_eager_modes)

    @functools.wraps(func)
    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        with tf.Graph().as_default(), self.test_session(use_gpu=use_gpu, config=config):
            func(self, *args, **kwargs)
        self.tearDown()
        self.setUp()
        with context.enter(None):
            func(self, *args, **kwargs)
    return run


run_all_in_graph_and_eager_modes = run_in_graph_and_eager_modes


def _decorate_class(cls: type, decorator: Callable) -> type:
    for name, value in list(vars(cls).items()):
        if callable(value) and name.startswith("test"):
            setattr(cls, name, decorator(value))
    return cls


def for_all_test_methods(decorator: Callable, *args: Any, **kwargs: Any) -> Callable:
    """Decorates every test of a class with `decorator(*args, **kwargs)`."""
    return lambda cls: _decorate_class(cls, decorator(*args, **kwargs))


def IsMklEnabled() -> bool:  # noqa: N802
    """Whether kernels are those of Intel's TensorFlow: never."""
    return False


def IsBuiltWithNvcc() -> bool:  # noqa: N802
    """Whether TensorFlow was compiled by Nvidia's compiler."""
    return False


def run_gpu_only(func: Callable) -> Callable:
    """Runs a test only where there is a GPU."""
    @functools.wraps(func)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_gpu_available():
            self.skipTest("Test requires GPU")
        return func(self, *args, **kwargs)
    return run


def is_gpu_available(*args: Any, **kwargs: Any) -> bool:
    """tf.test.is_gpu_available."""
    return tf.test.is_gpu_available(*args, **kwargs)


def gpu_device_name() -> str:
    """tf.test.gpu_device_name."""
    return tf.test.gpu_device_name()


def _same(func: Callable | None = None, *args: Any, **kwargs: Any) -> Callable:
    return func if callable(func) else (lambda f: f)


disable_xla = enable_xla = disable_all_xla = disable_mlir_bridge = enable_control_flow_v2 = run_cuda_only = _same
assert_no_new_pyobjects_executing_eagerly = enable_output_all_intermediates = _same
assert_no_new_tensors = assert_no_garbage_created = enable_eager_op_as_function = disable_tfrt = _same
disable_cudnn_autotune = disable_eager_op_as_function = disable_xla_jit = with_eager_op_as_function = _same


def InstallStackTraceHandler() -> None:  # noqa: N802
    """Prints the stacks of all threads on a fatal signal."""
    import faulthandler
    faulthandler.enable()


def run_v2_only(func: Callable | None = None, reason: str | None = None) -> Callable:
    """Runs a test only in eager mode."""
    if func is None:
        return run_v2_only
    if isinstance(func, type):
        return _decorate_class(func, run_v2_only)

    @functools.wraps(func)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not context.executing_eagerly():
            self.skipTest("Test is only compatible with v2")
        return func(self, *args, **kwargs)
    return run

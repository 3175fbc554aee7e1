"""Information for tests about the machine, files and the command line."""
from __future__ import annotations

import atexit
import os
import platform
import shutil
import sys
import tempfile

import torch

from penstock._src.base.api import export
from penstock._src.kernels.devices.device_lib import list_local_devices
from penstock._src.library.testing import benchmark

_temp_dir: str | None = None


@export("test.main")
def main(argv: list[str] | None = None) -> None:
    """Runs the tests of the calling program, or its benchmarks with `--benchmarks=regex`.

    Args:
        argv: Command line; by default `sys.argv`.

    Returns:
        None: the process exits with the result.

    >>> class SquareTest(tf.test.TestCase):
    ...     def test_square(self):
    ...         self.assertAllClose(tf.square([2.]), [4.])
    >>> tf.test.main()    # doctest: +SKIP
    """
    from absl.testing import absltest

    arguments = list(sys.argv if argv is None else argv)
    chosen = [a for a in arguments if a.lstrip("-").startswith("benchmarks=") and a.startswith("-")]
    if chosen:
        benchmark.run_benchmarks(chosen[0].split("=", 1)[1])
    else:
        absltest.main(argv=arguments)


@export(v1=["test.get_temp_dir"])
def get_temp_dir() -> str:
    """A folder for the files of this process's tests, removed at its end; TEST_TMPDIR names another one.

    Returns:
        A path.

    >>> tf.io.gfile.isdir(tf.test.get_temp_dir())
    True
    """
    global _temp_dir
    if _temp_dir is None:
        _temp_dir = os.environ.get("TEST_TMPDIR")
        if _temp_dir:
            os.makedirs(_temp_dir, exist_ok=True)
        else:
            _temp_dir = tempfile.mkdtemp(prefix="penstock_test_")
            atexit.register(shutil.rmtree, _temp_dir, ignore_errors=True)
    return _temp_dir


@export(v1=["test.test_src_dir_path"])
def test_src_dir_path(relative_path: str) -> str:
    """The path of a file `relative_path` below the folder of the tests: TEST_SRCDIR, or the current one."""
    return os.path.join(os.environ.get("TEST_SRCDIR") or os.getcwd(), relative_path)


vars(test_src_dir_path)["__test__"] = False      # not a test, whatever its name


@export("test.is_built_with_cuda")
def is_built_with_cuda() -> bool:
    """Whether the kernels were built for NVIDIA's GPUs.

    Returns:
        A boolean.

    >>> isinstance(tf.test.is_built_with_cuda(), bool)
    True
    """
    return torch.version.cuda is not None


@export("test.is_built_with_rocm")
def is_built_with_rocm() -> bool:
    """Whether the kernels were built for AMD's GPUs."""
    return torch.version.hip is not None


@export("test.is_built_with_gpu_support")
def is_built_with_gpu_support() -> bool:
    """Whether the kernels were built for any GPU."""
    return is_built_with_cuda() or is_built_with_rocm()


@export("test.is_built_with_xla")
def is_built_with_xla() -> bool:
    """Whether XLA is available: always False."""
    return False


@export("test.is_gpu_available")
def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Whether ops can run on a GPU; on one of NVIDIA's, and of a capability at least, where that is requested.

    Args:
        cuda_only: Whether only NVIDIA's GPUs count.
        min_cuda_compute_capability: Pair of major and minor version.

    Returns:
        A boolean.

    >>> isinstance(tf.test.is_gpu_available(), bool)
    True
    """
    if (cuda_only and not is_built_with_cuda()) or not gpu_device_name():
        return False
    if min_cuda_compute_capability is None:
        return True
    return any(torch.cuda.get_device_capability(d) >= tuple(min_cuda_compute_capability)
               for d in range(torch.cuda.device_count()))


@export("test.is_cpu_target_available")
def is_cpu_target_available(target: str) -> bool:
    """Whether the CPU is of a kind: "x86", "arm" or "aarch64"."""
    machine = platform.machine().lower()
    kinds = {"x86": ("x86_64", "amd64", "i686"), "arm": ("arm64", "aarch64"), "aarch64": ("arm64", "aarch64")}
    return machine in kinds.get(target, ())


@export("test.gpu_device_name")
def gpu_device_name() -> str:
    """The name of the first GPU; '' if there is none.

    >>> with tf.device(tf.test.gpu_device_name()): ...
    """
    return next((d.name for d in list_local_devices() if d.device_type == "GPU"), "")

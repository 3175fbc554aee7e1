"""Of `tf2`, `platform.build_info`, `util.is_in_graph_mode`: which behavior is on, and what the library was built for."""
from __future__ import annotations

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph import context


def __getattr__(name: str) -> bool:
    if name == "is_cuda_build":
        return tf.test.is_built_with_cuda()
    if name == "is_rocm_build":
        return tf.test.is_built_with_rocm()
    raise AttributeError(name)


def enabled() -> bool:
    """Whether the process has TensorFlow 2's behavior, also where a graph or a function is being built."""
    return context.process.eager


def IS_IN_GRAPH_MODE() -> bool:  # noqa: N802
    """Whether graphs are built."""
    return not penstock.executing_eagerly()

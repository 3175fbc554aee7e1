"""Of `framework.tensor_util`."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.graph.tensor_proto import make_ndarray as MakeNdarray  # noqa: F401, N812


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor as an array where it is known before a run, else None."""
    return tf.get_static_value(tensor, partial)


def constant_value_as_shape(tensor: Any) -> Any:
    """The shape that a vector of sizes holds, as far as it is known before a run."""
    known = tf.get_static_value(tensor, True)
    if known is None:
        return tf.TensorShape(None if tensor.shape.num_elements() is None else [None] * tensor.shape.num_elements())
    return tf.TensorShape([None if v is None or v == -1 else int(v) for v in known])


def is_tensor(x: Any) -> bool:
    """tf.is_tensor."""
    return tf.is_tensor(x)


is_tf_type = is_tensor


def try_evaluate_constant(tensor: Any) -> Any:
    """As `constant_value`: the value of a tensor where it is known before a run, else None."""
    return tf.get_static_value(tensor)

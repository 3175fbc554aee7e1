"""Pooling layers."""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.layers.support import check_format, collect_named_outputs, layer, n_positive_integers
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _pool(kind: str, dims: int, default_scope: str, formats: tuple[str, str], name: str) -> Any:
    def made(inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = formats[1],
             outputs_collections: Any = None, scope: Any = None) -> Tensor:
        check_format(data_format, formats)
        with tf.name_scope(scope, default_scope, [inputs]) as sc:
            inputs = tf.convert_to_tensor(inputs)
            window, strides = n_positive_integers(dims, kernel_size), n_positive_integers(dims, stride)
            around = (lambda x: [1, 1, *x]) if data_format.startswith("NC") else lambda x: [1, *x, 1]
            pooling = {"max2": tf.nn.max_pool, "max3": tf.nn.max_pool3d, "avg2": tf.nn.avg_pool, "avg3": tf.nn.avg_pool3d}
            outputs = pooling[f"{kind}{dims}"](inputs, around(window), around(strides), padding.upper(),
                                               data_format=data_format)
            return collect_named_outputs(outputs_collections, sc, outputs)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"The {'largest' if kind == 'max' else 'mean'} value in each window of {dims} dimensions."
    return layer(name)(made)


avg_pool2d = _pool("avg", 2, "AvgPool2D", ("NCHW", "NHWC"), "avg_pool2d")
avg_pool3d = _pool("avg", 3, "AvgPool3D", ("NCDHW", "NDHWC"), "avg_pool3d")
max_pool2d = _pool("max", 2, "MaxPool2D", ("NCHW", "NHWC"), "max_pool2d")
max_pool3d = _pool("max", 3, "MaxPool3D", ("NCDHW", "NDHWC"), "max_pool3d")


@layer("pool")
def pool(inputs: Any, kernel_size: Any, pooling_type: str, padding: str = "VALID", data_format: str | None = None,
         dilation_rate: Any = 1, stride: Any = 1, outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """Pooling over as many dimensions as the inputs have."""
    with tf.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.ndims is None:
            raise ValueError("Rank of inputs must be known")
        if inputs.shape.ndims < 3:
            raise ValueError("Rank of inputs must be >= 3")
        n = inputs.shape.ndims - 2
        outputs = tf.nn.pool(input=inputs, window_shape=n_positive_integers(n, kernel_size), pooling_type=pooling_type,
                             padding=padding, data_format=data_format, dilation_rate=n_positive_integers(n, dilation_rate),
                             strides=n_positive_integers(n, stride), name=sc)
        return collect_named_outputs(outputs_collections, sc, outputs)

"""RevNet (https://arxiv.org/abs/1707.04585): blocks whose inputs are computed from their outputs, so that none are stored.

Channels are in two halves: y1 = x1 + f(x2), y2 = x2 + g(y1). Going back, x2 = y2 - g(y1), x1 = y1 - f(x2); `backward_grads`
does that and returns the gradients on the way.
"""
from __future__ import annotations

from typing import Any

from penstock.compat import v1 as tf

_layers = tf.keras.layers


def downsample(x: Any, filters: int, strides: tuple, axis: int = 1) -> Any:
    """A shortcut: pixels averaged by `strides`, and zeros for channels that do not exist (`axis` is that of the channels)."""
    if len(x.shape) != 4 or axis not in (1, 3):
        raise ValueError(f"x must have four dimensions, and axis be 1 or 3: {x.shape}, {axis}")
    if strides[0] > 1:
        windows = [1, 1, *strides] if axis == 1 else [1, *strides, 1]
        x = tf.nn.avg_pool(x, windows, windows, padding="VALID", data_format="NCHW" if axis == 1 else "NHWC")
    lacking = filters - int(x.shape[axis])
    if lacking > 0:
        paddings = [[0, 0]] * 4
        paddings[axis] = [lacking // 2, lacking // 2]
        x = tf.pad(x, paddings)
    return tf.identity(x)


def _axis(data_format: str) -> int:
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError("data_format is neither `channels_first` nor `channels_last`")
    return 1 if data_format == "channels_first" else 3


class _Inner(tf.keras.Model):
    """Convolutions with a norm and a ReLU before each, perhaps not before the first."""

    def __init__(self, sizes: list[tuple], batch_norm_first: bool, data_format: str, fused: bool, dtype: Any):
        super().__init__(dtype=dtype)
        self.norms = [_layers.BatchNormalization(axis=_axis(data_format), fused=fused, dtype=dtype) if i or batch_norm_first
                      else None for i in range(len(sizes))]
        self.convs = [_layers.Conv2D(filters, size, strides, "SAME", data_format, use_bias=False, dtype=dtype)
                      for filters, size, strides in sizes]

    def call(self, x: Any, training: bool = True) -> Any:
        for norm, conv in zip(self.norms, self.convs):
            x = conv(x if norm is None else tf.nn.relu(norm(x, training=training)))
        return x


class _ResidualInner(_Inner):
    """Two convolutions of 3×3."""

    def __init__(self, filters: int, strides: tuple, input_shape: Any, batch_norm_first: bool = True,
                 data_format: str = "channels_first", fused: bool = True, dtype: Any = tf.float32):
        super().__init__([(filters, 3, strides), (filters, 3, 1)], batch_norm_first, data_format, fused, dtype)


class _BottleneckResidualInner(_Inner):
    """1×1, 3×3 with a quarter of the channels, 1×1."""

    def __init__(self, filters: int, strides: tuple, input_shape: Any, batch_norm_first: bool = True,
                 data_format: str = "channels_first", fused: bool = True, dtype: Any = tf.float32):
        super().__init__([(filters // 4, 1, strides), (filters // 4, 3, 1), (filters, 1, 1)], batch_norm_first, data_format,
                         fused, dtype)


class _Residual(tf.keras.Model):
    """One reversible step on two halves of the channels."""

    def __init__(self, filters: int, strides: tuple, input_shape: Any, batch_norm_first: bool = True,
                 data_format: str = "channels_first", bottleneck: bool = False, fused: bool = True, dtype: Any = tf.float32):
        super().__init__(dtype=dtype)
        self.half, self.strides, self.axis = filters // 2, strides, _axis(data_format)
        inner = _BottleneckResidualInner if bottleneck else _ResidualInner
        self.f = inner(self.half, strides, None, batch_norm_first, data_format, fused, dtype)
        self.g = inner(self.half, (1, 1), None, batch_norm_first, data_format, fused, dtype)

    def _shortcut(self, x: Any) -> Any:
        return downsample(x, self.half, self.strides, self.axis)

    def call(self, x: Any, training: bool = True) -> tuple[Any, Any]:
        x1, x2 = x
        y1 = self.f(x2, training=training) + self._shortcut(x1)
        return y1, self.g(y1, training=training) + self._shortcut(x2)

    def backward_grads(self, y: Any, dy: Any, training: bool = True) -> tuple[Any, Any, list]:
        """Inputs from outputs, their gradients, and those of the weights."""
        (y1, y2), (dy1, dy2) = y, dy
        gy1, slope, of_g = _backward(self.g, y1, dy2, training)
        dx1, x2 = dy1 + slope, y2 - gy1
        fx2, slope, of_f = _backward(self.f, x2, dx1, training)
        return (y1 - fx2, x2), (dx1, dy2 + slope), of_f + of_g

    def backward_grads_with_downsample(self, x: Any, y: Any, dy: Any, training: bool = True) -> tuple[Any, list]:
        """The same where inputs cannot be found from outputs, since the shortcut loses pixels: they are given."""
        (x1, x2), (dy1, dy2) = x, dy
        _, slope, of_g = _backward(self.g, y[0], dy2, training)
        dz1 = dy1 + slope
        _, slope, of_f = _backward(self.f, x2, dz1, training)
        return (self._back_through_shortcut(x1, dz1), slope + self._back_through_shortcut(x2, dy2)), of_f + of_g

    def _back_through_shortcut(self, x: Any, grad: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = self._shortcut(x)
        return tape.gradient(z, x, output_gradients=grad)


def _backward(layer: Any, x: Any, grad: Any, training: bool) -> tuple[Any, Any, list]:
    """What a layer returns, and the gradients by its input and by its weights."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=training)
    of_x, *of_weights = tape.gradient(y, [x, *layer.trainable_variables], output_gradients=grad)
    return y, of_x, of_weights


class RevBlock(tf.keras.Model):
    """`n_res` reversible steps; the first may have strides and more channels."""

    def __init__(self, n_res: int, filters: int, strides: tuple, input_shape: Any, batch_norm_first: bool = False,
                 data_format: str = "channels_first", bottleneck: bool = False, fused: bool = True, dtype: Any = tf.float32):
        super().__init__(dtype=dtype)
        self.blocks = [_Residual(filters, (1, 1) if i else strides, None, batch_norm_first and i == 0, data_format, bottleneck,
                                 fused, dtype) for i in range(n_res)]

    def call(self, h: Any, training: bool = True) -> Any:
        for block in self.blocks:
            h = block(h, training=training)
        return h

    def backward_grads(self, x: Any, y: Any, dy: Any, training: bool = True) -> tuple[Any, list]:
        """The gradients by the inputs and by the weights; values between the blocks are computed again from the outputs."""
        grads: list = []
        for block in reversed(self.blocks[1:]):
            y, dy, of_block = block.backward_grads(y, dy, training=training)
            grads = of_block + grads
        dx, of_block = self.blocks[0].backward_grads_with_downsample(x, y, dy, training=training)
        return dx, of_block + grads


class InitBlock(tf.keras.Model):
    """The layers before the first reversible block: a convolution, optional pooling, two halves of channels."""

    def __init__(self, config: Any):
        super().__init__(dtype=config.dtype)
        self.axis = _axis(config.data_format)
        self.stack = [_layers.Conv2D(config.init_filters, config.init_kernel, config.init_stride, "SAME", config.data_format,
                                     use_bias=False, dtype=config.dtype),
                      _layers.BatchNormalization(axis=self.axis, fused=config.fused, dtype=config.dtype)]
        self.pool = _layers.MaxPooling2D(3, 2, "SAME", config.data_format, dtype=config.dtype) if config.init_max_pool else None

    def call(self, x: Any, training: bool = True) -> Any:
        x = tf.nn.relu(self.stack[1](self.stack[0](x), training=training))
        return tf.split(x if self.pool is None else self.pool(x), 2, axis=self.axis)


class FinalBlock(tf.keras.Model):
    """The layers after the last block: norm, mean over pixels, logits."""

    def __init__(self, config: Any):
        super().__init__(dtype=config.dtype)
        self.axis = _axis(config.data_format)
        self.norm = _layers.BatchNormalization(axis=self.axis, fused=config.fused, dtype=config.dtype)
        self.pool = _layers.GlobalAveragePooling2D(config.data_format, dtype=config.dtype)
        self.dense = _layers.Dense(config.n_classes, dtype=config.dtype)

    def call(self, x: Any, training: bool = True) -> Any:
        return self.dense(self.pool(tf.nn.relu(self.norm(tf.concat(x, axis=self.axis), training=training))))


class RevNet(tf.keras.Model):
    """The network of a configuration (`config.py`).

    >>> model = RevNet(config)
    >>> logits, saved = model(images, training=True)
    >>> grads, loss = model.compute_gradients(saved, labels)
    """

    def __init__(self, config: Any):
        super().__init__(dtype=config.dtype)
        self.config, self.axis = config, _axis(config.data_format)
        if any(f % 2 for f in config.filters):
            raise ValueError("Number of output filters must be even to ensure correct partitioning of channels")
        self._init_block, self._final_block = InitBlock(config), FinalBlock(config)
        self._block_list = [RevBlock(config.n_res[i], config.filters[i], (config.strides[i],) * 2, None, i != 0,
                                     config.data_format, config.bottleneck, config.fused, config.dtype)
                            for i in range(config.n_rev_blocks)]

    def call(self, inputs: Any, training: bool = True) -> tuple[Any, Any]:
        saved = [inputs, self._init_block(inputs, training=training)]
        for block in self._block_list:
            saved.append(block(saved[-1], training=training))
        return self._final_block(saved[-1], training=training), saved if training else None

    def compute_loss(self, logits: Any, labels: Any) -> Any:
        """The mean cross-entropy."""
        wanted = tf.one_hot(labels, self.config.n_classes, dtype=logits.dtype)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=wanted, logits=logits))

    def compute_gradients(self, saved_hidden: list, labels: Any, training: bool = True,
                          l2_reg: bool = True) -> tuple[list, Any]:
        """Gradients in the order of `trainable_variables`, and the loss; `saved_hidden` is the result of a call in training."""
        inputs, *between, last = saved_hidden
        with tf.GradientTape() as tape:
            tape.watch(last)
            loss = self.compute_loss(self._final_block(last, training=training), labels)
        sources = [*last, *self._final_block.trainable_variables]
        dy1, dy2, *of_final = tape.gradient(loss, sources)
        grads: list = []
        dy, y = (dy1, dy2), last
        for block, x in zip(reversed(self._block_list), reversed(between)):
            dy, of_block = block.backward_grads(x, y, dy, training=training)
            grads, y = of_block + grads, x
        with tf.GradientTape() as tape:
            first = self._init_block(inputs, training=training)
        of_init = tape.gradient(first, self._init_block.trainable_variables, output_gradients=list(dy))
        grads = of_init + of_final + grads
        if l2_reg:
            grads = [g + self.config.weight_decay * v if v.name.endswith("kernel:0") else g
                     for g, v in zip(grads, self.trainable_variables)]
        return grads, loss

    @property
    def moving_average_variables(self) -> list:
        """Means and variances that norms follow."""
        return [v for v in self.variables if v.name.endswith(("moving_mean:0", "moving_variance:0"))]

    def get_moving_stats(self) -> list:
        """Their values."""
        return [v.read_value() for v in self.moving_average_variables]

    def restore_moving_stats(self, values: list) -> None:
        """Restores values that `get_moving_stats` returned."""
        for variable, value in zip(self.moving_average_variables, values):
            variable.assign(value)

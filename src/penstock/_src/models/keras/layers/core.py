"""Layers that all models use: Dense, activations, dropout, masking, and changing shapes."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.base.dtypes import as_dtype
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import regularizers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import data_format_of, described, dims_of, read, when
from penstock._src.models.keras.layers.random_layer import RandomLayer
from penstock.compat import v1 as tf


@export("keras.layers.Dense")
class Dense(Layer):
    """activation(inputs · kernel + bias), over the last axis.

    Args:
        units: Size of the last axis of the result.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        kernel_initializer: Initializer of the weights.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        bias_constraint: Function applied to the bias after each update.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> layer = tf.keras.layers.Dense(10, activation="softmax")
    >>> layer(tf.ones([2, 3])).shape
    TensorShape([2, 10])
    """

    activation: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    use_bias: Any

    def __init__(self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any):
        super().__init__(activity_regularizer=regularizers.get(activity_regularizer), **kwargs)
        if not hasattr(units, "__index__") and not (isinstance(units, (float, str)) and float(units).is_integer()):
            raise ValueError(f"Received an invalid value for `units`, expected a positive integer. Received: units={units}")
        self.units = int(units)
        if self.units < 0:
            raise ValueError(f"Received an invalid value for `units`, expected a positive integer. Received: units={units}")
        read(self, activation=activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
             bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
             kernel_constraint=kernel_constraint, bias_constraint=bias_constraint)
        self.supports_masking = True
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        dtype = as_dtype(self.dtype or K.floatx())
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError(f"Unable to build `Dense` layer with non-floating point dtype {dtype}")
        last = dims_of(input_shape)[-1]
        if last is None:
            raise ValueError("The last dimension of the inputs to `Dense` should be defined. Found `None`.")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: last})
        self.kernel = self.add_weight("kernel", shape=[last, self.units], initializer=self.kernel_initializer,
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint,
                                      dtype=self.dtype, trainable=True)
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight("bias", shape=[self.units], initializer=self.bias_initializer,
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint,
                                        dtype=self.dtype, trainable=True)
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """The product, the bias, the activation."""
        if isinstance(inputs, tf.RaggedTensor):
            return tf.ragged.map_flat_values(self.call, inputs)
        if K.is_sparse(inputs):
            outputs = tf.sparse_tensor_dense_matmul(tf.cast(inputs, self._compute_dtype), self.kernel)
        elif len(inputs.shape) == 2:
            outputs = tf.matmul(tf.cast(inputs, self._compute_dtype), self.kernel)
        else:
            outputs = self._over_last_axis(inputs)
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def _over_last_axis(self, inputs: Any) -> Any:
        rank = len(inputs.shape)
        outputs = tf.tensordot(inputs, self.kernel, [[rank - 1], [0]])
        if not context.executing_eagerly():
            outputs.set_shape([*dims_of(inputs.shape)[:-1], self.units])
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape with the last axis replaced."""
        dims = dims_of(tf.TensorShape(input_shape).with_rank_at_least(2))
        if dims[-1] is None:
            raise ValueError(f"The innermost dimension of input_shape must be defined, but saw: {input_shape}")
        return tf.TensorShape([*dims[:-1], self.units])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), (
            "units", "activation", "use_bias", "kernel_initializer", "bias_initializer", "kernel_regularizer",
            "bias_regularizer", "activity_regularizer", "kernel_constraint", "bias_constraint"))


@export("keras.layers.Activation")
class Activation(Layer):
    """An activation as a layer.

    Args:
        activation: Function, or the name of one of `tf.keras.activations`.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.Activation("relu")(tf.constant([-1., 2.])).numpy()
    array([0., 2.], dtype=float32)
    """

    activation: Any

    def __init__(self, activation: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        read(self, activation=activation)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return self.activation(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("activation",))


@export("keras.layers.Masking")
class Masking(Layer):
    """Masks the time steps all of whose features are `mask_value`.

    Inputs are [batch, time, features]; later layers skip the masked steps.

    Args:
        mask_value: Value of masked features.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Masking(mask_value=0.)
    """

    def __init__(self, mask_value: float = 0., **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.mask_value = mask_value
        self._compute_output_and_mask_jointly = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Whether some feature differs from the value."""
        return tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs: Any) -> Any:
        """Zeros where the mask is false."""
        seen = tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        outputs = inputs * tf.cast(seen, inputs.dtype)
        outputs._keras_mask = tf.squeeze(seen, axis=-1)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("mask_value",))


@export("keras.layers.ActivityRegularization")
class ActivityRegularization(Layer):
    """The inputs, with a loss for their size.

    Args:
        l1: Factor of the sum of absolute inputs.
        l2: Factor of the sum of squared inputs.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> layer = tf.keras.layers.ActivityRegularization(l2=0.5)
    >>> layer(tf.constant([[2.]])).numpy().tolist(), float(layer.losses[0])
    ([[2.0]], 2.0)
    """

    def __init__(self, l1: float = 0., l2: float = 0., **kwargs: Any):
        super().__init__(activity_regularizer=regularizers.L1L2(l1=l1, l2=l2), **kwargs)
        self.supports_masking = True
        self.l1, self.l2 = l1, l2

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("l1", "l2"))


# -- dropout ------------------------------------------------------------------------------------------------------------
@export("keras.layers.Dropout")
class Dropout(RandomLayer):
    """While training, sets elements to zero with probability `rate` and scales the others by 1 / (1 - rate).

    Args:
        rate: Fraction of elements that become 0 in training.
        noise_shape: Shape of the mask, which broadcasts to the inputs.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`; `rng_type` (`"stateless"`: the same
            mask in every call, `"stateful"`: from a generator of the layer), and `force_generator=True` for the latter.

    >>> layer = tf.keras.layers.Dropout(0.5)
    >>> layer(tf.ones([3]), training=False).numpy()
    array([1., 1., 1.], dtype=float32)
    """

    def __init__(self, rate: Any, noise_shape: Any = None, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
            raise ValueError(f"Invalid value {rate} received for `rate`, expected a value between 0 and 1.")
        self.rate, self.noise_shape = rate, noise_shape
        self.supports_masking = True

    def _get_noise_shape(self, inputs: Any) -> Any:
        if self.noise_shape is None:
            return None
        sizes = tf.shape(inputs)
        return tf.stack([sizes[i] if d is None else d for i, d in enumerate(self.noise_shape)])

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, some of them zeros while training."""
        return when(training, lambda: self._dropped(inputs), lambda: tf.identity(inputs))

    def _dropped(self, inputs: Any) -> Any:
        if isinstance(self.rate, (int, float)) and self.rate == 1:
            return tf.zeros_like(inputs)
        return self._draws().dropout(inputs, self.rate, self._get_noise_shape(inputs))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("rate", "noise_shape", "seed"))


class _SpatialDropout(Dropout):
    """Dropout of whole channels."""

    def __init__(self, rate: Any, data_format: Any, rank: int, **kwargs: Any):
        super().__init__(rate, **kwargs)
        if data_format not in (None, "channels_last", "channels_first"):
            raise ValueError('data_format must be in {"channels_last", "channels_first"}')
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(ndim=rank + 2)

    def _get_noise_shape(self, inputs: Any) -> Any:
        sizes, ones = tf.shape(inputs), [1] * (len(inputs.shape) - 2)
        if self.data_format == "channels_first":
            return tf.stack([sizes[0], sizes[1], *ones])
        return tf.stack([sizes[0], *ones, sizes[len(ones) + 1]])


@export("keras.layers.SpatialDropout1D")
class SpatialDropout1D(_SpatialDropout):
    """Dropout of whole channels of [batch, time, channels].

    It drops the same channels at all time steps.

    Args:
        rate: Fraction of the channels that is dropped.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, rate: Any, **kwargs: Any):
        super().__init__(rate, "channels_last", 1, **kwargs)


@export("keras.layers.SpatialDropout2D")
class SpatialDropout2D(_SpatialDropout):
    """Dropout of whole channels of images.

    It drops the same channels at all positions.

    Args:
        rate: Fraction of the channels that is dropped.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, rate: Any, data_format: Any = None, **kwargs: Any):
        super().__init__(rate, data_format, 2, **kwargs)


@export("keras.layers.SpatialDropout3D")
class SpatialDropout3D(_SpatialDropout):
    """Dropout of whole channels of volumes.

    Args:
        rate: The fraction of channels to drop.
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.SpatialDropout3D(0.5)(tf.ones([1, 1, 1, 1, 2]), training=False).numpy().ravel().tolist()
    [1.0, 1.0]
    """

    def __init__(self, rate: Any, data_format: Any = None, **kwargs: Any):
        super().__init__(rate, data_format, 3, **kwargs)


# -- shapes -------------------------------------------------------------------------------------------------------------
@export("keras.layers.Flatten")
class Flatten(Layer):
    """All axes except the first merged into one.

    Args:
        data_format: `"channels_last"`, or `"channels_first"`, which moves channels to the end first.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.Flatten()(tf.zeros([2, 3, 4])).shape
    TensorShape([2, 12])
    """

    def __init__(self, data_format: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        """The inputs as a matrix; channels last."""
        rank = len(inputs.shape)
        if self.data_format == "channels_first" and rank > 1:
            inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
        dims = dims_of(inputs.shape)
        if None not in dims[1:]:
            outputs = tf.reshape(inputs, [-1, int(np.prod(dims[1:]))])
        else:
            outputs = tf.reshape(inputs, [tf.shape(inputs)[0] if dims[0] is None else dims[0], -1])
        if not context.executing_eagerly():
            outputs.set_shape(self.compute_output_shape(inputs.shape))
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, product of the other axes]."""
        dims = dims_of(input_shape)
        if not dims:
            return tf.TensorShape([1])
        return tf.TensorShape([dims[0], None if None in dims[1:] else int(np.prod(dims[1:]))])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("data_format",))


@export("keras.layers.Reshape")
class Reshape(Layer):
    """The elements of each example in another shape; one size may be -1.

    Args:
        target_shape: Shape without the batch axis.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.Reshape((3, -1))(tf.zeros([2, 12])).shape
    TensorShape([2, 3, 4])
    """

    def __init__(self, target_shape: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, *target_shape]."""
        dims = dims_of(input_shape)
        if self.target_shape.count(-1) > 1:
            raise ValueError("Only one size may be -1.")
        if None in dims[1:]:
            return tf.TensorShape([dims[0], *(None if d == -1 else d for d in self.target_shape)])
        total, known = int(np.prod(dims[1:], dtype=int)), int(np.prod([d for d in self.target_shape if d != -1], dtype=int))
        if -1 in self.target_shape and (known == 0 or total % known) or -1 not in self.target_shape and total != known:
            raise ValueError("the number of elements changes: input_shape = "
                             f"{dims[1:]}, output_shape = {self.target_shape}")
        return tf.TensorShape([dims[0], *(total // known if d == -1 else d for d in self.target_shape)])

    def call(self, inputs: Any) -> Any:
        """The inputs in the other shape."""
        if context.executing_eagerly():
            return tf.reshape(inputs, (inputs.shape[0], *self.target_shape))
        dims = dims_of(self.compute_output_shape(inputs.shape))
        if dims[0] is None and None not in dims[1:]:
            return tf.reshape(inputs, [-1 if 0 not in dims[1:] else tf.shape(inputs)[0], *dims[1:]])
        outputs = tf.reshape(inputs, (tf.shape(inputs)[0], *self.target_shape))
        outputs.set_shape(dims)
        return outputs

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("target_shape",))


@export("keras.layers.Permute")
class Permute(Layer):
    """The axes of each example in another order, counted from 1.

    Args:
        dims: The new order of the axes; the batch axis is not counted.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Permute((2, 1))
    """

    def __init__(self, dims: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Invalid permutation `dims` for Permute Layer: {dims}. The set of indices in `dims` must be "
                             "consecutive and start from 1.")
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' axes in the other order."""
        dims = dims_of(input_shape)
        return tf.TensorShape([dims[0], *(dims[d] for d in self.dims)])

    def call(self, inputs: Any) -> Any:
        """The inputs, transposed."""
        return tf.transpose(inputs, perm=(0, *self.dims))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("dims",))


@export("keras.layers.Identity")
class Identity(Layer):
    """Returns its inputs."""

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return tf.nest.map_structure(tf.identity, inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape


@export("keras.layers.RepeatVector")
class RepeatVector(Layer):
    """Each vector n times: [batch, n, features].

    Args:
        n: How often.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.RepeatVector(3)(tf.ones([2, 4])).shape
    TensorShape([2, 3, 4])
    """

    def __init__(self, n: int, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(n, (int, np.integer)):
            raise TypeError(f"`n` must be an integer, got {type(n)}.")
        self.n = n
        self.input_spec = InputSpec(ndim=2)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, n, features]."""
        dims = dims_of(input_shape)
        return tf.TensorShape([dims[0], self.n, dims[1]])

    def call(self, inputs: Any) -> Any:
        """The inputs, repeated."""
        return tf.tile(tf.expand_dims(inputs, 1), [1, self.n, 1])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("n",))

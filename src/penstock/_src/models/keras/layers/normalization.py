"""BatchNormalization: each channel with mean 0 and variance 1 over the batch, and averages of both for predicting."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.graph.strategies import active_strategy
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.engine.replicas import current_replica
from penstock._src.models.keras.layers.parts import checked_axes, described, dims_of, named, read, when
from penstock.compat import v1 as tf


class BatchNormalizationBase(Layer):
    """The base of both versions. In the 2.x version, a layer that is not trainable runs in inference mode."""

    beta: Any
    center: Any
    epsilon: Any
    gamma: Any
    momentum: Any
    moving_mean_initializer: Any
    moving_variance_initializer: Any
    scale: Any
    axis: Any                           # one or several; a list once the layer is built

    _v2 = True
    _synchronized = False

    def __init__(self, axis: Any = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", moving_mean_initializer: Any = "zeros",
                 moving_variance_initializer: Any = "ones", beta_regularizer: Any = None, gamma_regularizer: Any = None,
                 beta_constraint: Any = None, gamma_constraint: Any = None, renorm: bool = False, renorm_clipping: Any = None,
                 renorm_momentum: float = 0.99, fused: bool | None = None, trainable: bool = True,
                 virtual_batch_size: int | None = None, adjustment: Any = None, name: str | None = None, **kwargs: Any):
        self._synchronized = bool(kwargs.pop("synchronized", self._synchronized))
        super().__init__(name=name, trainable=trainable, **kwargs)
        if not isinstance(axis, (int, list, tuple)):
            raise TypeError(f"axis must be int or list, type given: {type(axis)}")
        self.axis = axis if isinstance(axis, int) else list(axis)
        read(self, momentum=momentum, epsilon=epsilon, center=center, scale=scale, beta_initializer=beta_initializer,
             gamma_initializer=gamma_initializer, moving_mean_initializer=moving_mean_initializer,
             moving_variance_initializer=moving_variance_initializer, beta_regularizer=beta_regularizer,
             gamma_regularizer=gamma_regularizer, beta_constraint=beta_constraint, gamma_constraint=gamma_constraint)
        self.renorm, self.virtual_batch_size, self.adjustment = renorm, virtual_batch_size, adjustment
        self.supports_masking = True
        reason = self._why_not_fused()
        if self._v2 and fused and reason:
            raise ValueError(reason)
        self.fused = fused if self._v2 or fused is not None else True
        self._bessels_correction_test_only = True
        if renorm:
            clipping = renorm_clipping or {}
            keys = ["rmax", "rmin", "dmax"]
            if set(clipping) - set(keys):
                raise ValueError(f"renorm_clipping {clipping} contains keys not in {keys}")
            self.renorm_clipping, self.renorm_momentum = clipping, renorm_momentum

    def _why_not_fused(self) -> str | None:
        if self._synchronized:
            return "Passing fused=True is unsupported when statistics are synchronized across replicas."
        if self.renorm:
            return "fused=True does not support renorm=True"
        if not isinstance(self.axis, int) and len(self.axis) > 1:
            return "Passing fused=True is only supported when operating over a single axis."
        if self.virtual_batch_size is not None:
            return "fused=True does not support virtual_batch_size."
        if self.adjustment is not None:
            return "fused=True does not support adjustment."
        return None

    # -- building -----------------------------------------------------------------------------------------------------
    @property
    def _param_dtype(self) -> Any:
        """Statistics of small floats are kept as float32."""
        return dtypes.float32 if self.dtype in ("float16", "bfloat16") else self.dtype or dtypes.float32

    def _checked_axes(self, input_shape: Any) -> dict[int, int]:
        """The axes with separate statistics, and their sizes."""
        shape = tf.TensorShape(input_shape)
        if not shape.rank:
            raise ValueError(f"Input has undefined rank: {shape}")
        axes = checked_axes(self.axis, shape.rank)
        if self.virtual_batch_size is not None:
            if self.virtual_batch_size <= 0:
                raise ValueError("virtual_batch_size must be a positive integer that divides the true batch size of the input "
                                 "Tensor")
            if 0 in axes:
                raise ValueError("When using virtual_batch_size, the batch dimension must be 0 and thus axis cannot include 0")
            if self.adjustment is not None:
                raise ValueError("virtual_batch_size does not support adjustment")
        sizes = {a: dims_of(shape)[a] for a in axes}
        if None in sizes.values():
            raise ValueError(f"Input has undefined `axis` dimension. Input shape: {shape}, axis: {axes}")
        self.axis = axes
        return sizes

    def build(self, input_shape: Any) -> None:
        """Creates scale, offset and the averages."""
        sizes = self._checked_axes(input_shape)
        rank = tf.TensorShape(input_shape).rank
        if self.fused is None or self.fused and not self._v2:       # for images and volumes, where it is quicker
            self.fused = rank in (4, 5) and self.axis[0] in (1, rank - 1)
        self.fused = bool(self.fused) and not self._why_not_fused()
        self.input_spec = InputSpec(ndim=rank, axes=sizes)
        shape = [sizes[self.axis[0]]]
        if len(sizes) > 1 or self.virtual_batch_size is not None:
            shape = [sizes.get(i, 1) for i in range(rank)]
        if self.virtual_batch_size is not None:
            shape.insert(1, 1)
            self.axis = [a + 1 for a in self.axis]
        for name, wanted in (("gamma", self.scale), ("beta", self.center)):
            made = None
            if wanted:
                made = self.add_weight(name=name, shape=shape, dtype=self._param_dtype,
                                       initializer=getattr(self, f"{name}_initializer"),
                                       regularizer=getattr(self, f"{name}_regularizer"),
                                       constraint=getattr(self, f"{name}_constraint"), trainable=True,
                                       experimental_autocast=False)
            setattr(self, name, made)
        self.moving_mean = self._average("moving_mean", shape, self.moving_mean_initializer)
        self.moving_variance = self._average("moving_variance", shape, self.moving_variance_initializer)
        if self.renorm:
            def stddev(*args: Any, **kwargs: Any) -> Any:
                return tf.sqrt(self.moving_variance_initializer(*args, **kwargs))
            self.moving_stddev = self._average("moving_stddev", shape, stddev)
            self.renorm_mean = self._average("renorm_mean", shape, self.moving_mean_initializer)
            self.renorm_stddev = self._average("renorm_stddev", shape, stddev)
        Layer.build(self, input_shape)

    def _average(self, name: str, shape: list, initializer: Any) -> Any:
        scope = getattr(self, "_scope", None)                        # of tf.layers: averages are never partitioned
        partitioner = scope.partitioner if scope else None
        if scope and partitioner:
            scope.set_partitioner(None)
        try:
            return self.add_weight(name=name, shape=shape, dtype=self._param_dtype, initializer=initializer,
                                   synchronization=tf.VariableSynchronization.ON_READ, trainable=False,
                                   aggregation=tf.VariableAggregation.MEAN, experimental_autocast=False)
        finally:
            if scope and partitioner:
                scope.set_partitioner(partitioner)

    # -- calling ------------------------------------------------------------------------------------------------------
    def _training(self, training: Any) -> Any:
        """Whether to train: a bool, or a tensor."""
        if training is None:
            training = K.learning_phase()
        if self._v2 and not self.trainable:
            return False
        if isinstance(training, Tensor):
            known = tf.get_static_value(training)
            return tf.cast(training, tf.bool) if known is None else bool(known)
        return training if K.is_variable(training) else bool(training)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """The inputs, normalized; in 2.x, masked ones do not count in the statistics, except of images."""
        training = self._training(training)
        if self.virtual_batch_size is None:
            fused = self.fused and inputs.dtype.base_dtype != tf.float64                # for which there is no kernel
            return self._fused(inputs, training) if fused else self._plain(inputs, training, mask if self._v2 else None)
        sizes = K.mixed_shape(inputs)[1:]
        groups = [-1, 1] if self._v2 and training is False else [self.virtual_batch_size, -1]
        split = tf.reshape(inputs, [*groups, *sizes])
        return tf.reshape(self._plain(split, training), [-1, *sizes])

    def _move(self, variable: Any, value: Any, momentum: Any, rows: Any = None) -> Any:
        """Moves an average; not where there are no rows, whose mean is no number."""
        with tf.name_scope("AssignMovingAvg") as scope, tf.colocate_with(variable):
            rate = tf.cast(tf.convert_to_tensor(1.0 - momentum, name="decay"), variable.dtype.base_dtype)
            change = (variable - tf.cast(value, variable.dtype.base_dtype)) * rate
            if rows is not None:
                change = _where(rows > 0, change, tf.zeros_like(change))
            return tf.assign_sub(variable, change, name=scope)

    def _update(self, make: Any, variable: Any, training: Any) -> None:
        """Adds an update that happens while training."""
        if training is not False:
            self.add_update(lambda: when(training, make, lambda: tf.identity(variable)))

    def _fused(self, inputs: Any, training: Any) -> Any:
        axis, rank = self.axis[0], len(inputs.shape)
        shape = None
        if rank not in (4, 5) or axis not in (1, rank - 1):
            shape = K.mixed_shape(inputs)
            inputs, axis = _as_images(inputs, shape, axis)
        form = {4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[len(inputs.shape)][axis != 1]
        size = [dims_of(self.moving_mean.shape)[0]]
        gamma = self.gamma if self.scale else tf.constant(1., self._param_dtype, size)
        beta = self.beta if self.center else tf.constant(0., self._param_dtype, size)
        outputs, mean, variance = when(
            training, lambda: tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=form),
            lambda: tf.nn.fused_batch_norm(inputs, gamma, beta, mean=self.moving_mean, variance=self.moving_variance,
                                           epsilon=self.epsilon, is_training=False, data_format=form))
        if not self._bessels_correction_test_only:
            n = tf.cast(tf.size(inputs) / tf.size(variance), variance.dtype)
            variance = variance * ((n - 1.) / n)
        rows = _rows(inputs)
        self._update(lambda: self._move(self.moving_mean, mean, self.momentum, rows), self.moving_mean, training)
        self._update(lambda: self._move(self.moving_variance, variance, self.momentum, rows), self.moving_variance, training)
        return outputs if shape is None else tf.reshape(outputs, shape)

    def _plain(self, inputs: Any, training: Any, mask: Any = None) -> Any:
        given, inputs = inputs, tf.cast(inputs, self._param_dtype)         # sums of 16 bits, also of gradients, overflow
        rank = len(inputs.shape)
        over = [i for i in range(rank) if i not in self.axis]
        if self.virtual_batch_size is not None:
            del over[1]
        target = [1] * rank
        target[self.axis[0]] = dims_of(inputs.shape)[self.axis[0]]

        def wide(v: Any) -> Any:
            if v is None or len(v.shape) == rank or over == list(range(rank - 1)):
                return v
            return tf.reshape(v, target)
        scale, offset = wide(self.gamma), wide(self.beta)
        if training is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            if self.adjustment:
                adjust_scale, adjust_offset = self.adjustment(tf.shape(inputs))
                scale, offset = _composed(
                    when(training, lambda: adjust_scale, lambda: tf.ones_like(adjust_scale)),
                    when(training, lambda: adjust_offset, lambda: tf.zeros_like(adjust_offset)), scale, offset)
            batch_mean, batch_variance = self._moments(inputs, over,
                                                       self.virtual_batch_size is not None or len(self.axis) > 1, mask)
            mean = when(training, lambda: batch_mean, lambda: tf.convert_to_tensor(self.moving_mean))
            variance = when(training, lambda: batch_variance, lambda: tf.convert_to_tensor(self.moving_variance))
            new_mean, new_variance = mean, variance
            if self.virtual_batch_size is not None:
                new_mean, new_variance = (tf.reduce_mean(v, axis=1, keepdims=True) for v in (mean, variance))
            if self.renorm:
                r, d, new_mean, new_variance = self._renormed(new_mean, new_variance, training)
                scale, offset = _composed(wide(tf.stop_gradient(r, name="renorm_r")),
                                          wide(tf.stop_gradient(d, name="renorm_d")), scale, offset)
            rows = None if self._synchronized else _rows(inputs)
            self._update(lambda: self._move(self.moving_mean, new_mean, self.momentum, rows), self.moving_mean, training)
            self._update(lambda: self._move_variance(new_variance, rows), self.moving_variance, training)
        mean, variance, offset, scale = (None if v is None else tf.cast(wide(v), inputs.dtype)
                                         for v in (mean, variance, offset, scale))
        outputs = tf.cast(tf.nn.batch_normalization(inputs, mean, variance, offset, scale, self.epsilon), given.dtype)
        if not context.executing_eagerly():
            outputs.set_shape(inputs.shape)
        return outputs

    def _moments(self, x: Any, over: list, keep_dims: bool, mask: Any = None) -> tuple:
        """Mean and variance of a batch; of a synchronized layer, over the batches of all replicas."""
        replica = current_replica() if self._synchronized else None
        weights = None if mask is None else tf.expand_dims(tf.cast(mask, x.dtype), -1)
        if replica is None:
            moments = tf.nn.moments(x, over, keep_dims=keep_dims) if weights is None else \
                tf.nn.weighted_moments(x, over, weights, keep_dims=keep_dims)
            rows = _rows(x)
            return moments if rows is None else tuple(_where(rows > 0, m, tf.zeros_like(m)) for m in moments)
        weights = tf.ones_like(x) if weights is None else tf.broadcast_to(weights, tf.shape(x))
        total, count = replica.all_reduce("sum", [tf.reduce_sum(x * weights, over, keepdims=True),
                                                  tf.reduce_sum(weights, over, keepdims=True)])
        mean = tf.math.divide_no_nan(total, count)
        squares = tf.reduce_sum(tf.math.squared_difference(x, mean) * weights, over, keepdims=True)
        variance = tf.math.divide_no_nan(replica.all_reduce("sum", squares), count)
        return (mean, variance) if keep_dims else (tf.squeeze(mean, over), tf.squeeze(variance, over))

    def _move_variance(self, value: Any, rows: Any) -> Any:
        if not self.renorm:
            return self._move(self.moving_variance, value, self.momentum, rows)
        stddev = self._move(self.moving_stddev, tf.sqrt(value + self.epsilon), self.momentum)
        with tf.name_scope("AssignNewValue") as scope:
            return tf.assign(self.moving_variance, tf.nn.relu(stddev * stddev - self.epsilon), name=scope)

    def _renormed(self, mean: Any, variance: Any, training: Any) -> tuple:
        """The scale and shift of batch renormalization, and the moments, after updating its averages."""
        stddev = tf.sqrt(variance + self.epsilon)
        known = tf.maximum(self.renorm_stddev, tf.sqrt(tf.cast(self.epsilon, self.renorm_stddev.dtype.base_dtype)))
        r, d = stddev / known, (mean - self.renorm_mean) / known
        with tf.control_dependencies([r, d]):
            mean, stddev = tf.identity(mean), tf.identity(stddev)
        low, high, shift = (self.renorm_clipping.get(k) for k in ("rmin", "rmax", "dmax"))
        r = r if low is None else tf.maximum(r, low)
        r = r if high is None else tf.minimum(r, high)
        d = d if shift is None else tf.minimum(tf.maximum(d, -shift), shift)
        r, d = (when(training, lambda v=v: v, lambda v=v, other=other: other(v))
                for v, other in ((r, tf.ones_like), (d, tf.zeros_like)))
        moved = [when(training, lambda v=v, x=x: tf.identity(self._move(v, x, self.renorm_momentum)),
                      lambda v=v: tf.identity(v))
                 for v, x in ((self.renorm_mean, mean), (self.renorm_stddev, stddev))]
        with tf.control_dependencies(moved):
            return r, d, tf.identity(mean), tf.identity(variance)

    # -- description --------------------------------------------------------------------------------------------------
    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), (
            "axis", "momentum", "epsilon", "center", "scale", "beta_initializer", "gamma_initializer",
            "moving_mean_initializer", "moving_variance_initializer", "beta_regularizer", "gamma_regularizer",
            "beta_constraint", "gamma_constraint"))
        if self.renorm:
            config.update(renorm=True, renorm_clipping=self.renorm_clipping, renorm_momentum=self.renorm_momentum)
        if self._synchronized and not type(self)._synchronized:
            config["synchronized"] = True
        if self.virtual_batch_size is not None:
            config["virtual_batch_size"] = self.virtual_batch_size
            if self.built:
                config["axis"] = [a - 1 for a in self.axis]
        if self.adjustment is not None:
            logging.warning("The `adjustment` function of this `BatchNormalization` layer cannot be serialized and has been "
                            "omitted from the layer config. It will not be included when re-creating the layer from the saved "
                            "config.")
        return config


def _where(condition: Any, x: Any, y: Any) -> Any:
    return tf.where(tf.broadcast_to(condition, tf.shape(x)), x, y)


def _rows(inputs: Any) -> Any:
    """The number of rows, where a strategy may assign a replica none; else None."""
    if active_strategy() is None or dims_of(inputs.shape)[0]:
        return None
    return tf.shape(inputs)[0]


def _composed(scale: Any, offset: Any, then_scale: Any, then_offset: Any) -> tuple:
    """One scaling and shift after another, as one."""
    if then_scale is not None:
        scale, offset = scale * then_scale, offset * then_scale
    return scale, offset if then_offset is None else offset + then_offset


def _as_images(inputs: Any, sizes: list, axis: int) -> tuple:
    """A tensor of any rank seen as [batch, height, width, channels] or [batch, channels, ...]; and the axis of channels."""
    rank = len(sizes)
    if axis == rank - 1:
        return tf.reshape(inputs, [-1, 1, 1, sizes[-1]]), 3
    before = sizes[:axis]
    after = sizes[axis + 1:]
    batch = 1 if not before else before[0] if len(before) == 1 else _product(before)
    return tf.reshape(inputs, [batch, sizes[axis], _product(after), 1]), 1


def _product(sizes: list) -> Any:
    total: Any = 1
    for s in sizes:
        total = total * s
    return total


@export(v1=["keras.layers.BatchNormalization"])
@named("BatchNormalization")
class BatchNormalizationV1(BatchNormalizationBase):
    """Each channel with mean 0 and variance 1 over the batch, scaled and shifted; by the averages, when predicting."""

    _v2 = False


@export(v2=["keras.layers.BatchNormalization"])
class BatchNormalization(BatchNormalizationBase):
    """Each channel with mean 0 and variance 1 over the batch, scaled and shifted; by the averages, when predicting.

    A layer with `trainable=False` runs in inference mode, also while training.

    Args:
        axis: Axis, or axes, of the channels.
        momentum: Share of the old value in moving averages.
        epsilon: Added to the variance before the division.
        center: Whether to add `beta`.
        scale: Whether to multiply by `gamma`.
        beta_initializer: Initializer of the offset.
        gamma_initializer: Initializer of the factor.
        moving_mean_initializer: Initializer of the moving mean.
        moving_variance_initializer: Initializer of the moving variance.
        beta_regularizer: Function of the offset whose result is added to the losses.
        gamma_regularizer: Function of the factor whose result is added to the losses.
        beta_constraint: Function applied to the offset after each update.
        gamma_constraint: Function applied to the factor after each update.
        renorm: Whether to use batch renormalization.
        renorm_clipping: Dictionary with the limits `rmax`, `rmin` and `dmax` of batch renormalization.
        renorm_momentum: Share of the old value in the averages of batch renormalization.
        fused: Accepted for compatibility: the compiler fuses the layer where it can.
        trainable: Whether the variables are added to the collection of trainable variables.
        virtual_batch_size: Size of the parts of a batch that are normalized separately.
        adjustment: Function of the shape of the inputs that returns a random factor and offset, for training.
        name: Name of the operation.
        **kwargs: `dtype`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.BatchNormalization()(x, training=True)
    """



@export("keras.layers.experimental.SyncBatchNormalization", v2=["keras.layers.SyncBatchNormalization"])
class SyncBatchNormalization(BatchNormalization):
    """Batch normalization over the batches of all replicas of a strategy together, as on one device.

    >>> with strategy.scope(): layer = tf.keras.layers.experimental.SyncBatchNormalization()
    """

    _synchronized = True

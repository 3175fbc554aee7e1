"""Normalizing layers: over batches, layers, instances and groups of channels."""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.layers.support import check_format, constant_value, finish, layer, smart_cond, weight
from penstock._src.graph.node import Tensor
from penstock._src.training.train.moving_averages import assign_moving_average
from penstock.compat import v1 as tf

_UPDATES = tf.GraphKeys.UPDATE_OPS


def _channels(inputs: Tensor, data_format: str) -> int:
    if inputs.shape.ndims is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    channels = inputs.shape.dims[1 if data_format.startswith("NC") else -1].value
    if channels is None:
        raise ValueError(f"Inputs {inputs.name} has undefined channels dimension {inputs.shape}.")
    return channels


@layer("batch_norm")
def batch_norm(inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001,
               activation_fn: Any = None, param_initializers: Any = None, param_regularizers: Any = None,
               updates_collections: Any = _UPDATES, is_training: Any = True, reuse: Any = None,
               variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
               batch_weights: Any = None, fused: bool | None = None, data_format: str = "NHWC",
               zero_debias_moving_mean: bool = False, scope: Any = None, renorm: bool = False, renorm_clipping: Any = None,
               renorm_decay: float = 0.99, adjustment: Any = None) -> Tensor:
    """Subtracts the mean of the batch and divides by its deviation; outside of training, by moving averages of both.

    The averages are updated by ops in `updates_collections`, which have to run with the training step; with None, the layer
    itself waits for them.

    Args:
        inputs: Tensor of at least two dimensions.
        decay: Share of the old value in moving averages.
        center: Whether to add `beta`.
        scale: Whether to multiply by `gamma`.
        epsilon: Added to the variance before the division.
        activation_fn: Function applied to the result, or None for a linear layer.
        param_initializers: Initializers by the name of a variable: `beta`, `gamma`, `moving_mean`, `moving_variance`.
        param_regularizers: Regularizers of `beta` and `gamma`.
        updates_collections: Collections that the update op is added to.
        is_training: Whether the layer is used for training: a boolean, or a tensor of one.
        reuse: Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.
        variables_collections: Collections that variables are added to: a list, or a dictionary of lists by the name of a
            variable.
        outputs_collections: Collections that the result is added to.
        trainable: Whether the variables are added to the collection of trainable variables.
        batch_weights: Weight of each example in the statistics.
        fused: Accepted for compatibility: the compiler fuses the layer where it can.
        data_format: `"NHWC"` (channels last) or `"NCHW"` (channels first).
        zero_debias_moving_mean: Whether the moving mean is corrected for starting at zero.
        scope: Prefix of the names of the layer's variables and operations.
        renorm: Whether to use batch renormalization.
        renorm_clipping: Dictionary with the limits `rmax`, `rmin` and `dmax` of batch renormalization.
        renorm_decay: Share of the old value in the averages of batch renormalization.
        adjustment: Function of the shape of the inputs that returns a random factor and offset, for training.

    Returns:
        A tensor of the shape of `inputs`.

    >>> with tf.Graph().as_default():
    ...     y = tf.contrib.layers.batch_norm(tf.ones([2, 8, 8, 3]), is_training=True)
    >>> y.shape
    TensorShape([2, 8, 8, 3])
    """
    check_format(data_format)
    if renorm or adjustment is not None:
        return _renormalized(inputs, decay, center, scale, epsilon, activation_fn, param_initializers, param_regularizers,
                             updates_collections, is_training, reuse, outputs_collections, trainable, batch_weights,
                             data_format, scope, renorm, renorm_clipping, renorm_decay, adjustment)
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        channels, rank = _channels(inputs, data_format), inputs.shape.ndims
        dtype = tf.float32 if inputs.dtype.base_dtype in (tf.float16, tf.bfloat16) else inputs.dtype.base_dtype
        first = data_format.startswith("NC") and rank > 2
        given, regularizers = param_initializers or {}, param_regularizers or {}

        def parameter(name: str, initializer: Any, trained: bool = trainable) -> Any:
            return weight(name, name, [channels], dtype, given.get(name, initializer), regularizers.get(name),
                          variables_collections, trained)

        beta = parameter("beta", tf.zeros_initializer()) if center else None
        gamma = parameter("gamma", tf.ones_initializer()) if scale else None
        with tf.variable_scope(tf.get_variable_scope()) as whole:
            whole.set_partitioner(None)
            moving_mean = parameter("moving_mean", tf.zeros_initializer(), False)
            moving_variance = parameter("moving_variance", tf.ones_initializer(), False)
        compute = _fused if batch_weights is None and rank in (2, 4) and fused is not False else _by_moments
        outputs, mean, variance = compute(inputs, beta, gamma, moving_mean, moving_variance, epsilon, is_training, first,
                                          batch_weights)
        outputs = _with_updates(outputs, moving_mean, moving_variance, mean, variance, decay, zero_debias_moving_mean,
                                is_training, updates_collections)
        outputs.set_shape(inputs.shape)
        return finish(outputs, activation_fn, outputs_collections, sc.name)


def _fused(inputs: Tensor, beta: Any, gamma: Any, moving_mean: Any, moving_variance: Any, epsilon: float, is_training: Any,
           first: bool, weights: None) -> tuple[Tensor, Tensor, Tensor]:
    """One op for images, and for rows as images of one point."""
    channels, dtype = moving_mean.shape.as_list()[0], moving_mean.dtype.base_dtype
    images = inputs
    if inputs.shape.ndims == 2:
        images = tf.reshape(inputs, [-1, 1, 1, channels])
    beta = tf.zeros([channels], dtype) if beta is None else beta
    gamma = tf.ones([channels], dtype) if gamma is None else gamma
    common = {"epsilon": epsilon, "data_format": "NCHW" if first else "NHWC"}
    outputs, mean, variance = smart_cond(
        is_training, lambda: tf.nn.fused_batch_norm(images, gamma, beta, **common),
        lambda: tf.nn.fused_batch_norm(images, gamma, beta, mean=moving_mean, variance=moving_variance, is_training=False,
                                       **common))
    return (tf.reshape(outputs, tf.shape(inputs)) if images is not inputs else outputs), mean, variance


def _by_moments(inputs: Tensor, beta: Any, gamma: Any, moving_mean: Any, moving_variance: Any, epsilon: float,
                is_training: Any, first: bool, weights: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs of any rank, with weights for the members of a batch."""
    rank, channels = inputs.shape.ndims, moving_mean.shape.as_list()[0]
    axes = [0, *range(2, rank)] if first else list(range(rank - 1))
    around = (lambda x: None if x is None else tf.reshape(x, [1, channels, *[1] * (rank - 2)])) if first else lambda x: x

    def of_batch() -> tuple[Tensor, Tensor]:
        if weights is None:
            return tf.nn.moments(inputs, axes)
        each = tf.reshape(tf.convert_to_tensor(weights), [-1, *[1] * (rank - 1)])
        return tf.nn.weighted_moments(inputs, axes, each)

    mean, variance = smart_cond(is_training, of_batch,
                                lambda: (tf.convert_to_tensor(moving_mean), tf.convert_to_tensor(moving_variance)))
    outputs = tf.nn.batch_normalization(inputs, around(mean), around(variance), around(beta), around(gamma), epsilon)
    return outputs, mean, variance


def _with_updates(outputs: Tensor, moving_mean: Any, moving_variance: Any, mean: Tensor, variance: Tensor, decay: float,
                  zero_debias: bool, is_training: Any, collections: Any) -> Tensor:
    """Adds the updates of the moving averages: to collections, or in front of the outputs."""
    known = constant_value(is_training)
    if known is not None and not known:
        return outputs

    def update() -> tuple[Any, Any]:
        return (assign_moving_average(moving_mean, mean, decay, zero_debias=zero_debias),
                assign_moving_average(moving_variance, variance, decay, zero_debias=False))

    if collections is None:
        def after_updates() -> Tensor:
            with tf.control_dependencies(list(update())):
                return tf.identity(outputs)
        return smart_cond(is_training, after_updates, lambda: tf.identity(outputs))
    if known:
        updates: Any = update()
    else:
        updates = tf.cond(is_training, lambda: tuple(tf.identity(u) for u in update()),
                          lambda: (tf.identity(moving_mean), tf.identity(moving_variance)))
    for each in updates:
        tf.add_to_collections(collections, each)
    return outputs


def _renormalized(inputs: Any, decay: float, center: bool, scale: bool, epsilon: float, activation_fn: Any,
                  param_initializers: Any, param_regularizers: Any, updates_collections: Any, is_training: Any, reuse: Any,
                  outputs_collections: Any, trainable: bool, batch_weights: Any, data_format: str, scope: Any, renorm: bool,
                  renorm_clipping: Any, renorm_decay: float, adjustment: Any) -> Tensor:
    """Batch renormalization, which tf.layers has."""
    if batch_weights is not None or updates_collections is not _UPDATES:
        raise ValueError("renorm is not supported with batch_weights, updates_collections or zero_debias_moving_mean")
    given, regularizers = param_initializers or {}, param_regularizers or {}
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        made = tf.layers.BatchNormalization(
            axis=1 if data_format == "NCHW" else -1, momentum=decay, epsilon=epsilon, center=center, scale=scale,
            beta_initializer=given.get("beta", tf.zeros_initializer()), trainable=trainable, renorm=renorm,
            gamma_initializer=given.get("gamma", tf.ones_initializer()), beta_regularizer=regularizers.get("beta"),
            moving_mean_initializer=given.get("moving_mean", tf.zeros_initializer()),
            moving_variance_initializer=given.get("moving_variance", tf.ones_initializer()),
            gamma_regularizer=regularizers.get("gamma"), renorm_clipping=renorm_clipping, renorm_momentum=renorm_decay,
            adjustment=adjustment, name=sc.name, _scope=sc, _reuse=reuse)
        return finish(made(inputs, training=is_training), activation_fn, outputs_collections, sc.name)


@layer("layer_norm")
def layer_norm(inputs: Any, center: bool = True, scale: bool = True, activation_fn: Any = None, reuse: Any = None,
               variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
               begin_norm_axis: int = 1, begin_params_axis: int = -1, scope: Any = None,
               use_fused_batch_norm: Any = None) -> Tensor:
    """Normalizes each member of a batch over the axes from `begin_norm_axis` on.

    Args:
        inputs: Tensor.
        center: Whether to add `beta`.
        scale: Whether to multiply by `gamma`.
        activation_fn: Function applied to the result, or None for a linear layer.
        reuse: Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.
        variables_collections: Collections that variables are added to: a list, or a dictionary of lists by the name of a
            variable.
        outputs_collections: Collections that the result is added to.
        trainable: Whether the variables are added to the collection of trainable variables.
        begin_norm_axis: First of the axes that are normalized.
        begin_params_axis: First of the axes that `beta` and `gamma` have.
        scope: Prefix of the names of the layer's variables and operations.
        use_fused_batch_norm: Accepted for compatibility and unused.

    Returns:
        A tensor of the shape of `inputs`.

    >>> with tf.Graph().as_default():
    ...     y = tf.contrib.layers.layer_norm(tf.ones([2, 5]))
    >>> y.shape
    TensorShape([2, 5])
    """
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank, dtype = inputs.shape.ndims, inputs.dtype.base_dtype
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        begin = begin_norm_axis % rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or begin >= rank:
            raise ValueError(f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin}) must be < rank(inputs) "
                             f"({rank})")
        shape = inputs.shape[begin_params_axis:]
        if not shape.is_fully_defined():
            raise ValueError(f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {inputs.shape}")
        beta = weight("beta", "beta", shape, dtype, tf.zeros_initializer(), None, variables_collections,
                      trainable) if center else None
        gamma = weight("gamma", "gamma", shape, dtype, tf.ones_initializer(), None, variables_collections,
                       trainable) if scale else None
        mean, variance = tf.nn.moments(inputs, list(range(begin, rank)), keep_dims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, offset=beta, scale=gamma,
                                            variance_epsilon=1e-3 if dtype == tf.float16 else 1e-12)
        outputs.set_shape(inputs.shape)
        return finish(outputs, activation_fn, outputs_collections, sc.name)


@layer("instance_norm")
def instance_norm(inputs: Any, center: bool = True, scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None,
                  param_initializers: Any = None, reuse: Any = None, variables_collections: Any = None,
                  outputs_collections: Any = None, trainable: bool = True, data_format: str = "NHWC",
                  scope: Any = None) -> Tensor:
    """Normalizes each channel of each member of a batch.

    >>> tf.contrib.layers.instance_norm(tf.random_normal([2, 8, 8, 3]))
    """
    check_format(data_format)
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        channels, rank, first = _channels(inputs, data_format), inputs.shape.ndims, data_format == "NCHW"
        beta, gamma = _beta_gamma(channels, inputs.dtype.base_dtype, center, scale, param_initializers, variables_collections,
                                  trainable)
        around = (lambda x: None if x is None else tf.reshape(x, [1, channels, *[1] * (rank - 2)])) if first else lambda x: x
        axes = list(range(2, rank)) if first else list(range(1, rank - 1))
        mean, variance = tf.nn.moments(inputs, axes, keep_dims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, around(beta), around(gamma), epsilon)
        outputs.set_shape(inputs.shape)
        return finish(outputs, activation_fn, outputs_collections, sc.name)


def _beta_gamma(channels: int, dtype: Any, center: bool, scale: bool, initializers: Any, collections: Any,
                trainable: bool) -> tuple[Any, Any]:
    given = initializers or {}
    beta = weight("beta", "beta", [channels], dtype, given.get("beta", tf.zeros_initializer()), None, collections,
                  trainable) if center else None
    gamma = weight("gamma", "gamma", [channels], dtype, given.get("gamma", tf.ones_initializer()), None, collections,
                   trainable) if scale else None
    return beta, gamma


@layer("group_norm")
def group_norm(inputs: Any, groups: int = 32, channels_axis: int = -1, reduction_axes: Any = (-3, -2), center: bool = True,
               scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None, param_initializers: Any = None,
               reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
               scope: Any = None, mean_close_to_zero: bool = False) -> Tensor:
    """Normalizes over groups of channels, and over `reduction_axes`.

    >>> tf.contrib.layers.group_norm(tf.random_normal([2, 8, 8, 32]), groups=8)
    """
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        axis, axes = channels_axis % rank, [a % rank for a in reduction_axes]
        if axis in axes:
            raise ValueError("reduction_axes and channels_axis are mutually exclusive!")
        channels = inputs.shape.dims[axis].value
        if channels is None:
            raise ValueError(f"Inputs {inputs.name} has undefined channel dimension: {channels}")
        if groups > channels:
            raise ValueError(f"Invalid groups {groups} for {channels} channels.")
        if channels % groups:
            raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
        sizes = tf.shape(inputs)
        grouped = tf.reshape(inputs, tf.concat([sizes[:axis], [groups, channels // groups], sizes[axis + 1:]], 0))
        static = inputs.shape.as_list()
        grouped.set_shape([*static[:axis], groups, channels // groups, *static[axis + 1:]])
        beta, gamma = _beta_gamma(channels, inputs.dtype.base_dtype, center, scale, param_initializers, variables_collections,
                                  trainable)
        shape = [1] * axis + [groups, channels // groups] + [1] * (rank - axis - 1)
        around = lambda x: None if x is None else tf.reshape(x, shape)
        over = [axis + 1, *(a if a < axis else a + 1 for a in axes)]
        mean, variance = tf.nn.moments(grouped, over, keep_dims=True)
        outputs = tf.nn.batch_normalization(grouped, mean, variance, around(beta), around(gamma), epsilon)
        outputs = tf.reshape(outputs, sizes)
        outputs.set_shape(inputs.shape)
        return finish(outputs, activation_fn, outputs_collections, sc.name)

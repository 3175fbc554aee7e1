"""Attention: dot-product, additive, and with several heads; and EinsumDense, which they use."""
from __future__ import annotations

import math
import re
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import regularizers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.layers.parts import described, dims_of, read, when
from penstock.compat import v1 as tf


@export(v2=["keras.__internal__.layers.BaseDenseAttention"])
class BaseDenseAttention(Layer):
    """The base of Attention and AdditiveAttention: scores of query and key, softmax, product with value.

    >>> isinstance(tf.keras.layers.Attention(), tf.keras.__internal__.layers.BaseDenseAttention)
    True
    """

    def __init__(self, causal: bool = False, dropout: float = 0., **kwargs: Any):
        super().__init__(**kwargs)
        self.causal, self.dropout = causal, dropout
        self.supports_masking = True

    def _calculate_scores(self, query: Any, key: Any) -> Any:
        raise NotImplementedError

    def _apply_scores(self, scores: Any, value: Any, scores_mask: Any = None, training: Any = None) -> Any:
        both = self._weighted(tf.convert_to_tensor(scores), value, scores_mask, training)
        return both if context.eager_outside_functions() else both[0]

    def _weighted(self, scores: Any, value: Any, scores_mask: Any, training: Any) -> tuple:
        if scores_mask is not None:
            far = 65504. if scores.dtype.base_dtype == tf.float16 else 1e9
            scores = scores - far * tf.cast(tf.logical_not(scores_mask), scores.dtype)
        weights = tf.nn.softmax(scores)
        if self.dropout > 0:
            weights = when(training, lambda: tf.nn.dropout(weights, rate=self.dropout), lambda: tf.identity(weights))
        return tf.matmul(weights, value), weights

    def call(self, inputs: Any, mask: Any = None, training: Any = None, return_attention_scores: bool = False,
             use_causal_mask: bool = False) -> Any:
        """The values, weighted by the scores of [query, value] or [query, value, key]."""
        self._validate_call_args(inputs, mask)
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        query_mask = mask[0] if mask else None
        value_mask = mask[1] if mask else None
        scores = self._calculate_scores(query=query, key=key)
        allowed = None if value_mask is None else tf.expand_dims(tf.convert_to_tensor(value_mask), -2)
        if self.causal or use_causal_mask:
            past = causal_mask(scores)
            allowed = past if allowed is None else tf.logical_and(allowed, past)
        result, weights = self._weighted(scores, value, allowed, training)
        if query_mask is not None:
            result = result * tf.cast(tf.expand_dims(tf.convert_to_tensor(query_mask), -1), result.dtype)
        return (result, weights) if return_attention_scores else result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The query's mask."""
        self._validate_call_args(inputs, mask)
        return None if not mask or mask[0] is None else tf.convert_to_tensor(mask[0])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The query's shape, with the size of the values."""
        return tf.TensorShape([*dims_of(input_shape[0])[:-1], dims_of(input_shape[1])[-1]])

    def _validate_call_args(self, inputs: Any, mask: Any) -> None:
        name = type(self).__name__
        if not isinstance(inputs, (list, tuple)):
            raise ValueError(f"{name} layer must be called on a list of inputs, namely [query, value] or [query, value, key].")
        if not 2 <= len(inputs) <= 3:
            raise ValueError(f"{name} layer accepts inputs list of length 2 or 3, namely [query, value] or [query, value, key]."
                             f" Given length: {len(inputs)}")
        if mask:
            if not isinstance(mask, (list, tuple)):
                raise ValueError(f"{name} layer mask must be a list, namely [query_mask, value_mask].")
            if len(mask) < 2 or len(mask) > len(inputs):
                raise ValueError(f"{name} layer mask must be a list of length 2, namely [query_mask, value_mask]. Given "
                                 f"length: {len(mask)}")

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        if not context.eager_outside_functions():
            config = described(self, super().get_config(), ("causal",))
            return {**config, "dropout": self.dropout} if self.dropout else config
        config = described(self, super().get_config(), ("dropout",))
        return {**config, "causal": True} if self.causal else config


def causal_mask(scores: Any) -> Any:
    """The causal mask: True where a key is not after the query."""
    sizes = K.mixed_shape(scores)
    return tf.greater_equal(tf.expand_dims(tf.range(sizes[-2]), -1), tf.range(sizes[-1]))


@export("keras.layers.Attention")
class Attention(BaseDenseAttention):
    """Dot-product attention: softmax(query · key) · value.

    The inputs are a list: query [batch, Tq, dim], value [batch, Tv, dim] and optionally key [batch, Tv, dim]. The output is
    [batch, Tq, dim].

    Args:
        use_scale: Whether to multiply the scores by a learned number.
        score_mode: `"dot"`, or `"concat"` for tanh of the sum of query and key.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Attention()([query, value])
    """

    def __init__(self, use_scale: bool = False, score_mode: str = "dot", **kwargs: Any):
        super().__init__(**kwargs)
        if score_mode not in ("dot", "concat"):
            raise ValueError(f"Received: score_mode={score_mode}. Acceptable values are: ['dot', 'concat']")
        self.use_scale, self.score_mode = use_scale, score_mode

    def build(self, input_shape: Any) -> None:
        """Creates the scale."""
        self.scale = self.concat_score_weight = None
        if self.use_scale:
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones", dtype=self.dtype, trainable=True)
        if self.score_mode == "concat":
            self.concat_score_weight = self.add_weight(name="concat_score_weight", shape=(), initializer="ones",
                                                       dtype=self.dtype, trainable=True)
        super().build(input_shape)

    def _calculate_scores(self, query: Any, key: Any) -> Any:
        if self.score_mode == "concat":
            both = tf.expand_dims(query, -2) + tf.expand_dims(key, -3)
            both = both if self.scale is None else self.scale * both
            return self.concat_score_weight * tf.reduce_sum(tf.tanh(both), axis=-1)
        scores = tf.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), ("use_scale",))
        older = self.score_mode == "dot" and not context.eager_outside_functions()
        return config if older else {**config, "score_mode": self.score_mode}


@export("keras.layers.AdditiveAttention")
class AdditiveAttention(BaseDenseAttention):
    """Additive attention: softmax(sum(scale * tanh(query + key))) · value.

    Inputs are a list: queries [batch, Tq, dim], values [batch, Tv, dim] and, if they differ from the values, keys.

    Args:
        use_scale: Whether a learned weight per channel multiplies the sum.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.AdditiveAttention()([tf.ones([1, 2, 4]), tf.ones([1, 3, 4])]).shape
    TensorShape([1, 2, 4])
    """

    def __init__(self, use_scale: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        """Creates the scale."""
        self.scale = None
        if self.use_scale:
            self.scale = self.add_weight(name="scale", shape=[dims_of(input_shape[1])[-1]], initializer="glorot_uniform",
                                         dtype=self.dtype, trainable=True)
        super().build(input_shape)

    def _calculate_scores(self, query: Any, key: Any) -> Any:
        both = tf.tanh(tf.expand_dims(query, -2) + tf.expand_dims(key, -3))
        return tf.reduce_sum(both if self.scale is None else self.scale * both, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("use_scale",))


# -- einsum -------------------------------------------------------------------------------------------------------------
_WEIGHTS = ("kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer", "activity_regularizer",
            "kernel_constraint", "bias_constraint")
_EQUATION = re.compile(r"(?P<left>\.\.\.)?(?P<ins>\w+)(?P<right>\.\.\.)?,(?P<kernel>\w+)->(\.\.\.)?(?P<outs>\w+)(\.\.\.)?")


@export(v2=["keras.layers.EinsumDense", "keras.layers.experimental.EinsumDense"])
class EinsumDense(Layer):
    """A dense layer whose product is an einsum equation, such as "ab,bc->ac".

    Args:
        equation: The product of the inputs and the kernel, such as `"ab,bc->ac"`; `...` stands for any axes.
        output_shape: Sizes of the result without the batch; None for unknown ones.
        activation: Function applied to the result, or None.
        bias_axes: The letters of the axes that the bias has, or None for no bias.
        kernel_initializer: Initializer of the weights.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        bias_constraint: Function applied to the bias after each update.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.EinsumDense("abc,cd->abd", output_shape=(None, 8), bias_axes="d")(tf.ones([2, 3, 4])).shape
    TensorShape([2, 3, 8])
    """

    activation: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any

    def __init__(self, equation: str, output_shape: Any, activation: Any = None, bias_axes: str | None = None,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, **kwargs: Any):
        super().__init__(activity_regularizer=regularizers.get(activity_regularizer), **kwargs)
        self.equation, self.bias_axes = equation, bias_axes
        self.partial_output_shape = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        read(self, activation=activation, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
             kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
             bias_constraint=bias_constraint)

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias, of the sizes in the equation."""
        kernel, bias, _ = self._shapes(dims_of(input_shape))
        self.kernel = self.add_weight("kernel", shape=kernel, initializer=self.kernel_initializer,
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        self.bias = None
        if bias is not None:
            self.bias = self.add_weight("bias", shape=bias, initializer=self.bias_initializer,
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint)
        super().build(input_shape)

    def _shapes(self, dims: list) -> tuple:
        """The shapes of kernel and bias, and the full output shape."""
        found = _EQUATION.fullmatch(self.equation.replace(" ", ""))
        if found is None or found["left"] and found["right"]:
            raise ValueError(f"Invalid einsum equation '{self.equation}'. Equations must be in the form '[X],[Y]->[Z]', "
                             "'...[X],[Y]->...[Z]', or '[X]...,[Y]->[Z]...'.")
        ins, kernel, outs = found["ins"], found["kernel"], found["outs"]
        others = len(dims) - len(ins)                                       # axes that `...` represents
        sizes = dict(zip(ins, dims[others:] if found["left"] else dims))
        given = list(self.partial_output_shape)
        given = given[max(0, len(given) - len(outs)):] if found["left"] or not others else given[:len(outs)]
        if len(given) < len(outs):                                          # the batch is not given
            given = [dims[0], *given]
        for letter, size in zip(outs, given):
            if sizes.get(letter) is None:
                sizes[letter] = size
            elif size not in (None, sizes[letter]):
                raise ValueError(f"Input shape and output shape do not match at shared dimension '{letter}'. Input shape is "
                                 f"{sizes[letter]}, and output shape is {size}.")
            if letter not in ins and letter not in kernel:
                raise ValueError(f"Dimension '{letter}' was specified in the output '{outs}' but has no corresponding dim in "
                                 f"the input spec '{ins}' or weight spec '{kernel}'")
        for letter in kernel:
            if sizes.get(letter) is None:
                raise ValueError(f"Weight dimension '{letter}' did not have a match in either the input spec '{ins}' or the "
                                 f"output spec '{outs}'. For this layer, the weight must be fully specified.")
        bias = None
        if self.bias_axes:
            if any(a not in outs for a in self.bias_axes):
                raise ValueError(f"Bias dimension '{self.bias_axes}' was requested, but is not part of the output spec "
                                 f"'{outs}'")
            first = min(outs.index(a) for a in self.bias_axes)
            bias = [sizes[a] if a in self.bias_axes else 1 for a in outs[first:]]
            bias += [1] * others if found["right"] else []
        output = [sizes.get(a) for a in outs]
        if others:
            output = [*dims[:others], *output] if found["left"] else [*output, *dims[len(ins):]]
        return [sizes[a] for a in kernel], bias, output

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape that the equation returns."""
        return tf.TensorShape(self._shapes(dims_of(input_shape))[2])

    def call(self, inputs: Any) -> Any:
        """The product, the bias, the activation."""
        outputs = tf.einsum(self.equation, inputs, self.kernel)
        if self.bias is not None:
            outputs = outputs + self.bias
        return outputs if self.activation is None else self.activation(outputs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = {**super().get_config(), "output_shape": self.partial_output_shape}
        return described(self, config, ("equation", "activation", "bias_axes", *_WEIGHTS))


_SHAPES = ("query_shape", "key_shape", "value_shape")               # in configurations


@export(v2=["keras.layers.MultiHeadAttention"])
class MultiHeadAttention(Layer):
    """Attention with several heads: query, key and value are projected for each, and the results joined.

    A call takes query [batch, Tq, ...], value [batch, Tv, ...], and optionally key, `attention_mask` [batch, Tq, Tv] and
    `return_attention_scores`. The output is [batch, Tq, output size].

    Args:
        num_heads: Number of heads.
        key_dim: Size of query and key in each head.
        value_dim: Size of the value in each head, by default `key_dim`.
        dropout: Fraction of the scores that is dropped while training.
        use_bias: Whether to add a bias vector.
        output_shape: Size of the output, by default that of the query.
        attention_axes: Axes that are attended to, by default all except batch and features.
        kernel_initializer: Initializer of the projections.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        bias_constraint: Function applied to the bias after each update.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.MultiHeadAttention(num_heads=8, key_dim=64)(query, value)
    """

    _key_dense: Any
    _query_dense: Any
    _value_dense: Any

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, dropout: float = 0.0, use_bias: bool = True,
                 output_shape: Any = None, attention_axes: Any = None, kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any):
        super().__init__(activity_regularizer=regularizers.get(activity_regularizer), **kwargs)
        self.supports_masking = True
        self._num_heads, self._key_dim, self._value_dim = num_heads, key_dim, value_dim or key_dim
        self._dropout, self._use_bias, self._output_shape = dropout, use_bias, output_shape
        read(self, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
             kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
             bias_constraint=bias_constraint)
        self._attention_axes = (attention_axes,) if isinstance(attention_axes, int) else attention_axes
        self._input_shapes: tuple | None = None                     # of query, key and value, once they are known

    # -- building -----------------------------------------------------------------------------------------------------------
    def _dense(self, name: str, equation: str, shape: list, bias_axes: str) -> EinsumDense:
        more = {n: getattr(self, n) for n in _WEIGHTS}
        for n in ("kernel_initializer", "bias_initializer"):           # each projection draws its own initial values
            more[n] = type(more[n]).from_config(more[n].get_config())
        bias = bias_axes if self._use_bias else None
        return EinsumDense(equation, shape, bias_axes=bias, name=name, dtype=self.dtype_policy, **more)

    def _build_from(self, query: Any, value: Any, key: Any) -> None:
        """Creates the projections, for inputs of these shapes."""
        self._input_shapes = tuple(tf.TensorShape(s) for s in (query, key, value))
        rank = len(dims_of(query))
        letters = "abcdefghijklmn"[:rank - 1]
        for name, size in (("query", self._key_dim), ("key", self._key_dim), ("value", self._value_dim)):
            made = self._dense(name, f"{letters}x,xyz->{letters}yz", [None] * (rank - 2) + [self._num_heads, size], "yz")
            setattr(self, f"_{name}_dense", made)
        axes = self._attention_axes or tuple(range(1, rank - 1))
        if not axes:
            raise IndexError("MultiHeadAttention attends along the axes between the batch and the features, and a query of "
                             f"shape {tuple(dims_of(query))} has none.")
        self._attention_axes = tuple(a % rank for a in axes)
        out = dims_of(query)[-1:] if self._output_shape is None else \
            [self._output_shape] if isinstance(self._output_shape, int) else list(self._output_shape)
        ends = "opqrst"[:len(out)]
        self._output_dense = self._dense("attention_output", f"{letters}yz,yz{ends}->{letters}{ends}",
                                         [None] * (rank - 2) + out, ends)
        self._equations = _attention_equations(rank, self._attention_axes)

    # -- calling ------------------------------------------------------------------------------------------------------------
    def call(self, query: Any, value: Any, key: Any = None, attention_mask: Any = None, return_attention_scores: bool = False,
             training: Any = None, use_causal_mask: bool = False) -> Any:
        """The attended values, and the scores if requested. The values of a ragged query are ragged."""
        lengths = query.nested_row_lengths() if isinstance(query, tf.RaggedTensor) else None
        query = query if lengths is None else query.to_tensor()
        value, key = _padded_alike(value, key)
        value = tf.convert_to_tensor(value)
        mask = self._mask(query, value, value if key is None else key, attention_mask, use_causal_mask)
        key = value if key is None else tf.convert_to_tensor(key)
        if self._input_shapes is None:
            self._build_from(query.shape, value.shape, key.shape)
        q = self._query_dense(query) * (1. / math.sqrt(self._key_dim))
        k, v = self._key_dense(key), self._value_dense(value)
        scores = tf.einsum(self._equations[0], k, q)
        if mask is not None:
            for _ in range(len(scores.shape) - len(mask.shape)):
                mask = tf.expand_dims(mask, -len(self._attention_axes) * 2 - 1)
            far = 65504. if scores.dtype.base_dtype == tf.float16 else 1e9
            scores = scores - far * tf.cast(tf.logical_not(tf.cast(mask, tf.bool)), scores.dtype)
        n = len(self._attention_axes)
        if n == 1:
            scores = tf.nn.softmax(scores)
        else:
            over = list(range(-n, 0))
            scores = tf.exp(scores - tf.reduce_logsumexp(scores, axis=over, keepdims=True))
        kept = scores
        if self._dropout > 0:
            kept = when(training, lambda: tf.nn.dropout(scores, rate=self._dropout), lambda: tf.identity(scores))
        output = self._output_dense(tf.einsum(self._equations[1], kept, v))
        if lengths is not None:
            output = tf.RaggedTensor.from_tensor(output, lengths=lengths)
        return (output, scores) if return_attention_scores else output

    def _mask(self, query: Any, value: Any, key: Any, attention_mask: Any, causal: bool) -> Any:
        """The attention mask: [batch, query, key]; None for no restriction."""
        masks = [] if attention_mask is None else [tf.cast(attention_mask, tf.bool)]
        for x, axis in ((query, -1), (value, -2), (key if key is not value else None, -2)):
            found = getattr(x, "_keras_mask", None)
            if found is not None:
                masks.append(tf.expand_dims(tf.cast(found, tf.bool), axis))
        if causal:
            rows, columns = K.mixed_shape(query)[1], K.mixed_shape(value)[1]
            masks.append(tf.expand_dims(tf.greater_equal(tf.expand_dims(tf.range(rows), -1), tf.range(columns)), 0))
        result = None
        for m in masks:
            result = m if result is None else tf.logical_and(result, m)
        return result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The query's mask."""
        return mask

    def compute_output_shape(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> Any:
        """The query's shape, with the output's size."""
        dims = dims_of(query_shape)
        value = dims if value_shape is None else dims_of(value_shape)
        if value[-1] != dims[-1]:
            raise ValueError(f"The last dimensions of query and value must be equal, but are {dims[-1]} and {value[-1]}. "
                             f"Received: query_shape={query_shape}, value_shape={value_shape}")
        if key_shape is not None and dims_of(key_shape)[1:-1] != value[1:-1]:
            raise ValueError("The dimensions of key and value between the first and the last must be equal. Received: "
                             f"key_shape={key_shape}, value_shape={value_shape}")
        if self._output_shape is None:
            return tf.TensorShape(dims)
        out = [self._output_shape] if isinstance(self._output_shape, int) else list(self._output_shape)
        return tf.TensorShape([*dims[:-1], *out])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        own = {"num_heads": self._num_heads, "key_dim": self._key_dim, "value_dim": self._value_dim,
               "dropout": self._dropout, "use_bias": self._use_bias, "output_shape": self._output_shape,
               "attention_axes": self._attention_axes}
        shapes = dict(zip(_SHAPES, self._input_shapes or (None, None, None), strict=True))
        return {**described(self, {**super().get_config(), **own}, _WEIGHTS), **shapes, "softmax_robust_masking": False}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A layer of this configuration; with the shapes of its inputs, the projections exist."""
        config = dict(config)
        shapes = [config.pop(name, None) for name in _SHAPES]
        config.pop("softmax_robust_masking", None)
        made = cls(**config)
        if None not in shapes:
            made._build_from(shapes[0], shapes[2], shapes[1])
        return made


def _padded_alike(value: Any, key: Any) -> tuple:
    """Ragged values and keys as dense ones of one length."""
    ragged = [x for x in (value, key) if isinstance(x, tf.RaggedTensor)]
    if not ragged:
        return value, key
    if key is None:
        return value.to_tensor(), None
    size = tf.maximum(value.bounding_shape(), key.bounding_shape()) if len(ragged) == 2 else \
        tf.cast(tf.shape(key if ragged[0] is value else value), tf.int64)

    def dense(x: Any) -> Any:
        if not isinstance(x, tf.RaggedTensor):
            return x
        return x.to_tensor(shape=tf.concat([size[:-1], tf.cast(tf.shape(x.flat_values)[-1:], tf.int64)], 0))
    return dense(value), dense(key)


def _attention_equations(rank: int, axes: tuple) -> tuple:
    """The einsums of scores and of weighted values, for [batch..., attended axes..., heads, size]."""
    letters = [chr(ord("a") + i) for i in range(rank + 1)]                # of query: batch, axes, heads, size
    batch = [i for i in range(rank) if i not in axes and i != rank - 1]
    source = [chr(ord("n") + i) if i in axes else letters[i] for i in range(rank + 1)]
    rows, columns = [letters[i] for i in axes], [source[i] for i in axes]
    heads, size = letters[rank - 1], letters[rank]
    scores = [letters[i] for i in batch] + [heads] + rows + columns
    q = letters[:rank - 1] + [heads, size]
    k = source[:rank - 1] + [heads, size]
    return (f"{''.join(k)},{''.join(q)}->{''.join(scores)}", f"{''.join(scores)},{''.join(k)}->{''.join(q)}")

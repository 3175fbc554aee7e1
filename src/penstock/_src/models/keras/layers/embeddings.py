"""Embedding: integers as learned vectors."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import mixed_precision, regularizers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.layers.parts import described, dims_of, read
from penstock.compat import v1 as tf


@export("keras.layers.Embedding")
class Embedding(Layer):
    """Integers from 0 to input_dim - 1 as vectors; 0 is masked, if `mask_zero`.

    Args:
        input_dim: Number of rows: the largest integer plus 1.
        output_dim: Size of each vector.
        embeddings_initializer: Initializer of the table.
        embeddings_regularizer: Function of the table whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        embeddings_constraint: Function applied to the table after each update.
        mask_zero: Whether 0 is padding, which later layers skip.
        input_length: Length of the input sequences, where it is constant.
        sparse: Whether the layer returns a `tf.SparseTensor`.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.Embedding(1000, 64)(tf.constant([[4, 20]])).shape
    TensorShape([1, 2, 64])
    """

    embeddings_constraint: Any
    embeddings_initializer: Any
    embeddings_regularizer: Any

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
                 embeddings_regularizer: Any = None, activity_regularizer: Any = None, embeddings_constraint: Any = None,
                 mask_zero: bool = False, input_length: Any = None, sparse: bool = False, **kwargs: Any):
        if "input_shape" not in kwargs:
            lengths = input_length if isinstance(input_length, (list, tuple)) else (input_length,)
            kwargs["input_shape"] = tuple(lengths) if input_length else (None,)
        if input_dim <= 0 or output_dim <= 0:
            raise ValueError("Both `input_dim` and `output_dim` should be positive, found "
                             f"input_dim {input_dim} and output_dim {output_dim}")
        if sparse and mask_zero:
            raise ValueError("`mask_zero` cannot be enabled when `tf.keras.layers.Embedding` is used with `tf.SparseTensor` "
                             "input.")
        self._use_one_hot_matmul = bool(kwargs.pop("use_one_hot_matmul", False))
        kwargs["autocast"] = False                                  # large numbers have no place in small floats
        if mixed_precision.global_policy().compute_dtype is None:   # the type would be that of the integers
            kwargs.setdefault("dtype", K.floatx())
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim
        read(self, embeddings_initializer=embeddings_initializer, embeddings_regularizer=embeddings_regularizer,
             embeddings_constraint=embeddings_constraint)
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.mask_zero = self.supports_masking = mask_zero
        self.input_length, self.sparse = input_length, sparse

    def build(self, input_shape: Any = None) -> None:
        """Creates the vectors."""
        self.embeddings = self.add_weight(shape=(self.input_dim, self.output_dim), initializer=self.embeddings_initializer,
                                          name="embeddings", regularizer=self.embeddings_regularizer,
                                          constraint=self.embeddings_constraint, experimental_autocast=False)
        super().build(input_shape)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """True where the numbers are not 0."""
        return tf.not_equal(inputs, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape, and the size of the vectors."""
        dims = dims_of(input_shape)
        if self.input_length is None:
            return tf.TensorShape([*dims, self.output_dim])
        lengths = list(self.input_length) if isinstance(self.input_length, (list, tuple)) else [self.input_length]
        text = f'"input_length" is {self.input_length}, but received input has shape {tuple(dims)}'
        if len(lengths) != len(dims) - 1:
            raise ValueError(text)
        for i, (said, found) in enumerate(zip(lengths, dims[1:])):
            if said is not None and found is not None and said != found:
                raise ValueError(text)
            lengths[i] = found if said is None else said
        return tf.TensorShape([dims[0], *lengths, self.output_dim])

    def call(self, inputs: Any) -> Any:
        """The vectors of the numbers."""
        if inputs.dtype.base_dtype.name not in ("int32", "int64"):
            inputs = tf.cast(inputs, "int32")
        if isinstance(inputs, tf.RaggedTensor):
            return tf.ragged.map_flat_values(lambda x: tf.nn.embedding_lookup(self.embeddings, x), inputs)
        if isinstance(inputs, tf.SparseTensor):
            outputs = self._of_sparse(inputs)
        elif self._use_one_hot_matmul:
            outputs = tf.matmul(tf.one_hot(inputs, self.input_dim, dtype=self.embeddings.dtype), self.embeddings)
        else:
            outputs = tf.nn.embedding_lookup(self.embeddings, inputs)
        if self.sparse and not isinstance(outputs, tf.SparseTensor):
            outputs = tf.sparse.from_dense(outputs)
        compute = getattr(self, "_compute_dtype", None)
        return outputs if compute in (None, outputs.dtype.name) else tf.cast(outputs, compute)

    def _of_sparse(self, inputs: Any) -> Any:
        """The vectors of the numbers in a SparseTensor; elsewhere nothing, or the vector of 0 in a dense result."""
        if not self.sparse:
            return tf.nn.safe_embedding_lookup_sparse(self.embeddings, tf.sparse.expand_dims(inputs, -1), default_id=0)
        vectors = tf.nn.embedding_lookup(self.embeddings, inputs.values)
        columns = tf.tile(tf.range(self.output_dim, dtype=tf.int64), tf.shape(inputs.values))
        indices = tf.concat([tf.repeat(inputs.indices, self.output_dim, axis=0), columns[:, None]], 1)
        shape = tf.concat([inputs.dense_shape, [self.output_dim]], 0)
        return tf.SparseTensor(indices, tf.reshape(vectors, [-1]), shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), (
            "input_dim", "output_dim", "embeddings_initializer", "embeddings_regularizer", "activity_regularizer",
            "embeddings_constraint", "mask_zero", "input_length"))

"""Weighted alternating least squares: a sparse matrix as a product of two thin ones.

With weight w0 for what was not observed and w0 + r_i c_j for what was, the best row u_i for fixed columns V solves
(w0 VᵀV + Σ r_i c_j v_j v_jᵀ + λ) u_i = Σ (w0 + r_i c_j) a_ij v_j, where the sums go over what was observed in that row.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


@export(v1=["contrib.factorization.WALSModel"])
class WALSModel:
    """The factors, and ops that improve one of them while the other one stays.

    >>> model = tf.contrib.factorization.WALSModel(rows, cols, n_components=8, unobserved_weight=0.1, regularization=0.01)
    >>> _, update_rows, *_ = model.update_row_factors(sp_input=ratings)
    >>> _, update_cols, *_ = model.update_col_factors(sp_input=ratings)
    """

    def __init__(self, input_rows: int, input_cols: int, n_components: int, unobserved_weight: float = 0.1,
                 regularization: float | None = None, row_init: Any = "random", col_init: Any = "random",
                 num_row_shards: int = 1, num_col_shards: int = 1, row_weights: Any = 1, col_weights: Any = 1,
                 use_factors_weights_cache: bool = True, use_gramian_cache: bool = True, use_scoped_vars: bool = False):
        self._size, self._unobserved = n_components, unobserved_weight
        self._regularization = regularization or 0.0
        with tf.name_scope(None):
            self._factors = [_variable(name, [n, n_components], init) for name, n, init in
                             (("row_factors", input_rows, row_init), ("col_factors", input_cols, col_init))]
            self._weights = [None if w is None else tf.broadcast_to(tf.convert_to_tensor(w, tf.float32), [n])
                             for w, n in ((row_weights, input_rows), (col_weights, input_cols))]

    row_factors = property(lambda self: [self._factors[0]], doc="The variables of the row factors.")
    col_factors = property(lambda self: [self._factors[1]], doc="The variables of the column factors.")
    row_weights = property(lambda self: [self._weights[0]], doc="The weights of rows.")
    col_weights = property(lambda self: [self._weights[1]], doc="The weights of columns.")
    initialize_op = property(lambda self: tf.group(*(v.initializer for v in self._factors)), doc="Initializes the factors.")
    worker_init = property(lambda self: tf.no_op("worker_init"), doc="A no-op: nothing has to be prepared.")
    row_update_prep_gramian_op = col_update_prep_gramian_op = initialize_row_update_op = initialize_col_update_op = worker_init

    def update_row_factors(self, sp_input: Any = None, transpose_input: bool = False) -> tuple:
        """New rows for those that a part of the matrix has: (values, the op that puts them in, their loss without and the
        loss of regularization, the sum of weights)."""
        return self._update(0, sp_input, transpose_input)

    def update_col_factors(self, sp_input: Any = None, transpose_input: bool = False) -> tuple:
        """The same for columns."""
        return self._update(1, sp_input, transpose_input)

    def project_row_factors(self, sp_input: Any = None, transpose_input: bool = False, projection_weights: Any = None) -> Any:
        """Factors of rows that the model has not seen."""
        return self._solved(0, *_entries(sp_input, transpose_input), projection_weights)[1]

    def project_col_factors(self, sp_input: Any = None, transpose_input: bool = False, projection_weights: Any = None) -> Any:
        """Factors of columns that the model has not seen."""
        return self._solved(1, *_entries(sp_input, transpose_input), projection_weights)[1]

    def _solved(self, axis: int, indices: Any, values: Any, own_weights: Any = None) -> tuple:
        """Which rows (or columns) there are, their best factors, and what of the loss follows from them."""
        own, other = indices[:, axis], tf.gather(self._factors[1 - axis], indices[:, 1 - axis])
        present, place = tf.unique(own)
        count = tf.size(present)
        strength = tf.ones_like(values) if self._weights[axis] is None else \
            tf.gather(self._weights[axis], own) if own_weights is None else \
            tf.gather(tf.broadcast_to(tf.convert_to_tensor(own_weights, tf.float32), [count]), place)
        if self._weights[1 - axis] is not None:
            strength *= tf.gather(self._weights[1 - axis], indices[:, 1 - axis])
        everything = tf.matmul(self._factors[1 - axis], self._factors[1 - axis], transpose_a=True)
        left = tf.unsorted_segment_sum(strength[:, tf.newaxis, tf.newaxis] * other[:, :, tf.newaxis] * other[:, tf.newaxis],
                                       place, count)
        right = tf.unsorted_segment_sum(((strength + self._unobserved) * values)[:, tf.newaxis] * other, place, count)
        left += self._unobserved * everything + self._regularization * tf.eye(self._size)
        found = tf.matrix_solve(left, right[..., tf.newaxis])[..., 0]
        guess = tf.reduce_sum(tf.gather(found, place) * other, 1)
        seen = (strength + self._unobserved) * tf.square(values - guess) - self._unobserved * tf.square(guess)
        loss = tf.reduce_sum(seen) + self._unobserved * tf.reduce_sum(tf.matmul(found, everything) * found)
        return present, found, loss, tf.reduce_sum(strength + self._unobserved)

    def _update(self, axis: int, sp_input: Any, transpose_input: bool) -> tuple:
        present, found, loss, weight = self._solved(axis, *_entries(sp_input, transpose_input))
        update = tf.scatter_update(self._factors[axis], present, found)
        return found, tf.group(update), loss, self._regularization * tf.reduce_sum(tf.square(found)), weight


def _entries(sp_input: Any, transpose: bool) -> tuple[Any, Any]:
    indices = sp_input.indices[:, ::-1] if transpose else sp_input.indices
    return indices, tf.cast(sp_input.values, tf.float32)


def _variable(name: str, shape: list[int], init: Any) -> Any:
    start = tf.random_normal(shape, stddev=shape[1] ** -0.5) if isinstance(init, str) and init == "random" else \
        tf.reshape(tf.convert_to_tensor(init() if callable(init) else init, tf.float32), shape)
    return tf.Variable(start, name=name, use_resource=True)

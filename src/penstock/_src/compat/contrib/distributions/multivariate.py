"""Distributions of vectors and matrices: multivariate normal distributions, and Wishart."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.compat.contrib.distributions.bijectors import _affine_scale
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.distribution import FULLY_REPARAMETERIZED, Distribution
from penstock._src.library.distributions.divergence import RegisterKL
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.distributions.{cls.__name__}"])(cls)


@_export
class MultivariateNormalLinearOperator(Distribution):
    """The normal distribution of vectors `loc + scale @ z`, where scale is a linear operator."""

    def __init__(self, loc: Any = None, scale: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalLinearOperator"):
        if scale is None:
            raise ValueError("Missing required `scale` parameter.")
        with tf.name_scope(name) as name:
            self._loc = None if loc is None else tf.convert_to_tensor(loc, name="loc", preferred_dtype=scale.dtype)
            self._scale = scale
        super().__init__(dtype=scale.dtype, reparameterization_type=FULLY_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, name=name)

    loc = property(lambda self: self._loc)
    scale = property(lambda self: self._scale)

    def _batch_shape(self) -> TensorShape:
        shape = self._scale.batch_shape
        return shape if self._loc is None else tf.broadcast_static_shape(shape, self._loc.shape[:-1])

    def _batch_shape_tensor(self) -> Tensor:
        shape = self._scale.batch_shape_tensor()
        return shape if self._loc is None else tf.broadcast_dynamic_shape(shape, tf.shape(self._loc)[:-1])

    def _event_shape(self) -> TensorShape:
        return TensorShape([tf.dimension_value(self._scale.range_dimension)])

    def _event_shape_tensor(self) -> Tensor:
        return tf.reshape(self._scale.range_dimension_tensor(), [1])

    def _shifted(self, x: Tensor) -> Tensor:
        return x if self._loc is None else x + self._loc

    def _ones(self) -> Tensor:
        return tf.ones(tf.concat([self.batch_shape_tensor(), self.event_shape_tensor()], 0), self.dtype)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        z = tf.random_normal(tf.concat([[n], self.batch_shape_tensor(), self.event_shape_tensor()], 0), dtype=self.dtype,
                             seed=seed)
        return self._shifted(self._scale.matvec(z))

    def _log_prob(self, x: Tensor) -> Tensor:
        z = self._scale.solvevec((x if self._loc is None else x - self._loc) * self._ones())
        k = tf.cast(self.event_shape_tensor()[0], self.dtype)
        return -0.5 * (tf.reduce_sum(tf.square(z), -1) + k * math.log(2.0 * math.pi)) - self._scale.log_abs_determinant()

    def _entropy(self) -> Tensor:
        k = tf.cast(self.event_shape_tensor()[0], self.dtype)
        return (0.5 * k * math.log(2.0 * math.pi * math.e) + self._scale.log_abs_determinant()) * tf.ones(
            self.batch_shape_tensor(), self.dtype)

    def _mean(self) -> Tensor:
        return tf.zeros_like(self._ones()) if self._loc is None else self._loc * self._ones()

    def _mode(self) -> Tensor:
        return self._mean()

    def _covariance(self) -> Tensor:
        return self._scale.matmul(self._scale.to_dense(), adjoint_arg=True)

    def _variance(self) -> Tensor:
        return tf.matrix_diag_part(self._covariance()) * self._ones()

    def _stddev(self) -> Tensor:
        return tf.sqrt(self._variance())


@_export
class MultivariateNormalDiag(MultivariateNormalLinearOperator):
    """The normal distribution of vectors with independent components.

    >>> ds.MultivariateNormalDiag(loc=[1., -1.], scale_diag=[1., 2.]).log_prob([0., 0.])
    """

    def __init__(self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True, name: str = "MultivariateNormalDiag"):
        if scale_diag is None and scale_identity_multiplier is None:
            if loc is None:
                raise ValueError("one of loc, scale_diag and scale_identity_multiplier has to be given")
            scale_diag = tf.ones_like(tf.convert_to_tensor(loc))
        scale = _affine_scale(loc, scale_identity_multiplier, scale_diag, None, None, None)
        super().__init__(loc, scale, validate_args, allow_nan_stats, name)

    def _variance(self) -> Tensor:
        return tf.square(self._scale.diag_part()) * self._ones()


@_export
class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """The same, with the softplus of `scale_diag`."""

    def __init__(self, loc: Any, scale_diag: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalDiagWithSoftplusScale"):
        super().__init__(loc, tf.nn.softplus(tf.convert_to_tensor(scale_diag)), None, validate_args, allow_nan_stats, name)


@_export
class MultivariateNormalTriL(MultivariateNormalLinearOperator):
    """The normal distribution of vectors whose scale is a lower triangular matrix: the covariance is scale @ scale^T."""

    def __init__(self, loc: Any = None, scale_tril: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalTriL"):
        if loc is None and scale_tril is None:
            raise ValueError("`loc` or `scale_tril` is required.")
        if scale_tril is None:
            scale: Any = _affine_scale(loc, None, tf.ones_like(tf.convert_to_tensor(loc)), None, None, None)
        else:
            scale = tf.linalg.LinearOperatorLowerTriangular(tf.convert_to_tensor(scale_tril), is_non_singular=True)
        super().__init__(loc, scale, validate_args, allow_nan_stats, name)


@_export
class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """The normal distribution of vectors with a covariance matrix."""

    def __init__(self, loc: Any = None, covariance_matrix: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalFullCovariance"):
        tril = None if covariance_matrix is None else tf.cholesky(tf.convert_to_tensor(covariance_matrix))
        super().__init__(loc, tril, validate_args, allow_nan_stats, name)


@_export
class MultivariateNormalDiagPlusLowRank(MultivariateNormalLinearOperator):
    """The normal distribution of vectors whose scale is a diagonal plus a matrix of low rank."""

    def __init__(self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
                 scale_perturb_factor: Any = None, scale_perturb_diag: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "MultivariateNormalDiagPlusLowRank"):
        scale = _affine_scale(loc, scale_identity_multiplier, scale_diag, None, scale_perturb_factor, scale_perturb_diag)
        super().__init__(loc, scale, validate_args, allow_nan_stats, name)


@RegisterKL(MultivariateNormalLinearOperator, MultivariateNormalLinearOperator)
def _kl_mvn_mvn(a: Any, b: Any, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_mvn"):
        ratio = b.scale.solve(a.scale.to_dense())
        mean_a, mean_b = a.mean(), b.mean()
        distance = b.scale.solvevec(mean_b - mean_a)
        k = tf.cast(a.event_shape_tensor()[0], a.dtype)
        return (b.scale.log_abs_determinant() - a.scale.log_abs_determinant()
                + 0.5 * (-k + tf.reduce_sum(tf.square(ratio), [-2, -1]) + tf.reduce_sum(tf.square(distance), -1)))


@_export
class WishartCholesky(Distribution):
    """The Wishart distribution of positive definite matrices, with the Cholesky factor of its scale."""

    def __init__(self, df: Any, scale: Any, cholesky_input_output_matrices: bool = False, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "WishartCholesky"):
        with tf.name_scope(name, values=[df, scale]) as name:
            self._chol = tf.convert_to_tensor(scale, name="scale")
            self._df = tf.convert_to_tensor(df, name="df", preferred_dtype=self._chol.dtype)
            self._as_cholesky = cholesky_input_output_matrices
        super().__init__(dtype=self._chol.dtype.base_dtype, reparameterization_type=FULLY_REPARAMETERIZED,
                         validate_args=validate_args, allow_nan_stats=allow_nan_stats, graph_parents=[self._df, self._chol],
                         name=name)

    df = property(lambda self: self._df)

    @property
    def dimension(self) -> Tensor:
        """The size of the matrices."""
        return tf.shape(self._chol)[-1]

    def scale(self) -> Tensor:
        """The scale matrix, or its Cholesky factor."""
        return self._chol if self._as_cholesky else tf.matmul(self._chol, self._chol, adjoint_b=True)

    def _batch_shape(self) -> TensorShape:
        return tf.broadcast_static_shape(self._chol.shape[:-2], self._df.shape)

    def _batch_shape_tensor(self) -> Tensor:
        return tf.broadcast_dynamic_shape(tf.shape(self._chol)[:-2], tf.shape(self._df))

    def _event_shape(self) -> TensorShape:
        return self._chol.shape[-2:]

    def _event_shape_tensor(self) -> Tensor:
        return tf.shape(self._chol)[-2:]

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        # Bartlett: a lower triangular matrix of normal numbers, with chi numbers on its diagonal.
        k, batch = self.dimension, self.batch_shape_tensor()
        normal = tf.random_normal(tf.concat([[n], batch, [k, k]], 0), dtype=self.dtype, seed=seed)
        half = 0.5 * (self._df[..., tf.newaxis] - tf.cast(tf.range(k), self.dtype))
        half = tf.broadcast_to(half, tf.concat([batch, [k]], 0))
        chi = tf.sqrt(tf.random_gamma([n], half, beta=0.5, dtype=self.dtype, seed=None if seed is None else seed + 1))
        factor = tf.matmul(tf.broadcast_to(self._chol, tf.shape(normal)),
                           tf.matrix_set_diag(tf.matrix_band_part(normal, -1, 0), chi))
        return factor if self._as_cholesky else tf.matmul(factor, factor, adjoint_b=True)

    def _log_gamma(self, a: Tensor) -> Tensor:
        """The multivariate gamma function, by its logarithm."""
        k = tf.cast(self.dimension, self.dtype)
        steps = tf.cast(tf.range(self.dimension), self.dtype)
        return k * (k - 1.0) * 0.25 * math.log(math.pi) + tf.reduce_sum(tf.lgamma(a[..., tf.newaxis] - 0.5 * steps), -1)

    def _log_prob(self, x: Tensor) -> Tensor:
        chol_x = x if self._as_cholesky else tf.cholesky(x)
        k, df = tf.cast(self.dimension, self.dtype), self._df
        shape = tf.broadcast_dynamic_shape(tf.shape(self._chol), tf.shape(chol_x))
        solved = tf.matrix_triangular_solve(tf.broadcast_to(self._chol, shape), tf.broadcast_to(chol_x, shape))
        trace = tf.reduce_sum(tf.square(solved), [-2, -1])
        half_log_det = tf.reduce_sum(tf.log(tf.matrix_diag_part(chol_x)), -1)
        scale_log_det = tf.reduce_sum(tf.log(tf.matrix_diag_part(self._chol)), -1)
        normalization = df * scale_log_det + 0.5 * df * k * math.log(2.0) + self._log_gamma(0.5 * df)
        return -0.5 * trace + (df - k - 1.0) * half_log_det - normalization

    def _mean(self) -> Tensor:
        if self._as_cholesky:
            return tf.sqrt(self._df)[..., tf.newaxis, tf.newaxis] * self._chol
        return self._df[..., tf.newaxis, tf.newaxis] * self.scale()

    def _variance(self) -> Tensor:
        v = tf.matmul(self._chol, self._chol, adjoint_b=True)
        d = tf.matrix_diag_part(v)[..., tf.newaxis]
        return self._df[..., tf.newaxis, tf.newaxis] * (tf.square(v) + tf.matmul(d, d, adjoint_b=True))


@_export
class WishartFull(WishartCholesky):
    """The same, with the whole scale matrix."""

    def __init__(self, df: Any, scale: Any, cholesky_input_output_matrices: bool = False, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "WishartFull"):
        super().__init__(df, tf.cholesky(tf.convert_to_tensor(scale)), cholesky_input_output_matrices, validate_args,
                         allow_nan_stats, name)

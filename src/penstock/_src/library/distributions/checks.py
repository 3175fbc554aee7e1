"""Checks and conversions that several distributions share."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def checked(x: Tensor, *assertions: Any) -> Tensor:
    """`x`, with control dependencies on the assertions."""
    made = [a for a in assertions if a is not None]
    if not made:
        return x
    with tf.control_dependencies(made):
        return tf.identity(x)


def assert_integer_form(x: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
                        int_dtype: Any = None, name: str = "assert_integer_form") -> Any:
    """Asserts that the elements of a floating tensor are integers."""
    with tf.name_scope(name, values=[x, data]):
        x = tf.convert_to_tensor(x, name="x")
        if x.dtype.is_integer:
            return tf.no_op()
        return tf.assert_equal(x, tf.round(x), data=data, summarize=summarize,
                               message=message or f"{x.op.name if hasattr(x, 'op') else 'x'} has non-integer components",
                               name=name)


def nonnegative_integers(x: Any) -> Tensor:
    """`x`, after checks that its elements are non-negative integers."""
    x = tf.convert_to_tensor(x, name="x")
    checks = [tf.assert_non_negative(x, message=f"'{x}' must be non-negative.")]
    if not x.dtype.is_integer:
        checks.append(assert_integer_form(x, message=f"'{x}' cannot contain fractional components."))
    return checked(x, *checks)


def logits_and_probs(logits: Any = None, probs: Any = None, multidimensional: bool = False, validate_args: bool = False,
                     name: str = "get_logits_and_probs") -> tuple[Tensor, Tensor]:
    """Logits and probabilities, from the one that was given; of one event (sigmoid), or of the last dimension (softmax)."""
    with tf.name_scope(name, values=[probs, logits]):
        if (probs is None) == (logits is None):
            raise ValueError("Must pass probs or logits, but not both.")
        if probs is None:
            logits = tf.convert_to_tensor(logits, name="logits")
            if not logits.dtype.is_floating:
                raise TypeError("logits must having floating type.")
            if multidimensional:
                if validate_args:
                    logits = categorical_event_shape(logits)
                return logits, tf.nn.softmax(logits, name="probs")
            return logits, tf.sigmoid(logits, name="probs")
        probs = tf.convert_to_tensor(probs, name="probs")
        if not probs.dtype.is_floating:
            raise TypeError("probs must having floating type.")
        if validate_args:
            one = tf.constant(1.0, probs.dtype)
            checks = [tf.assert_non_negative(probs)]
            if multidimensional:
                probs = categorical_event_shape(probs)
                checks.append(tf.debugging.assert_near(tf.reduce_sum(probs, -1), one, message="probs does not sum to 1."))
            else:
                checks.append(tf.assert_less_equal(probs, one, message="probs has components greater than 1."))
            probs = checked(probs, *checks)
        with tf.name_scope("logits"):
            return (tf.log(probs) if multidimensional else tf.log(probs) - tf.log1p(-1.0 * probs)), probs


_INTEGERS_UP_TO = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}


def largest_integer(dtype: Any) -> int:
    """The largest n such that all of 0..n have a value in the type."""
    dtype = tf.as_dtype(dtype)
    if dtype.is_floating:
        return _INTEGERS_UP_TO[dtype.base_dtype.name]
    if dtype.is_integer:
        return int(np.iinfo(dtype.as_numpy_dtype).max)
    if dtype.base_dtype == tf.bool:
        return 1
    raise TypeError(f"Unrecognized dtype: {dtype.name}")


def categorical_event_shape(param: Any, name: str = "embed_check_categorical_event_shape") -> Tensor:
    """`param`, after checks that its last dimension has at least two classes, and not too many for its type."""
    with tf.name_scope(name, values=[param]):
        x = tf.convert_to_tensor(param, name="param")
        most = min(largest_integer(x.dtype) + 1, 2**31 - 1)
        shape = x.shape.with_rank_at_least(1) if x.shape.ndims != 0 else None
        if shape is None:
            raise ValueError("A categorical-distribution parameter must have at least 1 dimension.")
        size = shape.dims[-1].value if shape.ndims is not None else None
        if size is None:
            size = tf.shape(x, name="x_shape")[-1]
            return checked(x, tf.assert_rank_at_least(x, 1, message="A categorical-distribution parameter must have at least 1 "
                                                                    "dimension."),
                           tf.assert_greater_equal(tf.shape(x)[-1], 2, message="A categorical-distribution parameter must have "
                                                                               "at least 2 events."),
                           tf.assert_less_equal(size, most, message="Number of classes exceeds `dtype` precision, i.e., "
                                                                    f"{x.dtype.name} dtype cannot exceed shape {most}."))
        if size < 2:
            raise ValueError("A categorical-distribution parameter must have at least 2 events.")
        if size > most:
            raise ValueError(f"Number of classes exceeds `dtype` precision, i.e., {x.dtype.name} dtype cannot exceed "
                             f"shape {most}.")
        return x


def integers_that_fit(x: Any, target_dtype: Any, assert_nonnegative: bool = True,
                      name: str = "embed_check_casting_closed") -> Tensor:
    """`x`, after checks that its elements are integers that `target_dtype` can represent."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        target = tf.as_dtype(target_dtype)
        if not (x.dtype.is_integer or x.dtype.is_floating):
            raise TypeError(f"{x.dtype.name} must be floating- or integer-type.")
        if not (target.is_integer or target.is_floating):
            raise TypeError(f"target_dtype ({target.name}) must be floating- or integer-type.")
        if not (x.dtype.is_integer or target.is_integer):
            raise TypeError(f"At least one of {x.dtype.name} and target_dtype ({target.name}) must be integer-type.")
        checks = []
        if assert_nonnegative:
            checks.append(tf.assert_non_negative(x, message="Elements must be non-negative."))
        if x.dtype.is_floating:
            checks.append(assert_integer_form(x, message=f"Elements must be {target.name}-equivalent."))
        elif largest_integer(x.dtype) > largest_integer(target):
            checks.append(tf.assert_less_equal(x, tf.constant(largest_integer(target), x.dtype),
                                               message=f"Elements cannot exceed {largest_integer(target)}."))
        return checked(x, *checks)


def log_combinations(n: Any, counts: Any, name: str = "log_combinations") -> Tensor:
    """The logarithm of the multinomial coefficient of the counts along the last axis."""
    with tf.name_scope(name, values=[n, counts]):
        n, counts = tf.convert_to_tensor(n, name="n"), tf.convert_to_tensor(counts, name="counts")
        return tf.lgamma(n + 1) - tf.reduce_sum(tf.lgamma(counts + 1), axis=[-1])


def softplus_inverse(x: Any, name: str | None = None) -> Tensor:
    """The y with softplus(y) = x, accurate for small and large x."""
    with tf.name_scope(name, "softplus_inverse", [x]):
        x = tf.convert_to_tensor(x, name="x")
        threshold = np.log(np.finfo(x.dtype.as_numpy_dtype).eps) + 2.0
        small, large = x < np.exp(threshold), x > -threshold
        safe = tf.where_v2(small | large, tf.ones_like(x), x)
        return tf.where_v2(small, tf.log(tf.where_v2(small, x, tf.ones_like(x))), tf.where_v2(
            large, x, safe + tf.log(-tf.math.expm1(-safe))))


def rotate_transpose(x: Any, shift: Any, name: str = "rotate_transpose") -> Tensor:
    """Rotates the dimensions of `x` to the right by `shift`, like `np.transpose` with a rolled permutation."""
    with tf.name_scope(name, values=[x, shift]):
        x = tf.convert_to_tensor(x, name="x")
        rank = x.shape.ndims if x.shape.ndims is not None else tf.rank(x)
        static = tf.get_static_value(tf.convert_to_tensor(shift))
        if x.shape.ndims is not None and static is not None:
            if rank < 2:
                return x
            return tf.transpose(x, np.roll(np.arange(rank), int(static)))
        shift = tf.convert_to_tensor(shift)
        return tf.transpose(x, tf.floormod(tf.range(rank) - shift, tf.maximum(rank, 1)))


def gen_new_seed(seed: int | None, salt: str) -> int | None:
    """A seed derived from `seed` and a salt; None stays None."""
    import hashlib
    if seed is None:
        return None
    return int(hashlib.md5((str(seed) + salt).encode("utf-8")).hexdigest()[:8], 16) & 0x7FFFFFFF


def fill_triangular(x: Any, upper: bool = False, name: str | None = None) -> Tensor:
    """Packs n(n+1)/2 numbers into a triangular matrix each, in TensorFlow's clockwise order."""
    with tf.name_scope(name, "fill_triangular", [x]):
        x = tf.convert_to_tensor(x, name="x")
        m = x.shape.with_rank_at_least(1).dims[-1].value
        if m is not None:
            n = np.sqrt(0.25 + 2.0 * m) - 0.5
            if n != np.floor(n):
                raise ValueError(f"Input right-most shape ({m}) is not the number of elements of a triangular matrix.")
            n = int(n)
        else:
            m = tf.shape(x)[-1]
            n = tf.cast(tf.sqrt(0.25 + 2.0 * tf.cast(m, tf.float32)) - 0.5, tf.int32)
        parts = [x, tf.reverse(x[..., n:], axis=[-1])] if upper else [x[..., n:], tf.reverse(x, axis=[-1])]
        square = tf.reshape(tf.concat(parts, axis=-1), tf.concat([tf.shape(x)[:-1], [n, n]], axis=0))
        square = tf.matrix_band_part(square, *((0, -1) if upper else (-1, 0)))
        if isinstance(n, int):
            square.set_shape(x.shape[:-1].concatenate([n, n]))
        return square


def fill_triangular_inverse(x: Any, upper: bool = False, name: str | None = None) -> Tensor:
    """The numbers that `fill_triangular` packs into a triangular matrix."""
    with tf.name_scope(name, "fill_triangular_inverse", [x]):
        x = tf.convert_to_tensor(x, name="x")
        known = x.shape.with_rank_at_least(2).as_list()[-1]
        n = tf.shape(x)[-1] if known is None else known
        m = n * (n + 1) // 2
        x = tf.matrix_band_part(x, *((0, -1) if upper else (-1, 0)))
        flat = tf.reshape(x, tf.concat([tf.shape(x)[:-2], [n * n]], 0))
        back = tf.reverse(flat, [-1])
        first, second = (flat, back) if upper else (back, flat)         # a number is in one of two places
        found = first[..., :m] + tf.concat([tf.zeros_like(first[..., :n]), second[..., :m - n]], -1)
        found.set_shape(x.shape[:-2].concatenate([m if known is not None else None]))
        return found

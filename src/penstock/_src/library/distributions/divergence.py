"""Divergences between distributions: a table of formulas by the two classes, and the functions that read it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_DIVERGENCES: dict[tuple[type, type], Callable] = {}


def _registered_kl(type_a: type, type_b: type) -> Callable | None:
    """The formula for the classes nearest to the two in their family trees, or None."""
    best, formula = None, None
    for up_a, parent_a in enumerate(type_a.__mro__):
        for up_b, parent_b in enumerate(type_b.__mro__):
            found = _DIVERGENCES.get((parent_a, parent_b))
            if found is not None and (best is None or up_a + up_b < best):
                best, formula = up_a + up_b, found
    return formula


@export(v1=["distributions.kl_divergence"])
def kl_divergence(distribution_a: Any, distribution_b: Any, allow_nan_stats: bool = True, name: str | None = None) -> Tensor:
    """The Kullback-Leibler divergence of `distribution_b` from `distribution_a`, for each member of the batch.

    >>> tf.distributions.kl_divergence(tf.distributions.Normal(0., 1.), tf.distributions.Normal(1., 1.))
    """
    formula = _registered_kl(type(distribution_a), type(distribution_b))
    if formula is None:
        raise NotImplementedError(f"There is no KL divergence for distributions of the types "
                                  f"{type(distribution_a).__name__} and {type(distribution_b).__name__}")
    with tf.name_scope("KullbackLeibler"):
        divergence = formula(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return divergence
        message = (f"KL calculation between {distribution_a.name} and {distribution_b.name} returned NaN values (and was "
                   "called with allow_nan_stats=False). Values:")
        with tf.control_dependencies([tf.Assert(tf.reduce_all(~tf.is_nan(divergence)), [message, divergence])]):
            return tf.identity(divergence, name="checked_kl")


def cross_entropy(ref: Any, other: Any, allow_nan_stats: bool = True, name: str | None = None) -> Tensor:
    """The (Shannon) cross entropy of `other` relative to `ref`."""
    with tf.name_scope(name, "cross_entropy"):
        return ref.entropy() + kl_divergence(ref, other, allow_nan_stats=allow_nan_stats)


@export(v1=["distributions.RegisterKL"])
class RegisterKL:
    """Decorates a function `(a, b, name)` that computes the divergence between two classes of distributions.

    >>> @tf.distributions.RegisterKL(MyNormal, MyNormal)
    ... def _kl(a, b, name=None): ...
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type):
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable) -> Callable:
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _DIVERGENCES:
            raise ValueError(f"KL({self._key[0].__name__} || {self._key[1].__name__}) has already been registered to: "
                             f"{_DIVERGENCES[self._key]}")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn

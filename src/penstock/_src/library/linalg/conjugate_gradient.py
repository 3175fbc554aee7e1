"""Solving with operators that can only be applied: the method of conjugate gradients."""
from __future__ import annotations

import collections
from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg.linear_operator import LinearOperator

CGState = collections.namedtuple("CGState", ["i", "x", "r", "p", "gamma"])


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return tf.reduce_sum(tf.math.conj(x) * y, axis=-1)


@export("linalg.experimental.conjugate_gradient")
def conjugate_gradient(operator: LinearOperator, rhs: Any, preconditioner: LinearOperator | None = None, x: Any = None,
                       tol: float = 1e-5, max_iter: int = 20, name: str = "conjugate_gradient") -> Any:
    """Solves `A x = rhs` for a self-adjoint positive definite operator and vectors rhs [..., N].

    It stops after `max_iter` steps, or when every residual is at most `tol` times its right-hand side. The result has
    the fields i (steps), x (solution), r (residual), p (direction) and gamma (r^H M r, with M the preconditioner).
    """
    if not (operator.is_self_adjoint and operator.is_positive_definite):
        raise ValueError("Expected a self-adjoint, positive definite operator.")

    def precondition(r: Tensor) -> Tensor:
        return r if preconditioner is None else preconditioner.matvec(r)

    def step(i: Tensor, state: Any) -> tuple:
        z = operator.matvec(state.p)
        alpha = (state.gamma / _dot(state.p, z))[..., tf.newaxis]
        new_x, r = state.x + alpha * state.p, state.r - alpha * z
        q = precondition(r)
        gamma = _dot(r, q)
        p = q + (gamma / state.gamma)[..., tf.newaxis] * state.p
        return i + 1, CGState(i + 1, new_x, r, p, gamma)
    with name_scope(name):
        rhs = convert(rhs, name="rhs")
        batch = tf.broadcast_dynamic_shape(tf.shape(rhs)[:-1], operator.batch_shape_tensor())
        if preconditioner is not None:
            batch = tf.broadcast_dynamic_shape(batch, preconditioner.batch_shape_tensor())
        r = tf.broadcast_to(rhs, tf.concat([batch, tf.shape(rhs)[-1:]], 0))
        enough = tol * tf.norm(r, axis=-1)
        if x is None:
            x = tf.zeros_like(r)
        else:
            x = convert(x, rhs.dtype) + tf.zeros_like(r)
            r = r - operator.matvec(x)
        p = precondition(r)
        start = CGState(tf.constant(0), x, r, p, _dot(r, p))
        _, final = tf.while_loop(
            lambda i, s: tf.logical_and(i < max_iter, tf.reduce_any(tf.math.real(tf.norm(s.r, axis=-1))
                                                                    > tf.math.real(enough))),
            step, [tf.constant(0), start])
        return final

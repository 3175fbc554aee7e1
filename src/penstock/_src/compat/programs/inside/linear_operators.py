"""Of `ops.linalg.linear_operator` and `ops.linalg.linear_operator_addition`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penstock as tf


def make_composite_tensor(cls: type, module_name: str = "tf.linalg") -> type:
    """Returns the class: every linear operator is a composite tensor."""
    return cls


def _kinds() -> tuple[type, ...]:
    """The operators that can be added, each more general than those before it."""
    return (tf.linalg.LinearOperatorIdentity, tf.linalg.LinearOperatorScaledIdentity, tf.linalg.LinearOperatorDiag,
            tf.linalg.LinearOperatorLowerTriangular, tf.linalg.LinearOperatorFullMatrix)


def _sum(first: Any, second: Any, name: str | None) -> Any:
    """One operator for a sum, of the narrowest kind that contains it."""
    hints: dict[str, Any] = {"name": name or f"Add_{first.name}__{second.name}"}
    for hint in ("is_self_adjoint", "is_positive_definite"):
        hints[hint] = True if getattr(first, hint) and getattr(second, hint) else None
    hints["is_non_singular"] = True if hints["is_positive_definite"] else None
    kinds = _kinds()
    both = (first, second)
    widest = kinds[max(kinds.index(type(x)) for x in both)]
    if widest in kinds[:2]:
        scale = sum(getattr(x, "multiplier", tf.ones(x.batch_shape_tensor(), x.dtype)) for x in both)
        return kinds[1](first.domain_dimension_tensor(), scale, **hints)
    if widest is kinds[2]:
        return kinds[2](first.diag_part() + second.diag_part(), **hints)
    return widest(first.add_to_tensor(second.to_dense()), **hints)


def add_operators(operators: Sequence[Any], operator_name: str | None = None, addition_tiers: Any = None,
                  name: str | None = None) -> list:
    """The sum of linear operators, as a list of one operator. TypeError if one of them has a kind without a rule.

    `addition_tiers` orders the rules in TensorFlow; the result does not depend on it here.
    """
    for x in operators:
        if type(x) not in _kinds():
            raise TypeError(f"Operators of type {type(x).__name__} are not added; they may be: "
                            f"{', '.join(kind.__name__ for kind in _kinds())}")
    with tf.name_scope(name or "add_operators"):
        total, *others = operators
        for x in others:
            tf.TensorShape([total.domain_dimension]).assert_is_compatible_with([x.domain_dimension])
            total = _sum(total, x, operator_name)
        return [total]

"""Rules for combining operators: one table each for adjoint, Cholesky factor, inverse, product and solution.

    @matmul_rule(LinearOperatorDiag, LinearOperatorDiag)
    def _product_of_diagonals(a, b): ...

The rule of the nearest base classes applies. Also here: the hints of a product, from the hints of its factors.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any


class Table:
    """Rules by operator classes."""

    def __init__(self, what: str):
        self._what = what
        self._rules: dict[tuple, Callable] = {}
        self._found: dict[tuple, Callable] = {}

    def __call__(self, *classes: type) -> Callable[[Callable], Callable]:
        """Decorates the rule for operators of these classes (and of derived ones)."""
        def register(rule: Callable) -> Callable:
            if classes in self._rules:
                raise ValueError(f"{self._what} has already been registered for {classes}")
            self._rules[classes] = rule
            self._found.clear()
            return rule
        return register

    def apply(self, *operators: Any) -> Any:
        """The result of the most specific rule for these operators."""
        types = tuple(type(o) for o in operators)
        rule = self._found.get(types)
        if rule is None:
            rule = self._found[types] = self._nearest(types)
        return rule(*operators)

    def _nearest(self, types: tuple) -> Callable:
        lines = [list(enumerate(t.__mro__)) for t in types]
        fitting = [(sum(i for i, _ in pick), tuple(c for _, c in pick)) for pick in itertools.product(*lines)
                   if tuple(c for _, c in pick) in self._rules]
        if not fitting:
            raise ValueError(f"No {self._what} registered for {', '.join(t.__name__ for t in types)}")
        return self._rules[min(fitting, key=lambda f: f[0])[1]]


adjoint_rule = Table("adjoint")
cholesky_rule = Table("Cholesky decomposition")
inverse_rule = Table("inverse")
matmul_rule = Table("matmul")
solve_rule = Table("solve")


# -- hints ------------------------------------------------------------------------------------------------------------
def same_hints(operator: Any) -> dict[str, Any]:
    """The hints of a square operator, as arguments for one that has the same properties."""
    return {"is_non_singular": operator.is_non_singular, "is_self_adjoint": operator.is_self_adjoint,
            "is_positive_definite": operator.is_positive_definite, "is_square": True}


def non_singular_hint(a: Any, b: Any) -> bool | None:
    """Whether a product is non-singular."""
    if a.is_non_singular is False or b.is_non_singular is False:
        return False
    return a.is_non_singular and b.is_non_singular


def square_hint(a: Any, b: Any) -> bool | None:
    """Whether a product is square."""
    if a.is_square and b.is_square:
        return True
    if a.is_square is False and b.is_square is False:
        return a.range_dimension == b.domain_dimension
    if a.is_square is not None and b.is_square is not None:
        return False
    return None


def commuting_hints(a: Any, b: Any) -> dict[str, Any]:
    """The hints of a square product of operators that commute."""
    adjoint = None
    if a.is_self_adjoint and b.is_self_adjoint:
        adjoint = True
    elif {a.is_self_adjoint, b.is_self_adjoint} == {True, False}:
        adjoint = False
    definite = all((a.is_positive_definite, a.is_self_adjoint, b.is_positive_definite, b.is_self_adjoint)) or None
    return {"is_non_singular": non_singular_hint(a, b), "is_self_adjoint": adjoint, "is_positive_definite": definite,
            "is_square": True}


def product_hints(a: Any, b: Any) -> dict[str, Any]:
    """The hints of a product of any two operators."""
    square = square_hint(a, b)
    if square is False:
        return {"is_non_singular": False, "is_self_adjoint": False, "is_positive_definite": False, "is_square": False}
    return {"is_non_singular": non_singular_hint(a, b) if square else None, "is_square": square}


def agreeing_hint(operator: Any, hint: str, given: bool | None, message: str) -> bool | None:
    """The hint of `operator`; ValueError(message) if `given` contradicts it."""
    own = getattr(operator, hint)
    if own is not None and given is not None and bool(own) != bool(given):
        raise ValueError(message)
    return own if own is not None else given

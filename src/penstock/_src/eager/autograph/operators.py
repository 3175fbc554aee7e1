"""The functions that rewritten code calls, as `ag__`: they check whether a value is a tensor of a graph.

Tensors of graphs are handled by staged.py; everything else, including eager tensors, by ordinary Python.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.eager.autograph import staged
from penstock._src.eager.autograph.convert import call as call
from penstock._src.eager.autograph.staged import UNDEFINED as UNDEFINED
from penstock._src.eager.autograph.staged import symbolic
from penstock._src.graph.convert import convert
from penstock._src.ops.registry import get


def value(read: Callable[[], Any]) -> Any:
    """The value of a variable, attribute or item, or UNDEFINED."""
    try:
        return read()
    except (NameError, AttributeError, LookupError, TypeError):
        return UNDEFINED


def result(returned: Any, read: Callable[[], Any]) -> Any:
    """The result of a function whose return statements were replaced by flags."""
    if returned is False:
        return None
    found = value(read)
    return None if found is UNDEFINED else found


# -- statements -------------------------------------------------------------------------------------------------------
def if_stmt(test: Any, then: Callable[[], None], orelse: Callable[[], None], read: Callable[[], tuple],
            write: Callable[[tuple], None], names: tuple[str, ...]) -> None:
    """`if test: then() else: orelse()`."""
    if symbolic(test):
        staged.if_stmt(test, then, orelse, staged.State(read, write, names))
    elif test:
        then()
    else:
        orelse()


def while_stmt(test: Callable[[], Any], body: Callable[[], None], read: Callable[[], tuple], write: Callable[[tuple], None],
               names: tuple[str, ...], options: Callable[[], dict] | None) -> None:
    """`while test(): body()`. Iterations run in Python for as long as the test returns no tensor of a graph."""
    state = staged.State(read, write, names)
    outcome = staged.first_test(test)
    while not symbolic(outcome):
        if not outcome:
            return
        body()
        outcome = test()
    staged.while_stmt(test, body, state, options() if options is not None else {})


def for_stmt(iterable: Any, go_on: Callable[[], Any] | None, body: Callable[[Any], None], read: Callable[[], tuple],
             write: Callable[[tuple], None], names: tuple[str, ...], options: Callable[[], dict] | None) -> None:
    """`for item in iterable: body(item)`, for as long as `go_on()`."""
    state = staged.State(read, write, names)
    loop = staged.loop_over(iterable)
    if loop is not None:
        loop(iterable, go_on, body, state, options() if options is not None else {})
        return
    for item in iterable:
        going = True if go_on is None else go_on()
        if symbolic(going):                      # a break depends on a tensor: the remaining iterations are conditional
            staged.if_stmt(going, lambda item=item: body(item), lambda: None, state)  # type: ignore[misc]
        elif going:
            body(item)
        else:
            return


def assert_stmt(test: Any, message: Callable[[], Any] | None) -> None:
    """`assert test, message()`."""
    if symbolic(test):
        text = "Assertion failed" if message is None else message()
        get("Assert")(staged.as_bool(test, "assert statement"), [text if symbolic(text) else str(text)])
    elif message is None:
        assert test
    else:
        assert test, message()


# -- expressions ------------------------------------------------------------------------------------------------------
def and_(*operands: Callable[[], Any]) -> Any:
    """`a and b and …`."""
    return _chain(operands, True)


def or_(*operands: Callable[[], Any]) -> Any:
    """`a or b or …`."""
    return _chain(operands, False)


def _chain(operands: Sequence[Callable[[], Any]], going: bool) -> Any:
    """Evaluates operands while they are `going`; those after a tensor of a graph are evaluated when it is."""
    first, *rest = operands
    found = first()
    if not rest:
        return found
    if not symbolic(found):
        return _chain(rest, going) if bool(found) is going else found
    found = staged.as_bool(found, "logical expression")
    if going:
        return staged.if_exp(found, lambda: _chain(rest, going), lambda: found)
    return staged.if_exp(found, lambda: found, lambda: _chain(rest, going))


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq, "NotEq": operator.ne,
    "Is": operator.is_, "IsNot": operator.is_not, "In": lambda x, y: x in y, "NotIn": lambda x, y: x not in y}


def compare(left: Any, *links: Any) -> Any:
    """`a < b < c …`: `links` are the class of each operator in the syntax tree and its right operand, evaluated once."""
    name, thunk, *rest = links
    right = thunk()
    found = _COMPARISONS[name](left, right)
    return and_(lambda: found, lambda: compare(right, *rest)) if rest else found


def not_(operand: Any) -> Any:
    """`not a`."""
    return get("LogicalNot")(convert(operand)) if symbolic(operand) else not operand


def if_exp(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """`then() if test else orelse()`."""
    if symbolic(test):
        return staged.if_exp(test, then, orelse)
    return then() if test else orelse()

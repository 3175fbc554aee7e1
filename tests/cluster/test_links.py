"""The table of links, and the pauses of recovery: no sockets, threads or clocks."""
import ast
import pathlib
import types

import pytest

from penstock._src.cluster import links, recovery


class _Link(types.SimpleNamespace):
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _made(incarnation=1, dial=1):
    return _Link(peer="b", incarnation=incarnation, dial=dial, error=None)


@pytest.mark.parametrize("module", [links, recovery])
def test_the_module_needs_no_sockets_threads_or_clocks(module):
    tree = ast.parse(pathlib.Path(module.__file__).read_text())
    imported = {getattr(n, "module", None) or n.names[0].name for n in ast.walk(tree)
                if isinstance(n, (ast.Import, ast.ImportFrom))}
    assert imported <= {"__future__", "typing"}


def test_the_first_link_to_an_incarnation_is_used():
    table, first, second = links.LinkTable(), _made(), _made(dial=2)
    table.add(first)
    table.add(second)
    assert table.used("b") is first
    restarted = _made(incarnation=2, dial=3)
    table.add(restarted)
    assert table.used("b") is restarted


def test_a_link_that_has_ended_is_not_given_out():
    table, link, free = links.LinkTable(), _made(), _made()
    table.add(link)
    assert table.keep(free) and table.take_free("b", 2) is None
    link.error = free.error = "ended"
    assert table.used("b") is None and table.take_free("b", 1) is None and not table.keep(free)


def test_the_links_of_a_dial_are_found_when_its_used_link_ends():
    table, link, step, other = links.LinkTable(), _made(), _made(), _made(dial=2)
    table.add(link)
    for each in (link, step, other):
        table.watch(each)
    table.keep(step)
    assert table.ended(link) == (False, True)
    assert table.of_dial("b", 1) == [step] and table.ended(step) == (True, False) and table.all() == [other]


def test_pauses_grow_to_a_limit_and_begin_again():
    made = recovery.Recovery()
    pauses = [made.failed() for _ in range(7)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    made.made()
    assert made.failed() == 0.05

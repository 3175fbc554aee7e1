"""The two namespaces: every exported name is reached, under the object that was exported."""
import importlib
import pkgutil
import sys

import pytest

import penstock
import penstock.compat.v1
from penstock import api

ROOTS = {"v1": penstock.compat.v1, "v2": penstock}


def reach(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root


@pytest.mark.parametrize("version", ROOTS)
def test_every_exported_name_is_reached(version):
    table = api.TABLES[version]
    assert len(table) > 1500
    wrong = []
    for name, exported in table.items():
        try:
            found = reach(ROOTS[version], name)
        except AttributeError as e:
            found = e
        if found is not exported and found != exported:
            wrong.append(name)
    assert wrong == []


def test_no_module_hides_behind_a_public_name():
    """`from penstock import x` must be the module x, if there is one: a function named x would hide it."""
    modules = {m.name for m in pkgutil.iter_modules(penstock.__path__)}
    assert not {n for table in api.TABLES.values() for n in table} & modules


def test_import_is_strict(monkeypatch):
    """A module that cannot be imported is an error, not a silent gap."""
    monkeypatch.setitem(sys.modules, "penstock.losses", None)
    with pytest.raises(ImportError, match="penstock.losses"):
        importlib.reload(penstock)


def test_missing_names_say_where_to_look():
    with pytest.raises(AttributeError, match=r"it exists as penstock\.compat\.v1\.placeholder\b"):
        penstock.placeholder  # noqa: B018
    with pytest.raises(AttributeError, match="nearest: .*reduce_sum"):
        penstock.reduce_sums  # noqa: B018
    with pytest.raises(AttributeError, match="^__no_such__$"):
        penstock.__no_such__  # noqa: B018


@pytest.mark.parametrize("version", ROOTS)
def test_dir_lists_the_names(version):
    assert {"constant", "nn", "train"} <= set(dir(ROOTS[version]))
    assert {"relu", "softmax"} <= set(dir(ROOTS[version].nn))

"""Docstrings of the most used names explain every parameter, and their examples run.

`documented.txt` has names of the 1.x API in the order of their use in published programs. `documented_2.txt` has names of the
2.x API, whose examples also print what they show. Lines may only be added.
"""
import doctest
import inspect
import pathlib
import re

import pytest

import penstock
import penstock.compat.v1 as tf

FOLDER = pathlib.Path(__file__).parent
NAMES = (FOLDER / "documented.txt").read_text().split()
NAMES_2 = (FOLDER / "documented_2.txt").read_text().split()


def named(root, name):
    value = root
    for word in name.split(".")[1:]:
        value = getattr(value, word)
    return value


def test_the_lists_do_not_shrink():
    assert len(NAMES) == len(set(NAMES)) >= 600
    assert len(NAMES_2) == len(set(NAMES_2)) >= 285


@pytest.mark.parametrize("root, name", [*((tf, n) for n in NAMES), *((penstock, n) for n in NAMES_2)],
                         ids=[*NAMES, *(f"{n}-2" for n in NAMES_2)])
def test_every_parameter_is_explained(root, name):
    value = named(root, name)
    doc = inspect.getdoc(value)
    parameters = [p for p in inspect.signature(value).parameters if p != "self"]
    assert "Args:" in doc or not parameters
    assert "Returns:" in doc or inspect.isclass(value) or inspect.signature(value).return_annotation in (None, "None")
    unexplained = [p for p in parameters
                   if not re.search(rf"^\s+\*{{0,2}}(?:\w+, )*{p}(?:, \w+)*: |`{p}` is its old name", doc, re.M)]
    assert unexplained == []


@pytest.mark.parametrize("name", NAMES_2)
def test_examples_print_what_they_show(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestParser().get_doctest(inspect.getdoc(named(penstock, name)), {"tf": penstock}, name, None, None)
    assert found.examples
    said = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    assert not failed, "".join(said)

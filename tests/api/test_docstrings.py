"""Docstrings of the most used names explain every parameter.

`documented.txt` has names of the 1.x API in the order of their use in published programs. Lines may only be added.
"""
import inspect
import pathlib
import re

import pytest

import penstock.compat.v1 as tf

NAMES = (pathlib.Path(__file__).parent / "documented.txt").read_text().split()


def test_the_list_does_not_shrink():
    assert len(NAMES) == len(set(NAMES)) >= 600


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_explained(name):
    value = tf
    for word in name.split(".")[1:]:
        value = getattr(value, word)
    doc = inspect.getdoc(value)
    parameters = [p for p in inspect.signature(value).parameters if p != "self"]
    assert "Args:" in doc or not parameters
    assert "Returns:" in doc or inspect.isclass(value) or inspect.signature(value).return_annotation in (None, "None")
    unexplained = [p for p in parameters
                   if not re.search(rf"^\s+\*{{0,2}}(?:\w+, )*{p}(?:, \w+)*: |`{p}` is its old name", doc, re.M)]
    assert unexplained == []

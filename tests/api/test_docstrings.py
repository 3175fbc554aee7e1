"""Docstrings of the most used names explain every parameter, and their examples run.

`documented.txt` has names of the 1.x API in the order of their use in published programs, `documented_2.txt` names of the 2.x
API. Lines may only be added. Examples print what they show; what both APIs share is run under both.
"""
import doctest
import inspect
import pathlib
import re

import numpy as np
import pytest
from absl import logging

import penstock
import penstock.compat.v1 as tf
from penstock._src.base.api import TABLES

FOLDER = pathlib.Path(__file__).parent
NAMES = (FOLDER / "documented.txt").read_text().split()
NAMES_2 = (FOLDER / "documented_2.txt").read_text().split()
NEED_A_NETWORK = {"tf.keras.datasets.mnist.load_data"}       # their examples are only read
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")


class Checker(doctest.OutputChecker):
    """Compares floating-point numbers to 5 digits: the last ones differ between processors."""

    def check_output(self, want, got, optionflags):
        if super().check_output(want, got, optionflags | doctest.NORMALIZE_WHITESPACE):
            return True
        expected, found = ([float(x) for x in NUMBER.findall(text)] for text in (want, got))
        rest = [re.sub(r"\s+", "", NUMBER.sub("#", text)) for text in (want, got)]
        return len(expected) == len(found) and rest[0] == rest[1] and np.allclose(expected, found, rtol=1e-5, atol=1e-6)


def named(root, name):
    value = root
    for word in name.split(".")[1:]:
        value = getattr(value, word)
    return value


def once(names):
    """The names without those that have the docstring of an earlier one."""
    return list({inspect.getdoc(named(tf, n)): n for n in reversed(names)}.values())[::-1]


def shared(value):
    """Whether the 2.x API has this object, too."""
    return any(value is v or value is getattr(v, "_made", None) for v in TABLES["v2"].values())


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A folder of its own for each example, and the verbosity of logs as it was."""
    monkeypatch.chdir(tmp_path)
    level = logging.get_verbosity()
    yield
    logging.set_verbosity(level)
    tf.keras.backend.clear_session()


def run(value, root):
    """Runs the examples of a docstring."""
    found = doctest.DocTestParser().get_doctest(inspect.getdoc(value), {"tf": root}, value.__name__, None, None)
    assert [e for e in found.examples if not e.options.get(doctest.SKIP)]
    said = []
    failed, _ = doctest.DocTestRunner(checker=Checker(), verbose=False).run(found, out=said.append)
    assert not failed, "".join(said)


def test_the_lists_do_not_shrink():
    assert len(NAMES) == len(set(NAMES)) >= 600
    assert len(NAMES_2) == len(set(NAMES_2)) >= 448


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


def test_generated_functions_explain_their_parameters():
    """tf.raw_ops, from the declarations of the ops."""
    made = {name: getattr(penstock.raw_ops, name) for name in penstock.raw_ops.__all__}
    assert len(made) > 1400 and [name for name, f in made.items() if "Returns:" not in f.__doc__] == []
    assert [(name, p) for name, f in made.items() for p in inspect.signature(f).parameters
            if not re.search(rf"^ +{p}: ", f.__doc__, re.M)] == []
    assert re.search(r"image: A tensor of uint8\.\n.*density_unit: A string: 'in' or 'cm'; 'in' by default\.\n",
                     penstock.io.encode_jpeg.__doc__, re.S)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", [n for n in once(NAMES) if n not in NEED_A_NETWORK])
def test_examples_print_what_they_show(name):
    run(named(tf, name), tf)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", [n for n in once(NAMES) if n not in NEED_A_NETWORK and shared(named(tf, n))])
def test_examples_of_what_both_apis_have_use_names_of_both(name):
    run(named(tf, name), penstock)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", NAMES_2)
def test_examples_of_the_2_x_api_print_what_they_show(name):
    run(named(penstock, name), penstock)

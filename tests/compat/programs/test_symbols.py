"""The names that real programs use most, each with a value: `symbols/values.txt` line by line, `symbols/state*.py` by function.

`symbols/ranked.txt` is the list, most used first. Which names a line or function touches is read from its source.
"""
import importlib
import pathlib

import numpy as np
import pytest

from penstock._src.compat.programs import check, importer, symbols

FOLDER = pathlib.Path(__file__).parent / "symbols"
FUNCTIONS = {f"{file.stem}.{name}": function for file in sorted(FOLDER.glob("state*.py"))
             for name, function in vars(importlib.import_module(f"tests.compat.programs.symbols.{file.stem}")).items()
             if getattr(function, "__module__", "").endswith(file.stem) and name[0] != "_"}
LINES = [line for line in (FOLDER / "values.txt").read_text().splitlines() if line and line[0] != "#"]
RANKED = [line for line in (FOLDER / "ranked.txt").read_text().splitlines() if line[0] != "#"]
ALLOWED = 50                # of the first 1,000: one in twenty, programs' own names among them (tf.model)


@pytest.fixture
def tf():
    with importer.in_place("v1"):
        tf = importlib.import_module("tensorflow")
        tf.disable_v2_behavior()
        tf.reset_default_graph()
        yield tf


def scope(tf):
    """What the expressions may use."""
    example = tf.train.Example()
    example.features.feature["a"].int64_list.value.append(3)
    return {"tf": tf, "np": np, "m": tf.constant([[1.0, 2.0], [3.0, 4.0]]), "c": tf.constant(3.0),
            "pixels": np.arange(12, dtype=np.float32).reshape(2, 2, 3), "example": example.SerializeToString(), **images()}


def images():
    import io

    from PIL import Image
    jpeg, gif = io.BytesIO(), io.BytesIO()
    Image.fromarray(np.full([8, 8, 3], 128, np.uint8)).save(jpeg, "JPEG")
    Image.fromarray(np.zeros([2, 2], np.uint8)).save(gif, "GIF")
    return {"jpeg": jpeg.getvalue(), "gif": gif.getvalue()}


def value(tf, session, got):
    """What an expression returns, run where it is a tensor."""
    if isinstance(got, (tuple, list)):
        return type(got)(value(tf, session, g) for g in got) if type(got) in (tuple, list) else got
    if isinstance(got, tf.SparseTensorValue):
        return got
    return session.run(got) if tf.is_tensor(got) else got


def same(got, wanted):
    if isinstance(wanted, tuple):
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted):
            same(g, w)
    elif isinstance(wanted, (list, np.ndarray, float, int)) and not isinstance(wanted, bool) and \
            np.asarray(got if not isinstance(got, list) or not got else got[0]).dtype.kind in "fiub":
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=1e-4, atol=1e-4)
    elif isinstance(wanted, list) and isinstance(got, np.ndarray):
        assert got.tolist() == wanted
    else:
        assert got == wanted


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split(" => ")[0][:60])
def test_value(line, tf):
    expression, _, wanted = line.rpartition(" => ")
    names = scope(tf)
    with tf.Session() as session:
        same(value(tf, session, eval(expression, names)), eval(wanted, {"np": np, **names}))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.startswith("state_v2.")])
def test_state(name, tf):
    FUNCTIONS[name](tf)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith("state_v2.")])
def test_state_of_v2(name):
    with importer.in_place("v2"):
        FUNCTIONS[name](importlib.import_module("tensorflow"))


def touched():
    """The names that the lines and functions use."""
    source = "import tensorflow as tf\n" + "\n".join(line.rpartition(" => ")[0] for line in LINES)
    uses = symbols.scan(source).uses
    for file in sorted(FOLDER.glob("*.py")):
        uses = uses + symbols.scan("import tensorflow as tf\n" + file.read_text()).uses
    found = set()
    for use in uses:
        words = use.name.split(".")
        found.update(".".join(words[:n]) for n in range(2, len(words) + 1))
    return found


def here(ranked):
    """Those of the names that either API has."""
    with importer.in_place("v1"):
        found = {n for n in ranked if check.has(n[3:])}
    with importer.in_place("v2"):
        return found | {n for n in ranked if n not in found and check.has(n[3:])}


def test_the_first_300_are_here_and_checked():
    found, checked = here(RANKED[:300]), touched()
    assert not {n for n in RANKED[:300] if n not in found}
    unchecked = [n for n in RANKED[:300] if n in found and n not in checked]
    assert not unchecked, unchecked


@pytest.mark.slow
def test_of_the_first_1000_nearly_all_are_here_and_checked():
    lacking = sorted(set(RANKED) - (here(RANKED) & touched()))
    assert len(lacking) <= ALLOWED, lacking

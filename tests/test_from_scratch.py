"""docs/from_scratch.py runs, is right, and names files that there are."""
import importlib.util
import pathlib
import re

import numpy as np
import pytest
import torch

import penstock
import penstock.compat.v1 as tf

FILE = pathlib.Path(__file__).parents[1] / "docs" / "from_scratch.py"


@pytest.fixture
def small():
    """The small library, with an empty graph."""
    spec = importlib.util.spec_from_file_location("from_scratch", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_learns(small, capsys):
    assert small.main() < 0.01
    out = capsys.readouterr().out
    assert "def step(f0, f1):\n    t0 = k0()  # Variable_2\n" in out and "step 400: loss 0.00" in out


def test_gradients_are_those_of_autograd(small):
    torch.manual_seed(0)
    given = {"a": torch.randn(3, 4), "b": torch.randn(4, 2), "c": torch.randn(2)}
    a, b, c = (small.variable(n, v) for n, v in given.items())
    y = small.mean(small.tanh(small.matmul(a, b) + c) * c)
    found = small.Session().run(small.gradients(y, [a, b, c]))
    leaves = [v.clone().requires_grad_() for v in given.values()]
    (torch.tanh(leaves[0] @ leaves[1] + leaves[2]) * leaves[2]).mean().backward()
    for mine, leaf in zip(found, leaves, strict=True):
        torch.testing.assert_close(mine, leaf.grad)


def test_gradients_of_gradients(small):
    x = small.variable("x", 0.5)
    second = small.gradients(small.gradients(small.tanh(x), [x])[0], [x])
    t = np.tanh(0.5)
    assert small.Session().run(second)[0].item() == pytest.approx(-2 * t * (1 - t * t), rel=1e-5)
    assert small.gradients(x * 2.0, [small.variable("z", 1.0)]) == [None]


def test_steps_are_pruned_and_kept(small):
    x, y = small.placeholder(2), small.placeholder(2)
    twice, never = x * 2.0, small.tanh(y)
    session = small.Session()
    assert session.run([twice], {x: [1, 2]})[0].tolist() == [2, 4]
    program = session.program([twice], [x])
    assert "Tanh" not in program.source and session.program([twice], [x]) is program
    assert session.run([never], {never: [7, 8]})[0].tolist() == [7, 8]


def test_mistakes_point_at_the_users_line(small):
    with pytest.raises(ValueError, match=r"MatMul_\d+: .*\(2, 3\) and \(4, 5\)"):
        small.matmul(small.placeholder(2, 3), small.placeholder(4, 5))
    x, y = small.placeholder(None), small.placeholder(None)
    bad = x + y
    with pytest.raises(RuntimeError, match=rf"(?s)must match.*in <{bad.name}.*test_from_scratch.py:\d+"):
        small.Session().run([bad], {x: [1, 2], y: [1, 2, 3]})
    with pytest.raises(RuntimeError, match="must be fed"):
        small.Session().run([bad], {x: [1, 2]})


def test_the_library_does_the_same(small):
    """The program at the end, in the small library and in the large one: the same losses."""
    torch.manual_seed(3)
    w = torch.randn(2, 4)
    x, v = small.placeholder(None, 2), small.variable("v", w)
    loss = small.mean(small.tanh(small.matmul(x, v)) * 3.0)
    train = small.minimize(loss, [v], rate=0.5)
    session, data = small.Session(), [[1.0, 2.0], [3.0, -1.0]]
    mine = [session.run([loss, *train], {x: data})[0].item() for _ in range(5)]
    with tf.Graph().as_default(), tf.Session() as sess:
        x, v = tf.placeholder(tf.float32, [None, 2]), tf.Variable(w.numpy(), use_resource=True)
        loss = tf.reduce_mean(tf.tanh(tf.matmul(x, v)) * 3.0)
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        sess.run(tf.global_variables_initializer())
        theirs = [sess.run([loss, train], {x: data})[0] for _ in range(5)]
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_headings_name_files_of_the_library():
    root = pathlib.Path(penstock.__file__).parent / "_src"
    named = re.findall(r"\b((?:\w+/)*\w+\.py)\b", " ".join(re.findall(r"^# \d\. .*", FILE.read_text(), re.M)))
    assert len(named) >= 8 and all((root / name).exists() for name in named)

"""Random programs with control flow: compiled, on the dataflow executor, as functional ops, in functions, eagerly, there.

All of them have to agree, gradients included.
"""
import json
import os
import pathlib
import subprocess
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import penstock.compat.v1 as tf
from penstock._src.graph import context
from tests.step.loops.programs import NAMES, ORDER, Builder, run_v1

ORACLE = os.environ.get("ORACLE_PYTHON", pathlib.Path(__file__).parents[3] / ".oracle/bin/python")


# -- drawing ----------------------------------------------------------------------------------------------------------
def names(kind):
    return st.sampled_from(NAMES[kind])


numbers = st.sampled_from([-1.5, -0.25, 0.0, 0.5, 1.25])
whole = st.integers(-3, 5)
conditions = st.one_of(
    st.tuples(st.just("less"), names("f"), st.one_of(names("f"), numbers)),
    st.tuples(st.just("equal"), names("i"), whole),
    st.tuples(st.sampled_from(["and", "or"]), names("b"), st.one_of(names("b"), st.booleans())),
    st.tuples(st.just("not"), names("b")),
)
expressions = st.one_of(
    st.tuples(st.just("set"), names("f"), st.tuples(st.sampled_from(["add", "sub", "mul", "max"]), names("f"),
                                                    st.one_of(names("f"), numbers))),
    st.tuples(st.just("set"), names("v"), st.tuples(st.sampled_from(["add", "sub", "mul", "max"]), names("v"), names("v"))),
    st.tuples(st.just("set"), names("f"), st.tuples(st.just("sum"), names("v"))),
    st.tuples(st.just("set"), names("v"), st.tuples(st.just("spread"), names("f"))),
    st.tuples(st.just("set"), names("i"), st.tuples(st.sampled_from(["add", "sub", "max", "mul"]), names("i"), whole)),
    st.tuples(st.just("set"), names("b"), conditions),
    st.tuples(st.just("map"), names("v"), names("f")),
    st.tuples(st.just("array"), names("v"), st.integers(1, 4)),
)


def compound(inner):
    block = st.lists(inner, min_size=0, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), conditions, block, block),
        st.tuples(st.just("while"), names("i"), st.integers(0, 4), block),
        st.tuples(st.just("until"), conditions, st.integers(0, 4), block),
    )


programs = st.lists(st.one_of(st.recursive(expressions, compound, max_leaves=6), compound(expressions)), min_size=1, max_size=4)
values = {"i": whole, "b": st.booleans(), "f": numbers, "v": st.lists(numbers, min_size=3, max_size=3)}
inputs = st.tuples(*(values[n[0]] for n in ORDER))
drawn = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


# -- running ----------------------------------------------------------------------------------------------------------
def on_executor(program, given_inputs):
    with mock.patch("penstock._src.step.compiler.write_structured", lambda *_: None):
        return run_v1(tf, program, given_inputs)


def functional(program, given_inputs):
    context.process.v2_control_flow = True
    try:
        return run_v1(tf, program, given_inputs)
    finally:
        context.process.v2_control_flow = False


def eagerly(program, given_inputs, wrap=lambda f: f):
    with context.enter(None):
        kinds = {"i": tf.int32, "b": tf.bool, "f": tf.float32, "v": tf.float32}
        xs = [tf.constant(x, kinds[n[0]]) for x, n in zip(given_inputs, ORDER, strict=True)]
        floats = [x for x in xs if x.dtype == tf.float32]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            ys = wrap(lambda *a: Builder(tf).run(program, a))(*xs)
            total = tf.add_n([tf.reduce_sum(y) for y in ys if y.dtype == tf.float32])
        grads = tape.gradient(total, floats, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [t.numpy() for t in (*ys, *grads)]


def agree(found, expected, program, given_inputs, what):
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        text = f"{what}: {(ORDER * 2)[i]} of {program} on {given_inputs}"
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=text)


def compare(program, given_inputs):
    context.process.v2_control_flow = False
    expected = run_v1(tf, program, given_inputs)
    for what, run in (("executor", on_executor), ("functional", functional), ("eager", eagerly),
                      ("function", lambda p, x: eagerly(p, x, tf.function))):
        agree(run(program, given_inputs), expected, program, given_inputs, what)


@settings(max_examples=6, **drawn)
@given(programs, inputs)
def test_all_ways_agree(program, given_inputs):
    compare(program, given_inputs)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_all_ways_agree_on_many(number):
    @seed(number)
    @settings(max_examples=5, **{**drawn, "derandomize": False}, database=None)
    @given(programs, inputs)
    def check(program, given_inputs):
        compare(program, given_inputs)
    check()


@pytest.mark.oracle
@pytest.mark.skipif(not pathlib.Path(ORACLE).exists(), reason="needs real TensorFlow: make .oracle, or ORACLE_PYTHON")
def test_real_tensorflow_agrees():
    script = pathlib.Path(__file__).with_name("programs.py")
    with subprocess.Popen([ORACLE, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}) as process:
        @settings(max_examples=15, **drawn)
        @given(programs, inputs)
        def check(program, given_inputs):
            context.process.v2_control_flow = False
            process.stdin.write(json.dumps([program, given_inputs]) + "\n")
            process.stdin.flush()
            expected = json.loads(process.stdout.readline())
            agree(run_v1(tf, program, given_inputs), expected, program, given_inputs, "TensorFlow")
        try:
            check()
        finally:
            process.stdin.close()

"""Tests over combinations of parameters, modes and strategies."""
import unittest

import pytest
from absl.testing import parameterized

import penstock as tf

test_combinations = tf.__internal__.test.combinations
distributed = tf.__internal__.distribute.combinations


def outcomes(case):
    """Runs a test case; returns the names of its tests, and how many were skipped."""
    result = unittest.TestResult()
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    names = [test._testMethodName for test in suite if "test_it" in test._testMethodName]
    suite.run(result)
    assert not result.errors and not result.failures, (result.errors, result.failures)
    return names, sum("test_it" in test._testMethodName for test, _ in result.skipped)


def test_combine_and_times():
    combine, times = test_combinations.combine, test_combinations.times
    assert combine(a=[1, 2], b=3) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert times(combine(a=[1, 2]), combine(b=[3])) == combine(a=[1, 2], b=3)
    with pytest.raises(ValueError, match="overlap"):
        times(combine(a=1), combine(a=2))


def test_modes_and_arguments():
    seen = []

    class Case(tf.test.TestCase, parameterized.TestCase):
        @test_combinations.generate(test_combinations.combine(mode=["graph", "eager"], units=[1, 2]))
        def test_it(self, units):
            seen.append((tf.executing_eagerly(), units))

    names, skipped = outcomes(Case)
    assert sorted(seen) == [(False, 1), (False, 2), (True, 1), (True, 2)] and not skipped
    assert "test_it_test_mode_graph_units_1" in names


def test_modifiers_and_reasons_to_skip():
    class Even(test_combinations.TestCombination):
        def should_execute_combination(self, kwargs):
            return kwargs["n"] % 2 == 0, "odd"

        def parameter_modifiers(self):
            return [test_combinations.OptionalParameter("unused")]

    seen = []

    @test_combinations.generate(test_combinations.combine(n=[1, 2, 3, 4], unused="x"), test_combinations=(Even(),))
    class Case(tf.test.TestCase):
        def test_it(self, n):
            seen.append(n)

    _, skipped = outcomes(Case)
    assert sorted(seen) == [2, 4] and skipped == 2


def test_strategies():
    seen = []

    class Case(tf.test.TestCase, parameterized.TestCase):
        @distributed.generate(test_combinations.combine(mode="eager", distribution=[
            distributed.one_device_strategy, distributed.tpu_strategy, distributed.multi_worker_mirrored_2x1_cpu]))
        def test_it(self, distribution):
            with distribution.scope():
                seen.append(type(distribution).__name__)

    names, skipped = outcomes(Case)
    assert len(names) == 3 and skipped == 2 and seen == ["OneDeviceStrategy"]
    assert distributed.in_main_process()


def test_libraries_add_to_the_keywords_of_generate():
    for generate in (test_combinations.generate, distributed.generate):
        assert all(isinstance(c, test_combinations.TestCombination) for c in generate.keywords["test_combinations"])

"""Tests under a condition."""
import unittest

import pytest

import penstock as tf


class Case(unittest.TestCase):
    on = False

    @tf.test.disable_with_predicate(lambda: Case.on, "not now")
    def runTest(self):
        self.ran = True


def test_disable_with_predicate(monkeypatch):
    case = Case()
    case.runTest()
    assert case.ran
    monkeypatch.setattr(Case, "on", True)
    with pytest.raises(unittest.SkipTest, match="not now"):
        Case().runTest()


def test_with_eager_op_as_function():
    assert tf.test.with_eager_op_as_function(Case) is Case is tf.test.with_eager_op_as_function()(Case)

"""A graph and a session for each test."""
import pytest

import penstock.compat.v1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def sess(graph):
    with tf.Session() as made:
        yield made

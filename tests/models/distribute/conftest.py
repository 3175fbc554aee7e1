"""Strategies over logical CPUs."""
import pytest

import penstock as tf
from penstock._src.graph import context
from penstock._src.graph.strategies import choose


@pytest.fixture(autouse=True)
def _logical_cpus():
    """Four logical CPUs for every test; no strategy is left behind."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    yield
    context.state.strategies = ()
    choose(None)


@pytest.fixture
def mirrored():
    """A mirrored strategy over two logical CPUs."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

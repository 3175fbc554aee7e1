"""Strategies over logical CPUs."""
import pytest

import penstock as tf
from penstock._src.graph import context
from penstock._src.models.distribute import contexts


@pytest.fixture(autouse=True)
def _logical_cpus():
    """Four logical CPUs for every test; no strategy is left behind."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    contexts.default_frame.cache_clear()
    yield
    context.state.strategies = ()
    contexts._Process.chosen, context.process.strategy = None, False


@pytest.fixture
def mirrored():
    """A mirrored strategy over two logical CPUs."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

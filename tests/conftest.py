"""Settings for the whole test run: one thread per process, a traceback when a process dies, clean state and seeds per test."""

import faulthandler
import itertools
import os
import pathlib
import random
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

os.environ["PENSTOCK_VERIFY_PASSES"] = "1"       # before the compiler is imported

import penstock
from penstock._src.base import modes
from penstock._src.graph import context, random_seed
from penstock._src.kernels import waiting
from penstock._src.kernels.devices import device_config
from penstock._src.ops.random import random as random_ops
from tests import checks, leaks

# Programs that tests start find the same package, installed or not.
_SOURCE = str(pathlib.Path(penstock.__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH")]))

# Numbers of threads depend neither on the load, also while tests are collected, nor on a container's limit.
waiting.machine.look, waiting.machine.threads = lambda: None, 0

os.environ["PENSTOCK_OFFLINE"] = "1"             # tests download nothing but what a server of theirs has

np.testing.assert_allclose = checks.assert_allclose

# On a loaded machine drawing is slow now and then: that is no fault of what is tested.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="another order of the files, and of the tests in each")


def pytest_collection_modifyitems(config, items):
    """The order of a seed; the tests of a file stay together, as they share its fixtures."""
    if config.getoption("--shuffle") is None:
        return
    order, files = random.Random(config.getoption("--shuffle")), {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for held in files.values():
        order.shuffle(held)
    items[:] = [item for held in order.sample(list(files.values()), len(files)) for item in held]


@pytest.fixture(scope="session", autouse=True)
def _one_thread_and_tracebacks():
    torch.set_num_threads(1)
    penstock.debugging.disable_traceback_filtering()
    random_ops.generator("cpu")                               # seeded before each test
    if not faulthandler.is_enabled():
        faulthandler.enable()
    yield


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind_by_the_module():
    """What the tests of a module share ends with the module."""
    before = leaks.snapshot(shared=True)
    yield
    left = leaks.left_since(before, shared=True)
    assert not left, f"the module leaves {', '.join(left)}"


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    """A test ends its threads and child processes, and closes the files that it writes (tests/leaks.py)."""
    before = leaks.snapshot()
    yield
    left = leaks.left_since(before)
    assert not left, f"the test leaves {', '.join(left)}"


def _keras_settings():
    """The type of floats and the policy of Keras, if it has been loaded."""
    found = [sys.modules.get(f"penstock._src.models.keras.{name}") for name in ("backend.config", "mixed_precision")]
    return [found[0]._config, found[1]._global] if all(found) else []


@pytest.fixture(autouse=True)
def _modes_and_default_graph(_nothing_left_behind):
    """Each test starts with an empty default graph and the same seeds, and leaves the process's modes as it found them."""
    before, keras = modes.snapshot(), [dict(vars(now)) for now in _keras_settings()]
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    for made in random_ops._generators.values():             # of ops without seeds
        made.manual_seed(1)                                  # other numbers than PyTorch's own generator draws
    random_seed._set_eager_seed(None)
    random_seed.seed_initializers(None)
    modes.process.default_graph = None
    yield
    modes.restore(before)
    for now, was in itertools.zip_longest(_keras_settings(), keras, fillvalue={}):      # Keras may have been loaded by now
        vars(now).clear()
        vars(now).update(was)
    writers = sys.modules.get("penstock._src.training.summary.file_writer")
    if writers is not None:
        writers.FileWriterCache.clear()              # one writer per folder, for the whole process
    context.state.tapes = ()
    device_config.reset()


@pytest.fixture(scope="session")
def nursery():
    """Processes that start quickly, for tests of clusters."""
    from tests.cluster.nursery import Nursery
    with Nursery() as made:
        yield made

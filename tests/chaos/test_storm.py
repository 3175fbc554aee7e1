"""A short chaos campaign: training reaches its last step with the loss of an undisturbed run, and leaks nothing.

`make chaos` is the long one: tests/chaos/campaign.py.
"""
import threading

import pytest

from penstock._src.cluster.ports import free_addresses
from tests.chaos import storm
from tests.checks import eventually

pytestmark = pytest.mark.distributed


@pytest.fixture
def nothing_left(nursery):
    free_addresses(0)                               # opens the table of reserved ports, which stays open
    threads, files = threading.active_count(), storm.open_files()
    yield
    assert not any(child.alive() for child in nursery.children.values())
    assert eventually(lambda: threading.active_count() <= threads), threading.enumerate()
    assert eventually(lambda: storm.open_files() <= files)


@pytest.mark.usefixtures("nothing_left")
def test_training_survives_faults(nursery, tmp_path):
    results, counts, _ = storm.run(nursery, tmp_path, 5, 300, "--delay=0.05", seed=10, pause=(0.2, 0.6), limit=130,
                                   heartbeat=0.5)
    assert results is not None and len(results) == 3, "the training did not end by itself"
    assert sum(counts.values()) > 0                 # 5, unless the training was faster
    for step, loss, accuracy in results.values():
        assert 300 <= step <= 310 and loss < 0.6 and accuracy > 0.85      # undisturbed: 0.35 and 0.92

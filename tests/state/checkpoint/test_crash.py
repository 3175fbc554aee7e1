"""Kill -9 at random moments of saving: every time the newest complete checkpoint restores, equal to what was saved."""
import multiprocessing
import os
import random
import signal
import time

import pytest

import penstock.compat.v1 as tf
from tests.checks import eventually
from tests.state.checkpoint.saving_child import restored, save_forever


def kill_while_saving(folder, times, seed, **how):
    """Starts the program, kills it after a random time, and inspects what it left; `times` times in one folder."""
    spawn = multiprocessing.get_context("forkserver")
    spawn.set_forkserver_preload(["tests.state.checkpoint.saving_child"])
    rng, last = random.Random(seed), 0
    for i in range(times):
        started = spawn.Event()
        child = spawn.Process(target=save_forever, args=(str(folder), how["sharded"], how["asynchronous"], how["same_name"],
                                                         started))
        child.start()
        try:
            assert started.wait(60)
            if i == times - 1:               # a slow machine may have saved nothing yet
                assert eventually(lambda: os.path.exists(f"{folder}/checkpoint"), 60)
            time.sleep(rng.uniform(0, 0.12))
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        step = restored(str(folder), how["sharded"])
        assert (step or 0) >= last, "an older checkpoint than before"
        last = step or 0
    assert last > 0


@pytest.fixture(autouse=True)
def graphs():
    tf.disable_v2_behavior()


@pytest.mark.parametrize("how", [dict(sharded=False, asynchronous=False, same_name=False),
                                 dict(sharded=True, asynchronous=True, same_name=True)], ids=["plain", "shards"])
def test_killed_while_saving(tmp_path, how):
    kill_while_saving(tmp_path, 5, 1, **how)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("same_name", [False, True])
@pytest.mark.parametrize("sharded", [False, True])
def test_killed_while_saving_often(tmp_path, sharded, same_name):
    kill_while_saving(tmp_path, 50, 7, sharded=sharded, same_name=same_name, asynchronous=sharded)

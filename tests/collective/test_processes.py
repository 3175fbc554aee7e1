"""Every algorithm among real processes: groups of 1, 2, … of them, odd sizes, all types, and the counts of the formulas."""
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cluster.conftest import SOURCE, addresses
from tests.collective.formulas import sent_by

pytestmark = pytest.mark.distributed
PROGRAM = """
import json, os, pathlib, sys, time, traceback
import torch
import torch.distributed
import penstock.compat.v1 as tf
import penstock._src.cluster.server
from penstock._src.collective.algorithms import ALGORITHMS
from penstock._src.collective.group import Limit
spec, folder = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2])
most = len(spec["worker"])
torch.set_num_threads(1)
TYPES = [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
         torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128]

def check(group, rank, how, size, dtype):
    m = group.size
    x = (torch.arange(size) % 3 + rank).to(dtype)
    total = group.all_reduce(rank, f"{how} {size} {dtype}", x, how=how, limit=Limit(seconds=240))
    expected = (m * (torch.arange(size) % 3) + m * (m - 1) // 2).to(dtype)
    assert torch.equal(total, expected), (how, m, size, dtype, total, expected)

def member(rank):
    server = tf.train.Server(spec, "worker", rank)
    hub, counts = server._resources.hub, {}
    for m in range(rank + 1, most + 1):
        group = hub.join(m, m, f"{hub.task}/device:CPU:0", Limit(seconds=240))
        for how in (*ALGORITHMS, "gloo", "auto"):
            for size in (1, 5, 1001):
                check(group, rank, how, size, torch.float32)
            for dtype in TYPES:
                check(group, rank, how, 7, dtype)
            before = group.counts.messages, group.counts.elements, group.counts.received_elements
            check(group, rank, how, 2520, torch.float32)
            after = group.counts.messages, group.counts.elements, group.counts.received_elements
            counts[f"{how} {m}"] = [b - a for a, b in zip(before, after)]
    (folder / f"{rank}.part").write_text(json.dumps(counts))
    (folder / f"{rank}.part").rename(folder / f"{rank}.json")
    while len(list(folder.glob("*.json"))) < most:           # until all are done: who leaves takes its groups with it
        time.sleep(0.02)
    server.stop()

children = []
for rank in range(most):                                     # forks of one process, which imports for all of them
    children.append(os.fork())
    if not children[-1]:
        try:
            member(rank)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
for _ in children:                                           # the first that fails ends the test, and the others with it
    if os.wait()[1]:
        sys.exit(1)
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("most", [3, pytest.param(9, marks=pytest.mark.slow)])
def test_every_algorithm_among_processes(most, tmp_path):
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "PENSTOCK_HEARTBEAT_SECONDS": "15",
           "PENSTOCK_COLLECTIVE_TUNE_SECONDS": "0.001"}
    command = [sys.executable, "-c", PROGRAM, json.dumps(addresses(worker=most)), str(tmp_path)]
    group = subprocess.Popen(command, env=env, start_new_session=True)
    try:
        assert group.wait(800) == 0, "a process has failed; what it says is above"
    finally:
        try:
            os.killpg(group.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        group.wait(60)
    for rank in range(most):
        for name, found in json.loads((tmp_path / f"{rank}.json").read_text()).items():
            how, m = name.split()
            if how not in ("gloo", "auto"):
                messages, elements, received = sent_by(how, rank, int(m), 2520)
                assert found == [messages, elements, received], (rank, name)

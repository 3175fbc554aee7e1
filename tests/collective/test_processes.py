"""Every algorithm among real processes: groups of 1, 2, … of them, odd sizes, all types, and the counts of the formulas."""
import json
import os
import subprocess
import sys

import pytest

from tests.collective.formulas import sent_by
from tests.distributed.conftest import SOURCE, addresses

pytestmark = pytest.mark.distributed
PROGRAM = """
import json, sys
import torch
import penstock.compat.v1 as tf
from penstock.collective.algorithms import ALGORITHMS
from penstock.collective.group import Limit
rank, spec = int(sys.argv[1]), json.loads(sys.argv[2])
torch.set_num_threads(1)
server = tf.train.Server(spec, "worker", rank)
hub, counts = server._resources.hub, {}
TYPES = [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
         torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128]

def check(group, how, size, dtype):
    m = group.size
    x = (torch.arange(size) % 3 + rank).to(dtype)
    total = group.all_reduce(rank, f"{how} {size} {dtype}", x, how=how, limit=Limit(seconds=240))
    expected = (m * (torch.arange(size) % 3) + m * (m - 1) // 2).to(dtype)
    assert torch.equal(total, expected), (how, m, size, dtype, total, expected)

for m in range(1, len(spec["worker"]) + 1):
    if rank >= m:
        continue
    group = hub.join(m, m, f"{hub.task}/device:CPU:0", Limit(seconds=240))
    for how in (*ALGORITHMS, "gloo", "auto"):
        for size in (1, 5, 1001):
            check(group, how, size, torch.float32)
        for dtype in TYPES:
            check(group, how, 7, dtype)
        before = group.counts.messages, group.counts.elements, group.counts.received_elements
        check(group, how, 2520, torch.float32)
        after = group.counts.messages, group.counts.elements, group.counts.received_elements
        counts[f"{how} {m}"] = [b - a for a, b in zip(before, after)]
print(json.dumps(counts), flush=True)
sys.stdin.readline()                                     # until all are done: who leaves takes its groups with it
server.stop()
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("most", [3, pytest.param(9, marks=pytest.mark.slow)])
def test_every_algorithm_among_processes(most):
    spec = addresses(worker=most)
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "PENSTOCK_HEARTBEAT_SECONDS": "15",
           "PENSTOCK_COLLECTIVE_TUNE_SECONDS": "0.01"}
    made = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(i), json.dumps(spec)], env=env, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) for i in range(most)]
    try:
        lines = [p.stdout.readline() for p in made]
        assert all(lines), "a process has failed; what it says is above"
        for p in made:
            p.stdin.close()
        assert [p.wait(60) for p in made] == [0] * most
    finally:
        for p in made:
            p.kill()
            p.wait(10)
            p.stdout.close()
    for rank, line in enumerate(lines):
        for name, found in json.loads(line).items():
            how, m = name.split()
            if how in ("gloo", "auto"):
                continue
            messages, elements, received = sent_by(how, rank, int(m), 2520)
            assert found == [messages, elements, received], (rank, name)

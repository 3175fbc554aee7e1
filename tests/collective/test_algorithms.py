"""Every algorithm returns the reduction of all inputs to every process, for any number of processes and elements, and sends
what it should."""
import collections
import threading

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from penstock._src.base import errors
from penstock._src.collective.algorithms import ALGORITHMS, ANY, Send, broadcast, gather
from penstock._src.collective.channel import Counts, Queues, drive
from penstock._src.collective.merge import MERGES, finish, merge_op
from tests.collective.formulas import sent_by

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128, torch.bool]
NUMPY = {"Add": np.add, "Mul": np.multiply, "Min": np.minimum, "Max": np.maximum}


def simulate(generators):
    """Runs one generator per process on one thread, in turn; returns what each returns, and what it has sent and received."""
    boxes = collections.defaultdict(collections.deque)
    counts, results = [Counts() for _ in generators], [None] * len(generators)
    wanted = [None] * len(generators)                    # what each waits for
    running = dict(enumerate(generators))
    while running:
        moved = False
        for rank, moves in list(running.items()):
            value = None
            if wanted[rank] is not None:
                box = boxes[wanted[rank].source, rank]
                if not box:
                    continue
                value = box.popleft()
                assert wanted[rank].size in (ANY, value.numel())
                counts[rank].received(value)
            moved = True
            try:
                move = moves.send(value)
                while type(move) is Send:
                    boxes[rank, move.to].append(move.data.clone())
                    counts[rank].sent(move.data)
                    move = moves.send(None)
                wanted[rank] = move
            except StopIteration as end:
                results[rank] = end.value
                del running[rank]
        assert moved, "all processes wait for each other"
    assert not any(boxes.values()), "a message was sent and not received"
    return results, counts


def reduced(name, inputs, merge="Add"):
    buffers = [x.clone() for x in inputs]
    merging = merge_op(merge, inputs[0].dtype)
    _, counts = simulate([ALGORITHMS[name](r, len(inputs), b, merging) for r, b in enumerate(buffers)])
    return buffers, counts


def small(dtype, size, rng):
    return torch.from_numpy(rng.integers(0, 3, size)).to(dtype)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 9), st.integers(0, 41), st.sampled_from(DTYPES),
       st.sampled_from(sorted(MERGES)), st.integers(0, 2 ** 31))
def test_everybody_gets_the_reduction_of_all(name, processes, size, dtype, merge, seed):
    if merge in ("Min", "Max") and dtype.is_complex:
        return
    rng = np.random.default_rng(seed)
    inputs = [small(dtype, size, rng) for _ in range(processes)]
    results, _ = reduced(name, inputs, merge)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected = torch.from_numpy(NUMPY[merge].reduce([x.to(wide).numpy() for x in inputs], axis=0)).to(dtype)
    for result in results:
        assert torch.equal(result, expected)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 9), st.integers(0, 100), st.integers(0, 2 ** 31))
def test_all_get_the_same_bits(name, processes, size, seed):
    rng = np.random.default_rng(seed)
    inputs = [torch.from_numpy((rng.standard_normal(size) * 10.0 ** rng.integers(-6, 6)).astype(np.float32))
              for _ in range(processes)]
    results, _ = reduced(name, inputs)
    assert all(torch.equal(r, results[0]) for r in results)
    np.testing.assert_allclose(results[0], np.sum([x.numpy().astype(float) for x in inputs], axis=0), rtol=1e-4,
                               atol=1e-5 * max((float(x.abs().max()) for x in inputs if size), default=0))


@pytest.mark.parametrize("processes", range(2, 10))
def test_counts_are_those_of_the_formulas(processes):
    n = 2520                                             # divides by all of 2 … 10
    for name in ALGORITHMS:
        for rank, c in enumerate(reduced(name, [torch.ones(n)] * processes)[1]):
            assert (c.messages, c.elements, c.received_elements) == sent_by(name, rank, processes, n)
            assert c.bytes == 4 * c.elements
    master = reduced("master_worker", [torch.ones(n)] * processes)[1][0]
    assert master.elements + master.received_elements == 2 * n * (processes - 1)


def test_fewer_elements_than_processes_send_no_empty_messages():
    for name in ("ring", "round_robin", "butterfly"):
        for c in reduced(name, [torch.ones(2)] * 7)[1]:
            assert c.elements >= c.messages


@pytest.mark.parametrize("processes", range(1, 10))
def test_gather_and_broadcast(processes):
    inputs = [torch.full((r + 1,), float(r)) for r in range(processes)]
    results, counts = simulate([gather(r, processes, x) for r, x in enumerate(inputs)])
    assert all(torch.equal(torch.cat(r), torch.cat(inputs)) for r in results)
    assert [c.elements for c in counts] == [(r + 1) * (processes - 1) for r in range(processes)]
    for root in range(processes):
        data = [torch.full((5,), float(r)) for r in range(processes)]
        _, counts = simulate([broadcast(r, processes, x, root) for r, x in enumerate(data)])
        assert all(torch.equal(x, torch.full((5,), float(root))) for x in data)
        assert sum(c.messages for c in counts) == processes - 1
        assert max(c.messages for c in counts) <= max(processes - 1, 0).bit_length()


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("processes", [1, 2, 5])
def test_with_threads(name, processes):
    channels = Queues.group(processes, timeout=60)
    data = [torch.arange(1001.) * (r + 1) for r in range(processes)]
    threads = [threading.Thread(target=drive, args=(ALGORITHMS[name](r, processes, data[r], merge_op("Add", torch.float32)), c))
               for r, c in enumerate(channels)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    assert all(torch.equal(d, torch.arange(1001.) * (processes * (processes + 1) // 2)) for d in data)


def test_a_message_that_does_not_come_is_an_error():
    channel = Queues.group(2, timeout=0.05)[0]
    with pytest.raises(errors.DeadlineExceededError, match="Member 1 has sent nothing to member 0"):
        drive(ALGORITHMS["ring"](0, 2, torch.ones(3), merge_op("Add", torch.float32)), channel)


def test_a_message_of_another_size_is_an_error():
    first, second = Queues.group(2, timeout=5)
    second.send(0, torch.ones(7))
    with pytest.raises(errors.InvalidArgumentError, match="sent 7 elements, and 3 were expected"):
        drive(ALGORITHMS["all_to_all"](0, 2, torch.ones(3), merge_op("Add", torch.float32)), first)


def test_merging():
    big = torch.tensor([2 ** 63 + 5, 3], dtype=torch.uint64)
    total = torch.tensor([7, 2 ** 64 - 1], dtype=torch.uint64)
    merge_op("Max", torch.uint64)(total, big)
    assert total.tolist() == [2 ** 63 + 5, 2 ** 64 - 1]
    with pytest.raises(errors.InvalidArgumentError, match="no order"):
        merge_op("Min", torch.complex64)
    with pytest.raises(errors.InvalidArgumentError, match="not a merge op"):
        merge_op("Or", torch.int32)
    assert finish("Div", torch.tensor([-7, 7]), 2).tolist() == [-3, 3]
    assert finish("Div", torch.tensor([1., 2.]), 4).tolist() == [0.25, 0.5]
    assert finish("Div", torch.tensor([9], dtype=torch.uint16), 2).tolist() == [4]
    with pytest.raises(errors.InvalidArgumentError, match="not a final op"):
        finish("Mean", torch.ones(1), 2)

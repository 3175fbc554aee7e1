"""Large tensors in shared memory: the right values, blocks that are used again, and nothing taken on trust."""
import os

import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.cluster import shared

pytestmark = pytest.mark.distributed
needs_memory = pytest.mark.skipif(not shared.host(), reason="no shared memory of this kind on this system")


@needs_memory
def test_what_is_put_there_is_what_is_got():
    out, into = shared.Outgoing(), shared.Incoming()
    try:
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool):
            value = (torch.rand(300, 200, 7) * 100).to(dtype)
            got = into.get(out.put(value), dtype, [300, 200, 7])
            assert torch.equal(got, value)
            del got
            out.free([into.unused.popleft()])
        turned = torch.rand(300, 500).t()                                   # not contiguous
        assert torch.equal(into.get(out.put(turned), torch.float32, [500, 300]), turned)
    finally:
        out.close()


@needs_memory
def test_a_block_is_not_used_again_before_its_tensor_has_gone():
    out, into = shared.Outgoing(), shared.Incoming()
    try:
        first = into.get(out.put(torch.zeros(100_000)), torch.float32, [100_000])
        view = first[5:]
        del first
        assert not into.unused
        second = into.get(out.put(torch.ones(100_000)), torch.float32, [100_000])
        assert view.sum() == 0 and second.sum() == 100_000
        del view
        assert list(into.unused) == [0]
        out.free([into.unused.popleft()])
        out.put(torch.full([100_000], 3.0))
        assert len(out._blocks) == 2
    finally:
        out.close()
    assert shared._made[0] == 0


@needs_memory
def test_strange_memory_is_refused():
    out, into = shared.Outgoing(), shared.Incoming()
    fd = os.memfd_create("not sealed")
    os.ftruncate(fd, 1 << 20)
    try:
        number, size, pid, block = out.put(torch.zeros(100_000))
        for where in ([0, size * 2, pid, block], [0, 1 << 20, os.getpid(), fd], [0, size, pid, 0], [0, size, 1 << 30, 3]):
            with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError)):
                into.get(where, torch.float32, [10])
        with pytest.raises(errors.InvalidArgumentError, match="fit"):
            into.get([number, size, pid, block], torch.float32, [1 << 40])
    finally:
        os.close(fd)
        out.close()


def test_without_memory_tensors_go_over_the_connection(monkeypatch):
    monkeypatch.setattr(shared, "_MOST", 1000)
    assert shared.Outgoing().put(torch.zeros(100_000)) is None


def test_large_tensors_cross_processes(processes):
    tasks = processes(ps=1, worker=1)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=np.arange(300_000, dtype=np.float32))
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [300_000])
            y = v * x
        with tf.device("/job:ps/task:0"):
            back = tf.reduce_sum(y)
            up = v.assign_add(tf.ones([300_000]))
        with tf.Session(tasks.target("worker")) as sess:
            sess.run(v.initializer)
            kept = []
            for n in range(5):
                got, total = sess.run([y, back], {x: np.full(300_000, 2.0, np.float32)})
                np.testing.assert_array_equal(got, (np.arange(300_000, dtype=np.float32) + n) * 2)
                np.testing.assert_allclose(total, got.sum(dtype=np.float64), rtol=1e-4)
                kept.append((got, got.copy()))
                sess.run(up.op)
    for got, copy in kept:
        np.testing.assert_array_equal(got, copy)

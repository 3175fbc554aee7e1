"""Rows of repeated indices are added up on a GPU without the host (`_DistinctInPlace`), on a pretended GPU and a real one."""
import weakref

import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.ops.array import unique
from penstock._src.ops.nn import update_kernels
from penstock._src.step.tiers import tiers
from tests.step.optimize.test_updates import OPTIMIZERS
from tests.step.place.fake_gpu import FakeGpu

IDS = [[3, 1, 3, 0], [2, 2, 2, 2], [5, 0, 1, 5]]
# "descent" adds rows without looking; the others compute with rows that they gather by the distinct indices
SPARSE = [n for n in OPTIMIZERS if n not in ("descent", "keras sgd", "keras adamax")]


@pytest.mark.parametrize("rows", [0, 9])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_each_number_stays_where_it_is_first(rows, dtype):
    draw = np.random.RandomState(0)
    for n in (0, 1, 2, 40):
        x = draw.randint(0, 9, n)
        y, where = unique._in_place_kernel(torch.from_numpy(x).to(dtype), rows=rows, out_idx=tf.int64)
        first = [list(x).index(v) for v in x]
        np.testing.assert_array_equal(where, first)
        np.testing.assert_array_equal(y, [v if f == i else -1 for i, (v, f) in enumerate(zip(x, first, strict=True))])
        assert y.dtype is dtype


def test_what_is_no_row_stays_alone():
    y, where = unique._in_place_kernel(torch.tensor([7, -2, 0, 7, 0]), rows=3, out_idx=tf.int32)
    assert y.tolist() == [7, -2, 0, 7, -1] and where.tolist() == [0, 1, 2, 3, 2]


def test_rows_that_are_skipped_change_nothing():
    def rule(var, slot, grad):
        slot.mul_(0.5).add_(grad)
        var.sub_(slot)
    for indices, good in (([-1, 4, -1, 0, 9], [1, 3]), ([-1, -1], [])):
        var, slot = torch.arange(10.).reshape(5, 2), torch.ones(5, 2)
        grad = torch.arange(float(2 * len(indices))).reshape(-1, 2)
        want = [var.clone(), slot.clone()]
        at = [indices[i] for i in good]
        want[1][at] = want[1][at] * 0.5 + grad[good]
        want[0][at] -= want[1][at]
        update_kernels._on_distinct_rows(rule, [var, slot], [grad], 0, torch.tensor(indices), {})
        torch.testing.assert_close([var, slot], want)


def trained(name, device, resource):
    """The tables after steps over rows that repeat, and the program of a step."""
    with tf.Graph().as_default(), tf.device(device):
        tables = [tf.get_variable(f"t{i}", initializer=np.random.RandomState(i).randn(7, 3).astype("f"), use_resource=resource)
                  for i in range(2)]
        ids = tf.placeholder(tf.int64, [4])
        loss = tf.add_n([tf.reduce_sum(tf.square(tf.nn.embedding_lookup(t, ids) - 1.0)) for t in tables])
        optimizer = OPTIMIZERS[name]()
        train = tf.group(*optimizer.get_updates(loss, tables)) if name.startswith("keras") else optimizer.minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for given in IDS * 2:
                sess.run(train, {ids: given})
            reached = {slot.tier for step in tiers.every for slot in step._slots.values()}
            return sess.run(tables), sess.explain(train, [ids]), reached


def compare(name, resource):
    if name.startswith("keras") and not resource:
        pytest.skip("Keras optimizers update resource variables")
    wanted, on_host, _ = trained(name, "/cpu:0", resource)
    found, program, reached = trained(name, "/gpu:0", resource)
    assert "_DistinctInPlace" not in on_host
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    return program, reached


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", SPARSE)
def test_optimizers_on_a_pretended_gpu(monkeypatch, name, resource):
    monkeypatch.setattr("penstock._src.session.local.local_devices", lambda config=None: [Cpu(0, 0, 1), FakeGpu(0, 0, 1)])
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    context.process.v2_control_flow = False
    assert "Unique(" not in compare(name, resource)[0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", SPARSE)
def test_optimizers_on_a_gpu(monkeypatch, name, resource):
    monkeypatch.setattr(tiers, "every", weakref.WeakSet())
    assert 2 in compare(name, resource)[1]


def test_an_index_that_something_else_reads_is_found_as_usual(monkeypatch):
    monkeypatch.setattr("penstock._src.session.local.local_devices", lambda config=None: [Cpu(0, 0, 1), FakeGpu(0, 0, 1)])
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        v = tf.get_variable("v", initializer=np.zeros([5, 2], "f"))
        y, where = tf.unique(tf.placeholder_with_default(np.int64([3, 1, 3]), [3]))
        total = tf.unsorted_segment_sum(tf.ones([3, 2]), where, tf.shape(y)[0])
        add = tf.scatter_add(v, y, total)
        with tf.Session() as sess:
            assert "_DistinctInPlace" in sess.explain(add.op)
            assert "_DistinctInPlace" not in sess.explain([y, add.op])
            assert "_DistinctInPlace" not in sess.explain([add.op, tf.reduce_mean(total)])

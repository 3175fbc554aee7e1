"""Embedding variables with rows on a GPU: training, checkpoints, prefetching as on the host. A pretended GPU or a real one."""
import numpy as np
import pytest
import torch

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.kernels.devices.cpu import Cpu
from tests.step.place.fake_gpu import FakeGpu

OPTIMIZERS = {"sgd": lambda: v1.train.GradientDescentOptimizer(0.1), "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
              "adam": lambda: v1.train.AdamOptimizer(0.1), "ftrl": lambda: v1.train.FtrlOptimizer(0.1),
              "proximal": lambda: v1.train.ProximalAdagradOptimizer(0.1), "keras": lambda: tf.keras.optimizers.SGD(0.1)}


@pytest.fixture(params=["pretended", pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU")])])
def gpu(request, monkeypatch):
    """A machine with a GPU."""
    if request.param == "pretended":
        monkeypatch.setattr("penstock._src.session.local.local_devices", lambda config=None: [Cpu(0, 0, 1), FakeGpu(0, 0, 1)])
        monkeypatch.setenv("PENSTOCK_TIER", "1")


def _option(storage_type, tmp_path, **kwargs):
    storage = v1.StorageOption(storage_type, str(tmp_path / "rows"), device_capacity=40, **kwargs)
    return v1.EmbeddingVariableOption(storage_option=storage, evict_option=v1.GlobalStepEvict(6))


def _train(option, path, optimizer="adam", restore=None, steps=50, device="/gpu:0"):
    """Trains, saves a checkpoint and an increment; returns the rows of all keys, their versions, and where the table was."""
    rng = np.random.default_rng(3)
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as sess:
        with tf.device(device):
            table = v1.get_embedding_variable("users", 4, initializer=v1.random_normal_initializer(0.0, 0.1, seed=1),
                                              ev_option=option)
            keys = v1.placeholder(tf.int64, [None])
            rows = tf.nn.embedding_lookup(table, keys)
            loss = tf.reduce_sum(tf.square(tf.tanh(rows) - 0.5))
        step = v1.train.get_or_create_global_step()
        train = OPTIMIZERS[optimizer]()
        if optimizer == "keras":
            train = tf.group(train.apply_gradients([(v1.gradients(loss, table)[0], table)]), v1.assign_add(step, 1))
        else:
            train = train.minimize(loss, step)
        saver = v1.train.IncrementalSaver()
        sess.run(v1.global_variables_initializer())
        if restore:
            saver.restore(sess, restore)
        for i in range(steps):
            sess.run(train, {keys: rng.integers(0, 200 if i < 20 else 90, 30)})
            if i == steps // 2:
                saver.save(sess, path)
        saver.incremental_save(sess)
        found = sess.run([rows, *table.versions_and_frequencies(keys), table.size()], {keys: np.arange(200)})
        return found, sess.explain_placement()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_that_of_the_host(gpu, tmp_path, optimizer):
    near, placed = _train(_option("HBM_DRAM", tmp_path), str(tmp_path / "near"), optimizer)
    far, there = _train(_option("DRAM", tmp_path), str(tmp_path / "far"), optimizer)
    for a, b in zip(near, far, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    handle = next(line for line in placed.splitlines() if "KvVarHandleOp" in line)
    assert "GPU:0" in handle and "CPU:0" in next(line for line in there.splitlines() if "KvVarHandleOp" in line)


def test_checkpoints_are_those_of_the_host(gpu, tmp_path):
    _train(_option("HBM_DRAM", tmp_path), str(tmp_path / "near"))
    _train(_option("DRAM", tmp_path), str(tmp_path / "far"))
    restored = [_train(_option(kind, tmp_path), str(tmp_path / f"{kind}{name}"), restore=str(tmp_path / name), steps=4)[0]
                for kind in ("HBM_DRAM", "DRAM") for name in ("near", "far")]
    for other in restored[1:]:
        for a, b in zip(other, restored[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_three_tiers(gpu, tmp_path):
    found, _ = _train(_option("HBM_DRAM_SSDHASH", tmp_path, capacity=60), str(tmp_path / "near"))
    expected, _ = _train(_option("DRAM", tmp_path), str(tmp_path / "far"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_batches_are_prefetched_to_the_device(gpu, tmp_path):
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as sess:
        with tf.device("/gpu:0"):
            table = v1.get_embedding_variable("items", 4, initializer=v1.ones_initializer(),
                                              ev_option=_option("HBM_DRAM", tmp_path))
        dataset = tf.data.Dataset.from_tensor_slices(np.arange(200)).batch(20)
        iterator = v1.data.make_initializable_iterator(table.prefetched(dataset))
        total = tf.reduce_sum(tf.nn.embedding_lookup(table, iterator.get_next()))
        sess.run(v1.global_variables_initializer())
        sess.run(iterator.initializer)
        assert [sess.run(total) for _ in range(10)] == [80.0] * 10


def test_without_a_gpu_rows_are_on_the_host(tmp_path):
    found, placed = _train(_option("HBM_DRAM", tmp_path), str(tmp_path / "a"), device=None)
    assert found[3] > 0 and "GPU" not in placed


@pytest.mark.parametrize(("storage", "fields"), [
    (v1.StorageOption("HBM_DRAM", storage_size=[640, 6400]), {"device_rows": 40, "capacity": 400, "storage": ""}),
    (v1.StorageOption(13, storage_size=[640]), {"device_rows": 40, "capacity": 0}),
    (v1.StorageOption("HBM"), {"device_rows": 1 << 26}),
    (v1.StorageOption("HBM_DRAM_SSDHASH", "/x", [640, 1280]), {"device_rows": 40, "capacity": 80, "storage": "/x"}),
    (v1.StorageOption("DRAM_LEVELDB", "/x", 1280), {"device_rows": 0, "capacity": 80, "storage": "/x"})])
def test_the_sizes_of_tiers(storage, fields):
    with tf.Graph().as_default():
        table = v1.get_embedding_variable("t", 4, ev_option=v1.EmbeddingVariableOption(storage_option=storage))
        assert {n: getattr(table.config, n) for n in fields} == fields


@pytest.mark.parametrize("kind", ["DRAM_PMEM", "TAPE"])
def test_tiers_that_do_not_exist(kind):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=kind):
        v1.get_embedding_variable("t", 4, ev_option=v1.EmbeddingVariableOption(storage_option=v1.StorageOption(kind)))

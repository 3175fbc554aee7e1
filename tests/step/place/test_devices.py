"""Devices: how many a configuration defines, their names, eager device scopes, tf.config."""
import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.graph import context
from penstock._src.kernels.devices import device_config, device_lib
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.kernels.devices.cuda import Cuda
from penstock._src.kernels.devices.devices import KINDS, DeviceSet, local_devices, register

NAME = "/job:localhost/replica:0/task:0/device:"


def cpus(n):
    return tf.ConfigProto(device_count={"CPU": n, "GPU": 0})


def test_logical_cpus_of_a_session():
    with tf.Graph().as_default(), tf.Session(config=cpus(3)) as sess:
        assert [d.name for d in sess.list_devices()] == [f"{NAME}CPU:{i}" for i in range(3)]
        assert {d.device_type for d in sess.list_devices()} == {"CPU"}
        assert all(d.memory_limit_bytes > 0 and d.incarnation > 0 for d in sess.list_devices())


def test_a_device_keeps_its_incarnation():
    assert local_devices(cpus(2))[1].incarnation == local_devices(cpus(2))[1].incarnation
    assert len({d.incarnation for d in local_devices(cpus(4))}) == 4


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine that says it has two GPUs: enough for what only names and counts them."""
    monkeypatch.setattr(Cuda, "count", classmethod(lambda cls: 2))
    monkeypatch.setattr(Cuda, "memory", classmethod(lambda cls, physical: 8 << 30))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *a: None)


def gpus(**options):
    return [d for d in local_devices(tf.ConfigProto(gpu_options=tf.GPUOptions(**options))) if d.device_type == "GPU"]


def test_gpu_options(two_gpus):
    assert [d.physical for d in gpus()] == [0, 1]
    assert [(d.name, d.physical) for d in gpus(visible_device_list="1")] == [(NAME + "GPU:0", 1)]
    assert [d.physical for d in gpus(visible_device_list="1,0")] == [1, 0]
    assert gpus(per_process_gpu_memory_fraction=0.25)[0].memory_limit_bytes == 2 << 30
    assert [d.device_type for d in local_devices(tf.ConfigProto(device_count={"GPU": 0}))] == ["CPU"]
    assert len(local_devices(tf.ConfigProto(device_count={"GPU": 1}))) == 2


def test_virtual_gpus(two_gpus):
    config = tf.ConfigProto()
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[100, 200])
    found = [d for d in local_devices(config) if d.device_type == "GPU"]
    assert [(d.index, d.physical, d.memory_limit_bytes >> 20) for d in found] == [(0, 0, 100), (1, 0, 200), (2, 1, 8192)]


@pytest.mark.parametrize(("text", "words"), [("x", "Could not parse"), ("5", "invalid GPU id '5'"), ("0,0", "duplicate")])
def test_bad_visible_device_list(two_gpus, text, words):
    with pytest.raises(errors.InvalidArgumentError, match=words):
        gpus(visible_device_list=text)


def test_gpus_come_first(two_gpus):
    found = DeviceSet(local_devices())
    assert [d.name for d in found.best_first] == [NAME + "GPU:0", NAME + "GPU:1", NAME + "CPU:0"]
    assert found.find("").name == NAME + "GPU:0"
    assert found.find("/cpu:*").name == NAME + "CPU:0"
    assert found.find("/device:GPU:7") is None


def test_physical_and_logical_devices():
    cpu, = tf2.config.list_physical_devices("CPU")
    assert cpu.name == "/physical_device:CPU:0"
    tf2.config.set_logical_device_configuration(cpu, [tf2.config.LogicalDeviceConfiguration()] * 3)
    assert [d.name for d in tf2.config.list_logical_devices("CPU")] == [f"/device:CPU:{i}" for i in range(3)]
    with pytest.raises(RuntimeError, match="cannot be modified"):
        tf2.config.set_logical_device_configuration(cpu, [tf2.config.LogicalDeviceConfiguration()])
    with tf.Graph().as_default(), tf.Session() as sess:
        assert len([d for d in sess.list_devices() if d.device_type == "CPU"]) == 3


def test_settings_of_the_process_are_checked():
    with pytest.raises(ValueError, match="Unrecognized device"):
        tf2.config.set_visible_devices(tf2.config.PhysicalDevice("/physical_device:TPU:0", "TPU"))
    cpu, = tf2.config.list_physical_devices("CPU")
    with pytest.raises(ValueError, match="memory growth on non-GPU"):
        tf2.config.experimental.set_memory_growth(cpu, True)
    with pytest.raises(ValueError, match="memory limit"):
        tf2.config.set_logical_device_configuration(cpu, [tf2.config.LogicalDeviceConfiguration(memory_limit=10)])


def test_listing_devices_fixes_nothing():
    first, *_ = device_lib.list_local_devices()
    assert (first.name, first.device_type) == ("/device:CPU:0", "CPU")
    assert first.memory_limit > 0
    tf.test.is_gpu_available()
    cpu, = tf2.config.list_physical_devices("CPU")
    tf2.config.set_logical_device_configuration(cpu, [tf2.config.LogicalDeviceConfiguration()] * 2)
    assert [d.name for d in device_lib.list_local_devices()][:2] == ["/device:CPU:0", "/device:CPU:1"]
    assert len(device_lib.list_local_devices(cpus(5))) == 5


def test_threads():
    before = torch.get_num_threads()
    try:
        tf2.config.threading.set_intra_op_parallelism_threads(2)
        assert torch.get_num_threads() == 2 == tf2.config.threading.get_intra_op_parallelism_threads()
        with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)):
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def eager_cpus():
    context.process.eager = True
    cpu, = tf2.config.list_physical_devices("CPU")
    tf2.config.set_logical_device_configuration(cpu, [tf2.config.LogicalDeviceConfiguration()] * 2)


def test_eager_device_scopes(eager_cpus):
    x = tf2.constant([1.0, 2.0])
    with tf2.device("CPU:1"):
        y = x + 1.0
        made = tf2.constant(3.0)
        with tf2.device("/job:localhost"):
            z = x * 2.0
        v = tf2.Variable(1.0)
    assert y.device == made.device == z.device == NAME + "CPU:1"
    assert v.handle.device == NAME + "CPU:1"
    assert (x + 1.0).device.endswith("0")
    assert y.cpu().device == NAME + "CPU:0"
    np.testing.assert_array_equal(y.cpu().numpy(), [2, 3])


def test_eager_on_a_device_that_is_not_there(eager_cpus):
    tf2.config.set_soft_device_placement(False)
    with pytest.raises(errors.InvalidArgumentError, match="CPU:7.*CPU:0.*CPU:1"), tf2.device("CPU:7"):
        tf2.add(1.0, 2.0)
    tf2.config.set_soft_device_placement(True)
    with tf2.device("CPU:7"):
        assert tf2.add(1.0, 2.0).device.endswith(":0")
    with pytest.raises(RuntimeError, match="unknown device"):
        tf2.constant(1.0).gpu(9)


def test_eager_placement_is_logged(eager_cpus, capfd):
    tf2.debugging.set_log_device_placement(True)
    with tf2.device("CPU:1"):
        tf2.negative(1.0)
    assert f"Executing op Neg in device {NAME}CPU:1" in capfd.readouterr().err


def test_explicit_policy_refuses_copies(eager_cpus):
    context.process.device_policy = context.EXPLICIT
    x = tf2.constant(1.0)
    with pytest.raises(errors.InvalidArgumentError, match="conflicting devices"), tf2.device("CPU:1"):
        tf2.negative(x)
    context.process.device_policy = context.SILENT


def test_reset_forgets():
    tf2.config.set_soft_device_placement(False)
    device_config.reset()
    context.process.eager = True
    assert tf2.config.get_soft_device_placement()


def test_determinism_asks_for_seeds(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with context.enter(None):
        tf2.random.set_seed(None)
        try:
            tf2.config.experimental.enable_op_determinism()
            assert torch.are_deterministic_algorithms_enabled()
            with pytest.raises(RuntimeError, match="Random ops require a seed"):
                tf2.random.normal([2])
            assert tf2.random.normal([2], seed=1).shape == (2,)
            tf2.random.set_seed(5)
            first = tf2.random.normal([3]).numpy()
            tf2.random.set_seed(5)
            np.testing.assert_array_equal(tf2.random.normal([3]).numpy(), first)
        finally:
            torch.use_deterministic_algorithms(False)
            tf2.random.set_seed(None)


class Accelerator(Cpu):
    """A kind of device that this project does not know: two of them, better than a CPU, with its kernels."""

    device_type = "ACC"
    priority = 300
    __slots__ = ()

    @classmethod
    def configured(cls, config, count):
        return [(0, 1 << 30), (0, 1 << 30)]


def test_a_kind_of_device_is_one_class(monkeypatch):
    monkeypatch.setitem(KINDS, "ACC", Accelerator)           # removed after the test
    register(Accelerator)
    with tf.Graph().as_default(), tf.Session(config=cpus(1)) as sess:
        x = tf.placeholder(tf.float32, [3], name="x")
        with tf.device("/device:ACC:1"):
            doubled = tf.multiply(x, 2.0, name="doubled")
        with tf.device("/cpu:0"):
            total = tf.reduce_sum(doubled + 1.0, name="total")
        assert [d.name for d in sess.list_devices()] == [NAME + "CPU:0", NAME + "ACC:0", NAME + "ACC:1"]
        assert sess.run(total, {x: [1.0, 2.0, 3.0]}) == 15.0
        where = sess.explain_placement()
        assert f"doubled: (Mul): {NAME}ACC:1" in where and f"total: (Sum): {NAME}CPU:0" in where
        assert f"x: (Placeholder): {NAME}ACC:0" in where               # free ops go to the best device

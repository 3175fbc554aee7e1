"""Device names: reading, writing, merging."""

import pickle
from types import SimpleNamespace

import pytest

from penstock._src.kernels.devices import device_spec
from penstock._src.kernels.devices.device_spec import DeviceSpecV1, DeviceSpecV2, canonical_name, merge_device, merge_names

BOTH = pytest.mark.parametrize("spec", [DeviceSpecV1, DeviceSpecV2])

NAMES = {
    "": "",
    "/": "",
    "/replica:0/job:foo": "/job:foo/replica:0",
    "/device:GPU:0/task:0/replica:0/job:foo": "/job:foo/replica:0/task:0/device:GPU:0",
    "/cpu:0": "/device:CPU:0",
    "/gpu:1": "/device:GPU:1",
    "GPU": "/device:GPU:*",
    "cpu:*": "/device:CPU:*",
    "/device:gpu:3": "/device:GPU:3",
    "/device:TPU:3": "/device:TPU:3",
    "/job:muu/device:MyFunnyDevice:2": "/job:muu/device:MyFunnyDevice:2",
}


@pytest.mark.parametrize("name", NAMES)
def test_canonical_name(name):
    assert canonical_name(name) == NAMES[name]
    assert canonical_name(NAMES[name]) == NAMES[name]
    for spec in (DeviceSpecV1, DeviceSpecV2):
        assert spec.from_string(name).to_string() == canonical_name(spec.from_string(name)) == NAMES[name]


def test_no_constraint():
    assert canonical_name(None) == ""
    assert DeviceSpecV2.from_string(None).to_string() == ""


@pytest.mark.parametrize("name, text", [
    ("/job:j/replica:foo", "invalid literal for int"), ("/job:j/task:bar", "invalid literal for int"),
    ("/device:GPU:x", "invalid literal for int"), ("/bar:muu/baz:2", "Unknown attribute: 'bar'"),
    ("/device:GPU", "Unknown attribute: 'device'"), ("/cpu:0/device:GPU:2", "Multiple device types are not allowed"),
])  # fmt: skip
def test_no_device_name(name, text):
    with pytest.raises(ValueError, match=text):
        device_spec.check_valid(name)


@BOTH
def test_parts(spec):
    d = spec(job="j", replica=0, task="1", device_type="cpu", device_index=2)
    assert (d.job, d.replica, d.task, d.device_type, d.device_index) == ("j", 0, 1, "CPU", 2)
    assert d.to_string() == "/job:j/replica:0/task:1/device:CPU:2"
    assert d.replace(task=None, device_type="GPU").to_string() == "/job:j/replica:0/device:GPU:2"
    assert d.task == 1
    assert pickle.loads(pickle.dumps(d)) == d


@BOTH
def test_merged(spec):
    d = spec.from_string("/job:foo/device:GPU:2")
    merged = d.make_merged_spec(spec.from_string("/task:1/cpu:0"))
    assert merged.to_string() == "/job:foo/task:1/device:CPU:0" and type(merged) is spec
    assert d.to_string() == "/job:foo/device:GPU:2"


@BOTH
def test_equality(spec):
    assert spec.from_string("/gpu:0") == spec(device_type="GPU", device_index=0)
    assert spec.from_string("/gpu:0") != spec.from_string("/gpu:1")
    assert hash(spec.from_string("/gpu:0")) == hash(spec.from_string("/device:GPU:0"))
    assert spec() != ""


def test_v1_can_be_changed():
    d = DeviceSpecV1()
    d.job, d.task, d.device_type, d.device_index = "foo", "3", "gpu", 2
    assert d.to_string() == "/job:foo/task:3/device:GPU:2"
    d.merge_from(DeviceSpecV1.from_string("/cpu:0"))
    assert d.to_string() == "/job:foo/task:3/device:CPU:0"
    assert d.parse_from_string("/job:muu") is d and d.to_string() == "/job:muu"


def test_v2_cannot_be_changed():
    d = DeviceSpecV2(job="foo")
    with pytest.raises(AttributeError):
        d.job = "bar"
    assert not hasattr(d, "merge_from")
    assert d.parse_from_string("/job:muu").to_string() == "/job:muu" and d.job == "foo"


def test_device_functions_of_nested_scopes_add_up():
    node = SimpleNamespace(device="")
    for scope in ("/job:ps", "/cpu:0", "/job:worker/task:2", "/gpu:0"):  # from the innermost out
        node.device = merge_device(scope)(node)
    assert node.device == "/job:ps/task:2/device:CPU:0"
    assert merge_names("/job:a/gpu:1", "/job:b") == "/job:b/device:GPU:1"


def test_a_device_function_keeps_the_spec_it_was_given():
    spec = DeviceSpecV1(job="a")
    merger = merge_device(spec)
    spec.job = "b"
    assert merger(SimpleNamespace(device=None)) == "/job:a"
    assert merge_device(merger) is merger
    assert merge_device("").is_null_merge and not merger.is_null_merge


def test_a_device_function_of_a_bad_name_fails_at_once():
    with pytest.raises(ValueError, match="Unknown attribute"):
        merge_device("/nonsense:1")

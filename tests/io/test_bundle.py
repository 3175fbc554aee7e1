"""Tensor bundles: round trips in every type, slices, merging, and damage."""
import io
import os
import random

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.base import dtypes, errors
from penstock._src.io import bundle, slices
from penstock._src.io.bundle_v1 import SliceReader, SliceWriter
from penstock._src.io.table import Table, TableWriter, _unsnap
from penstock._src.kernels import strings

NUMBERS = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
           "uint64", "bool", "complex64", "complex128", "qint8", "quint8", "qint16", "quint16", "qint32"]


def sample(name, shape=(2, 3)):
    rng = np.random.RandomState(len(name))
    kind = dtypes.as_dtype(name)
    data = torch.from_numpy(rng.randint(0, 100, shape))
    return (data % 2 == 0) if kind == dtypes.bool else data.to(kind.torch), kind


def save(prefix, values):
    writer = bundle.BundleWriter(str(prefix))
    for name, (value, dtype) in values.items():
        writer.add(name, value, dtype)
    writer.finish()


def test_every_type_round_trips(tmp_path):
    values = {f"v/{n}": sample(n) for n in NUMBERS}
    values["text"] = strings.pack([b"", b"a" * 500, b"\0\xff"], (3, 1)), dtypes.string
    values["empty"] = torch.empty(0, 4), dtypes.float32
    values["scalar"] = torch.tensor(3.0), dtypes.float32
    save(tmp_path / "m", values)
    with bundle.BundleReader(str(tmp_path / "m")) as reader:
        assert reader.names() == sorted(values)
        for name, (value, dtype) in values.items():
            got = reader.read(name)
            assert reader.describe(name) == (dtype, tuple(value.shape))
            assert (got == value).all() if isinstance(value, np.ndarray) else torch.equal(got, value), name
    assert sorted(os.listdir(tmp_path)) == ["m.data-00000-of-00001", "m.index"]


@pytest.mark.parametrize("kind", NUMBERS)
def test_v1_round_trips(tmp_path, kind):
    if kind in ("qint16", "quint16"):
        pytest.skip("V1 checkpoints of TensorFlow have no such type")
    value, dtype = sample(kind, (4, 3))
    writer = SliceWriter(str(tmp_path / "v1"))
    writer.add("a", (4, 3), ((0, 2), (0, -1)), value[:2], dtype)
    writer.add("a", (4, 3), ((2, 2), (0, -1)), value[2:], dtype)
    writer.add("t", (2,), slices.full(1), strings.pack([b"x", b""]), dtypes.string)
    writer.finish()
    with SliceReader(str(tmp_path / "v1")) as reader:
        assert torch.equal(reader.read("a"), value)
        assert torch.equal(reader.read_slice("a", ((1, 2), (0, 2))), value[1:3, :2])
        assert reader.read("t").tolist() == [b"x", b""]
        assert reader.tensors() == {"a": (dtype, (4, 3)), "t": (dtypes.string, (2,))}


def test_slices_are_put_together(tmp_path):
    whole = torch.arange(60).reshape(5, 12)
    writer = bundle.BundleWriter(str(tmp_path / "m"))
    for part in ("5 12 0,2:-", "5 12 2,3:0,5", "5 12 2,3:5,7"):
        shape, where, _ = slices.parse_shape_and_slice(part)
        index = tuple(slice(a, b) for a, b in slices.bounds(where, shape))
        writer.add_slice("w", shape, where, whole[index], dtypes.int64)
    writer.add_slice("v", (5, 12), ((0, 5), (0, 12)), whole, dtypes.int64)       # all of it is no slice
    writer.finish()
    with bundle.BundleReader(str(tmp_path / "m")) as reader:
        assert torch.equal(reader.read("w"), whole) and torch.equal(reader.read("v"), whole)
        assert reader.tensors() == {"v": (dtypes.int64, (5, 12)), "w": (dtypes.int64, (5, 12))}
        assert torch.equal(reader.read_slice("w", ((1, 3), (4, 2))), whole[1:4, 4:6])
        assert torch.equal(reader.read_slice("v", ((1, 3), (4, 2))), whole[1:4, 4:6])
        with pytest.raises(errors.InvalidArgumentError, match="out of bounds"):
            reader.read_slice("w", ((4, 3), (0, -1)))


def test_missing_slices_are_noticed(tmp_path):
    writer = bundle.BundleWriter(str(tmp_path / "m"))
    writer.add_slice("w", (4,), ((0, 2),), torch.zeros(2), dtypes.float32)
    writer.finish()
    with bundle.BundleReader(str(tmp_path / "m")) as reader, pytest.raises(errors.InvalidArgumentError, match="sufficient"):
        reader.read("w")


def test_slice_keys_sort_as_slices_do():
    parts = [((a, b),) for a in (-1, 0, 1, 63, 64, 8191, 8192, 1 << 40, (1 << 63) - 1) for b in (-1, 0, 70, 1 << 50)]
    assert sorted(parts) == sorted(parts, key=lambda p: slices.key("n", p))
    assert slices.key("w", ((0, 2), (0, -1))) == b"\0w\0\1\1\2\x80\x82\x80\x7f"
    assert slices.key("a\0b", ()) == b"\0a\0\xffb\0\1\0"


def test_bundles_merge(tmp_path):
    for i in range(3):
        writer = bundle.BundleWriter(str(tmp_path / "tmp" / f"part-{i}"))
        writer.add(f"v{i}", torch.full((2,), float(i)), dtypes.float32)
        writer.add_slice("w", (3,), ((i, 1),), torch.tensor([i]), dtypes.int64)
        writer.finish()
    bundle.merge([str(tmp_path / "tmp" / f"part-{i}") for i in range(3)], str(tmp_path / "m"))
    with bundle.BundleReader(str(tmp_path / "m")) as reader:
        assert reader.read("v2").tolist() == [2, 2] and reader.read("w").tolist() == [0, 1, 2]
    assert sorted(os.listdir(tmp_path)) == [*(f"m.data-0000{i}-of-00003" for i in range(3)), "m.index", "tmp"]
    assert os.listdir(tmp_path / "tmp") == []


def test_a_bundle_is_replaced_at_once(tmp_path, monkeypatch):
    """Up to the rename of the index, the old bundle is whole; afterwards the new one is, and the old data are gone."""
    prefix = str(tmp_path / "m")
    save(prefix, {"a": (torch.zeros(3), dtypes.float32)})
    replace = os.replace

    def fails_at_the_index(old, new):
        if new.endswith(".index"):
            raise OSError(5, "power failure")
        replace(old, new)
    monkeypatch.setattr(os, "replace", fails_at_the_index)
    with pytest.raises(errors.UnknownError):
        save(prefix, {"a": (torch.ones(3), dtypes.float32)})
    monkeypatch.undo()
    with bundle.BundleReader(prefix) as reader:
        assert reader.read("a").tolist() == [0, 0, 0]
    save(prefix, {"a": (torch.ones(3), dtypes.float32)})
    with bundle.BundleReader(prefix) as reader:
        assert reader.read("a").tolist() == [1, 1, 1]
    assert len([f for f in os.listdir(tmp_path) if ".data-" in f]) == 1


def test_a_missing_name_tells_near_ones(tmp_path):
    save(tmp_path / "m", {"layer1/kernel": (torch.zeros(1), dtypes.float32)})
    with bundle.BundleReader(str(tmp_path / "m")) as reader, \
            pytest.raises(errors.NotFoundError, match="layer_1/kernel not found.*nearest: layer1/kernel"):
        reader.describe("layer_1/kernel")


def test_damage_names_the_tensor(tmp_path):
    save(tmp_path / "m", {"a": (torch.zeros(1000), dtypes.float32), "b": (torch.ones(1000), dtypes.float32)})
    data = tmp_path / "m.data-00000-of-00001"
    whole = data.read_bytes()
    data.write_bytes(whole[:6000])
    restore = lambda: tf.raw_ops.RestoreV2(prefix=str(tmp_path / "m"), tensor_names=["a", "b"],
                                           shape_and_slices=["", ""], dtypes=[tf.float32] * 2)
    with pytest.raises(errors.DataLossError, match="too short: b"):
        restore()
    data.write_bytes(whole[:5000] + b"\x55" + whole[5001:])
    with pytest.raises(errors.DataLossError, match="bytes of b .* damaged"):
        restore()
    os.remove(data)
    with pytest.raises(errors.DataLossError, match="missing: it holds a"):
        restore()


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001", "v1"])
def test_fuzzed_files_give_typed_errors(tmp_path, suffix):
    """Bit flips and cuts: the right values, or a typed error; never anything else."""
    values = {f"v{i}": (torch.arange(i * 3.0), dtypes.float32) for i in range(20)}
    values["s"] = strings.pack([b"abc"] * 40), dtypes.string
    save(tmp_path / "m", values)
    writer = SliceWriter(str(tmp_path / "v1"))
    for name, (value, dtype) in values.items():
        writer.add(name, tuple(value.shape), slices.full(1), value, dtype)
    writer.finish()
    path = tmp_path / suffix if suffix == "v1" else tmp_path / ("m" + suffix)
    whole, rng, refused = path.read_bytes(), random.Random(5), 0
    for _ in range(200):
        bad = bytearray(whole)
        if rng.random() < 0.7:
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        else:
            del bad[rng.randrange(len(bad)):]
        path.write_bytes(bad)
        try:
            with SliceReader(str(path)) if suffix == "v1" else bundle.BundleReader(str(tmp_path / "m")) as reader:
                for name in reader.tensors():
                    got = reader.read(name)
                    assert got.tolist() == values[name][0].tolist()
        except errors.OpError:
            refused += 1
    assert refused > 100


def test_huge_sizes_in_an_index_allocate_nothing(tmp_path):
    save(tmp_path / "m", {"a": (torch.zeros(4), dtypes.float32)})
    entry = bundle.BundleEntryProto(dtype=1, size=1 << 50)
    entry.shape.dim.add(size=1 << 48)
    bundle._write_index(str(tmp_path / "m"), 1, {b"a": entry})
    with bundle.BundleReader(str(tmp_path / "m")) as reader, pytest.raises(errors.DataLossError, match="too short: a"):
        reader.read("a")


def test_tables_of_many_blocks():
    file = io.BytesIO()
    writer = TableWriter(file, block_size=256)
    items = [(f"key{i:05d}".encode(), bytes([i % 256]) * (i % 40)) for i in range(500)]
    for k, v in items:
        writer.add(k, v)
    writer.finish()
    table = Table(file, len(file.getvalue()), "t")
    assert list(table.items()) == items
    assert table.get(b"key00123") == items[123][1] and table.get(b"key00123x") is None and table.get(b"zzz") is None


def test_snappy_blocks():
    assert _unsnap(b"\x04\x0cabcd") == b"abcd"
    assert _unsnap(b"\x09\x00a\x05\x01\x08bcd") == b"aaaaaabcd"
    assert _unsnap(b"\x08\x04ab\x16\x02\x00") == b"ab" + b"ababab"
    with pytest.raises(errors.DataLossError):
        _unsnap(b"\xff\xff\xff\xff\x0f\x00a")
    with pytest.raises(errors.DataLossError):
        _unsnap(b"\x08\x04ab\x16\x07\x00")

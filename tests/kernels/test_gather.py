"""Gathers and positions of coordinates in C: what numpy gives, and the errors of the version of torch."""
from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch

from penstock._src.base import errors
from penstock._src.kernels import indexing
from penstock._src.kernels.host_threads import compiled

pytestmark = pytest.mark.skipif(compiled("_gather") is None, reason="needs compiled kernels")
TYPES = [torch.float32, torch.float64, torch.int8, torch.int16, torch.bool, torch.complex128]


@pytest.mark.parametrize("seed", range(40))
def test_batch_gather_is_numpys(seed):
    r = np.random.RandomState(seed)
    batch = r.randint(1, 3)
    dims = r.randint(1, 5, batch + r.randint(1, 4)).tolist()
    axis = r.randint(batch, len(dims))
    places = r.randint(0, dims[axis], [*dims[:batch], *r.randint(0, 4, r.randint(0, 3))])
    params = torch.from_numpy(r.randint(0, 100, dims)).to(TYPES[seed % len(TYPES)])
    indices = torch.from_numpy(places).to((torch.int32, torch.int64)[r.randint(2)])
    if seed % 3 == 0:
        params = params.transpose(-1, 0).contiguous().transpose(-1, 0)
    with mock.patch.object(indexing, "compiled", lambda name: None):
        expected = indexing.gather(params, indices, axis, batch)
    found = indexing.gather(params, indices, axis, batch)
    assert found.dtype == params.dtype and found.shape == expected.shape
    assert torch.equal(found, expected)
    flat = params.reshape(-1, *dims[batch:]).numpy()
    rows = [np.take(flat[i], places.reshape(len(flat), *places.shape[batch:])[i], axis - batch) for i in range(len(flat))]
    np.testing.assert_array_equal(found.numpy(), np.stack(rows).reshape(found.shape))


@pytest.mark.parametrize("seed", range(30))
def test_gather_nd_is_numpys(seed):
    r = np.random.RandomState(seed)
    dims = r.randint(1, 5, r.randint(1, 5))
    depth = r.randint(0, len(dims) + 1)
    rows = r.randint(0, 4, r.randint(1, 3))
    places = np.stack([r.randint(0, d, rows) for d in dims[:depth]], -1) if depth else np.zeros([*rows, 0], int)
    params = r.rand(*dims)
    indices = torch.from_numpy(places).to((torch.int32, torch.int64)[seed % 2])
    found = indexing.gather_nd(torch.from_numpy(params), indices).numpy()
    expected = params[tuple(np.moveaxis(places, -1, 0))] if depth else np.broadcast_to(params, [*rows, *dims])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("bad", [-1, 3, 1 << 31, -(1 << 40)])
@pytest.mark.parametrize("call", [lambda i: indexing.gather(torch.zeros(2, 3), i, 1, 1),
                                  lambda i: indexing.gather_nd(torch.zeros(3, 3), i)], ids=["gather", "gather_nd"])
def test_bad_indices_raise_the_same_error(call, bad):
    indices = torch.tensor([[0, 1], [2, bad]])
    with pytest.raises(errors.InvalidArgumentError) as found:
        call(indices)
    with mock.patch.object(indexing, "compiled", lambda name: None), pytest.raises(errors.InvalidArgumentError) as expected:
        call(indices)
    assert str(found.value) == str(expected.value)


def test_tensors_under_vmap_have_no_memory():
    params = torch.arange(24.0).reshape(4, 2, 3)
    indices = torch.randint(0, 3, (4, 2, 5), generator=torch.Generator().manual_seed(0))
    def row(p, i):
        assert indexing._picked(p, i, 1, 1) is None
        return indexing._gathered(p, i, 1, 1).reshape(2, 5)
    made = torch.func.vmap(row)(params, indices)
    assert torch.equal(made, torch.gather(params, 2, indices))

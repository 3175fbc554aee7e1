"""Values that leave a step as numpy arrays: the same numbers, in memory of their own where something else holds it."""
import numpy as np
import pytest
import torch

from penstock._src.kernels import bridge

BASE = torch.arange(12, dtype=torch.float32).reshape(3, 4)
COMPLEX = torch.complex(BASE, BASE + 1)


@pytest.mark.parametrize("value", [
    BASE, BASE[1], BASE.t(), BASE[:, :1].expand(3, 5), BASE[:0], BASE.to(torch.int32)[0, 0], BASE.bool(), BASE.double()[::2],
    COMPLEX, COMPLEX.conj(), COMPLEX.conj().imag, COMPLEX.conj().imag[0, 0], BASE.to(torch.bfloat16), BASE.half(),
    BASE.clone().requires_grad_()], ids=range(15))
def test_fetched_values_are_contiguous_copies_of_what_others_hold(value):
    wanted = np.array(value.detach().resolve_conj().resolve_neg().tolist())
    before = value.detach().clone()
    found = bridge.fetched(value)
    np.testing.assert_array_equal(np.asarray(found, wanted.dtype).reshape(wanted.shape), wanted)
    assert np.shape(found) == tuple(value.shape)
    if np.ndim(found):
        assert found.flags.c_contiguous
        found[...] = 7
        assert torch.equal(value.detach(), before)


def test_a_fetched_value_that_nobody_holds_is_not_copied():
    held = [torch.ones(1000)]
    address = held[0].data_ptr()
    assert bridge.fetched(held.pop()).ctypes.data == address

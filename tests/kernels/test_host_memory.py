"""Large pages under large values."""
import torch

from penstock._src.kernels import host_memory
from penstock._src.ops.state.state import VariableResource


def test_large_values_are_advised_in_whole_pages(monkeypatch):
    asked = []
    monkeypatch.setattr(host_memory, "_madvise", lambda: lambda *a: asked.append(a))
    like = torch.empty(1 << 10, 3 << 10).t()
    made = host_memory.own_pages(like)
    assert made.shape == like.shape and made.is_contiguous()
    ((begin, length, advice),) = asked
    assert begin % (2 << 20) == length % (2 << 20) == 0 and advice == 14
    assert made.data_ptr() <= begin and begin + length <= made.data_ptr() + made.nbytes


def test_small_values_are_left_alone(monkeypatch):
    monkeypatch.setattr(host_memory, "_madvise", lambda: 1 / 0)
    assert host_memory.own_pages(torch.empty(3, 5)).shape == (3, 5)


def test_a_large_variable_holds_what_it_was_given():
    value = torch.arange(3 << 20, dtype=torch.float32).reshape(3, -1)
    held = VariableResource("v", None, None)
    held.assign(value)
    kept = held.read()
    assert torch.equal(kept, value) and kept.data_ptr() != value.data_ptr()
    written = held.writable()                     # `kept` has another owner now
    assert torch.equal(written, value) and written.data_ptr() != kept.data_ptr()

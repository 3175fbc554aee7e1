"""Our own GPU kernels against ATen's."""
import pytest
import torch

from penstock._src.kernels import triton_nn

aten = torch.ops.aten
ready = pytest.mark.skipif(not torch.cuda.is_available() or not triton_nn.available(), reason="needs a GPU and Triton")
SHAPES = [((3, 11, 13, 5), 3, 2, 0, (5, 6)), ((2, 8, 8, 130), 3, 1, 1, (8, 8)), ((4, 12, 12, 64), 2, 2, 0, (6, 6))]


@pytest.mark.gpu
@ready
@pytest.mark.parametrize("dtype", sorted(triton_nn.TYPES, key=str))
@pytest.mark.parametrize("shape, k, s, p, out", SHAPES)
def test_max_pool(shape, k, s, p, out, dtype):
    x = torch.randn(shape, device="cuda").to(dtype).relu_()             # with ties: the first zero wins
    first = x.permute(0, 3, 1, 2)
    want, indices = aten.max_pool2d_with_indices(first, [k, k], [s, s], [p, p])
    found = triton_nn.max_pool(x, [k, k], [s, s], [p, p], out)
    assert torch.equal(found, want.permute(0, 2, 3, 1))
    grad = torch.randn_like(found)
    back = aten.max_pool2d_with_indices_backward(
        grad.permute(0, 3, 1, 2), first, [k, k], [s, s], [p, p], [1, 1], False, indices)
    torch.testing.assert_close(triton_nn.max_pool_grad(x, grad, [k, k], [s, s], [p, p]), back.permute(0, 2, 3, 1))

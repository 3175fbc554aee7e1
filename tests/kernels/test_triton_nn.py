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


@pytest.mark.gpu
@ready
@pytest.mark.parametrize("dtype", sorted(triton_nn.TYPES, key=str))
@pytest.mark.parametrize("shape", [(7, 3), (2, 9, 9, 65), (4, 16, 16, 64)])
def test_relu_and_bias_gradients(shape, dtype):
    y, grad = torch.randn(shape, device="cuda").to(dtype).relu_(), torch.randn(shape, device="cuda").to(dtype)
    dx, db = triton_nn.relu_bias_grad(grad, y)
    want = aten.threshold_backward(grad, y, 0)
    assert torch.equal(dx, want)
    torch.testing.assert_close(db, want.float().sum(tuple(range(len(shape) - 1))).to(dtype), rtol=2e-2, atol=1e-2)


@pytest.mark.gpu
@ready
def test_gradients_of_some_channels():
    y = torch.randn(2, 5, 5, 48, device="cuda").relu_()
    grad = torch.randn(2, 5, 5, 100, device="cuda")[..., 20:68]
    dx, db = triton_nn.relu_bias_grad(grad, y)
    want = aten.threshold_backward(grad, y, 0)
    assert torch.equal(dx, want)
    torch.testing.assert_close(db, want.sum((0, 1, 2)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("x, expected", [
    (torch.zeros(4, 3), 3), (torch.zeros(2, 3, 4, 8), 8), (torch.zeros(2, 3, 4, 8)[..., 2:5], 8), (torch.zeros(2, 3, 1, 8), 8),
    (torch.zeros(8, 4).t(), None), (torch.zeros(2, 6, 8)[:, ::2], 16), (torch.zeros(2, 6, 8)[:, :3], None)])
def test_rows_of_channels(x, expected):
    assert triton_nn.row_stride(x) == expected

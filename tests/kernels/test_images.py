"""Our own kernels for images, normalized by their batch: the results of numpy in doubles, whatever the threads."""
import numpy as np
import pytest
import torch

from penstock._src.kernels import images

pytestmark = pytest.mark.skipif(not images.available(), reason="penstock was installed without a compiler")


@pytest.mark.parametrize("shape", [(2, 3, 3, 1), (4, 16, 16, 40), (3, 33, 17, 32), (1, 1, 1, 3), (2, 2, 2, 2, 9000)])
@pytest.mark.parametrize("relu", [False, True])
def test_normalizing(shape, relu):
    draw = np.random.RandomState(0)
    x = (draw.randn(*shape) * draw.rand(shape[-1]) * 3 + draw.randn(shape[-1]) * 100).astype(np.float32)
    scale, offset = (draw.randn(shape[-1]).astype(np.float32) for _ in range(2))
    y, mean, variance = images.batch_norm(torch.from_numpy(x), torch.from_numpy(scale), torch.from_numpy(offset), 1e-3, relu)
    axes = tuple(range(len(shape) - 1))
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axes), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, exact.var(axes), rtol=1e-4, atol=1e-8)
    expect = (exact - exact.mean(axes)) / np.sqrt(exact.var(axes) + 1e-3) * scale + offset
    np.testing.assert_allclose(y, np.maximum(expect, 0) if relu else expect, rtol=1e-3, atol=2e-3)


def test_the_variance_of_large_numbers_that_differ_little():
    """The first pixel is far from all others, which are far from zero."""
    x = np.random.RandomState(0).randn(8, 32, 32, 16).astype(np.float32) + 1000
    x[0, 0, 0] = 0
    _, mean, variance = images.batch_norm(torch.from_numpy(x), torch.ones(16), torch.zeros(16), 1e-3)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean((0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(variance, exact.var((0, 1, 2)), rtol=1e-4)


def test_normalizing_does_not_depend_on_threads_and_keeps_nan():
    x = torch.randn(16, 32, 32, 32, generator=torch.Generator().manual_seed(0))
    x[3, 2, 1, 7] = np.nan
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            results.append(images.batch_norm(x, torch.ones(32), torch.zeros(32), 1e-3, relu=True))
    finally:
        torch.set_num_threads(before)
    y = results[0][0]
    assert y[..., 7].isnan().all() and not y[..., :7].isnan().any()
    assert all(torch.equal(a.nan_to_num(9.), b.nan_to_num(9.)) for other in results[1:]
               for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("shape", [(2, 3, 3, 1), (4, 16, 16, 40), (3, 33, 17, 32), (1, 1, 1, 3), (2, 2, 2, 2, 9000)])
@pytest.mark.parametrize("relu", [False, True])
def test_the_gradient_of_normalizing(shape, relu):
    draw = np.random.RandomState(1)
    x = draw.randn(*shape) * draw.rand(shape[-1]) * 3 + draw.randn(shape[-1]) * 10
    scale, offset, grad = draw.randn(shape[-1]), draw.randn(shape[-1]), draw.randn(*shape)
    axes = tuple(range(len(shape) - 1))
    mean, variance = x.mean(axes), x.var(axes)
    after = np.maximum((x - mean) / np.sqrt(variance + 1e-3) * scale + offset, 0)
    exact = [torch.tensor(a, requires_grad=True) for a in (x, scale, offset)]
    rows = exact[0].reshape(-1, shape[-1])
    y = (rows - rows.mean(0)) / (rows.var(0, unbiased=False) + 1e-3).sqrt() * exact[1] + exact[2]
    (torch.relu(y) if relu else y).reshape(shape).backward(torch.from_numpy(grad))
    single = [torch.tensor(a, dtype=torch.float32) for a in (grad, x, scale, mean, variance)]
    found = images.batch_norm_grad(*single, 1e-3, torch.tensor(after, dtype=torch.float32) if relu else None)
    for a, b in zip(found, exact, strict=True):
        torch.testing.assert_close(a.double(), b.grad, rtol=1e-3, atol=2e-3)


def test_the_gradient_of_normalizing_does_not_depend_on_threads_and_keeps_nan():
    draw = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(16, 32, 32, 32, generator=draw) for _ in range(2))
    after, one = torch.ones_like(x), torch.ones(32)
    grad[3, 2, 1, 7] = np.nan
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            results.append(images.batch_norm_grad(grad, x, one, one, one, 1e-3, after))
    finally:
        torch.set_num_threads(before)
    assert results[0][0][..., 7].isnan().all() and not results[0][0][..., :7].isnan().any()
    assert all(torch.equal(a.nan_to_num(9.), b.nan_to_num(9.)) for other in results[1:]
               for a, b in zip(results[0], other, strict=True))

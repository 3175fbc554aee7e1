"""Our own kernels for images: ATen's results, and gradients to the first of equal maxima; whatever the threads."""
import itertools

import numpy as np
import pytest
import torch

from penstock._src.kernels import images

pytestmark = pytest.mark.skipif(not images.available(), reason="penstock was installed without a compiler")
aten = torch.ops.aten


def image(channels: int, special: bool = False) -> torch.Tensor:
    draw = np.random.RandomState(channels)
    x = draw.randint(-3, 4, (2, 9, 8, channels)).astype(np.float32)            # with many equal maxima
    if special:
        x[draw.rand(*x.shape) < 0.1] = np.inf
        x[draw.rand(*x.shape) < 0.1] = -np.inf
    return torch.from_numpy(x)


@pytest.mark.parametrize("channels", [1, 3, 16, 32, 40, 67, 128])
@pytest.mark.parametrize("window, stride", [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((2, 3), (3, 3)), ((1, 2), (2, 1)),
                                            ((4, 4), (1, 1))])
@pytest.mark.parametrize("special", [False, True])
def test_against_aten(channels, window, stride, special):
    x = image(channels, special)
    out = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:3], window, stride, strict=True)]
    theirs, indices = aten.max_pool2d_with_indices(x.permute(0, 3, 1, 2), window, stride)
    ours, places = images.max_pool(x, window, stride, (0, 0), out, places=True)
    torch.testing.assert_close(ours, theirs.permute(0, 2, 3, 1), rtol=0, atol=0)
    grad = torch.from_numpy(np.random.RandomState(0).randn(*ours.shape).astype(np.float32))
    back = aten.max_pool2d_with_indices_backward(grad.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), window, stride, [0, 0],
                                                 [1, 1], False, indices)
    spread, sums = images.max_pool_grad(grad, places, x.shape[1:3], window, stride, (0, 0), sums=True)
    torch.testing.assert_close(spread, back.permute(0, 2, 3, 1), rtol=0, atol=0)
    torch.testing.assert_close(sums, grad.sum((0, 1, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [3, 32])
@pytest.mark.parametrize("window, before, out", [((3, 3), (1, 0), (5, 4)), ((2, 2), (1, 1), (5, 5)), ((2, 2), (0, 0), (5, 4))])
def test_padding_and_relu(channels, window, before, out):
    """Windows over the edges, and what a ReLU leaves of the maxima and of their gradients."""
    x = image(channels)
    padded = np.full((2, 14, 14, channels), -np.inf, np.float32)
    padded[:, before[0]:before[0] + 9, before[1]:before[1] + 8] = x
    maxima, places = images.max_pool(x, window, (2, 2), before, out, relu=True, places=True)
    grad = torch.ones(maxima.shape)
    spread, sums = images.max_pool_grad(grad, places, (9, 8), window, (2, 2), before, sums=True)
    expect, expect_spread = np.zeros(maxima.shape, np.float32), np.zeros((2, 14, 14, channels), np.float32)
    for n, i, j, c in itertools.product(*map(range, maxima.shape)):
        part = padded[n, 2 * i:2 * i + window[0], 2 * j:2 * j + window[1], c]
        expect[n, i, j, c] = max(part.max(), 0)
        if part.max() > 0:
            a, b = np.unravel_index(part.argmax(), part.shape)
            expect_spread[n, 2 * i + a, 2 * j + b, c] += 1
    np.testing.assert_array_equal(maxima, expect)
    np.testing.assert_array_equal(spread, expect_spread[:, before[0]:before[0] + 9, before[1]:before[1] + 8])
    np.testing.assert_array_equal(sums, (expect > 0).sum((0, 1, 2)))


@pytest.mark.parametrize("channels", [1, 32])
def test_nan_is_a_maximum_but_has_a_place_only_as_the_first(channels):
    x = torch.tensor([[np.nan, 1, 2, 3], [1, np.nan, 3, 2], [-1, -2, np.nan, -4]]).reshape(3, 2, 2, 1).expand(3, 2, 2, channels)
    maxima, places = images.max_pool(x.contiguous(), (2, 2), (2, 2), (0, 0), (1, 1), relu=True, places=True)
    assert maxima.isnan().all()
    assert places[:, 0, 0].tolist() == [[0] * channels, [2] * channels, [0] * channels]


def test_results_do_not_depend_on_threads():
    x = torch.randn(16, 32, 32, 32, generator=torch.Generator().manual_seed(0))
    grad = torch.randn(16, 15, 15, 32, generator=torch.Generator().manual_seed(1))
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            maxima, places = images.max_pool(x, (3, 3), (2, 2), (0, 0), (15, 15), relu=True, places=True)
            results.append((maxima, places, *images.max_pool_grad(grad, places, (32, 32), (3, 3), (2, 2), (0, 0), sums=True)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_what_is_left_to_aten():
    assert not images.takes(torch.zeros(1, 2, 2, 3, dtype=torch.float64), (2, 2))
    assert not images.takes(torch.zeros(1, 2, 3, 2).transpose(2, 3), (2, 2))
    assert not images.takes(torch.zeros(1, 20, 20, 1), (16, 16))


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

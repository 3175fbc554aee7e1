"""Our own kernels for pooling: a plain loop's results, and gradients to the first of equal maxima; whatever the threads."""
import itertools

import numpy as np
import pytest
import torch

from penstock._src.kernels import pools

pytestmark = pytest.mark.skipif(not pools.available(), reason="penstock was installed without a compiler")


def image(*shape: int, special: bool = False) -> np.ndarray:
    draw = np.random.RandomState(sum(shape))
    x = draw.randint(-3, 4, shape).astype(np.float32)            # with many equal maxima
    if special:
        x[draw.rand(*shape) < 0.1] = np.inf
        x[draw.rand(*shape) < 0.1] = -np.inf
    return x


def windows(size, window, stride, before, output):
    """Each window of an image: its index, and where it lies inside, as slices."""
    for index in itertools.product(*map(range, output)):
        starts = [i * s - b for i, s, b in zip(index, stride, before, strict=True)]
        yield index, tuple(slice(max(a, 0), min(a + k, n)) for a, k, n in zip(starts, window, size, strict=True))


def outputs(size, window, stride, before):
    """As many windows as begin inside and do not lie beyond the padding, which is the same after as before, or one more."""
    return tuple((n + 2 * b - k) // s + 1 for n, k, s, b in zip(size, window, stride, before, strict=True))


def reference_max(x, grad, window, stride, before, relu):
    """Maxima [batch, *output, channels], and the gradient, which goes to the first of equal ones."""
    size, output = x.shape[1:-1], grad.shape[1:-1]
    out, back = np.zeros(grad.shape, np.float32), np.zeros(x.shape, np.float64)
    for index, inside in windows(size, window, stride, before, output):
        for n, c in itertools.product(range(x.shape[0]), range(x.shape[-1])):
            part = x[(n, *inside, c)]
            best = part.max()
            out[(n, *index, c)] = max(best, 0) if relu else best
            if not relu or best > 0:
                at = np.unravel_index(part.argmax(), part.shape)
                back[(n, *(s.start + a for s, a in zip(inside, at, strict=True)), c)] += grad[(n, *index, c)]
    return out, back


def reference_mean(x, grad, window, stride, before):
    size, output = x.shape[1:-1], grad.shape[1:-1]
    out, back = np.zeros(grad.shape), np.zeros(x.shape)
    for index, inside in windows(size, window, stride, before, output):
        part = x[(slice(None), *inside)].astype(np.float64)
        axes = tuple(range(1, x.ndim - 1))
        out[(slice(None), *index)] = part.mean(axes)
        count = np.prod([s.stop - s.start for s in inside])
        back[(slice(None), *inside)] += np.expand_dims(grad[(slice(None), *index)], axes) / count
    return out, back


SIZES = [                                                        # sizes, window, stride, padding
    ((9, 8), (2, 2), (2, 2), (0, 0)), ((9, 8), (3, 3), (2, 2), (0, 0)), ((9, 8), (2, 3), (3, 3), (0, 0)),
    ((9, 8), (1, 2), (2, 1), (0, 0)), ((9, 8), (4, 4), (1, 1), (0, 0)), ((9, 8), (3, 3), (1, 1), (1, 1)),
    ((9, 8), (3, 3), (2, 2), (1, 1)), ((9, 8), (2, 2), (2, 2), (1, 1)), ((5, 20), (1, 1), (2, 3), (0, 0)),
    ((3, 3), (5, 5), (1, 1), (2, 2)), ((17,), (3,), (1,), (1,)), ((17,), (4,), (2,), (0,)), ((1,), (1,), (1,), (0,)),
    ((4, 5, 6), (2, 2, 2), (2, 2, 2), (0, 0, 0)), ((4, 5, 6), (3, 2, 3), (1, 2, 1), (1, 0, 1)),
    ((4, 5, 6), (3, 3, 3), (1, 1, 1), (1, 1, 1))]


@pytest.mark.parametrize("channels", [1, 3, 8, 16, 21])
@pytest.mark.parametrize("size, window, stride, before", SIZES)
@pytest.mark.parametrize("relu, special", [(False, False), (True, False), (False, True)])
def test_maxima(size, window, stride, before, channels, relu, special):
    x = image(2, *size, channels, special=special)
    output = outputs(size, window, stride, before)
    grad = np.random.RandomState(0).randint(-9, 9, (2, *output, channels)).astype(np.float32)
    expect, expect_back = reference_max(x, grad, window, stride, before, relu)
    alone, none = pools.max_pool(torch.from_numpy(x), window, stride, before, output, relu)
    maxima, places = pools.max_pool(torch.from_numpy(x), window, stride, before, output, relu, places=True)
    back, sums = pools.max_pool_grad(torch.from_numpy(grad), places, size, window, stride, before, sums=True)
    assert none is None
    np.testing.assert_array_equal(alone, expect)
    np.testing.assert_array_equal(maxima, expect)
    np.testing.assert_array_equal(back, expect_back)
    np.testing.assert_array_equal(sums, expect_back.sum(tuple(range(x.ndim - 1))))


@pytest.mark.parametrize("channels", [1, 3, 8, 16, 21])
@pytest.mark.parametrize("size, window, stride, before", SIZES)
def test_means(size, window, stride, before, channels):
    x = np.random.RandomState(1).randn(2, *size, channels).astype(np.float32)
    output = outputs(size, window, stride, before)
    grad = np.random.RandomState(0).randn(2, *output, channels).astype(np.float32)
    expect, expect_back = reference_mean(x, grad, window, stride, before)
    means = pools.mean_pool(torch.from_numpy(x), window, stride, before, output)
    back = pools.mean_pool_grad(torch.from_numpy(grad), size, window, stride, before)
    np.testing.assert_allclose(means, expect, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(back, expect_back, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size, channels, window, stride", [((3, 700), 9, (2, 3), (1, 2)), ((2, 5), 3000, (2, 3), (1, 1)),
                                                            ((2, 300), 20, (1, 200), (1, 1)), ((1, 2), 5000, (1, 1), (1, 1))])
def test_rows_that_are_made_in_parts(size, channels, window, stride):
    x = np.random.RandomState(0).randint(-50, 50, (1, *size, channels)).astype(np.float32)
    output = outputs(size, window, stride, (0, 0))
    grad = np.random.RandomState(0).randint(-9, 9, (1, *output, channels)).astype(np.float32)
    maxima, places = pools.max_pool(torch.from_numpy(x), window, stride, (0, 0), output, places=True)
    means = pools.mean_pool(torch.from_numpy(x), window, stride, (0, 0), output)
    back, _ = pools.max_pool_grad(torch.from_numpy(grad), places, size, window, stride, (0, 0))
    slid = np.lib.stride_tricks.sliding_window_view(x, window, (1, 2))[:, ::stride[0], ::stride[1]]
    np.testing.assert_array_equal(maxima, slid.max((-1, -2)))
    np.testing.assert_array_equal(places, slid.reshape(*slid.shape[:-2], -1).argmax(-1))
    np.testing.assert_allclose(means, slid.mean((-1, -2)), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(back.sum((0, 1, 2)), grad.sum((0, 1, 2)))


@pytest.mark.parametrize("channels", [1, 32])
def test_nan_is_a_maximum_but_has_a_place_only_as_the_first(channels):
    x = torch.tensor([[np.nan, 1, 2, 3], [1, np.nan, 3, 2], [-1, -2, np.nan, -4]]).reshape(3, 2, 2, 1).expand(3, 2, 2, channels)
    maxima, places = pools.max_pool(x.contiguous(), (2, 2), (2, 2), (0, 0), (1, 1), relu=True, places=True)
    assert maxima.isnan().all()
    assert places[:, 0, 0].tolist() == [[0] * channels, [2] * channels, [0] * channels]


def test_results_do_not_depend_on_threads():
    x = torch.randn(16, 32, 32, 32, generator=torch.Generator().manual_seed(0))
    grad = torch.randn(16, 15, 15, 32, generator=torch.Generator().manual_seed(1))
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            maxima, places = pools.max_pool(x, (3, 3), (2, 2), (0, 0), (15, 15), relu=True, places=True)
            results.append((maxima, places, *pools.max_pool_grad(grad, places, (32, 32), (3, 3), (2, 2), (0, 0), sums=True),
                            pools.mean_pool(x, (3, 3), (2, 2), (0, 0), (15, 15)),
                            pools.mean_pool_grad(grad, (32, 32), (3, 3), (2, 2), (0, 0))))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_what_is_left_to_aten():
    assert not pools.takes(torch.zeros(1, 2, 2, 3, dtype=torch.float64), (2, 2))
    assert not pools.takes(torch.zeros(1, 2, 3, 2).transpose(2, 3), (2, 2))
    assert not pools.takes(torch.zeros(1, 20, 20, 1), (16, 16))

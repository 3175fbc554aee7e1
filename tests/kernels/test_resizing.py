"""The compiled resize beside sums of taps in double precision."""
import pytest
import torch

from penstock._src.kernels import resizing
from penstock._src.kernels.host_threads import on_cores
from penstock._src.ops.image.resize import apply_taps, bicubic_taps, bilinear_taps

if not resizing.fits(torch.ones(1, 1, 1, 1)):
    pytest.skip("penstock is installed without compiled kernels", allow_module_level=True)


def _images(dims, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, dims, generator=generator).to(dtype) if dtype is torch.uint8 else \
        torch.randn(dims, generator=generator)


@pytest.mark.parametrize("taps", [bilinear_taps, bicubic_taps])
@pytest.mark.parametrize("align, half", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("dims, size", [((2, 13, 7, 3), (5, 20)), ((1, 5, 6, 1), (17, 3)), ((3, 4, 9, 8), (8, 18)),
                                        ((1, 1, 1, 3), (4, 4)), ((1, 30, 40, 4), (1, 1)), ((2, 6, 5, 33), (7, 9))])
def test_the_kernel_agrees_with_sums_of_taps(taps, align, half, dtype, dims, size):
    images = _images(dims, dtype)
    rows, columns = (taps(n, m, align, half) for n, m in zip(dims[1:3], size, strict=True))
    wanted = apply_taps(apply_taps(images.double(), 1, rows), 2, columns)
    found = resizing.resize(images, rows, columns)
    assert found.dtype is torch.float32 and found.shape == wanted.shape
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4 if dtype is torch.uint8 else 1e-5)


def test_images_in_another_order_and_threads_give_the_same():
    images = _images((64, 48, 3, 4), torch.float32).permute(3, 1, 0, 2)
    rows, columns = bilinear_taps(48, 100, False, True), bilinear_taps(64, 30, False, True)
    found = resizing.resize(images, rows, columns)
    assert torch.equal(found, resizing.resize(images.contiguous(), rows, columns))
    assert torch.equal(found, on_cores(1, resizing.resize, images, rows, columns))


def test_what_is_wrapped_by_vmap_does_not_fit():
    seen = []
    torch.func.vmap(lambda x: seen.append(resizing.fits(x)) or x)(torch.ones(2, 1, 1, 1, 1))
    assert seen == [False]

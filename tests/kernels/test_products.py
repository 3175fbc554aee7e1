"""Products in the forms that are fast on a processor, beside the plain one."""
import pytest
import torch

from penstock._src.kernels import products


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("rows, inner, columns", [(128, 784, 10), (16, 1024, 2), (40, 500, 15), (2000, 9, 3), (128, 784, 16),
                                                  (128, 784, 1), (8, 4096, 10), (0, 5, 3), (300, 0, 3),
                                                  (3, 1024, 512), (4, 1024, 512), (60, 512, 1030), (0, 1024, 512),
                                                  (128, 130, 128), (2100, 16, 63), (90, 400, 64)])
@pytest.mark.parametrize("onednn, wide", [(False, False), (True, False), (True, True)])
def test_products_agree_with_those_in_double_precision(rows, inner, columns, transposed, bias, onednn, wide, monkeypatch):
    monkeypatch.setattr(products, "_prefers_onednn", lambda: onednn and torch.backends.mkldnn.is_available())
    monkeypatch.setattr(products, "_has_wide_vectors", lambda: wide)
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(*dims, generator=generator) for dims in ((rows, inner), (inner, columns), (columns,)))
    a = a.t().contiguous().t() if transposed[0] else a
    b = b.t().contiguous().t() if transposed[1] else b
    found = products.product(a, b, c if bias else None)
    wanted = a.double() @ b.double() + (c.double() if bias else 0.0)
    assert found.shape == wanted.shape and found.is_contiguous()
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4 * max(1, inner) ** 0.5)


def test_a_narrow_product_under_vmap_and_with_what_is_not_finite(monkeypatch):
    monkeypatch.setattr(products, "_prefers_onednn", lambda: torch.backends.mkldnn.is_available())
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(3, 64, 512, generator=generator), torch.randn(3, 512, 5, generator=generator)
    a[0, 3, 4], a[1, 2, 2], b[2, 5, 1] = torch.nan, torch.inf, -torch.inf
    found = torch.func.vmap(products.product)(a, b)
    torch.testing.assert_close(found, torch.bmm(a, b), rtol=1e-3, atol=1e-3, equal_nan=True)
    for i in range(3):
        torch.testing.assert_close(products.product(a[i], b[i]), found[i], rtol=1e-3, atol=1e-3, equal_nan=True)

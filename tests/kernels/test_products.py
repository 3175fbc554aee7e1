"""Products in the forms that are fast on a processor, beside the plain one."""
import ctypes

import numpy as np
import pytest
import torch

from penstock._src.kernels import products, regions
from penstock._src.kernels.host_threads import on_cores


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


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="oneDNN packs matrices")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows, inner, columns", [(1, 130, 70), (5, 1024, 512), (300, 33, 3), (0, 64, 64)])
def test_packed_matrices_multiply_like_others(rows, inner, columns, transposed, bias):
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(*dims, generator=generator) for dims in ((rows, inner), (inner, columns), (columns,)))
    stored = b.t().contiguous() if transposed else b
    packed = products.packed(stored, transposed)
    assert packed is products.packed(stored, transposed) and packed.shape == (inner, columns)
    wanted = a.double() @ b.double() + (c.double() if bias else 0.0)
    torch.testing.assert_close(products.product(a, packed, c if bias else None).double(), wanted, rtol=1e-4, atol=1e-3)
    stored.mul_(2.0)                                         # another version: packed again
    again = products.packed(stored, transposed)
    assert again is not packed
    torch.testing.assert_close(products.product(a, again).double(), a.double() @ b.double() * (1 if b is stored else 2),
                               rtol=1e-4, atol=2e-3)
    keys = {(id(stored), transposed)}
    del packed, again
    assert not keys & set(products._packed)                  # nothing is kept for matrices that no step has packed


def test_a_narrow_product_under_vmap_and_with_what_is_not_finite(monkeypatch):
    monkeypatch.setattr(products, "_prefers_onednn", lambda: torch.backends.mkldnn.is_available())
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(3, 64, 512, generator=generator), torch.randn(3, 512, 5, generator=generator)
    a[0, 3, 4], a[1, 2, 2], b[2, 5, 1] = torch.nan, torch.inf, -torch.inf
    found = torch.func.vmap(products.product)(a, b)
    torch.testing.assert_close(found, torch.bmm(a, b), rtol=1e-3, atol=1e-3, equal_nan=True)
    for i in range(3):
        torch.testing.assert_close(products.product(a[i], b[i]), found[i], rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.fixture
def compiled_products(monkeypatch):
    """All products of float32 are computed by the compiled kernel, whatever processor this is."""
    for name, value in (("_OWN", 1), ("_OWN_EACH", 1), ("_FEW", 1), ("_LARGE_512", 1 << 60), ("_WORTH", 1 << 60)):
        monkeypatch.setattr(products, name, value)
    monkeypatch.setattr(products, "_prefers_onednn", lambda: True)
    monkeypatch.setattr(products, "_has_wide_vectors", lambda: True)
    if products._kernels() is None:
        pytest.skip("no compiled kernels")


def _laid_out(values, layout):
    """The same matrices in memory of another order: rows, columns, gaps between rows, or one row for all."""
    if layout == "columns":
        return values.mT.contiguous().mT
    if layout == "gaps":
        return torch.cat([values, torch.full_like(values, torch.nan)], -1)[..., :values.shape[-1]]
    if layout == "steps":
        return torch.stack([values, torch.full_like(values, torch.nan)], -1)[..., 0]
    return values[..., :1, :].expand(values.shape) if layout == "one row" else values


@pytest.mark.parametrize("seed", range(40))
def test_compiled_products_agree_with_those_in_double_precision(seed, compiled_products):
    random = np.random.RandomState(seed)
    rows, inner, columns, batch = (int(random.choice(sizes)) for sizes in (
        (1, 5, 6, 12, 13, 50, 97, 200), (1, 2, 17, 300, 513, 1030), (2, 7, 16, 17, 32, 33, 64, 90), (1, 2, 5)))
    generator = torch.Generator().manual_seed(seed)
    a, b, c, d = (torch.randn(*dims, generator=generator) for dims in (
        (batch, rows, inner), (batch, inner, columns), (columns,), (rows, columns)))
    a, b = (_laid_out(m, random.choice(["rows", "columns", "gaps", "steps", "one row"])) for m in (a, b))
    wanted = a.double() @ b.double()
    close = {"rtol": 1e-4, "atol": 1e-5 * max(1, inner) ** 0.5}
    torch.testing.assert_close(products.batched(a, b).double(), wanted, **close)
    torch.testing.assert_close(products.product(a[0], b[0]).double(), wanted[0], **close)
    torch.testing.assert_close(products.product(a[0], b[0], c).double(), wanted[0] + c, **close)
    total = d.clone()
    products.add_product(total, a[0], b[0], -0.5)
    torch.testing.assert_close(total.double(), d - 0.5 * wanted[0], **close)


def test_compiled_products_do_not_depend_on_threads(compiled_products):
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(300, 700, generator=generator), torch.randn(700, 200, generator=generator)
    for x, y in ((a, b), (b.t(), a.t())):
        assert torch.equal(on_cores(1, products.product, x, y), products.product(x, y))
    x, y = a.view(30, 10, 700), b.t()[:, None].expand(200, 700, 700)[:30, :, :40]
    assert torch.equal(on_cores(1, products.batched, x, y), products.batched(x, y))


def test_compiled_products_keep_what_is_not_finite(compiled_products):
    a, b = torch.ones(13, 40), torch.ones(40, 33)
    a[2, 3], b[5, 32], a[4, 39] = torch.nan, torch.inf, -torch.inf
    torch.testing.assert_close(products.product(a, b), torch.mm(a, b), equal_nan=True)


@pytest.mark.parametrize("turn_a", [b"N", b"T"])
@pytest.mark.parametrize("turn_b", [b"N", b"T"])
@pytest.mark.parametrize("m, n, k, beta", [(40, 50, 60, 0.0), (33, 100, 700, 0.0), (5, 6, 7, 0.0), (50, 2, 900, 0.0),
                                           (64, 64, 64, 1.0)])
def test_sgemm_as_other_kernels_call_it(turn_a, turn_b, m, n, k, beta, compiled_products):
    library = regions.library_product("sgemm")
    if not library:
        pytest.skip("torch's library has no sgemm")
    sgemm = ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 2, *[ctypes.POINTER(ctypes.c_int)] * 3, *[ctypes.c_void_p] * 8)(
        products.fastest_sgemm(library))
    random = np.random.RandomState(0)
    a, b = (np.asfortranarray(random.randn(*dims).astype("f")) for dims in ((m, k), (k, n)))
    wanted = a.astype("d") @ b
    a, b = (np.asfortranarray(x.T) if turn == b"T" else x for x, turn in ((a, turn_a), (b, turn_b)))
    c = np.full((m + 3, n), 7.0, "f", order="F")
    sizes = [ctypes.c_int(x) for x in (m, n, k, len(a), len(b), len(c))]
    one, other = ctypes.c_float(1.0), ctypes.c_float(beta)
    sgemm(turn_a, turn_b, *map(ctypes.byref, sizes[:3]), ctypes.addressof(one), a.ctypes.data, ctypes.addressof(sizes[3]),
          b.ctypes.data, ctypes.addressof(sizes[4]), ctypes.addressof(other), c.ctypes.data, ctypes.addressof(sizes[5]))
    np.testing.assert_allclose(c[:m], wanted + 7.0 * beta, rtol=1e-4, atol=1e-5 * k ** 0.5)
    assert (c[m:] == 7.0).all()


def test_matrices_that_do_not_fit_are_refused(compiled_products):
    for call in (lambda: products.product(torch.ones(20, 30), torch.ones(31, 20)),
                 lambda: products.batched(torch.ones(3, 20, 30), torch.ones(3, 31, 20)),
                 lambda: products.batched(torch.ones(3, 20, 30), torch.ones(2, 30, 20)),
                 lambda: products.add_product(torch.ones(20, 20), torch.ones(20, 30), torch.ones(31, 20)),
                 lambda: products.add_product(torch.ones(20, 21), torch.ones(20, 30), torch.ones(30, 20))):
        with pytest.raises(RuntimeError):
            call()


def test_a_negated_view_is_multiplied_by_its_values(compiled_products):
    a, b = torch.complex(torch.ones(20, 30), torch.ones(20, 30)).conj().imag, torch.ones(30, 20)
    assert a.is_neg() and torch.equal(products.product(a, b), torch.full((20, 20), -30.0))


@pytest.mark.parametrize("has_kernels", [False, True])
def test_products_of_float16(has_kernels, monkeypatch):
    monkeypatch.setattr(products, "_multiplies_float16", lambda: has_kernels)
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(*dims, generator=generator).half() for dims in ((40, 50), (50, 30), (30,)))
    wanted = a.double() @ b.double()
    for found, exact in ((products.product(a, b), wanted), (products.product(a, b, c), wanted + c.double()),
                         (products.batched(a.view(4, 10, 50), b.expand(4, 50, 30)).view(40, 30), wanted)):
        assert found.dtype is torch.float16
        torch.testing.assert_close(found.double(), exact, rtol=2e-3, atol=1e-2)
    to = c.expand(40, 30).contiguous()
    products.add_product(to, a, b, -0.5)
    torch.testing.assert_close(to.double(), c.double() - 0.5 * wanted, rtol=2e-3, atol=2e-2)

"""Kernels of several elementwise steps and row reductions: the generated source, compiled for one lane by a C++ compiler, and
on a GPU by NVRTC, against a call of ATen for each step."""
import ctypes
import re
import shutil

import numpy as np
import pytest
import torch

from penstock._src.kernels import device_source
from penstock._src.kernels.device_plan import Given, Plan, Step
from penstock._src.kernels.device_source import COLUMNS, NAMES
from tests.kernels.cuda_on_host import compiled

F32, BF16, F16, BOOL = torch.float32, torch.bfloat16, torch.float16, torch.bool
def on_host(plan, values, folder):
    """The kernels of a plan, one thread after the other, with one lane per row or column."""
    source, text = plan._source, plan.source
    for name in ("LANES", "TOGETHER", "ACROSS", "DOWN", "END"):
        text = re.sub(rf"#define {name} .*", f"#define {name} 1", text)
    names = [*(NAMES[d] for d, _ in plan.given), *(NAMES[t] for t in plan.types)]
    arguments = [f"({n} *)p[{i}]" for i, n in enumerate(names)]
    given, results = arguments[:len(plan.given)], arguments[len(plan.given):]
    sums = [r for r, column in zip(results, plan.per_column, strict=True) if column]
    if sums:
        whole = [r for r in results if r not in sums]
        kernels = [(source.name(), (-(-source.columns // source.vector), source.parts), 1, [*given, *whole, "found"]),
                   (f"{source.name()}_end", (source.columns, len(sums)), 1, ["found", *sums])]
    elif source.reduces:
        kernels = [(source.name(), (source.rows, 1), 1, arguments)]
    else:
        kernels = [(source.name(), source.grid, source.block[0], arguments)]
    loops = [f"""
    for (blockIdx.y = 0; blockIdx.y < {grid[1]}u; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < {grid[0]}u; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < {threads}u; ++threadIdx.x)
                {name}({', '.join(taken)});
    threadIdx.x = 0;""" for name, grid, threads, taken in kernels]
    room = len(sums) * getattr(source, "parts", 0) * source.columns
    text += f"static float found[{room} + 1];\n" + 'extern "C" void run(void **p) {' + "".join(loops) + "}"
    library = compiled(text, folder)
    values = [v.contiguous() for v in values]
    results = [torch.full(s, 77, dtype=t) for s, t in zip(plan.shapes, plan.types, strict=True)]
    pointers = (ctypes.c_void_p * (len(values) + len(results)))(*(t.data_ptr() for t in (*values, *results)))
    library.run(pointers)
    return results


def drawn(seed, exact=True, columns=False):
    """A random plan, and values for it: arrays broadcast in every way, of every type, reduced along rows and used again, or
    summed along columns."""
    r = np.random.RandomState(seed)
    dims = [(2, 3, 4, 6), (5, 8), (7,), (3, 2, 16), (4, 1), (2, 5, 1), (1, 3), (2, 2, 24)][r.randint(8)]
    if columns:
        dims = [(2, 3, 4, 6), (5, 8), (300, 7), (3, 2, 16), (40, 3), (1, 3), (2, 2, 24), (130, 260)][r.randint(8)]
    given, values, terms = [], [], []
    for _ in range(r.randint(1, 5)):
        own = tuple(d if r.rand() < 0.7 else 1 for d in dims)[r.randint(len(dims)) if r.rand() < 0.3 else 0:]
        dtype = [F32, F32, BF16, F16, BOOL, torch.int32, torch.int64][r.randint(7)]
        value = torch.from_numpy(np.array(r.randn(*own) * 2)).to(dtype)
        if dtype.is_floating_point and value.numel() and r.rand() < 0.2:
            value.view(-1)[r.randint(value.numel())] = [np.nan, np.inf, -np.inf, -0.0][r.randint(4)]
        given.append((dtype, own))
        values.append(value)
        terms.append(Given(len(given) - 1))
    first = len(terms)
    kinds = [k for k in sorted(device_source.EACH) if not exact or not any(c in device_source.EACH[k][0] for c in ("f(",))]
    for _ in range(r.randint(2, 12)):
        kind = kinds[r.randint(len(kinds))]
        if r.rand() < 0.25 and not columns:
            kind = ["ROW_SUM", "ROW_MAXIMUM"][r.randint(2)]
        count = 1 if kind.startswith("ROW_") else len(set(re.findall(r"\b[abc]\b", device_source.EACH[kind][0])))
        count = {"SELECT": 3, "ADD_PRODUCT": 3}.get(kind, count)
        if kind in ("NEG", "COPY", "SQUARE", "RELU", "ABS", "NOT", "RECIPROCAL"):
            count = 1
        sources = tuple(int(r.randint(len(terms))) for _ in range(count))
        truth = kind in ("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL", "AND", "OR", "NOT")
        if any(isinstance(terms[s], Given) and given[terms[s].number][0] in (torch.int32, torch.int64, BOOL) for s in sources) \
                and kind != "COPY":
            terms.append(Step("COPY", (sources[0],), F32))
            sources = (len(terms) - 1,) * count
        if r.rand() < 0.1 and count > 1:
            terms.append(float(np.float32(r.randn())))
            sources = (sources[0], len(terms) - 1, *sources[2:])
        terms.append(Step(kind, sources, BOOL if truth else [F32, BF16, F16][r.randint(3)]))
    steps = [i for i in range(first, len(terms)) if isinstance(terms[i], Step)]
    results = sorted({steps[-1], *(steps[r.randint(len(steps))] for _ in range(2))})
    rows = (*dims[:-1], 1)
    plan = Plan(dims, given, terms, [steps[-1]], [dims])
    shapes = [rows if plan.narrow[i] and r.rand() < 0.5 else dims for i in results]
    if columns:
        results, shapes = results[:r.randint(len(results) + 1)], shapes
        shapes = [dims] * len(results)
        for kind in list(COLUMNS)[:r.randint(1, 3)]:
            terms.append(Step(kind, (int(r.randint(first + len(steps) // 2)),), [F32, BF16, F16][r.randint(3)]))
            results.append(len(terms) - 1)
            shapes.append([dims[-1:], (*[1] * (len(dims) - 1), dims[-1])][r.randint(2)])
    return Plan(dims, given, terms, results, shapes), values


def agree(found, expected, tolerance):
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape
        a, b = a.cpu().double().numpy(), b.cpu().double().numpy()
        size = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size)


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
@pytest.mark.parametrize("seed", range(8))
def test_the_source_computes_what_separate_calls_do(seed, tmp_path):
    for i in range(4):
        plan, values = drawn(4 * seed + i)
        agree(on_host(plan, values, tmp_path), plan.separate(values), 2e-2)


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
@pytest.mark.parametrize("seed", range(100, 108))
def test_sums_of_columns_are_those_of_separate_calls(seed, tmp_path):
    for i in range(3):
        plan, values = drawn(3 * seed + i, columns=True)
        agree(on_host(plan, values, tmp_path), plan.separate(values), 2e-2)


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_only_casts_and_results_round(tmp_path):
    x, y = (torch.randn(6, 16, generator=torch.Generator().manual_seed(i)).to(BF16) for i in range(2))
    terms = [Given(0), Given(1), Step("MUL", (0, 1), BF16), Step("ADD", (2, 0), BF16), Step("COPY", (3,), BF16),
             Step("SUB", (4, 2), BF16)]
    plan = Plan((6, 16), [(BF16, (6, 16))] * 2, terms, [5], [(6, 16)])
    product = x.float() * y.float()
    expected = ((product + x.float()).bfloat16().float() - product).bfloat16()
    assert torch.equal(on_host(plan, [x, y], tmp_path)[0], expected) and torch.equal(plan.run([x, y])[0], expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("seed", range(40))
def test_kernels_compute_what_separate_calls_do(seed):
    plan, values = drawn(seed, exact=False)
    values = [v.cuda() for v in values]
    assert plan._kernel.loaded(values[0].device) is not None
    agree(plan.run(values), plan.separate(values), 2e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("seed", range(100, 130))
def test_kernels_sum_columns(seed):
    plan, values = drawn(seed, exact=False, columns=True)
    values = [v.cuda() for v in values]
    assert plan._kernel.loaded(values[0].device) is not None
    agree(plan.run(values), plan.separate(values), 2e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("shape", [(8192, 768), (401408, 64), (100, 50304), (33, 10), (7, 2048)], ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_sums_of_large_columns_are_exact(shape, dtype):
    x = torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(0)).to(dtype)
    terms = [Given(0), Step("SQUARE", (0,), F32), Step("COLUMN_SUM", (1,), F32), Step("COLUMN_MEAN", (0,), F32)]
    total, mean = Plan(shape, [(dtype, shape)], terms, [2, 3], [shape[1:], shape[1:]]).run([x])
    exact = x.double()
    torch.testing.assert_close(total.double(), exact.square().sum(0), rtol=1e-5, atol=0)
    torch.testing.assert_close(mean.double(), exact.mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("columns", [3, 64, 768, 4096, 50304])
def test_softmax_of_rows(columns):
    x = torch.randn(33, columns, device="cuda")
    terms = [Given(0), Step("ROW_MAXIMUM", (0,), F32), Step("SUB", (0, 1), F32), Step("EXP", (2,), F32),
             Step("ROW_SUM", (3,), F32), Step("DIV", (3, 4), F32)]
    plan = Plan((33, columns), [(F32, (33, columns))], terms, [1, 5], [(33, 1), (33, columns)])
    largest, found = plan.run([x])
    assert torch.equal(largest, x.amax(1, keepdim=True))
    torch.testing.assert_close(found, torch.softmax(x, 1))

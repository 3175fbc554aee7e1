"""Instructions on single elements, several in one pass: torch's results, whatever the sizes, the places and the threads."""
import functools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from penstock._src.base import errors
from penstock._src.kernels import pointwise
from penstock._src.kernels.pointwise import Columns, Plan, Step

pytestmark = pytest.mark.skipif(not pointwise.available(), reason="penstock was installed without a compiler")
REALS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float", "double"])
REFERENCE = {
    "ADD": lambda a, b: a + b, "SUB": lambda a, b: a - b, "MUL": lambda a, b: a * b, "DIV": lambda a, b: a / b,
    "NEG": lambda a: -a, "SQUARE": lambda a: a * a, "COPY": lambda a: a, "ADD_PRODUCT": lambda a, b, c: a + b * c,
    "SIGMOID": torch.sigmoid, "TANH": torch.tanh, "ERF": torch.erf, "ERFC": torch.erfc,
    "EXP": torch.exp, "ABS": torch.abs, "RELU": torch.relu, "MAXIMUM": lambda a, b: torch.maximum(a, b),
    "MINIMUM": lambda a, b: torch.minimum(a, b), "RELU_GRAD": lambda g, x: torch.where(x > 0, g, 0.0),
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) ** 2, "RECIPROCAL": torch.reciprocal,
    "GREATER": lambda a, b: (a > b).to(a.dtype), "GREATER_EQUAL": lambda a, b: (a >= b).to(a.dtype),
    "LESS": lambda a, b: (a < b).to(a.dtype), "LESS_EQUAL": lambda a, b: (a <= b).to(a.dtype),
    "SELECT": lambda m, a, b: torch.where(m != 0, a, b),
    "LOG": lambda a: torch.log(a), "LOG1P": lambda a: torch.log1p(a), "SQRT": lambda a: torch.sqrt(a),
    "RSQRT": lambda a: torch.rsqrt(a),
    "EQUAL": lambda a, b: (a == b).to(a.dtype), "NOT_EQUAL": lambda a, b: (a != b).to(a.dtype),
    "AND": lambda a, b: torch.logical_and(a, b).to(a.dtype), "OR": lambda a, b: torch.logical_or(a, b).to(a.dtype),
    "NOT": lambda a: torch.logical_not(a).to(a.dtype), "SIGN": lambda a: torch.sign(a), "EXPM1": lambda a: torch.expm1(a),
    "SINE": lambda a: torch.sin(a), "COSINE": lambda a: torch.cos(a), "ROUND_DOWN": lambda a: torch.floor(a),
    "ROUND_UP": lambda a: torch.ceil(a), "ROUND_EVEN": lambda a: torch.round(a),
    "SIGMOID_GRAD": lambda y, g: g * y * (1 - y), "TANH_GRAD": lambda y, g: g * (1 - y * y),
}


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def tolerance(dtype: torch.dtype, floats: float) -> float:
    """What is allowed of doubles where so much is of floats."""
    return floats if dtype is torch.float32 else floats * 1e-8


def whole(tensor: int, columns: int) -> Columns:
    return Columns(tensor, 0, columns)


@REALS
@pytest.mark.parametrize("kind", REFERENCE)
@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 5), (7, 16), (2, 33), (1, 1024), (3, 1025), (40, 128), (1, 70000)])
def test_each_instruction(kind, rows, columns, dtype):
    function = REFERENCE[kind]
    count = function.__code__.co_argcount if hasattr(function, "__code__") else 1
    values = [normal(i, rows, columns, dtype=dtype) for i in range(count)]
    terms = [*(whole(i, columns) for i in range(count)), Step(kind, tuple(range(count)))]
    plan = Plan(rows, columns, [rows * columns] * count, [(rows, columns)], terms, [(count, whole(0, columns))], dtype=dtype)
    found, = plan.run(values)
    torch.testing.assert_close(found, function(*values), rtol=tolerance(dtype, 3e-6), atol=tolerance(dtype, 1e-7),
                               equal_nan=True)


def both(x: torch.Tensor) -> list[torch.Tensor]:
    """The sigmoid and the hyperbolic tangent of x."""
    n = x.numel()
    terms = [Columns(0, 0, 0), Step("SIGMOID", (0,)), Step("TANH", (0,))]
    return Plan(1, n, [n], [(n,), (n,)], terms, [(1, Columns(0, 0, 0)), (2, Columns(1, 0, 0))]).run([x])


def test_sigmoid_and_tanh_are_right_to_two_units_in_the_last_place():
    x = torch.cat([torch.linspace(-80, 80, 200_001), torch.linspace(-2, 2, 200_001), torch.logspace(-35, 0, 1000)])
    for found, right in zip(both(x), (torch.sigmoid(x.double()), torch.tanh(x.double())), strict=True):
        wrong = (found.double() - right).abs() / right.abs().clamp_min(1e-40)
        assert wrong.max() < 2 * 2 ** -23


def units(found: torch.Tensor, function: Callable, x: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
    """How many units in the last place doubles differ, at most, from a function in numpy's longest numbers; what that returns,
    as doubles; and where it is a normal number."""
    with np.errstate(all="ignore"):
        right = function(x.numpy().astype(np.longdouble))
        usual = np.isfinite(right) & (np.abs(right) > 2.3e-308) & (np.abs(right) < 1.79e308)
        most = (np.abs(found.numpy() - right) / np.abs(right))[usual].max()
        return float(most) * 2 ** 52, torch.tensor(right.astype(float)), torch.tensor(usual)


DOUBLES = {"EXP": np.exp, "LOG": np.log, "LOG1P": np.log1p, "EXPM1": np.expm1, "SQRT": np.sqrt, "TANH": np.tanh,
           "SIGMOID": lambda a: 1 / (1 + np.exp(-a)), "SINE": np.sin, "COSINE": np.cos, "RSQRT": lambda a: 1 / np.sqrt(a)}


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="numpy has no longer numbers than doubles here")
@pytest.mark.parametrize("kind", DOUBLES)
def test_functions_of_doubles_are_right_to_two_units_in_the_last_place(kind):
    """Also where numbers are odd: what is smaller than normal numbers is right to one of the smallest, or 0."""
    odd = torch.tensor([*ODD, 5e-324, 1e-310, 1e308, 709.7, 709.8, -708.5, -745.0, -746.5, -1e9, 1e-17], dtype=torch.double)
    x = torch.cat([*(torch.linspace(-to, to, 100_001, dtype=torch.double) for to in (2, 750, 2e5)),
                   torch.logspace(-300, 300, 100_001, dtype=torch.double), odd])
    n = x.numel()
    found, = Plan(1, n, [n], [(n,)], [Columns(0, 0, 0), Step(kind, (0,))], [(1, Columns(0, 0, 0))], dtype=torch.double).run([x])
    most, right, usual = units(found, DOUBLES[kind], x)
    assert most < 2
    torch.testing.assert_close(found[~usual], right[~usual], rtol=0, atol=2.3e-308, equal_nan=True)


ODD = [math.inf, -math.inf, math.nan, 0.0, -0.0, -1.0, -2.0, 1.0, 1e-45, 1e-38, 3e38, 88.7, 88.8, -87.3, -103.0, 1e-8, -1e-8,
       -0.5]


@pytest.mark.parametrize("kind, function", [("EXP", torch.exp), ("LOG", torch.log), ("LOG1P", torch.log1p),
                                            ("EXPM1", torch.expm1), ("SQRT", torch.sqrt), ("RSQRT", torch.rsqrt),
                                            ("RECIPROCAL", torch.reciprocal)])
def test_functions_are_right_to_three_units_in_the_last_place(kind, function):
    """Also where numbers are odd. What is smaller than normal numbers may be 0."""
    x = torch.cat([torch.linspace(-87, 88, 200_001), torch.logspace(-37, 38, 200_001), torch.linspace(-0.9, 2, 100_001),
                   torch.tensor(ODD)])
    n = x.numel()
    found, = Plan(1, n, [n], [(n,)], [Columns(0, 0, 0), Step(kind, (0,))], [(1, Columns(0, 0, 0))]).run([x])
    right = function(x.double())
    usual = right.isfinite() & (right.abs() > 1.2e-38) & (right.abs() < 3.4e38)
    assert ((found.double() - right).abs() / right.abs())[usual].max() < 3 * 2 ** -23
    torch.testing.assert_close(found[~usual], right.float()[~usual], rtol=0, atol=1.2e-38, equal_nan=True)


def test_the_complement_of_the_error_function_is_right_far_out():
    """To a few units in the last place wherever it is a normal number: what gelu makes of negative numbers depends on it."""
    x = torch.cat([torch.linspace(-11, 11, 400_001), torch.logspace(-30, 0, 1001), torch.tensor(ODD)])
    n = x.numel()
    found, = Plan(1, n, [n], [(n,)], [Columns(0, 0, 0), Step("ERFC", (0,))], [(1, Columns(0, 0, 0))]).run([x])
    torch.testing.assert_close(found, torch.erfc(x.double()).float(), rtol=8 * 2 ** -23, atol=1.2e-38, equal_nan=True)


@pytest.mark.parametrize("kind, function", [("SINE", torch.sin), ("COSINE", torch.cos), ("ROUND_DOWN", torch.floor),
                                            ("ROUND_UP", torch.ceil), ("ROUND_EVEN", torch.round)])
def test_angles_and_rounding_of_all_sizes(kind, function):
    x = torch.cat([torch.linspace(-30, 30, 100_001), torch.linspace(-9000, 9000, 200_001), torch.logspace(-30, 30, 10_001),
                   torch.arange(-2000, 2000) / 2, torch.tensor([*ODD, 8388607.5, -8388607.5, 8388608.0, 8192.0, -8192.0])])
    n = x.numel()
    found, = Plan(1, n, [n], [(n,)], [Columns(0, 0, 0), Step(kind, (0,))], [(1, Columns(0, 0, 0))]).run([x])
    tolerance = 2e-7 if kind.endswith("SINE") else 0.0
    torch.testing.assert_close(found, function(x.double()).float(), rtol=tolerance, atol=tolerance, equal_nan=True)


def test_numbers_and_columns_are_repeated():
    for rows, columns in ((5, 3), (7, 300), (2, 3000)):
        x, column, one = normal(1, rows, columns), normal(2, rows, 1), normal(3)
        terms = [whole(0, columns), Columns(1, 0, pointwise.PER_ROW), Columns(2, 0, pointwise.SAME),
                 Step("SUB", (0, 1)), Step("MUL", (3, 2))]
        found, = Plan(rows, columns, [rows * columns, rows, 1], [(rows, columns)], terms, [(4, whole(0, columns))]).run(
            [x, column, one])
        torch.testing.assert_close(found, (x - column) * one)


def test_sigmoid_and_tanh_far_out():
    s, t = both(torch.tensor([math.inf, -math.inf, math.nan, 1e30, -1e30, 0.0, -100.0, 100.0]))
    torch.testing.assert_close(s, torch.tensor([1, 0, math.nan, 1, 0, 0.5, 0, 1]), equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(t, torch.tensor([1, -1, math.nan, 1, -1, 0, -1, 1]), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("columns", [4, 24, 1100])
def test_parts_side_by_side_rows_and_numbers(columns):
    """What is cut out of a tensor, a row for all rows, a number; and results side by side, one of them twice."""
    rows = 5
    x, row = normal(1, rows, 3 * columns), normal(2, columns)
    terms = [Columns(0, 2 * columns, 3 * columns), Columns(1, 0, 0), 0.5]
    terms += [Step("ADD", (0, 1)), Step("MUL", (3, 2)), Step("NEG", (4,))]
    written = [*((term, Columns(0, i * columns, 3 * columns)) for i, term in enumerate((4, 5, 4))), (1, whole(1, columns))]
    results = [(rows, 3 * columns), (rows, columns)]
    joined, copied = Plan(rows, columns, [x.numel(), columns], results, terms, written).run([x, row])
    part = (x[:, 2 * columns:] + row) * 0.5
    torch.testing.assert_close(joined, torch.cat([part, -part, part], 1))
    torch.testing.assert_close(copied, row.expand(rows, columns), rtol=0, atol=0)


def chain(n: int, length: int) -> Plan:
    terms = [Columns(0, 0, 0), Columns(1, 0, 0)]
    for i in range(length):
        terms.append(Step(("ADD", "MUL", "SUB")[i % 3], (len(terms) - 1, i % 2)))
    return Plan(1, n, [n, n], [(n,)], terms, [(len(terms) - 1, Columns(0, 0, 0))])


def test_room_is_used_again():
    a, b = normal(1, 5000), normal(2, 5000).sign()
    x = b
    for i in range(60):
        x = (torch.add, torch.mul, torch.sub)[i % 3](x, (a, b)[i % 2])
    torch.testing.assert_close(chain(5000, 60).run([a, b])[0], x, rtol=1e-4, atol=1e-4)


def test_the_same_with_any_number_of_threads():
    x = normal(1, 300_000)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(both(x))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_what_a_plan_was_not_made_for():
    plan = chain(6, 3)
    x = normal(1, 2, 3)
    torch.testing.assert_close(plan.run([x.t(), x])[0], plan.run([x.t().contiguous(), x])[0])      # laid out otherwise
    for other in (x[:1], x.double(), normal(1, 7)):
        with pytest.raises(errors.InternalError, match="are not those of the plan"):
            plan.run([x, other])
    with pytest.raises(ValueError, match="too much"):
        terms = [Columns(0, 0, 0), *(Step("NEG", (0,)) for _ in range(40)), Step("ADD", (1, 2))]
        terms += [Step("ADD", (38 + i, i)) for i in range(3, 41)]
        Plan(1, 6, [6], [(6,)], terms, [(len(terms) - 1, Columns(0, 0, 0))])


def test_what_no_result_depends_on_is_not_computed():
    x = normal(1, 6)
    terms = [Columns(0, 0, 0), *(Step("NEG", (0,)) for _ in range(40))]
    found, = Plan(1, 6, [6], [(6,)], terms, [(40, Columns(0, 0, 0))]).run([x])
    assert torch.equal(found, -x)


@REALS
@pytest.mark.parametrize("count", [1, 15, 16, 17, 100, 4097, 1 << 18])
def test_a_scaled_sum(count, dtype):
    a, b = normal(1, count, dtype=dtype), normal(2, count, dtype=dtype)
    right = a.double() - 0.3 * b.double()
    to = torch.full((count,), math.nan, dtype=dtype)
    assert pointwise.add_scaled(to, a, b, -0.3)
    torch.testing.assert_close(to.double(), right, rtol=tolerance(dtype, 1e-6), atol=tolerance(dtype, 1e-6))
    assert pointwise.add_scaled(b, a, b, -0.3) and torch.equal(b, to)            # what is read may be what is written


def test_a_scaled_sum_of_what_does_not_fit_is_refused():
    a = normal(1, 4, 6)
    for other in (normal(2, 4, 5), a.double(), normal(2, 6, 4).t(), a.to(torch.bfloat16), torch.empty(4, 6, device="meta")):
        assert not pointwise.add_scaled(other, other, a, 1.0)
        assert not pointwise.add_scaled(a, a, other, 1.0)
    long = torch.zeros((1 << 18) + 1)
    assert not pointwise.add_scaled(long, long, long, 1.0)
    with pytest.raises(TypeError):
        pointwise.add_scaled(a, a, a, "1")


def with_odd_numbers(x: torch.Tensor) -> torch.Tensor:
    """x, where some elements are NaN, infinite, zero or very large."""
    flat = x.reshape(-1)
    places = torch.arange(0, flat.numel(), 37)
    flat[places] = torch.tensor(ODD, dtype=x.dtype)[torch.arange(places.numel()) % len(ODD)]
    return x


@REALS
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("reduces", [False, True])
@pytest.mark.parametrize("columns", [2, 3, 7, 8, 10, 16, 17, 31, 33, 48, 63, 64, 65, 100, 257, 1023])
@pytest.mark.parametrize("rows", [1, 2, 15, 33, 250, 300])
def test_short_rows_with_what_repeats_in_them(rows, columns, reduces, odd, dtype):
    """Numbers of each row, rows for all rows, booleans, one number for all; results of rows, and numbers of each row."""
    shapes = [(rows, columns), (rows, columns), (rows,), (columns,), (1,)]
    x, y, each, row, one = (normal(i, *d, dtype=dtype) for i, d in enumerate(shapes))
    if odd:
        x, each = with_odd_numbers(x), with_odd_numbers(each)
    mask = normal(9, rows, columns) > 0
    terms = [whole(0, columns), whole(1, columns), Columns(2, 0, pointwise.PER_ROW), Columns(3, 0, 0),
             Columns(4, 0, pointwise.SAME), whole(5, columns), 0.5]
    terms += [Step("COPY", (2,)), Step("MUL", (7, 6)), Step("ADD", (0, 8)), Step("MUL", (9, 3)), Step("SUB", (10, 4)),
              Step("COPY", (11,)), Step("SELECT", (5, 12, 1)), Step("ABS", (8,))]
    half = each * 0.5
    made = torch.where(mask, (x + half[:, None]) * row - one, y)
    written, results = [(13, whole(0, columns)), (14, Columns(1, 0, pointwise.PER_ROW))], [(rows, columns), (rows,)]
    expected = [made, half.abs()]
    if reduces:
        terms += [Step("ROW_SUM", (13,)), Step("ROW_MAXIMUM", (13,)), Step("SUB", (13, 16))]
        written += [(15, Columns(2, 0, pointwise.PER_ROW)), (16, Columns(3, 0, pointwise.PER_ROW)), (17, whole(4, columns))]
        results += [(rows,), (rows,), (rows, columns)]
        expected += [made.sum(1), made.amax(1), made - made.amax(1, keepdim=True)]
    values = [x, y, each, row, one, mask]
    found = Plan(rows, columns, [v.numel() for v in values], results, terms, written, [5], dtype).run(values)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance(dtype, 1e-5), atol=tolerance(dtype, 2e-4), equal_nan=True)
    assert torch.equal(found[1].isnan(), expected[1].isnan())


@pytest.mark.parametrize("columns", [3, 8, 20])
def test_short_rows_that_begin_again(columns):
    """Rows that come again after some, and arrays that take turns."""
    times, every = 4, 12
    rows = times * every
    x, turns, again = normal(1, rows, columns), normal(2, times, columns), normal(3, 6, columns)
    terms = [whole(0, columns), Columns(1, 0, 0, 0, every, times, columns), Columns(2, 0, columns, 6),
             Step("ADD", (0, 1)), Step("MUL", (3, 2))]
    plan = Plan(rows, columns, [x.numel(), turns.numel(), again.numel()], [(rows, columns)], terms, [(4, whole(0, columns))])
    expected = (x + turns.repeat_interleave(every, 0)) * again.repeat(rows // 6, 1)
    torch.testing.assert_close(plan.run([x, turns, again])[0], expected)


@REALS
@pytest.mark.parametrize("seed", range(40))
def test_blocks_in_which_operands_begin_again(seed, dtype):
    """Axes before and behind that are repeated, short enough that a block has several rounds of them."""
    r = random.Random(seed)
    outer, middle, columns = r.randint(20, 200), r.choice([2, 3, 5, 7, 11]), r.randint(2, 8)
    rows = outer * middle
    made = functools.partial(normal, dtype=dtype)
    x, again, truth = made(seed, rows, columns), made(1, middle, columns), made(2, middle, columns) < 0
    turns, each = made(3, outer, columns), made(4, rows)
    terms = [whole(0, columns), Columns(1, 0, 0, 0, middle, outer, columns), Columns(2, 0, columns, middle),
             Columns(3, 0, columns, middle), Step("ADD", (0, 1)), Step("SELECT", (3, 4, 2))]
    values, sizes = [x, turns, again, truth], [x.numel(), turns.numel(), again.numel(), truth.numel()]
    expected = torch.where(truth.repeat(outer, 1), x + turns.repeat_interleave(middle, 0), again.repeat(outer, 1))
    written, results = [(5, Columns(0, 0, columns))], [(rows, columns)]
    if seed % 3 == 0:                                    # a sum of rows, and a number for each
        terms += [Step("ROW_SUM", (5,)), Columns(4, 0, pointwise.PER_ROW), Step("MUL", (5, 7))]
        values, sizes = [*values, each], [*sizes, rows]
        written, results = [(8, Columns(0, 0, columns)), (6, Columns(1, 0, pointwise.PER_ROW))], [(rows, columns), (rows,)]
    plan = Plan(rows, columns, sizes, results, terms, written, [3], dtype)
    found = plan.run(values)
    if seed % 3 == 0:
        torch.testing.assert_close(found[1], expected.sum(1), rtol=tolerance(dtype, 1e-5), atol=tolerance(dtype, 1e-5))
        expected = expected * each[:, None]
    torch.testing.assert_close(found[0], expected, rtol=0.0, atol=0.0)

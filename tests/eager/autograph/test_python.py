"""Rewritten functions without tensors do what they did before: all of Python's statements, in odd places."""
# ruff: noqa: E701, E702, B007, B023, SIM, UP, RUF, B018, F841, S110, PERF, C4, PLW
import contextlib

import pytest

from penstock._src.eager.autograph.convert import converted

COUNT = 0
CASES = []


def case(*calls):
    def add(f):
        CASES.append((f, calls))
        return f
    return add


@case((0,), (1,), (5,))
def loops_with_everything(n):
    out = []
    for i in range(n):
        try:
            if i == 1: continue
            if i == 3: break
            out.append(i)
        finally:
            out.append(-1)
    else:
        out.append("else")
    while n > 0:
        n -= 1
        if n == 2: continue
        with contextlib.suppress(ValueError):
            if n == 1: raise ValueError
            out.append(n)
    else:
        out.append("done")
    return out


@case((1,), (-1,), (0,))
def returns_everywhere(n):
    with contextlib.nullcontext():
        if n > 0:
            return "positive"
        try:
            if n < 0:
                return "negative"
        except ValueError:
            return "never"
        else:
            n += 10
        finally:
            n += 1
    return n


@case((3,))
def returns_nothing(n):
    if n > 5:
        return
    for i in range(n):
        if i == 2:
            return


@case((4,))
def returns_out_of_nested_loops(n):
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                return i, j
            if j > i: break
        else:
            continue
        if i > 10: break
    return None


@case((3,), (0,))
def unbound_variables(n):
    if n > 1:
        x = n
    try:
        return x
    except NameError as e:
        return type(e).__name__[-9:]


@case((3,))
def deletes(n):
    x, y = 1, 2
    if n:
        del x
    return y, "x" in dir()


@case((3,))
def global_names(n):
    global COUNT
    COUNT = 0
    for _ in range(n):
        if COUNT < 2:
            COUNT += 1
    return COUNT


@case((3,))
def closures_in_loops(n):
    made = []
    total = 0
    for i in range(n):
        def inner(x, i=i):
            nonlocal total
            if x:
                total += i
            return total
        made.append(inner)
        made.append(lambda: (i, total))
    return [f(1) if k % 2 == 0 else f() for k, f in enumerate(made)]


@case((5,))
def walrus(n):
    out = []
    while (m := n - 1) > 1 and (k := m) > 0:
        n = m
        out.append((n, k))
    return out, [y for x in out if (y := x[0]) > 2]


@case((2,), (3,))
def matching(n):
    match (n, {"a": n}):
        case (2, {"a": a}):
            r = a
        case (x, {**rest}) if x > 2:
            r = (x, rest)
    return r


@case((3,))
def comprehensions_and_names(n):
    i = "kept"
    found = [i for i in range(n) if i]
    pairs = {k: (lambda k=k: k)() for k in "ab"}
    return i, found, pairs, sum(i for i in range(n)), sorted({i % 2 for i in range(n)})


@case((1, 2), (1, 2, 3, 4))
def arguments(a, *args, b=10, **kw):
    def inner(x, /, y, *, z=3):
        return x + y + z
    if args:
        b = b + len(args)
    return inner(a, b), args, kw


@case((3,))
def chained_and_short_circuited(n):
    seen = []

    def note(x):
        seen.append(x)
        return x
    a = note(0) and note(1) or note(2)
    b = not note(3) or note(n) > 2 and note(5)
    c = 1 < n < 5 and note("mid")
    return a, b, c, seen, (note("x") if n else note("y"))


@case((3,))
def exceptions(n):
    out = []
    for i in range(n):
        try:
            if i == 1:
                raise KeyError(i)
            out.append(i)
        except KeyError as e:
            out.append(e.args[0] * 10)
            if i: continue
        except (TypeError, ValueError):
            break
        else:
            out.append("ok")
    try:
        assert n < 2, f"n is {n}"
    except AssertionError as e:
        out.append(str(e).splitlines()[0])
    return out


class Base:
    def name(self, x):
        return f"base{x}"


class Derived(Base):
    def __init__(self):
        self.__secret = 1
        self.items = {"n": 0}

    def name(self, x):
        if x:
            self.__secret += 1
            self.items["n"] = x
            return super().name(self.__secret)
        return [super().name(i) for i in (1,)] if x is None else None

    @property
    def both(self):
        return self.__secret, self.items


@case((1,), (0,))
def methods(x):
    d = Derived()
    return d.name(x), d.both


@case((3,))
def unpacking(n):
    (a, *b), c = [n, 1, 2], n
    while a:
        a, c = a - 1, c * 2
        b[0] += c
    for x, (y, *z) in [(1, (2, 3, 4))]:
        if y: c += x
    return a, b, c, x, y, z


@pytest.mark.parametrize("f, calls", CASES, ids=[f.__name__ for f, _ in CASES])
def test_as_before(f, calls):
    rewritten = converted(f)
    assert rewritten is not f
    for args in calls:
        assert rewritten(*args) == f(*args)
    if f is arguments:
        assert rewritten(1, b=2, c=3) == f(1, b=2, c=3)

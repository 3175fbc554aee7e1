"""Functions whose control flow depends on tensors, with arguments to call them with.

They are written in terms of names that penstock and TensorFlow share: `python cases.py` prints what real TensorFlow makes of
them (tests/eager/autograph/test_oracle.py).
"""
# ruff: noqa: E701, E702, SIM108, B023
import importlib
import json
import os

tf = importlib.import_module(os.environ.get("AUTOGRAPH_CASES", "penstock"))
CASES = []
REFUSED_THERE = set()          # the names of cases that TensorFlow does not take


def case(*arguments, tensorflow=True):
    """Declares a case: one call per list of arguments."""
    def add(f):
        if not tensorflow:
            REFUSED_THERE.add(f.__name__)
        CASES.append((f, [a if isinstance(a, tuple) else (a,) for a in arguments]))
        return f
    return add


def plain(x):
    """A result as Python values."""
    return tf.nest.map_structure(lambda t: _value(t.numpy() if hasattr(t, "numpy") else t), x)


def _value(v):
    v = v.tolist() if hasattr(v, "tolist") else v
    return v.decode() if isinstance(v, bytes) else v


def tensors(arguments):
    """Arguments as tensors."""
    return [tf.constant(a) for a in arguments]


@case(3.0, -3.0)
def if_else(x):
    if x > 0:
        y = x * 2
        z = 1
    else:
        y = -x
        z = 2
    return y, z


@case(3, 2, 0)
def elif_chain(x):
    if x > 2: r = "big"
    elif x > 1: r = "middle"
    else: r = "small"
    return r


@case(3.0, -3.0)
def early_return(x):
    if x > 0:
        return x * 2
    y = x - 1
    if y < -3:
        return y
    return -x


@case(10)
def nested_loops(n):
    total = 0
    for i in tf.range(n):
        j = 0
        while j < i:
            if (i + j) % 3 == 0:
                j += 1
                continue
            total += j
            if total > 50: break
            j += 1
    return total


@case(([1.0, 2.0, 3.0],))
def over_elements(x):
    s = 0.0
    for e in x:
        s += e * e
    return s


@case(([[1.0, 2.0], [3.0, 4.0]],))
def over_rows(x):
    s = tf.zeros([2])
    for r in x:
        s = s + r
    return s


@case((True, False), (False, True), (True, True))
def logic(a, b):
    return (a and b), (a or b), (not a), (a and not b or b)


@case(5, -5)
def conditional_expression(x):
    y = x if x > 0 else -x
    return y + (1 if x > 0 else 2)


@case(5)
def python_loops(x):
    for i in range(3):
        if i == 1: continue
        x = x + i
    for i in [1, 2, 3]:
        if i == 3: break
        x = x * i
    else:
        x = x + 100
    return x


@case(5)
def shapes_that_grow(n):
    y = tf.zeros([1])
    for _ in tf.range(n):
        tf.autograph.experimental.set_loop_options(shape_invariants=[(y, tf.TensorShape([None]))])
        y = tf.concat([y, [1.0]], 0)
    return y


@case(5)
def tensor_array(n):
    ta = tf.TensorArray(tf.int32, size=n)
    for i in tf.range(n):
        ta = ta.write(i, i * i)
    return ta.stack()


def _helper(x):
    if x > 0:
        return x
    else:
        return x - 1


@case(5, -5)
def other_functions(x):
    return _helper(x) + _helper(x - 7)


@case(5, -5)
def closures(x):
    k = 3

    def inner(y):
        nonlocal k
        if y > 0:
            k = k + 1
        return y * k
    a = inner(x)
    return a, k


class Box:
    """Something with attributes."""

    def __init__(self):
        self.v = 0


@case(5, -5)
def attributes(x):
    box = Box()
    if x > 0: box.v = x
    else: box.v = -x * 2
    return box.v


@case(4, 1)
def items(n):
    d = {"a": n, "b": n}
    if n > 3:
        d["a"] = n + 1
    return d


@case(4, 1)
def tuples(n):
    a, b = n, (n, 2)
    while a < 10:
        a, b = a + 1, (b[0] + a, b[1])
    return a, b


@case(3.0)
def gradients(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for i in tf.range(3):
            if i < 2:
                y = y * x
    return tape.gradient(y, x)


@case(4)
def builtins(n):
    x = 0
    for i in range(n):
        x += i
    return x, len(tf.range(n)), int(tf.constant(2.5)), float(n), abs(-n), max(1, 2)


@case(4)
def set_in_a_loop(n):
    for i in tf.range(n):
        t = i * 2
    return t


@case(3)
def lambdas(x):
    f = lambda y: y if y > 0 else -y  # noqa: E731
    return tf.map_fn(lambda e: e * 2 if e > 1 else e, tf.range(x)), f(x)


def _row(e):
    if e > 1:
        e = e * 10
    return e


@case(4)
def functions_as_arguments(n):
    return tf.map_fn(_row, tf.range(n)), tf.while_loop(lambda i: i < n, lambda i: (_row(i) + 1,), (tf.constant(0),))


@case(3)
def lists_in_python_loops(n):
    found = []
    for i in range(3):
        found.append(n + i)
    return tf.stack(found)


@case(3)
def comprehensions(n):
    return tf.stack([n * i for i in range(3) if i != 1])


@case(10, 2, tensorflow=False)
def while_with_return(n):
    i = tf.constant(0)
    while i < n:
        if i * i > 20:
            return i
        i += 1
    return -1


@case(27, 1)
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0: n = n // 2
        else: n = 3 * n + 1
        steps += 1
    return steps


@case(7, 0)
def augmented_and_unpacked(n):
    a, (b, c) = n, (n + 1, n + 2)
    a += b
    if a > c:
        a, c = c, a
    a *= 2
    return a, b, c


@case(6)
def several_breaks(n):
    out = 0
    for i in tf.range(n):
        for j in tf.range(n):
            if j > i: break
            if (i + j) % 2 == 1: continue
            out += i * j
        if out > 40: break
        out += 1
    return out


@case(5.0)
def try_and_with(x):
    try:
        if x > 0: y = 1.0
        else: y = 2.0
    finally:
        z = 3.0
    with tf.name_scope("scope"):
        if x > 3: z = z + x
    return y + z


@case(3.0, 0.5, -3.0)
def a_name_that_only_branches_read(x):
    if x > 0:
        if x > 1:
            x = x * 2
        y = x + 1
    elif x < -1:
        y = x - 1
    else:
        y = x
    return y


def _halved(n):
    if n % 2 == 0:
        n = n // 2
    return n


def _repeated(n, times):
    return n if times == 0 else _repeated(_halved(n), times - 1)


@case(48, 3)
def global_recursion(n):
    return _repeated(n, 3)


@case(3, 8)
def recursion(n):
    def down(k, depth):
        if depth == 0:
            return k
        if k > 5:
            return down(k - 2, depth - 1)
        return down(k + 1, depth - 1)
    return down(n, 4)


@case(-1, 1, 3, 7)
def chained_comparisons(n):
    if 0 < n <= 5:
        n = n * 10
    inside = lambda x: 5 < x < 20 != x
    while n < 100 > n % 7 >= 1:
        n += 1
    return n, inside(n), 1 < 2 < n, n > 200 > 100 > 50


@case(5, 0)
def enumerated_dataset(n):
    total, seen = tf.constant(0, tf.int64), 0
    for k, x in enumerate(tf.data.Dataset.range(10), 2):
        if x == 3:
            continue
        if x > tf.cast(n, tf.int64):
            break
        total += k * x
        seen += 1
    return total, seen


@case([4.0, 1.0, 3.0], tensorflow=False)
def enumerated_tensor(x):
    last = -1
    for i, row in enumerate(x):
        if row < 2:
            continue
        last = i
    return last


@case(3)
def zipped_mapped_and_filtered_datasets(n):
    n = tf.cast(n, tf.int64)
    a, b = tf.data.Dataset.range(6), tf.data.Dataset.range(4, 20)
    total = tf.constant(0, tf.int64)
    for x, (y, z) in enumerate(zip(a, b)):
        total += x * y + z
    for x in map(lambda v, w: v * w, a, b):
        total += x
    for x in filter(lambda v: v > n, a):
        total += 100 * x
    return total, any(a.map(lambda v: v > n)), all(a.map(lambda v: v > n)), all(b.map(lambda v: v > n))


@case([3.0, 1.0, 2.0])
def sorted_tensor(x):
    return sorted(x), sorted(x, reverse=True), sorted([2, 1])


@case(7, tensorflow=False)
def next_with_a_default(n):
    elements = iter(tf.data.Dataset.range(2, 4))
    default = tf.cast(n, tf.int64)
    return next(elements), next(elements, default), next(elements, default), next(elements, default)


if __name__ == "__main__":
    print(json.dumps({f.__name__: [plain(tf.function(f)(*tensors(a))) for a in calls] for f, calls in CASES
                      if f.__name__ not in REFUSED_THERE}))

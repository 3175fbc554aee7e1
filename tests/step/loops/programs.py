"""Random programs with control flow, as plain data: nested lists that any module with TensorFlow's names can build.

A program is a list of statements over numbered variables. Each kind of variable has a fixed dtype and shape, so that branches
and loops fit: "i" is an int32 scalar, "b" a bool, "f" a float32 scalar, "v" a float32 vector of three. An expression is
[op, operand, ...]; operands are names such as "f1", or numbers. Values stay small: floats go through tanh.

    ["set", "f0", ["mul", "f0", "f1"]]
    ["if", ["less", "f0", "f1"], [statements], [statements]]
    ["while", "i1", limit, [statements]]       # runs while its own counter is below the limit, and i1 < 50
    ["until", ["less", "f0", "f1"], [statements]]      # the same, and while the test is true
    ["map", "v0", "f1"]                        # v0 becomes map_fn over its elements
    ["array", "v0", n]                         # v0 becomes the sum of what a loop wrote into a TensorArray
"""
import json
import sys

NAMES = {"i": ("i0", "i1"), "b": ("b0",), "f": ("f0", "f1", "f2"), "v": ("v0", "v1")}
ORDER = [n for names in NAMES.values() for n in names]


class Builder:
    """Builds a program with a module of TensorFlow's names."""

    def __init__(self, tf):
        self.tf = tf

    def run(self, program, values):
        """The variables after the program, in order."""
        state = dict(zip(ORDER, values, strict=True))
        self.block(program, state)
        return [state[n] for n in ORDER]

    def block(self, statements, state):
        for s in statements:
            getattr(self, "do_" + s[0])(state, *s[1:])

    def value(self, x, state, kind):
        if isinstance(x, str):
            return state[x]
        return self.tf.constant(x, {"i": self.tf.int32, "f": self.tf.float32, "b": self.tf.bool}[kind])

    def expression(self, e, state, kind):
        tf, op = self.tf, e[0]
        if op in ("less", "equal"):
            a, b = (self.value(x, state, "i" if op == "equal" else "f") for x in e[1:])
            return tf.less(a, b) if op == "less" else tf.equal(a, b)
        args = [self.value(x, state, kind) for x in e[1:]]
        if kind == "b":
            return {"and": lambda: tf.logical_and(*args), "or": lambda: tf.logical_or(*args),
                    "not": lambda: tf.logical_not(args[0])}[op]()
        out = {"add": lambda: args[0] + args[1], "sub": lambda: args[0] - args[1], "mul": lambda: args[0] * args[1],
               "max": lambda: tf.maximum(args[0], args[1]), "sum": lambda: tf.reduce_sum(args[0]),
               "spread": lambda: args[0] * tf.constant([1.0, 2.0, 3.0])}[op]()
        return out if kind == "i" else tf.tanh(out)

    def do_set(self, state, name, e):
        state[name] = self.expression(e, state, "f" if e[0] == "sum" else name[0] if e[0] != "spread" else "v")

    def do_if(self, state, test, then, orelse):
        def branch(statements):
            def run():
                inner = dict(state)
                self.block(statements, inner)
                return [self.tf.identity(inner[n]) for n in ORDER]
            return run
        state.update(zip(ORDER, self.tf.cond(self.expression(test, state, "b"), branch(then), branch(orelse)), strict=True))

    def do_while(self, state, counter, limit, body):
        self._loop(state, lambda inner: self.tf.less(inner[counter], 50), limit, body)

    def do_until(self, state, test, limit, body):
        self._loop(state, lambda inner: self.expression(test, inner, "b"), limit, body)

    def _loop(self, state, test, limit, body):
        tf = self.tf

        def going(n, *values):
            return tf.logical_and(tf.less(n, limit), test(dict(zip(ORDER, values, strict=True))))

        def step(n, *values):
            inner = dict(zip(ORDER, values, strict=True))
            self.block(body, inner)
            return [n + 1, *(inner[x] for x in ORDER)]
        out = tf.while_loop(going, step, [tf.constant(0), *(state[n] for n in ORDER)])
        state.update(zip(ORDER, out[1:], strict=True))

    def do_map(self, state, name, other):
        scalar = state[other]
        state[name] = self.tf.map_fn(lambda x: self.tf.tanh(x * scalar + x), state[name])

    def do_array(self, state, name, n):
        tf = self.tf
        array = tf.TensorArray(tf.float32, size=n, element_shape=[3])
        _, value, array = tf.while_loop(lambda i, *_: i < n, lambda i, v, a: (i + 1, tf.tanh(v * 1.5), a.write(i, v)),
                                        (tf.constant(0), state[name], array))
        state[name] = tf.tanh(tf.reduce_sum(array.stack(), 0) - value)


def run_v1(tf, program, inputs, **how):
    """Results and gradients of a program in a graph and session of the 1.x kind."""
    with tf.Graph().as_default():
        kinds = {"i": tf.int32, "b": tf.bool, "f": tf.float32, "v": tf.float32}
        xs = [tf.placeholder(kinds[n[0]], [3] if n[0] == "v" else []) for n in ORDER]
        ys = Builder(tf).run(program, xs)
        floats = [n[0] in "fv" for n in ORDER]
        total = tf.add_n([tf.reduce_sum(y) for y, f in zip(ys, floats, strict=True) if f])
        targets = [x for x, f in zip(xs, floats, strict=True) if f]
        grads = [tf.zeros_like(x) if g is None else g for g, x in zip(tf.gradients(total, targets), targets, strict=True)]
        with tf.Session(**how) as sess:
            return sess.run([*ys, *grads], dict(zip(xs, inputs, strict=True)))


if __name__ == "__main__":
    import tensorflow.compat.v1 as tensorflow
    tensorflow.disable_v2_behavior()
    for line in sys.stdin:
        drawn, given = json.loads(line)
        print(json.dumps([v.tolist() for v in run_v1(tensorflow, drawn, given)]), flush=True)

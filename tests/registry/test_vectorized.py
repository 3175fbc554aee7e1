"""Every sample of every op with a rule for stacked rows: the op on all rows at once against the op on each row."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.ops import rules
from penstock._src.ops.control.vectorize import Rows, vectorized
from penstock._src.ops.registry import OPS, OpDef
from tests.registry.load import all_samples, ids
from tests.registry.running import flat_arrays


def has_rule(opdef: OpDef) -> bool:
    table = rules.batching
    return any(opdef in group for group in (table.elementwise, table.axis, table.axis_attr, table.leading, table.first,
                                            table.shared, table.rule, rules.algebra.elementwise, rules.arithmetic.reduces))


ALL = [s for s in all_samples() if has_rule(OPS[s.op]) and s.inputs and not s.random and not OPS[s.op].stateful
       and all(np.asarray(a).dtype.kind in "fiubc" for a in flat_arrays(s))]


def places(sample) -> list[set[int]]:
    """Which of the inputs differ between rows: each alone, and all that are no shapes and axes."""
    host = OPS[sample.op].host_inputs
    names = [a.name for a, v in zip(OPS[sample.op].inputs, sample.inputs, strict=True)
             for _ in (v if isinstance(v, (list, tuple)) and a.is_list else (v,))]
    free = [i for i, n in enumerate(names) if n not in host]
    return [{i} for i in free] + ([set(free)] if len(free) > 1 else [])


def call(sample, flat):
    it = iter(flat)
    inputs = [[next(it) for _ in v] if a.is_list else next(it)
              for a, v in zip(OPS[sample.op].inputs, sample.inputs, strict=True)]
    made = OPS[sample.op](*inputs, **sample.attrs)
    return [t for t in (made if isinstance(made, (list, tuple)) else [made])]


def other(a):
    """Another row: positive multiples keep matrices positive definite, and integers valid indices."""
    return (a * 0.75).astype(a.dtype) if a.dtype.kind in "fc" else a[::-1].copy() if a.ndim == 1 else a


@pytest.mark.parametrize("sample", ALL, ids=ids(ALL))
def test_all_rows_at_once(sample):
    flat = [np.asarray(a) for a in flat_arrays(sample)]
    for varying in places(sample):
        second = [other(a) if i in varying else a for i, a in enumerate(flat)]
        try:
            rows = [call(sample, [tf.constant(a) for a in r]) for r in (flat, second)]
        except tf.errors.OpError:
            continue                               # the second row is no valid input
        if [t.shape for t in rows[0]] != [t.shape for t in rows[1]]:
            continue

        def of_row(*own, varying=varying):
            own = iter(own)
            return call(sample, [next(own) if i in varying else tf.constant(a) for i, a in enumerate(flat)])
        stacked = [tf.constant(np.stack([flat[i], second[i]])) for i in sorted(varying)]
        found = vectorized(of_row, stacked, 2)
        for f, *want in zip(found, *rows, strict=True):
            assert f.dtype == want[0].dtype
            if not want[0].shape.num_elements():
                continue                           # such as the vectors of a decomposition that computes values alone
            np.testing.assert_allclose(f.numpy(), np.stack([w.numpy() for w in want]), rtol=2e-5, atol=2e-5)


def test_rules_replace_loops(monkeypatch):
    """Ordinary functions need no loop."""
    monkeypatch.setattr(Rows, "_loop", lambda self, op, inputs: pytest.fail(f"a loop for {op.type}"))
    x, w = tf.reshape(tf.range(24.0), [4, 2, 3]) / 10, tf.reshape(tf.range(15.0), [3, 5]) / 10

    def of_row(r):
        y = tf.nn.softmax(tf.nn.relu(r @ w) + tf.reduce_mean(r, keepdims=True))
        y = tf.concat([y, tf.transpose(tf.reshape(tf.sin(y), [5, 2]))], axis=1)
        return tf.reduce_logsumexp(tf.where(y > 0.1, y, 0.0)[:, ::2], axis=-1)
    np.testing.assert_allclose(tf.vectorized_map(of_row, x), tf.map_fn(of_row, x), rtol=1e-5)

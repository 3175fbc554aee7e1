"""A step's ops after some passes, for the tests of single passes."""
import numpy as np

import penstock.compat.v1 as tf
from penstock._src.graph.prune import needed
from penstock._src.step.ir import StepGraph, verify


def step_of(fetches, targets=(), feeds=()):
    """The pruned ops of a step, copied."""
    ops = needed(fetches, targets, {id(t) for t in feeds})
    return StepGraph(ops, list(fetches), list(targets), list(feeds))


def after(a_pass, fetches, targets=(), feeds=()):
    """The op types that are left after a pass, in order."""
    step = step_of(fetches, targets, feeds)
    a_pass(step)
    verify(step)
    return [op.type for op in step.ops]


def config(**switches):
    """A ConfigProto with passes on or off; `all` is every pass."""
    made = tf.ConfigProto()
    rewrite = made.graph_options.rewrite_options
    if switches.pop("all", True) is False:
        rewrite.disable_meta_optimizer = True
    for name, on in switches.items():
        setattr(rewrite, name, rewrite.ON if on else rewrite.OFF)
    return made


def both(fetches, feed=None, init=None):
    """The values of a step with all passes and with none."""
    out = []
    for on in (True, False):
        with tf.Session(config=config(all=on)) as sess:
            if init is not None:
                sess.run(init)
            out.append(sess.run(fetches, feed))
    return out


def same(fetches, feed=None, init=None):
    """Asserts that passes do not change the values, and returns them."""
    a, b = both(fetches, feed, init)
    for x, y in zip(a, b, strict=True):
        if x is not None:
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    return a


def numbers(seed, *shape, dtype=np.float32):
    """Small random numbers."""
    return np.random.RandomState(seed).randn(*shape).astype(dtype) * 0.5


def types(fetches, feeds=None, **switches):
    """The op types in a session's program."""
    with tf.Session(config=config(**switches)) as sess:
        text = sess.explain(fetches, dict.fromkeys(feeds or (), None))
    return [line.rsplit(": ", 1)[1].split(" ")[0] for line in text.splitlines() if "  # " in line]

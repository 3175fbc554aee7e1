"""Five models that no other file has, measured as in others.py: fed shapes, fed numbers of steps, and lengths in turns.

PYTHONPATH=src python benchmarks/gpu/visitors.py --json visitors.json --table benchmarks/README.md
"""

from __future__ import annotations

import numpy as np
import others
from others import sizes

TITLES = {
    "pointer": "pointer network, LSTM over 20 points and 20 choices, batch 128 fed as a number, TF32, 1.x session",
    "views": "SimCLR, two views of 256 images of 32×32, convolutions of 64 to 256, bf16, tf.function",
    "forecast": "N-BEATS, 12 blocks of 4 layers of 512, batch 1,024, TF32, Keras fit step",
    "ode": "neural differential equation, Runge-Kutta, number of steps is an argument, batch 512 of 64, TF32, tf.function",
    "items": "SASRec, 2 layers of 128, histories of three lengths in turns, 20,000 items, TF32, tf.function",
}
S = {
    "pointer": sizes({"n": 128, "t": 20, "d": 256}, {"n": 3, "t": 4, "d": 8}),
    "views": sizes({"n": 256, "side": 32, "c": 64}, {"n": 4, "side": 8, "c": 4}),
    "forecast": sizes({"n": 1024, "back": 120, "ahead": 24, "d": 512, "blocks": 12}, {"n": 4, "d": 8, "blocks": 2}),
    "ode": sizes({"n": 512, "d": 64, "h": 256, "steps": 20}, {"n": 4, "d": 4, "h": 8, "steps": 3}),
    "items": sizes({"n": 256, "t": 64, "d": 128, "heads": 2, "items": 20000}, {"n": 3, "t": 8, "d": 8, "items": 30}),
}


def data(name: str) -> tuple:
    """The arrays that a model trains on, the same for every runner."""
    r, s = np.random.RandomState(0), S[name]
    if name == "pointer":
        return r.rand(s.n, s.t, 2).astype("f"), np.stack([r.permutation(s.t) for _ in range(s.n)])
    if name == "views":
        return tuple(r.rand(s.n, s.side, s.side, 3).astype("f") for _ in range(2))
    if name == "forecast":
        return r.randn(s.n, s.back).astype("f"), r.randn(s.n, s.ahead).astype("f")
    if name == "ode":
        return r.randn(s.n, s.d).astype("f"), r.randn(s.n, s.d).astype("f")
    return tuple(r.randint(1, s.items, [s.n, t + 1]) for t in (s.t, s.t // 2, s.t * 3 // 4))


def prepared(name: str, runner: str) -> tuple:
    """See others.prepared."""
    if runner == "penstock":
        import visitors_penstock

        return visitors_penstock.prepared(name)
    import visitors_torch

    return visitors_torch.prepared(name, runner == "torch-compile")


if __name__ == "__main__":
    others.TITLES, others.prepared, others.PROGRAM, others.TABLE = TITLES, prepared, __file__, "visitors"
    others.main()

"""Ten models of kinds that no other file has, measured as in others.py. Their first run is reported as it was.

PYTHONPATH=src python benchmarks/gpu/strangers.py --json strangers.json --table benchmarks/README.md
"""

from __future__ import annotations

import numpy as np
import others
from others import sizes

TITLES = {
    "shuffle": "ShuffleNet-v2, batch 256 of 96×96, half precision with scaled loss, Keras fit step",
    "sharpen": "EDSR, 16 blocks of 64, ×2 by depth_to_space, batch 16 of 48×48, TF32, tf.function",
    "albert": "ALBERT, one layer of 768 used 12 times, masked words gathered, 16 × 256, bf16, tf.function",
    "hierarchy": "two levels of dynamic_rnn with attention, 32 documents of 16 × 24 words, TF32, 1.x session",
    "tasks": "mixture of experts with a gate per task, 20 tables of 50,000 × 16, batch 8,192, TF32, Keras fit step",
    "equivariant": "EGNN, 8,192 atoms in space, 100,000 pairs, 4 layers of 128, TF32, tf.function",
    "keywords": "spectrogram in the step, BC-ResNet, batch 128 of one second of sound, TF32, tf.function",
    "glow": "Glow, 2 levels of 8 steps, invertible products with slogdet, batch 32 of 32×32, TF32, tf.function",
    "dit": "DiT, 8 layers of 384 with adaptive norms, 64 × 256 patches, AdamW and moving average, bf16, tf.function",
    "sets": "Set Transformer, induced points, sets of three sizes in turns, bf16, tf.function",
}
S = {
    "shuffle": sizes({"n": 256, "side": 96, "c": 116}, {"n": 2, "side": 32, "c": 8}),
    "sharpen": sizes({"n": 16, "side": 48, "c": 64, "blocks": 16}, {"n": 2, "side": 8, "c": 4, "blocks": 2}),
    "albert": sizes(
        {"n": 16, "t": 256, "d": 768, "heads": 12, "layers": 12, "words": 30000, "small": 128, "hidden": 40},
        {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 2, "words": 50, "small": 8, "hidden": 3},
    ),
    "hierarchy": sizes(
        {"n": 32, "lines": 16, "t": 24, "d": 128, "words": 20000}, {"n": 2, "lines": 3, "t": 4, "d": 8, "words": 50}
    ),
    "tasks": sizes(
        {"n": 8192, "tables": 20, "rows": 50000, "d": 16, "experts": 8}, {"n": 8, "tables": 3, "rows": 50, "d": 4, "experts": 2}
    ),
    "equivariant": sizes(
        {"atoms": 8192, "pairs": 100000, "d": 128, "layers": 4}, {"atoms": 20, "pairs": 50, "d": 8, "layers": 2}
    ),
    "keywords": sizes({"n": 128, "t": 16000, "c": 32}, {"n": 2, "t": 4000, "c": 4}),
    "glow": sizes({"n": 32, "side": 32, "wide": 256, "steps": 8}, {"n": 2, "side": 8, "wide": 8, "steps": 2}),
    "dit": sizes(
        {"n": 64, "t": 256, "d": 384, "heads": 6, "layers": 8}, {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 1}
    ),
    "sets": sizes(
        {"n": 64, "d": 256, "heads": 8, "points": 32, "lengths": (256, 512, 1024)},
        {"n": 2, "d": 16, "heads": 2, "points": 3, "lengths": (4, 8)},
    ),
}


def data(name: str) -> tuple:
    """The arrays that a model trains on, the same for every runner."""
    r, s = np.random.RandomState(0), S[name]
    if name == "shuffle":
        return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)
    if name == "sharpen":
        return r.rand(s.n, s.side, s.side, 3).astype("f"), r.rand(s.n, 2 * s.side, 2 * s.side, 3).astype("f")
    if name == "albert":
        where = np.stack([r.permutation(s.t)[: s.hidden] for _ in range(s.n)])
        seen = (np.arange(s.t) < r.randint(s.t // 2, s.t + 1, s.n)[:, None]).astype("f")
        return r.randint(0, s.words, [s.n, s.t]), seen, where, r.randint(0, s.words, [s.n, s.hidden])
    if name == "hierarchy":
        lengths = r.randint(s.t // 2, s.t + 1, s.n * s.lines)
        return r.randint(0, s.words, [s.n * s.lines, s.t]), lengths, r.randint(0, 5, s.n)
    if name == "tasks":
        labels = [r.randint(0, 2, [s.n, 1]).astype("f") for _ in range(3)]
        return (r.randint(0, s.rows, [s.n, s.tables]), *labels)
    if name == "equivariant":
        ends = [r.randint(0, s.atoms, s.pairs) for _ in range(2)]
        return r.randn(s.atoms, s.d).astype("f"), r.randn(s.atoms, 3).astype("f"), *ends, r.randn(s.atoms, 3).astype("f")
    if name == "keywords":
        return r.randn(s.n, s.t).astype("f") * 0.1, r.randint(0, 12, s.n)
    if name == "glow":
        return (r.rand(s.n, s.side, s.side, 3).astype("f"),)
    if name == "dit":
        noise = r.randn(s.n, s.t, 16).astype("f")
        return r.randn(s.n, s.t, 16).astype("f"), noise, r.rand(s.n).astype("f"), r.randint(0, 1000, s.n)
    return r.randn(s.n, max(s.lengths), 4).astype("f"), r.randint(0, 10, s.n)


def prepared(name: str, runner: str) -> tuple:
    """See others.prepared."""
    if runner == "penstock":
        import strangers_penstock

        return strangers_penstock.prepared(name)
    import strangers_torch

    return strangers_torch.prepared(name, runner == "torch-compile")


if __name__ == "__main__":
    others.TITLES, others.prepared, others.PROGRAM, others.TABLE = TITLES, prepared, __file__, "strangers"
    others.main()

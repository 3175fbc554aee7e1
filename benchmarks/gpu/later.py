"""Ten models more, measured as in others.py. None of them was known when the compiler was written; their first run is reported.

PYTHONPATH=src python benchmarks/gpu/later.py --json later.json --table benchmarks/README.md
"""

from __future__ import annotations

import numpy as np
import others
from others import sizes

TITLES = {
    "translate": "T5, 4 + 4 layers of 512, relative positions, dropout, 16 × 256 words, bf16, tf.function",
    "resnext": "ResNeXt with squeeze and excitation, batch 64 of 128×128, bf16, Keras fit step",
    "points": "PointNet, 32 clouds of 2,048 points, TF32, tf.function",
    "tagger": "two bidirectional GRUs over masked words, 64 × 128, TF32, Keras fit step",
    "crosses": "DCN-v2, 26 tables of 20,000 × 16, batch 8,192, Adam, TF32, 1.x session",
    "gat": "graph attention, 10,000 nodes, 100,000 edges, 8 heads, TF32, tf.function",
    "conformer": "Conformer, 4 layers of 256, 16 × 400 frames, dropout, bf16, tf.function",
    "pairs": "CLIP, images and texts, batch 128, AdamW, bf16, tf.function",
    "critic": "Wasserstein GAN with gradient penalty, batch 128 of 32×32, TF32, tf.function",
    "series": "temporal convolutions, 64 series of three lengths in turns, TF32, tf.function",
}
S = {
    "translate": sizes(
        {"n": 16, "t": 256, "d": 512, "heads": 8, "layers": 4, "words": 16000},
        {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 1, "words": 50},
    ),
    "resnext": sizes({"n": 64, "side": 128, "c": 128, "groups": 32}, {"n": 2, "side": 32, "c": 16, "groups": 4}),
    "points": sizes({"n": 32, "t": 2048}, {"n": 2, "t": 16}),
    "tagger": sizes({"n": 64, "t": 128, "d": 256, "words": 20000}, {"n": 2, "t": 8, "d": 16, "words": 50}),
    "crosses": sizes({"n": 8192, "tables": 26, "rows": 20000, "d": 16}, {"n": 8, "tables": 3, "rows": 50, "d": 4}),
    "gat": sizes({"nodes": 10000, "edges": 100000, "d": 64, "heads": 8}, {"nodes": 20, "edges": 60, "d": 8, "heads": 2}),
    "conformer": sizes(
        {"n": 16, "t": 400, "d": 256, "heads": 4, "layers": 4}, {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 1}
    ),
    "pairs": sizes(
        {"n": 128, "side": 112, "t": 32, "d": 256, "heads": 4, "layers": 4, "words": 10000},
        {"n": 4, "side": 32, "t": 8, "d": 32, "heads": 2, "layers": 1, "words": 50},
    ),
    "critic": sizes({"n": 128, "c": 64, "z": 128}, {"n": 4, "c": 4, "z": 8}),
    "series": sizes(
        {"n": 64, "c": 64, "levels": 6, "lengths": (256, 384, 512)}, {"n": 2, "c": 8, "levels": 2, "lengths": (8, 16)}
    ),
}


def data(name: str) -> tuple:
    """The arrays that a model trains on, the same for every runner."""
    r, s = np.random.RandomState(0), S[name]
    if name == "translate":
        return tuple(r.randint(0, s.words, [s.n, s.t]) for _ in range(3))
    if name == "resnext":
        return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)
    if name == "points":
        return r.randn(s.n, s.t, 3).astype("f"), r.randint(0, 40, s.n)
    if name == "tagger":
        ids = r.randint(1, s.words, [s.n, s.t])
        ids[np.arange(s.t) >= r.randint(s.t // 2, s.t + 1, s.n)[:, None]] = 0
        return ids, r.randint(0, 20, [s.n, s.t])
    if name == "crosses":
        return r.randn(s.n, 13).astype("f"), r.randint(0, s.rows, [s.n, s.tables]), r.randint(0, 2, s.n).astype("f")
    if name == "gat":
        return (
            r.randn(s.nodes, s.d).astype("f"),
            r.randint(0, s.nodes, s.edges),
            np.sort(r.randint(0, s.nodes, s.edges)),
            r.randint(0, 7, s.nodes),
        )
    if name == "conformer":
        return r.randn(s.n, s.t, 80).astype("f"), r.randint(0, 40, [s.n, s.t])
    if name == "pairs":
        return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, s.words, [s.n, s.t])
    if name == "critic":
        return r.randn(s.n, 32, 32, 3).astype("f"), r.randn(s.n, s.z).astype("f"), r.rand(s.n, 1, 1, 1).astype("f")
    return (r.randn(s.n, max(s.lengths) + 1, 1).astype("f"),)


def prepared(name: str, runner: str) -> tuple:
    """See others.prepared."""
    if runner == "penstock":
        import later_penstock

        return later_penstock.prepared(name)
    import later_torch

    return later_torch.prepared(name, runner == "torch-compile")


if __name__ == "__main__":
    others.TITLES, others.prepared, others.PROGRAM, others.TABLE = TITLES, prepared, __file__, "later"
    others.main()

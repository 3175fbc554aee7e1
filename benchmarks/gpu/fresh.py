"""Ten further models, measured as in others.py. They were written when the compiler was done; their first run is reported.

    PYTHONPATH=src python benchmarks/gpu/fresh.py --json fresh.json --table benchmarks/README.md
"""
from __future__ import annotations

import numpy as np
import others
from others import sizes

TITLES = {
    "swin": "shifted-window transformer, batch 64 of 112×112, bias of places, bf16, tf.function",
    "vit": "vision transformer, 8 layers of 384, batch 64 of 224×224, half precision with scaled loss, Keras fit step",
    "volumes": "3-D U-Net, batch 2 of 64×64×64, bf16, tf.function",
    "mixer": "MLP-Mixer, 8 layers of 512, batch 128 of 224×224, TF32, tf.function",
    "speech": "convolutions and two bidirectional LSTMs, 32 × 400 frames, TF32, tf.function",
    "sentences": "convolutions over words, four lengths in turns, TF32, tf.function",
    "clicks": "factorization machine and deep network, 1,000,000 rows, sparse Adagrad, TF32, tf.function",
    "molecules": "GIN, 8,192 graphs of 23 nodes, TF32, tf.function",
    "digits": "variational autoencoder, batch 256 of 32×32, TF32, tf.function",
    "flow": "RealNVP, 12 couplings, batch 1,024, TF32, 1.x session",
}
S = {
    "swin": sizes({"n": 64, "side": 112, "d": 96, "window": 7}, {"n": 2, "side": 56, "d": 32}),
    "vit": sizes({"n": 64, "side": 224, "d": 384, "heads": 6, "layers": 8},
                 {"n": 2, "side": 32, "d": 32, "heads": 2, "layers": 1}),
    "volumes": sizes({"n": 2, "side": 64, "c": 32}, {"n": 2, "side": 16, "c": 4}),
    "mixer": sizes({"n": 128, "side": 224, "d": 512, "layers": 8}, {"n": 2, "side": 32, "d": 32, "layers": 1}),
    "speech": sizes({"n": 32, "t": 400, "bands": 80, "d": 320}, {"n": 2, "t": 8, "bands": 8, "d": 8}),
    "sentences": sizes({"n": 128, "words": 20000, "d": 128, "lengths": (32, 64, 96, 128)}, {"n": 2, "words": 50, "d": 8}),
    "clicks": sizes({"n": 8192, "fields": 39, "rows": 1000000, "d": 16}, {"n": 8, "fields": 4, "rows": 100, "d": 4}),
    "molecules": sizes({"graphs": 8192, "nodes": 8192 * 23, "edges": 8192 * 50, "d": 64, "layers": 5},
                       {"graphs": 4, "nodes": 20, "edges": 40, "d": 8, "layers": 2}),
    "digits": sizes({"n": 256, "side": 32, "c": 32, "z": 32}, {"n": 4, "side": 8, "c": 4, "z": 4}),
    "flow": sizes({"n": 1024, "d": 64, "wide": 512, "layers": 12}, {"n": 4, "d": 8, "wide": 8, "layers": 2}),
}


def data(name: str) -> tuple:
    """The arrays that a model trains on, the same for every runner."""
    r, s = np.random.RandomState(0), S[name]
    if name in ("swin", "vit", "mixer"):
        return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)
    if name == "volumes":
        return r.randn(s.n, s.side, s.side, s.side, 1).astype("f"), r.randint(0, 2, [s.n, s.side, s.side, s.side])
    if name == "speech":
        return r.randn(s.n, s.t, s.bands, 1).astype("f"), r.randint(0, 40, [s.n, s.t // 2])
    if name == "sentences":
        return r.randint(0, s.words, [s.n, max(s.lengths)]), r.randint(0, 4, s.n)
    if name == "clicks":
        return r.randint(0, s.rows, [s.n, s.fields]), r.randint(0, 2, s.n).astype("f")
    if name == "molecules":
        of = np.sort(r.randint(0, s.graphs, s.nodes))
        of[-1] = s.graphs - 1
        return r.randn(s.nodes, s.d).astype("f"), r.randint(0, s.nodes, s.edges), np.sort(r.randint(0, s.nodes, s.edges)), of, \
            r.randn(s.graphs).astype("f")
    if name == "digits":
        return (r.rand(s.n, s.side, s.side, 1).astype("f"),)
    return (r.randn(s.n, s.d).astype("f"),)


def prepared(name: str, runner: str) -> tuple:
    """See others.prepared."""
    if runner == "penstock":
        import fresh_penstock
        return fresh_penstock.prepared(name)
    import fresh_torch
    return fresh_torch.prepared(name, runner == "torch-compile")


if __name__ == "__main__":
    others.TITLES, others.prepared, others.PROGRAM, others.TABLE = TITLES, prepared, __file__, "fresh"
    others.main()

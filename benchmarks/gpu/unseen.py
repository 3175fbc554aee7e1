"""Nine models that were written after the compiler and all its tests, measured as in others.py. Their first run is reported.

PYTHONPATH=src python benchmarks/gpu/unseen.py --json unseen.json --table benchmarks/README.md
"""

from __future__ import annotations

import numpy as np
import others
from others import sizes

TITLES = {
    "perceiver": "Perceiver, 256 latents of 512, 16 × 2,048 inputs, Keras's MultiHeadAttention, bf16, tf.function",
    "switch": "mixture of 8 experts, 6 layers of 512, 8 × 512 words, clipping, bf16, tf.function",
    "densenet": "DenseNet-121, batch 64 of 128×128, bf16, Keras fit step",
    "operator": "Fourier neural operator, batch 16 of 128×128, float32, tf.function",
    "detector": "RetinaNet with pyramid and focal loss, batch 16 of 256×256, TF32, 1.x session",
    "nerf": "NeRF, 4,096 rays of 64 points, TF32, tf.function",
    "speech": "separable convolutions over time with CTC, 32 × 512 frames, TF32, tf.function",
    "actor": "soft actor-critic, three optimizers, slow copies, batch 1,024, TF32, tf.function",
    "sampled": "retrieval with sampled softmax over 200,000 items, batch 2,048, TF32, 1.x session",
}
S = {
    "perceiver": sizes(
        {"n": 16, "t": 2048, "c": 64, "latents": 256, "d": 512, "heads": 8, "layers": 6},
        {"n": 2, "t": 24, "c": 8, "latents": 4, "d": 16, "heads": 2, "layers": 2},
    ),
    "switch": sizes(
        {"n": 8, "t": 512, "d": 512, "heads": 8, "layers": 6, "experts": 8, "words": 16000},
        {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 2, "experts": 4, "words": 50},
    ),
    "densenet": sizes(
        {"n": 64, "side": 128, "grow": 32, "blocks": (6, 12, 24, 16)}, {"n": 2, "side": 64, "grow": 4, "blocks": (2, 2)}
    ),
    "operator": sizes({"n": 16, "side": 128, "c": 32, "modes": 12}, {"n": 2, "side": 16, "c": 4, "modes": 3}),
    "detector": sizes({"n": 16, "side": 256, "c": 64}, {"n": 2, "side": 64, "c": 4}),
    "nerf": sizes({"n": 4096, "points": 64, "d": 256}, {"n": 8, "points": 4, "d": 16}),
    "speech": sizes({"n": 32, "t": 512, "c": 256, "labels": 40}, {"n": 2, "t": 32, "c": 8, "labels": 4}),
    "actor": sizes({"n": 1024, "seen": 64, "acts": 16, "d": 512}, {"n": 8, "seen": 6, "acts": 2, "d": 16}),
    "sampled": sizes(
        {"n": 2048, "items": 200000, "d": 64, "past": 20, "some": 4096}, {"n": 4, "items": 100, "d": 8, "past": 3, "some": 16}
    ),
}


def data(name: str) -> tuple:
    """The arrays that a model trains on, the same for every runner."""
    r, s = np.random.RandomState(0), S[name]
    if name == "perceiver":
        return r.randn(s.n, s.t, s.c).astype("f"), r.randint(0, 100, s.n)
    if name == "switch":
        return (r.randint(0, s.words, [s.n, s.t + 1]),)
    if name == "densenet":
        return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)
    if name == "operator":
        return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randn(s.n, s.side, s.side, 1).astype("f")
    if name == "detector":
        places = (s.side // 8) ** 2 + (s.side // 16) ** 2 + (s.side // 32) ** 2
        labels = np.where(r.rand(s.n, places, 9) < 0.02, r.randint(1, 21, [s.n, places, 9]), 0)
        return r.randn(s.n, s.side, s.side, 3).astype("f"), labels, r.randn(s.n, places, 9, 4).astype("f")
    if name == "nerf":
        return r.randn(s.n, 3).astype("f"), r.randn(s.n, 3).astype("f"), r.rand(s.n, 3).astype("f")
    if name == "speech":
        lengths = r.randint(s.labels // 2, s.labels + 1, s.n)
        return r.randn(s.n, s.t, 64).astype("f"), r.randint(1, 29, [s.n, s.labels]), lengths
    if name == "actor":
        seen, then = r.randn(2, s.n, s.seen).astype("f")
        return seen, r.uniform(-1, 1, [s.n, s.acts]).astype("f"), r.randn(s.n).astype("f"), then
    return r.randint(0, s.items, [s.n, s.past]), r.randint(0, s.items, [s.n, 1])


def prepared(name: str, runner: str) -> tuple:
    """See others.prepared."""
    if runner == "penstock":
        import unseen_penstock

        return unseen_penstock.prepared(name)
    import unseen_torch

    return unseen_torch.prepared(name, runner == "torch-compile")


if __name__ == "__main__":
    others.TITLES, others.prepared, others.PROGRAM, others.TABLE = TITLES, prepared, __file__, "unseen"
    others.main()

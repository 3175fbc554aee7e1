"""Five more models that no other file has, measured as in others.py: what the host reads is part of three of them.

PYTHONPATH=src python benchmarks/gpu/guests.py --json guests.json --table benchmarks/README.md
"""

from __future__ import annotations

import numpy as np
import others
from others import sizes

TITLES = {
    "gates": "U-Net with gated skips, batch 16 of 128×128, bf16, Keras fit step",
    "speech": "wav2vec, seven convolutions over 16,000 samples and 6 layers of 384, batch 16, bf16, tf.function",
    "translator": "dynamic_rnn over lengths, while_loop with additive attention, batch 64 of 30 words, TF32, 1.x session, fed",
    "factors": "DeepFM, 20 fields of 50,000 × 16, batch 8,192, lazy sparse Adam, TF32, 1.x session",
    "codes": "VQ-VAE, 512 codes with moving averages, finite values asserted, batch 64 of 64×64, TF32, tf.function",
}
S = {
    "gates": sizes({"n": 16, "side": 128, "c": 32, "levels": 4}, {"n": 2, "side": 16, "c": 4, "levels": 2}),
    "speech": sizes(
        {"n": 16, "t": 16000, "c": 256, "d": 384, "heads": 6, "layers": 6},
        {"n": 2, "t": 800, "c": 8, "d": 16, "heads": 2, "layers": 1},
    ),
    "translator": sizes({"n": 64, "t": 30, "d": 256, "words": 8000}, {"n": 3, "t": 5, "d": 8, "words": 40}),
    "factors": sizes({"n": 8192, "fields": 20, "rows": 50000, "d": 16}, {"n": 8, "fields": 3, "rows": 50, "d": 4}),
    "codes": sizes({"n": 64, "side": 64, "c": 128, "codes": 512}, {"n": 2, "side": 16, "c": 8, "codes": 16}),
}


def data(name: str) -> tuple:
    """The arrays that a model trains on, the same for every runner."""
    r, s = np.random.RandomState(0), S[name]
    if name == "gates":
        return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 8, [s.n, s.side, s.side])
    if name == "speech":
        return r.randn(s.n, s.t).astype("f"), r.randint(0, 64, s.n)
    if name == "translator":
        lengths = r.randint(s.t // 2, s.t + 1, s.n).astype("int32")
        lengths[0] = s.t
        return r.randint(0, s.words, [s.n, s.t]), lengths, r.randint(0, s.words, [s.n, s.t + 1])
    if name == "factors":
        return r.randint(0, s.rows, [s.n, s.fields]), r.randint(0, 2, s.n).astype("f")
    return (r.rand(s.n, s.side, s.side, 3).astype("f"),)


def prepared(name: str, runner: str) -> tuple:
    """See others.prepared."""
    if runner == "penstock":
        import guests_penstock

        return guests_penstock.prepared(name)
    import guests_torch

    return guests_torch.prepared(name, runner == "torch-compile")


if __name__ == "__main__":
    others.TITLES, others.prepared, others.PROGRAM, others.TABLE = TITLES, prepared, __file__, "guests"
    others.main()

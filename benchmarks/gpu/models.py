"""Training steps of models that no pass knows by name, on one GPU: penstock beside PyTorch, eager and compiled.

    models.py                     every model and runner, each in a process of its own: milliseconds a step, first step, memory
    models.py RUNNER MODEL        one; RUNNER is penstock, penstock-jit, torch-eager or torch-compile

penstock is measured after its background compiler has had `WAIT` seconds (default 90), as a training of some minutes sees it.
"""
import json
import os
import subprocess
import sys
import time

import numpy as np

WAIT = float(os.environ.get("WAIT", "90"))


def measured(step, sync, settle):
    began = time.perf_counter()
    step(), sync()
    first = time.perf_counter() - began
    while settle and not settle() and time.perf_counter() - began < WAIT:
        step(), sync()
    for _ in range(8):
        step()
    sync()
    ready, times = time.perf_counter() - began, []
    for _ in range(5):
        t = time.perf_counter()
        for _ in range(10):
            step()
        sync()
        times.append((time.perf_counter() - t) * 100)
    return {"ms": min(times), "first": first, "ready": ready}


# -- the models, written twice ---------------------------------------------------------------------------------------------
B = {"vit": 64, "dlrm": 4096, "unet": 16, "cnn": 256, "gru": 64, "bert": 32}


def data(name):
    r = np.random.RandomState(0)
    n = B[name]
    if name == "vit":
        return r.randn(n, 196, 768).astype("f"), r.randint(0, 100, n)
    if name == "dlrm":
        return r.randn(n, 13).astype("f"), r.randint(0, 100000, [n, 26]), r.randint(0, 2, n)
    if name == "unet":
        return r.randn(n, 128, 128, 3).astype("f"), r.randint(0, 8, [n, 128, 128])
    if name == "cnn":
        return r.randn(n, 32, 32, 3).astype("f"), r.randint(0, 10, n)
    if name == "gru":
        return r.randn(n, 100, 128).astype("f"), r.randint(0, 10, n)
    return r.randint(0, 30000, [n, 128]), r.randint(0, 2, n)


def penstock_model(name, tf):
    K = tf.keras
    L = K.layers

    def block(x, d, heads, act="gelu", pre=True):
        h = L.LayerNormalization(epsilon=1e-6)(x) if pre else x
        x = x + L.MultiHeadAttention(heads, d // heads)(h, h)
        x = x if pre else L.LayerNormalization()(x)
        h = L.LayerNormalization(epsilon=1e-6)(x) if pre else x
        x = x + L.Dense(d)(L.Dense(4 * d, activation=act)(h))
        return x if pre else L.LayerNormalization()(x)
    if name == "vit":
        i = K.Input([196, 768])
        x = L.Dense(384)(i)
        for _ in range(6):
            x = block(x, 384, 6)
        return K.Model(i, L.Dense(100)(L.GlobalAveragePooling1D()(L.LayerNormalization()(x))))
    if name == "dlrm":
        dense, ids = K.Input([13]), K.Input([26], dtype="int64")
        e = L.Embedding(100000, 32)(ids)
        h = L.Dense(32, activation="relu")(L.Dense(256, activation="relu")(dense))
        z = L.Concatenate(axis=1)([L.Reshape([1, 32])(h), e])
        dot = L.Flatten()(L.Dot([2, 2])([z, z]))
        return K.Model([dense, ids], L.Dense(2)(L.Dense(256, activation="relu")(L.Concatenate()([h, dot]))))
    if name == "unet":
        i = K.Input([128, 128, 3])

        def twice(x, c):
            for _ in range(2):
                x = L.ReLU()(L.BatchNormalization()(L.Conv2D(c, 3, padding="same", use_bias=False)(x)))
            return x
        x, kept = i, []
        for c in (32, 64, 128):
            x = twice(x, c)
            kept.append(x)
            x = L.MaxPooling2D()(x)
        x = twice(x, 256)
        for c in (128, 64, 32):
            x = twice(L.Concatenate()([L.Conv2DTranspose(c, 2, 2)(x), kept.pop()]), c)
        return K.Model(i, L.Conv2D(8, 1)(x))
    if name == "cnn":
        return K.Sequential([L.Conv2D(64, 3, activation="relu"), L.Conv2D(64, 3, activation="relu"), L.MaxPooling2D(),
                             L.BatchNormalization(), L.Conv2D(128, 3, activation="relu"), L.Flatten(),
                             L.Dense(256, activation="relu"), L.Dropout(.5), L.Dense(10)])
    if name == "gru":
        return K.Sequential([L.GRU(256, return_sequences=True), L.GRU(256), L.Dense(10)])
    class Positions(L.Layer):
        def build(self, shape):
            self.table = self.add_weight(name="table", shape=[128, 256])

        def call(self, x):
            return x + self.table
    i = K.Input([128], dtype="int64")
    x = Positions()(L.Embedding(30000, 256)(i))
    x = L.Dropout(.1)(L.LayerNormalization()(x))
    for _ in range(4):
        x = block(x, 256, 4, pre=False)
    return K.Model(i, L.Dense(2)(x[:, 0]))


def penstock(name, jit):
    import penstock as tf
    with tf.device("/gpu:0"):
        model = penstock_model(name, tf)
        opt = tf.keras.optimizers.Adam(1e-4)
        *x, y = (tf.constant(a) for a in data(name))
        x = x[0] if len(x) == 1 else x

        @tf.function(jit_compile=jit or None)
        def step(x, y):
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            variables = model.trainable_variables
            opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss
        losses = []

        def settled():
            from penstock._src.step.tiers import tiers
            steps = [s for f in step._list_all_concrete_functions for s in f.graph_function._steps.values()]
            return bool(tiers.refused) or any(slot.tier == 3 for s in steps for slot in getattr(s, "_slots", {}).values())
        out = measured(lambda: losses.append(step(x, y)), lambda: float(losses[-1]), settled)
        from penstock._src.step.tiers import tiers
        return {**out, "refused": [f"tier {t}: {why}" for t, why in tiers.refused]}


def torch_model(name):
    import torch
    from torch import nn
    F = nn.functional

    class Block(nn.Module):
        def __init__(self, d, heads, pre=True):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.o, self.a, self.b = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
            self.heads, self.pre = heads, pre

        def attend(self, x):
            n, t, d = x.shape
            q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d))

        def forward(self, x):
            if self.pre:
                x = x + self.attend(self.n1(x))
                return x + self.b(F.gelu(self.a(self.n2(x))))
            x = self.n1(x + self.attend(x))
            return self.n2(x + self.b(F.gelu(self.a(x))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            if name == "vit":
                self.i, self.n, self.h = nn.Linear(768, 384), nn.LayerNorm(384), nn.Linear(384, 100)
                self.bs = nn.Sequential(*[Block(384, 6) for _ in range(6)])
            elif name == "dlrm":
                self.e = nn.Embedding(100000, 32)
                self.d = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 32), nn.ReLU())
                self.t = nn.Sequential(nn.Linear(32 + 27 * 27, 256), nn.ReLU(), nn.Linear(256, 2))
            elif name == "unet":
                def twice(i, c):
                    return nn.Sequential(nn.Conv2d(i, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
                                         nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU())
                self.down = nn.ModuleList([twice(i, c) for i, c in ((3, 32), (32, 64), (64, 128))])
                self.mid, self.last = twice(128, 256), nn.Conv2d(32, 8, 1)
                self.ups = nn.ModuleList([nn.ConvTranspose2d(2 * c, c, 2, 2) for c in (128, 64, 32)])
                self.up = nn.ModuleList([twice(2 * c, c) for c in (128, 64, 32)])
            elif name == "cnn":
                self.s = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                                       nn.BatchNorm2d(64), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Flatten(),
                                       nn.Linear(128 * 144, 256), nn.ReLU(), nn.Dropout(.5), nn.Linear(256, 10))
            elif name == "gru":
                self.g, self.h = nn.GRU(128, 256, 2, batch_first=True), nn.Linear(256, 10)
            else:
                self.e, self.p, self.n, self.h = nn.Embedding(30000, 256), nn.Embedding(128, 256), nn.LayerNorm(256), \
                    nn.Linear(256, 2)
                self.bs = nn.Sequential(nn.Dropout(.1), *[Block(256, 4, False) for _ in range(4)])

        def forward(self, *x):
            if name == "vit":
                return self.h(self.n(self.bs(self.i(x[0]))).mean(1))
            if name == "dlrm":
                h = self.d(x[0])
                z = torch.cat([h[:, None], self.e(x[1])], 1)
                return self.t(torch.cat([h, (z @ z.transpose(1, 2)).flatten(1)], 1))
            if name == "unet":
                h, kept = x[0], []
                for d in self.down:
                    h = d(h)
                    kept.append(h)
                    h = F.max_pool2d(h, 2)
                h = self.mid(h)
                for up, d in zip(self.ups, self.up, strict=True):
                    h = d(torch.cat([up(h), kept.pop()], 1))
                return self.last(h)
            if name == "cnn":
                return self.s(x[0])
            if name == "gru":
                return self.h(self.g(x[0])[0][:, -1])
            return self.h(self.bs(self.n(self.e(x[0]) + self.p.weight))[:, 0])
    return Net()


def torched(name, compiled):
    import torch
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = True
    model = torch_model(name).cuda()
    *x, y = (torch.from_numpy(a).cuda() for a in data(name))
    if x[0].ndim == 4:
        model = model.to(memory_format=torch.channels_last)
        x = [a.permute(0, 3, 1, 2) for a in x]
    opt = torch.optim.Adam(model.parameters(), 1e-4, fused=True)
    run = torch.compile(model) if compiled else model

    def step():
        loss = torch.nn.functional.cross_entropy(run(*x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return measured(step, torch.cuda.synchronize, None)


RUNNERS = {"penstock": lambda m: penstock(m, False), "penstock-jit": lambda m: penstock(m, True),
           "torch-eager": lambda m: torched(m, False), "torch-compile": lambda m: torched(m, True)}


def one(runner, model):
    import torch
    found = RUNNERS[runner](model)
    found = {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}
    print(json.dumps({"model": model, "runner": runner, **found,
                      "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2)}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one(*sys.argv[1:])
    else:
        for model in B:
            for runner in ("penstock", "torch-eager", "torch-compile"):
                subprocess.run([sys.executable, __file__, runner, model], check=False)

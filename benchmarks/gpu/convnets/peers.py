"""The same networks in PyTorch and JAX, each written as its users would write them for speed."""
from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks.gpu import measuring
from benchmarks.gpu.convnets.networks import NETWORKS, Conv, Inception, Network, Pool


# -- PyTorch -----------------------------------------------------------------------------------------------------------
def torch_network(network: Network):
    """An nn.Module in channels_last."""
    import torch
    from torch import nn

    class Towers(nn.Module):
        """An inception block."""

        def __init__(self, channels: int, a: Inception):
            super().__init__()

            def unit(n_in: int, n_out: int, k: int) -> list:
                return [nn.Conv2d(n_in, n_out, k, padding=k // 2), nn.ReLU(inplace=True)]
            self.towers = nn.ModuleList([
                nn.Sequential(*unit(channels, a.one, 1)),
                nn.Sequential(*unit(channels, a.three_in, 1), *unit(a.three_in, a.three, 3)),
                nn.Sequential(*unit(channels, a.five_in, 1), *unit(a.five_in, a.five, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), *unit(channels, a.pool, 1))])

        def forward(self, x):
            return torch.cat([t(x) for t in self.towers], 1)

    modules, channels = [], 3
    for layer in network.layers:
        if isinstance(layer, Conv):
            modules += [nn.Conv2d(channels, layer.channels, layer.size, layer.stride, layer.pad), nn.ReLU(inplace=True)]
            channels = layer.channels
        elif isinstance(layer, Pool):
            modules.append(nn.MaxPool2d(layer.size, layer.stride, layer.pad))
        else:
            modules.append(Towers(channels, layer))
            channels = layer.one + layer.three + layer.five + layer.pool
    if len(network.dense) == 1:
        modules.append(nn.AdaptiveAvgPool2d(1))
    modules.append(nn.Flatten())
    net = nn.Sequential(*modules).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(network.batch, 3, network.image, network.image, device="cuda").to(memory_format=torch.channels_last)
    width = net(x).shape[1]
    for i, n in enumerate(network.dense):
        net.append(nn.Linear(width, n).cuda())
        if i < len(network.dense) - 1:
            net.append(nn.ReLU(inplace=True))
        width = n
    return net, x


def torch_time(name: str, precision: str, how: str) -> float:
    """Milliseconds of a training step: `how` is eager, graph or compile."""
    import torch
    import torch.nn.functional as f
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    net, x = torch_network(NETWORKS[name])
    labels = torch.zeros(len(x), dtype=torch.int64, device="cuda")
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3, foreach=True)
    forward = torch.compile(net) if how == "compile" else net

    def step() -> None:
        sgd.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = f.cross_entropy(forward(x), labels)
        loss.backward()
        sgd.step()

    run: Callable[[], None] = step
    if how == "graph":
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(4):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        sgd.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    return timed(run, torch.cuda.synchronize)


# -- JAX -----------------------------------------------------------------------------------------------------------------
def jax_time(name: str, precision: str) -> float:
    """Milliseconds of a jitted training step with donated parameters."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    names = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}
    jax.config.update("jax_default_matmul_precision", names[precision])
    network, kind = NETWORKS[name], jnp.bfloat16 if precision == "bf16" else jnp.float32
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 512))
    parameters: list = []

    def make(shape: tuple) -> int:
        parameters.append(jax.random.normal(next(keys), shape) * 0.05)
        return len(parameters) - 1

    def unit(n_in: int, layer: Conv) -> Callable:
        w, b = make((layer.size, layer.size, n_in, layer.channels)), make((layer.channels,))
        pad = [(layer.pad, layer.pad)] * 2
        return lambda p, x: jax.nn.relu(lax.conv_general_dilated(
            x, p[w].astype(kind), (layer.stride,) * 2, pad, dimension_numbers=("NHWC", "HWIO", "NHWC")) + p[b].astype(kind))

    def pool(a: Pool) -> Callable:
        pad = [(0, 0), (a.pad, a.pad), (a.pad, a.pad), (0, 0)]
        return lambda p, x: lax.reduce_window(x, -jnp.inf, lax.max, (1, a.size, a.size, 1), (1, a.stride, a.stride, 1), pad)

    def towers(n: int, a: Inception) -> Callable:
        rows = [[unit(n, Conv(a.one, 1))], [unit(n, Conv(a.three_in, 1)), unit(a.three_in, Conv(a.three, 3, 1, 1))],
                [unit(n, Conv(a.five_in, 1)), unit(a.five_in, Conv(a.five, 5, 1, 2))],
                [pool(Pool(3, 1, 1)), unit(n, Conv(a.pool, 1))]]

        def apply(p, x):
            results = []
            for row in rows:
                y = x
                for layer in row:
                    y = layer(p, y)
                results.append(y)
            return jnp.concatenate(results, -1)
        return apply

    layers, channels = [], 3
    for layer in network.layers:
        if isinstance(layer, Pool):
            layers.append(pool(layer))
            continue
        layers.append(unit(channels, layer) if isinstance(layer, Conv) else towers(channels, layer))
        channels = layer.channels if isinstance(layer, Conv) else layer.one + layer.three + layer.five + layer.pool

    def features(p, x):
        for layer in layers:
            x = layer(p, x)
        return (x.mean((1, 2)) if len(network.dense) == 1 else x).reshape(len(x), -1)

    x = jax.random.normal(next(keys), (network.batch, network.image, network.image, 3)).astype(kind)
    labels = jnp.zeros(network.batch, jnp.int32)
    width, dense = jax.eval_shape(features, parameters, x).shape[1], []
    for n in network.dense:
        dense.append((make((width, n)), make((n,))))
        width = n

    def loss(p):
        y = features(p, x)
        for i, (w, b) in enumerate(dense):
            y = y @ p[w].astype(kind) + p[b].astype(kind)
            y = jax.nn.relu(y) if i < len(dense) - 1 else y
        return -jnp.take_along_axis(jax.nn.log_softmax(y.astype(jnp.float32)), labels[:, None], 1).mean()

    update = jax.jit(lambda p: [a - 1e-3 * g for a, g in zip(p, jax.grad(loss)(p), strict=True)], donate_argnums=0)

    def step() -> None:
        nonlocal parameters
        parameters = update(parameters)
    return timed(step, lambda: jax.block_until_ready(parameters))


def timed(step: Callable[[], None], wait: Callable[[], object]) -> float:
    """The median time of a step in milliseconds."""
    return statistics.median(measuring.rounds_of(step, wait, rounds=10, steps=5, warm=8))

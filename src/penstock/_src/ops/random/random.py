"""Random numbers that depend on state: every execution of the op returns different ones.

With a seed (see `graph.random_seed`) an op draws from its own Philox stream, which lives with the session
that runs it, and returns the numbers that TensorFlow returns for the same seeds. Without one it draws from a torch
generator, which is faster.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.api import export
from penstock._src.base.modes import process
from penstock._src.base.static_shape import broadcast, concat, rank_at_most, rank_is
from penstock._src.graph import random_seed
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.kernels import arrays, draws, philox, rejection
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

_SEEDS_REQUIRED = "When determinism is enabled, random ops must have a seed specified."
_FLOATS = "seed: int = 0, seed2: int = 0, dtype: type in {float}, T: type in {index}"


# -- what the kernels share -------------------------------------------------------------------------------------------
def stream(ctx: Any, node: Any, kind: str, seed: int, seed2: int, detail: Any = "") -> philox.Stream | None:
    """The Philox stream of an op in this session; None for an op without seeds."""
    if seed == 0 and seed2 == 0:
        if process.seeds_required:
            raise errors.invalid(_SEEDS_REQUIRED)
        return None
    if node is None or node.graph is None:     # eager: one stream for each way of calling, restarted by set_seed
        if random_seed.take_drawn(seed, seed2):
            return philox.Stream(seed, seed2)
        key = f"{kind}/{seed}/{seed2}/{detail}/{random_seed.generation()}"
    else:
        key = _key(node, seed, seed2)
    return _stream(ctx, node, key, seed, seed2)


def _key(node: Any, seed: int, seed2: int) -> str:
    """The name of the stream of an op of a graph."""
    return f"{getattr(node.graph, 'stream_prefix', '')}/{node.name}/{seed}/{seed2}"


def _stream(ctx: Any, node: Any, key: str, seed: int, seed2: int) -> philox.Stream:
    streams = ctx.streams
    if streams is None and node is not None and hasattr(node.graph, "streams"):     # of a function: as long as it lives
        streams = node.graph.streams.setdefault(ctx.resources, {})
    if streams is not None:
        return streams.get(key) or streams.setdefault(key, philox.Stream(seed, seed2))
    return ctx.resources.get_or_create("", key, philox.Stream, lambda: philox.Stream(seed, seed2))


_generators: dict[str, torch.Generator] = {}
_SMALL = 1 << 12                 # numbers that numpy draws classes by
_MANY = 1 << 12                  # numbers for which a stream is faster than a generator, which counts one by one


def generator(device: torch.device | str) -> torch.Generator | None:
    """The torch generator for ops without seeds, seeded nondeterministically. In a step that is traced, the default one."""
    traced = tracing.draws()
    if traced is not None:
        traced.unseeded = True
        return None
    key = str(device)
    made = _generators.get(key)
    if made is None:
        made = torch.Generator(device)
        made.seed()
        made = _generators.setdefault(key, made)
    return made


def sizes(shape: torch.Tensor, each: Sequence[int] = ()) -> list[int]:
    """The sizes in a shape tensor; InvalidArgumentError if it is not a shape. `each` is the shape of what is drawn for each of
    its elements."""
    if shape.dim() != 1:
        raise errors.invalid(f"shape must be a vector, got one of shape {list(shape.shape)}")
    out = shape.tolist()
    for d in out:
        if d < 0:
            raise errors.invalid(f"Dimension {d} must be >= 0")
    so_far = 1
    for d in (*out, *each):
        if so_far * d >= 1 << 63:
            raise errors.invalid(f"Encountered overflow when multiplying {so_far} with {d}, result: -1")
        so_far *= d
    arrays.fits([*out, *each])
    return out


def shape_tensor(shape: Any) -> Any:
    """A shape argument as an int32 or int64 tensor."""
    if not isinstance(shape, (list, tuple)):
        return convert(shape, name="shape")
    sizes = [int(d) if isinstance(d, np.integer) else d for d in shape]       # of any width
    return convert(sizes, None if sizes else dtypes.int32, name="shape")


def vector_shape(shape: Any, *, c: Any) -> Any:
    """Shape rule of ops whose output has the shape in the input `shape`."""
    rank_is(shape, 1)
    return c.dims("shape")


def _filler(name: str, draw: Any, quick: Any) -> Any:
    """An op that fills a shape: `draw` from Philox, `quick` from a torch generator."""
    made = op(name, "shape: T -> output: dtype", _FLOATS, stateful=True).no_gradient()
    rules.batching.fills.add(made)
    made.random = True
    made.shape(vector_shape)

    @made.kernel
    def _made_kernel(shape, *, seed, seed2, dtype, node, ctx):
        dims, device = sizes(shape), draws.device_for(shape.device)
        source = stream(ctx, node, name, seed, seed2, dtype.name)
        if source is None:
            return quick(dims, dtype.torch, device)
        count = math.prod(dims)
        if _few(count, device) and draw is not philox.truncated_normal:          # which takes a varying number of words
            return source.few(philox.Few(draw, dims, dtype.torch))
        return draw(source.reserve(count * philox.RESERVED), count, dtype.torch, device).reshape(dims)
    if draw is not philox.truncated_normal:
        rules.columns.draws[made] = _executions(quick, draw)
        rules.program.prepare[made] = lambda known: _prepared(known, draw, "dtype")
        rules.regions.lower[made] = _lower(draw, "dtype")
    return made


_HOST = torch.device("cpu")


def _prepared(known: Any, draw: Any, dtype: str, *bounds: int) -> Any:
    """The kernel of an op with seeds that draws few numbers in each execution, always as many; None of another one."""
    node, attrs, shape = known.op, known.attrs, known.const(0)
    if shape is None or node.graph is None or not (attrs["seed"] or attrs["seed2"]):
        return None
    dims = sizes(torch.from_numpy(np.array(shape)))
    if not 0 < math.prod(dims) <= philox.FEW:
        return None
    usual = node.opdef.kernel_for("cpu").bind(attrs, node)
    given = [torch.from_numpy(np.array(known.const(i))) for i in range(len(node.inputs))]
    few, source = philox.Few(draw, dims, attrs[dtype].torch, bounds), _source(node)

    def run(*values: Any, ctx: Any) -> torch.Tensor:
        if values[0] is not None or tracing.draws() is not None or draws.device_for(_HOST) is not _HOST:
            return usual(*(known if v is None else v for v, known in zip(values, given, strict=True)), ctx=ctx)
        return source(ctx).few(few)
    return run


def _source(node: Any) -> Callable[[Any], philox.Stream]:
    """How to find the stream of an op of a graph in the context of a step. An op without seeds has one with a random key."""
    seed, seed2 = node.attrs["seed"], node.attrs["seed2"]
    if not (seed or seed2):
        return _unseeded_source()
    name, of_function = _key(node, seed, seed2), hasattr(node.graph, "streams")

    def source(ctx: Any) -> philox.Stream:
        found = None
        if ctx.streams is not None:
            found = ctx.streams.get(name)
        elif not of_function:
            found = ctx.resources.lookup("", name, philox.Stream)
        return found or _stream(ctx, node, name, seed, seed2)
    return source


def _unseeded_source() -> Callable[[Any], philox.Stream]:
    own = philox.Stream(int(torch.randint(-1 << 63, (1 << 63) - 1, (1,), generator=generator(_HOST))), 0)

    def source(ctx: Any) -> philox.Stream:
        if process.seeds_required:
            raise errors.invalid(_SEEDS_REQUIRED)
        return own
    return source


def _lower(draw: Any, dtype: str) -> Any:
    """The rule that writes an op that draws few numbers into a region."""
    def rule(op: Any, r: Any) -> list:
        shape, *bounds = (r.constant(t) for t in op.inputs)
        if any(b.ndim for b in bounds) or bounds and not bounds[0] < bounds[1] or op.graph is None:
            raise r.Unfit("other bounds")
        few = philox.Few(draw, list(op.outputs[0].static_dims), op.attrs[dtype].torch, tuple(int(b) for b in bounds))
        if list(shape) != few.dims:
            raise r.Unfit("another shape")
        return [r.drawn(few, _source(op))]
    return rule


def _executions(quick: Any, draw: Any) -> Any:
    """The rule that draws for many executions of an op of `_filler` at once."""
    def rule(ctx: Any, op: Any, many: int, shape: torch.Tensor) -> torch.Tensor:
        dims, dtype = sizes(shape), op.attrs["dtype"]
        source = stream(ctx, op, op.type, op.attrs["seed"], op.attrs["seed2"], dtype.name)
        if source is None:
            return quick([many, *dims], dtype.torch, shape.device)
        return source.executions(many, draw, dims, dtype.torch)
    return rule


def _few(count: int, device: torch.device | str) -> bool:
    """Whether an op draws so few numbers, on the host, that several executions are drawn together."""
    return 0 < count <= philox.FEW and torch.device(device).type == "cpu" and tracing.draws() is None


def _quick_truncated(dims: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    out = torch.empty(dims, dtype=torch.float64 if dtype is torch.float64 else torch.float32, device=device)
    return torch.nn.init.trunc_normal_(out, generator=generator(device)).to(dtype)


def _quick_uniform(dims: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Numbers in [0, 1). On the host many of them come from a Philox stream with a random key, which is faster."""
    source, count = generator(device), math.prod(dims)
    if count < _MANY or dtype is not torch.float32 or torch.device(device).type != "cpu" or tracing.draws() is not None:
        return torch.rand(dims, dtype=dtype, device=device, generator=source)
    key = torch.randint(-1 << 63, (1 << 63) - 1, (1,), generator=source).item()
    return philox.uniform(philox.Philox.seeded(int(key), 0), count, dtype).reshape(dims)


random_uniform_op = _filler("RandomUniform", philox.uniform, _quick_uniform)
random_standard_normal = _filler(
    "RandomStandardNormal", philox.normal,
    lambda dims, dtype, device: torch.randn(dims, dtype=dtype, device=device, generator=generator(device)))
truncated_normal_op = _filler("TruncatedNormal", philox.truncated_normal, _quick_truncated)


random_uniform_int = op("RandomUniformInt", "shape: T, minval: Tout, maxval: Tout -> output: Tout",
                        "seed: int = 0, seed2: int = 0, Tout: type in {index}, T: type in {index}",
                        stateful=True, host="minval maxval").no_gradient()
rules.batching.fills.add(random_uniform_int)


random_uniform_int.random = True


@random_uniform_int.shape
def _random_uniform_int_shape(shape, minval, maxval, *, c):
    rank_is(shape, 1), rank_is(minval, 0), rank_is(maxval, 0)
    return c.dims("shape")


@random_uniform_int.kernel
def _random_uniform_int_kernel(shape, minval, maxval, *, seed, seed2, Tout, node, ctx):
    dims, device = sizes(shape), draws.device_for(shape.device)
    low, high = int_range(minval, maxval)
    count = math.prod(dims)
    if count and low >= high:
        raise errors.invalid(f"Need minval < maxval, got {low} >= {high}")
    source = stream(ctx, node, "RandomUniformInt", seed, seed2, Tout.name)
    if source is not None:
        if not count:
            return torch.empty(dims, dtype=Tout.torch, device=device)
        if _few(count, device):
            return source.few(philox.Few(philox.uniform_int, dims, Tout.torch, (low, high)))
        return philox.uniform_int(source.reserve(count * philox.RESERVED), count, Tout.torch, device, low, high).reshape(dims)
    return _quick_integers(dims, low, high, Tout.torch, device)


rules.regions.lower[random_uniform_int] = _lower(philox.uniform_int, "Tout")


@rules.program.prepare(random_uniform_int)
def _prepare_uniform_int(known: Any) -> Any:
    low, high = known.const(1), known.const(2)
    if low is None or high is None or low.ndim or high.ndim or not low < high:
        return None
    return _prepared(known, philox.uniform_int, "Tout", int(low), int(high))


def _quick_integers(dims: list[int], low: int, high: int, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    if 0 in dims:
        return torch.empty(dims, dtype=dtype, device=device)
    if high - low < 1 << 63:
        return torch.randint(low, high, dims, dtype=dtype, device=device, generator=generator(device))
    bits = torch.empty(dims, dtype=dtype, device=device).random_(-1 << 63, None, generator=generator(device))
    return philox.unsigned_remainder(bits, high - low) + low


@rules.columns.draws(random_uniform_int)
def _random_uniform_int_executions(ctx: Any, op: Any, many: int, shape: Any, minval: Any, maxval: Any) -> torch.Tensor:
    dims, (low, high), dtype = sizes(shape), int_range(minval, maxval), op.attrs["Tout"]
    if low >= high:
        raise errors.invalid(f"Need minval < maxval, got {low} >= {high}")
    source = stream(ctx, op, "RandomUniformInt", op.attrs["seed"], op.attrs["seed2"], dtype.name)
    if source is None:
        return _quick_integers([many, *dims], low, high, dtype.torch, shape.device)
    return source.executions(many, philox.uniform_int, dims, dtype.torch, low, high)


def int_range(minval: torch.Tensor, maxval: torch.Tensor) -> tuple[int, int]:
    """The bounds of a uniform draw of integers, each of which must be a scalar."""
    for name, bound in (("minval", minval), ("maxval", maxval)):
        if bound.dim():
            raise errors.invalid(f"{name} must be 0-D, got shape {list(bound.shape)}")
    return int(minval), int(maxval)


# -- gamma and Poisson ------------------------------------------------------------------------------------------------
def _per_parameter(shape: Any, parameter: Any, *, c: Any) -> Any:
    """Shape rule of ops that return a block of samples for every parameter."""
    rank_is(shape, 1)
    return concat(c.dims("shape"), parameter)


def draw_gamma(gen: philox.Philox | None, alpha: torch.Tensor, samples: int) -> torch.Tensor:
    """Gamma(alpha, 1) samples of alpha's type, [samples, number of alphas]; NaN where alpha is negative or NaN."""
    flat = alpha.reshape(-1).double()
    good = torch.isfinite(flat) & (flat > 0)
    clean = torch.where(good, flat, 1.0)
    if gen is not None:
        drawn = rejection.gamma(gen, clean, samples)
    else:
        drawn = torch._standard_gamma(clean.expand(samples, -1), generator=generator(alpha.device))
    limit = torch.where(flat >= 0, flat, torch.nan)           # 0 and infinity yield themselves
    return torch.where(good, drawn, limit).to(alpha.dtype)


def draw_poisson(gen: philox.Philox | None, rate: torch.Tensor, samples: int, dtype: torch.dtype) -> torch.Tensor:
    """Poisson(rate) samples, [samples, number of rates]; rates below 0 yield 0, NaN and infinity themselves."""
    flat = rate.reshape(-1).double()
    good = torch.isfinite(flat)
    if not dtype.is_floating_point and not bool(good.all()):
        raise errors.invalid("rate must be finite for samples of an integer type")
    clean = torch.where(good, flat, 0.0).clamp(min=0.0)
    if gen is not None:
        top = torch.finfo(dtype).max if dtype.is_floating_point else torch.iinfo(dtype).max
        drawn = rejection.poisson(gen, clean, samples, top)
    else:
        drawn = torch.poisson(clean.expand(samples, -1), generator=generator(rate.device))
    return torch.where(good, drawn, flat).to(dtype)


random_gamma_op = op("RandomGamma", "shape: S, alpha: T -> output: T",
                     "seed: int = 0, seed2: int = 0, S: type in {index}, T: type in {half float32 float64}",
                     stateful=True)
random_gamma_op.shape(_per_parameter)


@random_gamma_op.kernel
def _random_gamma_kernel(shape, alpha, *, seed, seed2, T, node, ctx):
    dims = sizes(shape, alpha.shape)
    samples = math.prod(dims)
    source = stream(ctx, node, "RandomGamma", seed, seed2, T.name)
    gen = None if source is None else source.reserve(samples * alpha.numel() * philox.RESERVED)
    return draw_gamma(gen, alpha, samples).reshape([*dims, *alpha.shape])


random_gamma_grad = op("RandomGammaGrad", "alpha: T, sample: T -> output: T", "T: type in {float32 float64}")
random_gamma_grad.shape(broadcast)


@random_gamma_grad.kernel
def _random_gamma_grad_kernel(alpha, sample):
    a, x = torch.broadcast_tensors(alpha.double(), sample.double())
    # A sample x at a fixed probability P(a, x) moves with a by -(dP/da) / (dP/dx); dP/da by a five-point difference of
    # P, or of 1 - P where that is the smaller, which keeps its relative precision in the tails.
    h = 1e-3 * torch.minimum(a, torch.sqrt(a))
    low = x <= a

    def tail(shift: float) -> torch.Tensor:
        at = a + shift * h
        return torch.where(low, torch.special.gammainc(at, x), -torch.special.gammaincc(at, x))
    slope = (8 * (tail(1) - tail(-1)) - (tail(2) - tail(-2))) / (12 * h)
    density = torch.exp((a - 1) * torch.log(x) - x - torch.lgamma(a))
    return torch.where(x > 0, -slope / density, 0.0).to(sample.dtype)


def gamma_gradient(alpha: Tensor, sample: Tensor, grad: Tensor) -> Tensor:
    """The gradient of samples by alpha (implicit reparameterization), summed over the samples of each alpha."""
    by_alpha = grad * random_gamma_grad(alpha, sample)
    if sample.static_dims is not None and alpha.static_dims is not None:
        axes: Any = list(range(len(sample.static_dims) - len(alpha.static_dims)))
    else:
        axes = get("Range")(0, get("Rank")(sample) - get("Rank")(alpha), 1)
    return get("Sum")(by_alpha, convert(axes, dtypes.int32))


@random_gamma_op.gradient
def _random_gamma_gradient(op, grad):
    return None, gamma_gradient(op.inputs[1], op.outputs[0], grad)


def _poisson_kernel(shape, rate, *, seed, seed2, dtype, node, ctx):
    dims = sizes(shape, rate.shape)
    samples = math.prod(dims)
    source = stream(ctx, node, "RandomPoisson", seed, seed2, dtype.name)
    gen = None if source is None else source.reserve(samples * rate.numel() * philox.RESERVED)
    return draw_poisson(gen, rate, samples, dtype.torch).reshape([*dims, *rate.shape])


random_poisson_op = op("RandomPoisson", "shape: S, rate: dtype -> output: dtype",
                       "seed: int = 0, seed2: int = 0, S: type in {index}, dtype: type in {half float32 float64}",
                       stateful=True).no_gradient()
random_poisson_v2_op = op("RandomPoissonV2", "shape: S, rate: R -> output: dtype",
                          "seed: int = 0, seed2: int = 0, S: type in {index}, "
                          "R: type in {half float32 float64 int32 int64} = float64, "
                          "dtype: type in {half float32 float64 int32 int64} = int64", stateful=True).no_gradient()
for _poisson in (random_poisson_op, random_poisson_v2_op):
    _poisson.shape(_per_parameter)
    _poisson.kernel(_poisson_kernel)


# -- truncated normal with parameters ---------------------------------------------------------------------------------
parameterized_truncated_normal_op = op(
    "ParameterizedTruncatedNormal",
    "shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype -> output: dtype", _FLOATS,
    stateful=True).no_gradient()


@parameterized_truncated_normal_op.shape
def _parameterized_truncated_normal_shape(shape, means, stdevs, minvals, maxvals, *, c):
    rank_is(shape, 1)
    for parameter in (means, stdevs, minvals, maxvals):
        rank_at_most(parameter, 1)
    return c.dims("shape")


@parameterized_truncated_normal_op.kernel
def _parameterized_truncated_normal_kernel(shape, means, stdevs, minvals, maxvals, *, seed, seed2, dtype, node, ctx):
    dims = sizes(shape)
    count = math.prod(dims)
    rows = dims[0] if dims else 1
    named = {"means": means, "stdevs": stdevs, "minvals": minvals, "maxvals": maxvals}
    for name, p in named.items():
        if p.dim() > 1:
            raise errors.invalid(f"Input {name} should be a scalar or vector, got shape: {list(p.shape)}")
        if p.numel() not in (1, rows):
            raise errors.invalid(f"Input {name} should have length 1 or shape[0], got shape: {list(p.shape)}")
    source = stream(ctx, node, "ParameterizedTruncatedNormal", seed, seed2, dtype.name)
    if source is None:
        unit = torch.rand(count, dtype=torch.float64, device=shape.device, generator=generator(shape.device))
    else:
        unit = philox.uniform(source.reserve(count * philox.RESERVED), count, torch.float64, shape.device)
    columns = [p.reshape(-1, 1).double() for p in named.values()]
    return between(unit.reshape(rows, -1) if count else unit.reshape(rows, 0), *columns).reshape(dims).to(dtype.torch)


stateless_truncated_op = op(
    "StatelessParameterizedTruncatedNormal",
    "shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype, maxvals: dtype -> output: dtype",
    "S: type in {int32 int64}, Tseed: type in {int32 int64} = int64, dtype: type in {half float32 float64}").no_gradient()


@stateless_truncated_op.shape
def _stateless_truncated_shape(shape, seed, means, stddevs, minvals, maxvals, *, c):
    rank_is(seed, 1)
    return c.dims("shape")


@stateless_truncated_op.kernel
def _stateless_truncated_kernel(shape, seed, means, stddevs, minvals, maxvals, *, dtype):
    if seed.numel() != 2:
        raise errors.invalid(f"seed must have shape [2], not {list(seed.shape)}")
    dims = sizes(shape)
    try:
        each = torch.broadcast_shapes(means.shape, stddevs.shape, minvals.shape, maxvals.shape)
    except RuntimeError:
        raise errors.invalid("The parameters do not broadcast to one shape") from None
    if tuple(dims[len(dims) - len(each):]) != tuple(each):
        raise errors.invalid("Shape passed in must end with broadcasted shape.")
    key = philox.Philox.scrambled(*(int(s) for s in seed.tolist()))
    unit = philox.uniform(key, math.prod(dims), torch.float64, shape.device).reshape(dims)
    return between(unit, *(p.double() for p in (means, stddevs, minvals, maxvals))).to(dtype.torch)


def between(unit: torch.Tensor, mean: torch.Tensor, stddev: torch.Tensor, low: torch.Tensor,
            high: torch.Tensor) -> torch.Tensor:
    """Normal numbers between bounds, by the inverse of the distribution function at `unit` in [0, 1)."""
    if not bool((stddev > 0).all() & (low < high).all() & (torch.isfinite(low) | torch.isfinite(high)).all()):
        raise errors.invalid("Invalid parameters")
    a, b = (low - mean) / stddev, (high - mean) / stddev
    flip = a > 0                                   # the lower tail has the precision that the upper one loses
    left, right = torch.where(flip, -b, a), torch.where(flip, -a, b)
    start, stop = torch.special.ndtr(left), torch.special.ndtr(right)
    z = torch.special.ndtri(start + unit * (stop - start))
    z = torch.minimum(torch.maximum(z, left), right)
    return torch.where(flip, -z, z) * stddev + mean


def parameterized_truncated_normal(shape: Any, means: Any = 0.0, stddevs: Any = 1.0, minvals: Any = -2.0,
                                   maxvals: Any = 2.0, dtype: Any = dtypes.float32, seed: int | None = None,
                                   name: str | None = None) -> Tensor:
    """Normal random numbers between bounds; each parameter is a scalar, or has one value per row of the output."""
    with name_scope(name, "parameterized_truncated_normal", [shape, means, stddevs, minvals, maxvals]) as name:
        named = {"means": means, "stddevs": stddevs, "minvals": minvals, "maxvals": maxvals}
        parameters = [convert(p, dtype, name=n) for n, p in named.items()]
        seed1, seed2 = random_seed.get_seed(seed)
        return parameterized_truncated_normal_op(shape_tensor(shape), *parameters, seed=seed1, seed2=seed2)


# -- choices ----------------------------------------------------------------------------------------------------------
random_shuffle_op = op("RandomShuffle", "value: T -> output: T", "seed: int = 0, seed2: int = 0, T: type",
                       stateful=True).no_gradient()
random_shuffle_op.shape(lambda value: value)
random_shuffle_op.random = True


@random_shuffle_op.kernel
def _random_shuffle_kernel(value, *, seed, seed2, T, node, ctx):
    if not len(value.shape) or value.shape[0] < 2:
        return value
    size = value.shape[0]
    source = stream(ctx, node, "RandomShuffle", seed, seed2, T.name)
    device = value.device if isinstance(value, torch.Tensor) else "cpu"
    if source is None:
        order = torch.randperm(size, generator=generator(device), device=device)
    else:
        order = torch.tensor(swapped(source.reserve((size + 2) // 4), size), device=device)
    return value[order] if isinstance(value, torch.Tensor) else value[order.numpy()]


def swapped(gen: philox.Philox, size: int) -> list[int]:
    """A permutation by swapping each place with a random later one; every swap depends on those before it."""
    words = gen.words((size + 2) // 4).flatten()[:size - 1]
    steps = (words % torch.arange(size, 1, -1)).tolist()
    order = list(range(size))
    for i, step in enumerate(steps):
        order[i], order[i + step] = order[i + step], order[i]
    return order


def permutations(size: int) -> Iterator[torch.Tensor]:
    """Random orders of rows without end: those of a RandomShuffle that is alone in a function."""
    seeds = random_seed.first_of_function()
    source = None if seeds is None else philox.Stream(*seeds)
    while True:
        yield torch.randperm(size, generator=generator("cpu")) if source is None or size < 2 \
            else torch.tensor(swapped(source.reserve((size + 2) // 4), size))


random_crop_op = op("RandomCrop", "image: T, size: int64 -> output: T", "T: type in {uint8 int8 int16 int32 int64 float32 "
                    "float64}, seed: int = 0, seed2: int = 0", stateful=True).no_gradient()


@random_crop_op.shape
def _random_crop_shape(image, size, *, c):
    wanted = c.const("size")
    height, width = (None, None) if wanted is None or wanted.shape != (2,) else (int(d) for d in wanted)
    return (height, width, rank_is(image, 3)[2])


@random_crop_op.kernel
def _random_crop_kernel(image, size, *, seed, seed2, T, node, ctx):
    if image.ndim != 3 or tuple(size.shape) != (2,):
        raise errors.invalid(f"image must be 3-dimensional and size have two elements, got {list(image.shape)} and "
                             f"{list(size.shape)}")
    source = stream(ctx, node, "RandomCrop", seed, seed2, T.name)
    words = iter((torch.randint(2 ** 32, (4,)) if source is None else source.reserve(1).words(1).flatten()).tolist())
    starts = []
    for axis, name in ((1, "width"), (0, "height")):
        whole, part = image.shape[axis], int(size[axis])
        if not 0 <= part <= whole:
            raise errors.FailedPreconditionError(None, None, f"{name} must be >= target_{name}: {name} = {whole}, "
                                                             f"target_{name} = {part}")
        starts.append(next(words) % (whole - part + 1) if whole > part else 0)
    return image.narrow(1, starts[0], int(size[1])).narrow(0, starts[1], int(size[0])).contiguous()


_LOGITS = "T: type in {real}"
multinomial_op = op("Multinomial", "logits: T, num_samples: int32 -> output: output_dtype",
                    f"seed: int = 0, seed2: int = 0, {_LOGITS}, output_dtype: type in {{index}} = int64",
                    stateful=True, host="num_samples").no_gradient()
multinomial_op.random = True


def multinomial_shape(logits: Any, num_samples: Any, c: Any) -> tuple:
    """Rows of logits by number of samples."""
    rows, _ = rank_is(logits, 2)
    rank_is(num_samples, 0)
    count = c.const("num_samples")
    return rows, None if count is None or count < 0 else int(count)


multinomial_op.shape(lambda logits, num_samples, *, c: multinomial_shape(logits, num_samples, c))


@multinomial_op.kernel
def _multinomial_kernel(logits, num_samples, *, seed, seed2, T, output_dtype, node, ctx):
    source = stream(ctx, node, "Multinomial", seed, seed2, T.name + output_dtype.name)

    def unit(rows: int, count: int) -> torch.Tensor:
        if source is None:
            return torch.rand(rows, count, dtype=torch.float64, device=logits.device, generator=generator(logits.device))
        reserved = rows * ((count + 3) // 4 * 4) * 2 * philox.RESERVED
        if _few(rows * count, logits.device):
            return source.few(philox.Few(philox.uniform, [rows, count], torch.float64, (), reserved))
        return philox.uniform(source.reserve(reserved), rows * count, torch.float64, logits.device).reshape(rows, count)
    return draw_classes(logits, num_samples, output_dtype.torch, unit)


def draw_classes(logits: torch.Tensor, num_samples: torch.Tensor, dtype: torch.dtype,
                 unit: Callable[[int, int], torch.Tensor]) -> torch.Tensor:
    """Classes by unnormalized log-probabilities; classes whose logit is not finite are never drawn.

    `unit` makes rows of doubles in [0, 1).
    """
    if logits.dim() != 2:
        raise errors.invalid(f"logits should be a matrix, got shape {list(logits.shape)}")
    if num_samples.dim():
        raise errors.invalid(f"num_samples should be a scalar, got shape {list(num_samples.shape)}")
    count, (rows, classes) = int(num_samples), logits.shape
    if count < 0:
        raise errors.invalid(f"num_samples should be nonnegative, got {count}")
    if classes <= 0:
        raise errors.invalid(f"num_classes should be positive, got {classes}")
    drawn, wide = unit(rows, count), logits.double()
    if 0 < rows * count * classes <= _SMALL and wide.is_cpu and not (tracing.lowering() or tracing.recording()):
        return torch.from_numpy(_few_classes(wide.detach().numpy(), drawn.numpy())).to(dtype)
    finite = torch.isfinite(wide)
    top = torch.where(finite, wide, torch.finfo(torch.float64).min).amax(1, keepdim=True)
    sums = torch.where(finite, torch.exp(wide - top), 0.0).cumsum(1)
    return torch.searchsorted(sums, drawn * sums[:, -1:], right=True).to(dtype)


def _few_classes(logits: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """`draw_classes` for a few numbers, whose calls take longer than what they compute: numpy needs fewer, and shorter ones."""
    tops = np.maximum.reduce(logits, 1, keepdims=True)
    if np.logical_and.reduce(np.isfinite(tops), None):   # there is a finite one in each row, and none is infinite or no number
        parts = np.exp(logits - tops)
    else:
        finite = np.isfinite(logits)
        logits = np.where(finite, logits, np.finfo(np.float64).min)
        parts = np.where(finite, np.exp(logits - logits.max(1, keepdims=True)), 0.0)
    sums = np.add.accumulate(parts, 1)
    return np.add.reduce(sums[:, None] <= (drawn * sums[:, -1:])[:, :, None], 2, dtype=np.int64)


# -- public functions -------------------------------------------------------------------------------------------------
@export("random.uniform", v1=["random_uniform"])
@dispatched
def random_uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32,
                   seed: int | None = None, name: str | None = None) -> Tensor:
    """Uniform random numbers in [minval, maxval); for integer types `maxval` must be given.

    Args:
        shape: Sizes: a list or an integer vector.
        minval: Smallest value.
        maxval: End of the range, which is not included; 1 for floating-point types by default.
        dtype: Element type.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        name: Name of the operation.

    Returns:
        A tensor with new numbers in every run.

    Raises:
        ValueError: if `dtype` is an integer type and `maxval` is None.

    >>> tf.random.uniform([2, 3], maxval=10, dtype=tf.int32).shape
    TensorShape([2, 3])
    """
    dtype = dtypes.as_dtype(dtype)
    if not (dtype.is_floating or dtype in (dtypes.int32, dtypes.int64)):
        raise ValueError(f"Invalid dtype {dtype!r}")
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as name:
        shape = shape_tensor(shape)
        minval, maxval = convert(minval, dtype, name="min"), convert(maxval, dtype, name="max")
        seed1, seed2 = random_seed.get_seed(seed)
        if dtype.is_integer:
            for bound, value in (("minval", minval), ("maxval", maxval)):
                if value.shape.rank not in (None, 0):
                    raise ValueError(f"{bound} must be a scalar; got a tensor of shape {value.shape}")
            return random_uniform_int(shape, minval, maxval, seed=seed1, seed2=seed2, name=name)
        drawn = random_uniform_op(shape, dtype=dtype, seed=seed1, seed2=seed2)
        return get("AddV2")(drawn * (maxval - minval), minval, name=name)


def _scaled_normal(opdef: Any, scope: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None,
                   name: str | None) -> Tensor:
    with name_scope(name, scope, [shape, mean, stddev]) as name:
        shape = shape_tensor(shape)
        mean, stddev = convert(mean, dtype, name="mean"), convert(stddev, dtype, name="stddev")
        seed1, seed2 = random_seed.get_seed(seed)
        return get("AddV2")(opdef(shape, dtype=dtype, seed=seed1, seed2=seed2) * stddev, mean, name=name)


@export("random.normal", v1=["random_normal"])
@dispatched
def random_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
                  name: str | None = None) -> Tensor:
    """Normal random numbers.

    Args:
        shape: Sizes: a list or an integer vector.
        mean: Mean of the distribution.
        stddev: Standard deviation.
        dtype: Floating-point type.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        name: Name of the operation.

    Returns:
        A tensor with new numbers in every run.

    >>> tf.random.normal([4], mean=1., stddev=2., seed=1).shape
    TensorShape([4])
    """
    return _scaled_normal(random_standard_normal, "random_normal", shape, mean, stddev, dtype, seed, name)


@export("random.truncated_normal", v1=["truncated_normal"])
@dispatched
def truncated_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
                     seed: int | None = None, name: str | None = None) -> Tensor:
    """Normal random numbers within two standard deviations of the mean; the others are drawn again.

    Args:
        shape: Sizes: a list or an integer vector.
        mean: Mean of the distribution.
        stddev: Standard deviation before truncation.
        dtype: Floating-point type.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        name: Name of the operation.

    Returns:
        A tensor with new numbers in every run.

    >>> bool(tf.reduce_all(tf.abs(tf.random.truncated_normal([100], stddev=0.1)) <= 0.2))
    True
    """
    return _scaled_normal(truncated_normal_op, "truncated_normal", shape, mean, stddev, dtype, seed, name)


@export("random.shuffle", v1=["random_shuffle"])
@dispatched
def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A tensor with its first dimension in random order.

    Args:
        value: The tensor.
        seed: An integer that makes the order repeatable, together with `tf.random.set_seed`.
        name: A name for the op.

    Returns:
        A tensor of the same shape.

    >>> tf.sort(tf.random.shuffle([3, 1, 2])).numpy().tolist()
    [1, 2, 3]
    """
    seed1, seed2 = random_seed.get_seed(seed)
    return random_shuffle_op(value, seed=seed1, seed2=seed2, name=name)


@export("image.random_crop", v1=["random_crop"])
@dispatched
def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A crop of `value` of the given size, at a random position.

    Args:
        value: Tensor.
        size: Sizes of the result, one per axis.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        name: Name of the operation.

    Returns:
        A tensor of the type of `value` and the shape `size`.

    >>> tf.image.random_crop(tf.ones([32, 32, 3]), [24, 24, 3]).shape
    TensorShape([24, 24, 3])
    """
    def draw(shape: Any, dtype: Any) -> Tensor:
        return random_uniform(shape, maxval=dtype.max, dtype=dtype, seed=seed)
    return crop_at_random(value, size, draw, "random_crop", name)


def crop_at_random(value: Any, size: Any, draw: Any, kind: str, name: str | None) -> Tensor:
    """A crop of `value` at the position `draw(shape, dtype)`, modulo the number of valid positions."""
    with name_scope(name, kind, [value, size]) as name:
        value = convert(value, name="value")
        size = convert(size, dtypes.int32, name="size")
        shape = get("Shape")(value)
        check = get("Assert")(get("All")(shape >= size, [0]), ["Need value.shape >= size, got ", shape, size],
                              summarize=1000)
        with control_dependencies([] if check is None else [check]):
            limit = get("Identity")(shape) - size + 1
        return get("Slice")(value, get("FloorMod")(draw(get("Shape")(shape), size.dtype), limit), size, name=name)


def _classes(logits: Any, num_samples: Any, dtype: Any, seed: int | None) -> Tensor:
    seed1, seed2 = random_seed.get_seed(seed)
    return multinomial_op(convert(logits, name="logits"), num_samples, seed=seed1, seed2=seed2,
                          output_dtype=dtype or dtypes.int64)


@export(v1=["random.multinomial", "multinomial"])
@dispatched
def multinomial(logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None,
                output_dtype: Any = None) -> Tensor:
    """`num_samples` classes per row of `logits`, by their unnormalized log-probabilities.

    Args:
        logits: Matrix [batch, classes] of unnormalized log-probabilities.
        num_samples: How many classes to draw per row.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        name: Name of the operation.
        output_dtype: Type of the result, int64 by default.

    Returns:
        A matrix [batch, num_samples] of class numbers.

    >>> tf.multinomial([[0., 0., -1e9]], 5).shape
    TensorShape([1, 5])
    """
    with name_scope(name, "multinomial", [logits]):
        return _classes(logits, num_samples, output_dtype, seed)


@export("random.categorical")
@dispatched
def categorical(logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None,
                name: str | None = None) -> Tensor:
    """Draws classes by their unnormalized log-probabilities.

    Args:
        logits: A row of log-probabilities for each distribution.
        num_samples: How many classes to draw from each row.
        dtype: int32 or int64, the default.
        seed: An integer that makes the values repeatable, together with `tf.random.set_seed`.
        name: A name for the op.

    Returns:
        [rows, num_samples] integers.

    >>> tf.random.categorical([[0.0, -1000.0]], 3).numpy().tolist()
    [[0, 0, 0]]
    """
    with name_scope(name, "categorical", [logits]):
        return _classes(logits, num_samples, dtype, seed)


@export("random.gamma", v1=["random_gamma"])
@dispatched
def random_gamma(shape: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, seed: int | None = None,
                 name: str | None = None) -> Tensor:
    """`shape` samples from each Gamma(alpha, rate beta); differentiable by alpha and beta.

    >>> tf.random.gamma([10], [0.5, 1.5])
    """
    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        shape = convert(shape, dtypes.int32, name="shape")
        alpha = convert(alpha, dtype, name="alpha")
        beta = convert(1 if beta is None else beta, dtype, name="beta")
        alpha = alpha + get("ZerosLike")(beta)
        seed1, seed2 = random_seed.get_seed(seed)
        drawn = random_gamma_op(shape, alpha, seed=seed1, seed2=seed2)
        return get("Maximum")(np.finfo(alpha.dtype.as_numpy_dtype).tiny, drawn / beta)


@export(v2=["random.poisson"])
@dispatched
def random_poisson_v2(shape: Any, lam: Any, dtype: Any = dtypes.float32, seed: int | None = None,
                      name: str | None = None) -> Tensor:
    """`shape` samples from each Poisson(lam)."""
    with name_scope(name, "random_poisson", [lam, shape]):
        shape = convert(shape, dtypes.int32, name="shape")
        seed1, seed2 = random_seed.get_seed(seed)
        return random_poisson_v2_op(shape, lam, dtype=dtype, seed=seed1, seed2=seed2)


@export(v1=["random.poisson", "random_poisson"])
@dispatched
def random_poisson(lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: int | None = None,
                   name: str | None = None) -> Tensor:
    """Like the v2 function, with the arguments in another order."""
    return random_poisson_v2(shape, lam, dtype, seed, name)

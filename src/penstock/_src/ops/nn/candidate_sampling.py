"""Candidate sampling: losses over many classes, computed on the true ones and a few drawn at random.

The samplers draw classes (see `kernels/candidates.py`) and return their expected counts, by which
`nce_loss` and `sampled_softmax_loss` correct their logits.
"""
from __future__ import annotations

import random as python_random
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.random_seed import get_seed
from penstock._src.graph.scopes import name_scope
from penstock._src.io import confine
from penstock._src.kernels import arrays, candidates, philox
from penstock._src.ops import rules
from penstock._src.ops.array.array import shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.cast import cast
from penstock._src.ops.nn import softmax
from penstock._src.ops.nn.embedding import embedding_lookup
from penstock._src.ops.random.random import stream
from penstock._src.ops.registry import OpDef, get, internal, op
from penstock._src.ops.sparse.sparse_construct import to_dense_op

_ARGS = "true_classes: int64 -> sampled_candidates: int64, true_expected_count: float32, sampled_expected_count: float32"
_NUM = "num_true: int >= 1, num_sampled: int >= 1, unique: bool"
_SEEDS = "seed: int = 0, seed2: int = 0"


# -- kernels ---------------------------------------------------------------------------------------------------------
def _shape(true_classes, *, num_true, num_sampled):
    rows, _ = shapes.merge(shapes.rank_is(true_classes, 2), (None, num_true))
    return [(num_sampled,), (rows, num_true), (num_sampled,)]


def _sampled(name: str, distribution: candidates.Distribution, true_classes: torch.Tensor, num_true: int,
             num_sampled: int, unique: bool, seeds: tuple[int, int], ctx: Any, node: Any, detail: Any = "") -> tuple:
    """Draws once from a distribution; `detail` distinguishes samplers that are otherwise equal."""
    _check_true(true_classes, num_true)
    if unique and num_sampled > distribution.range:
        raise errors.invalid("Sampler's range is too small.")
    if num_sampled > 1 << 24:
        raise errors.ResourceExhaustedError(None, None, f"num_sampled is too large: {num_sampled}")
    source = stream(ctx, node, name, *seeds, (num_true, num_sampled, unique, distribution.range, detail)) \
        or philox.Stream(python_random.getrandbits(63), python_random.getrandbits(63))
    true = true_classes.reshape(-1).cpu().numpy()
    if ((true < 0) | (true >= distribution.range)).any():
        raise errors.invalid(f"`true_candidate` out of range [0, {distribution.range}), received {true.tolist()[:8]}")
    values, tries = candidates.sample(distribution, source, num_sampled, unique)
    expected = candidates.expected_counts(distribution, np.concatenate([true, values]), num_sampled, tries)
    of_true, of_sampled = expected[:len(true)], expected[len(true):]
    return (torch.from_numpy(np.ascontiguousarray(values)), torch.from_numpy(of_true).view(true_classes.shape),
            torch.from_numpy(of_sampled))


def _check_true(true_classes: torch.Tensor, num_true: int) -> None:
    if true_classes.ndim != 2:
        raise errors.invalid(f"true_classes must be a matrix, got shape {list(true_classes.shape)}")
    if true_classes.shape[1] != num_true:
        raise errors.invalid(f"true_classes must have num_true columns, expected: {true_classes.shape[1]} "
                             f"was: {num_true}")


def _simple(name: str, kind: type[candidates.Distribution]) -> OpDef:
    made = op(name, _ARGS, f"{_NUM}, range_max: int >= 1, {_SEEDS}", stateful=True).no_gradient()
    made.shape(_shape)

    @made.kernel(device="cpu")
    def _made_kernel(true_classes, *, num_true, num_sampled, unique, range_max, seed, seed2, ctx, node):
        return _sampled(name, kind(range_max), true_classes, num_true, num_sampled, unique, (seed, seed2), ctx, node)
    return made


def _learned(name: str) -> OpDef:
    """A sampler that keeps the true classes seen so far, for the lifetime of its session."""
    made = op(name, _ARGS, f"{_NUM}, range_max: int >= 1, {_SEEDS}", stateful=True).no_gradient()
    made.shape(_shape)

    @made.kernel(device="cpu")
    def _made_kernel_2(true_classes, *, num_true, num_sampled, unique, range_max, seed, seed2, ctx, node):
        eager = node is None or node.graph is None
        key = f"{name}/{'' if eager else node.name}/{num_true}/{num_sampled}/{unique}/{range_max}/{seed}/{seed2}"
        seen = ctx.resources.get_or_create("", key, candidates.Learned, lambda: candidates.Learned(range_max))
        _check_true(true_classes, num_true)
        if true_classes.numel() and (int(true_classes.min()) < 0 or int(true_classes.max()) >= range_max):
            raise errors.invalid(f"true_classes must be in [0, {range_max})")
        with seen.lock:
            out = _sampled(name, seen, true_classes, num_true, num_sampled, unique, (seed, seed2), ctx, node)
            seen.learn(true_classes.reshape(-1).cpu().numpy())
        return out
    return made


uniform_op = _simple("UniformCandidateSampler", candidates.Uniform)
log_uniform_op = _simple("LogUniformCandidateSampler", candidates.LogUniform)
uniform_op.random = log_uniform_op.random = True
learned_op = _learned("LearnedUnigramCandidateSampler")
unsafe_op = _learned("ThreadUnsafeUnigramCandidateSampler")
fixed_op = op("FixedUnigramCandidateSampler", _ARGS,
              f"{_NUM}, range_max: int >= 1, vocab_file: string = '', distortion: float = 1.0, "
              "num_reserved_ids: int = 0, num_shards: int >= 1 = 1, shard: int >= 0 = 0, "
              f"unigrams: list(float) = [], {_SEEDS}", stateful=True).no_gradient()
all_op = op("AllCandidateSampler", _ARGS, f"{_NUM}, {_SEEDS}", stateful=True).no_gradient()
fixed_op.shape(_shape)
all_op.shape(_shape)


@fixed_op.kernel(device="cpu")
def _fixed_kernel(true_classes, *, num_true, num_sampled, unique, range_max, vocab_file, distortion, num_reserved_ids,
                  num_shards, shard, unigrams, seed, seed2, ctx, node):
    if bool(vocab_file) == bool(unigrams):
        raise errors.invalid("Must provide either vocab_file or unigrams." if not unigrams else
                             "Must only provide one of vocab_file and unigrams.")
    source = (vocab_file, tuple(unigrams), distortion, num_reserved_ids, num_shards, shard, range_max)
    name = "FixedUnigramCandidateSampler"
    made = ctx.resources.get_or_create("", f"{name}/{hash(source)}", candidates.Fixed,
                                       lambda: _fixed_distribution(*source))
    return _sampled(name, made, true_classes, num_true, num_sampled, unique, (seed, seed2), ctx, node, hash(source))


def _fixed_distribution(vocab_file: str, unigrams: tuple, distortion: float, num_reserved_ids: int, num_shards: int,
                        shard: int, range_max: int) -> candidates.Fixed:
    if not 0 <= num_reserved_ids <= range_max * num_shards + num_shards:
        raise errors.invalid(f"num_reserved_ids must not be negative nor above range_max, got {num_reserved_ids}")
    reserved = sum(1 for i in range(num_reserved_ids) if i % num_shards == shard)
    given = _read_weights(vocab_file) if vocab_file else np.array(unigrams, np.float32)
    mine = (np.arange(len(given)) + reserved) % num_shards == shard
    with np.errstate(all="ignore"):
        weights = np.concatenate([np.zeros(reserved, np.float32), given[mine] ** np.float32(distortion)])
    if len(weights) != range_max:
        raise errors.invalid(f"range_max is {range_max}, but there are weights for {len(weights)} classes")
    return candidates.Fixed(weights)


def _read_weights(vocab_file: str) -> np.ndarray:
    """The last column of a comma-separated file."""
    confine.check(vocab_file)
    try:
        with open(vocab_file, encoding="utf-8") as lines:
            cells = [line.rstrip("\n").rsplit(",", 1)[-1] for line in lines if line.strip()]
    except OSError as e:
        raise errors.NotFoundError(None, None, f"{vocab_file}; {e.strerror}") from None
    try:
        return np.array([float(c) for c in cells], np.float32)
    except ValueError as e:
        raise errors.invalid(f"Wrong vocabulary format: {e}") from None


@all_op.kernel(device="cpu")
def _all_kernel(true_classes, *, num_true, num_sampled):
    _check_true(true_classes, num_true)
    if num_sampled > 1 << 24:
        raise errors.ResourceExhaustedError(None, None, f"num_sampled is too large: {num_sampled}")
    return torch.arange(num_sampled), torch.ones(true_classes.shape), torch.ones(num_sampled)


hits_op = op("ComputeAccidentalHits",
             "true_classes: int64, sampled_candidates: int64 -> indices: int32, ids: int64, weights: float32",
             f"num_true: int, {_SEEDS}").no_gradient()


@hits_op.shape
def _hits_shape(true_classes, sampled_candidates, *, num_true):
    shapes.merge(shapes.rank_is(true_classes, 2), (None, num_true))
    shapes.rank_is(sampled_candidates, 1)
    return [(None,), (None,), (None,)]


@hits_op.kernel
def _hits_kernel(true_classes, sampled_candidates, *, num_true):
    if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
        raise errors.invalid("true_candidates must be a batch_size * num_true matrix")
    if sampled_candidates.ndim != 1:
        raise errors.invalid("sampled_candidates must be a vector, which is typically an output from CandidateSampler")
    drawn, flat = sampled_candidates.cpu().numpy(), true_classes.reshape(-1).cpu().numpy()
    order = np.argsort(drawn, kind="stable")
    ordered = drawn[order]
    at = np.searchsorted(ordered, flat, side="right") - 1                   # the last one of equal candidates
    hit = np.flatnonzero((at >= 0) & (ordered[at] == flat)) if ordered.size else np.empty(0, np.int64)
    results = (hit // num_true).astype(np.int32), order[at[hit]], np.full(len(hit), np.finfo(np.float32).min, np.float32)
    return tuple(torch.from_numpy(r).to(true_classes.device) for r in results)


_COMPARED = 1 << 18                   # pairs of a true class and a candidate that are compared faster than sorted
hits_to_dense = internal("_AccidentalHitsToDense", "true_classes: int64, sampled_candidates: int64, output_shape: Tindices -> "
                         "dense: float32", "num_true: int, Tindices: type in {index}", host="output_shape")


@hits_to_dense.kernel
def _hits_to_dense_kernel(true_classes, sampled_candidates, output_shape, *, num_true):
    dims = (true_classes.shape[0], sampled_candidates.numel())
    if true_classes.ndim == 2 and true_classes.shape[1] == num_true and sampled_candidates.ndim == 1 and \
            0 < true_classes.numel() * dims[1] <= _COMPARED and output_shape.tolist() == [*dims] and \
            len(set(sampled_candidates.tolist())) == dims[1]:
        hit = (true_classes.unsqueeze(2) == sampled_candidates).any(1)
        return hit.to(torch.float32).mul_(torch.finfo(torch.float32).min).add_(0.0)       # no negative zeros
    rows, columns, weights = _hits_kernel(true_classes, sampled_candidates, num_true=num_true)
    dims = output_shape.tolist()
    if len(dims) != 2 or rows.numel() and (int(rows.max()) >= dims[0] or int(columns.max()) >= dims[1]):
        raise errors.invalid(f"Indices are not valid (out of bounds).  Shape: {arrays.show(dims)}")
    out = torch.zeros(dims, dtype=torch.float32, device=true_classes.device)
    out[rows.long(), columns] = weights
    return out


@rules.fusion.fuse(to_dense_op)
def _fuse_hits(op: Any, f: Any) -> Any:
    """Hits that are spread over a matrix of zeros: their number varies from step to step, but only this op depends on it."""
    indices, shape, values, default = op.inputs
    pair, hits = f.only(indices, op), f.maker(values, op)
    if pair is None or hits is None or hits.opdef is not hits_op or pair.opdef is not get("Pack") or \
            len(pair.inputs) != 2 or pair.attrs["axis"] != 1 or \
            f.constant(default) != 0 or op.attrs["T"] != dtypes.float32 or op.attrs["validate_indices"]:
        return None
    rows, columns = (_uncast(f, t, pair) for t in pair.inputs)
    if rows is not hits.outputs[0] or columns is not hits.outputs[1] or f.source(values) is not hits.outputs[2]:
        return None
    attrs = {"num_true": hits.attrs["num_true"], "Tindices": op.attrs["Tindices"]}
    return f.make(hits_to_dense.name, [*hits.inputs, shape], attrs, op)


def _uncast(f: Any, t: Any, user: Any) -> Any:
    """The input of a cast, if the tensor is one."""
    maker = f.only(t, user)
    return f.source(maker.inputs[0] if maker is not None and maker.opdef is get("Cast") else t)


# -- public samplers -------------------------------------------------------------------------------------------------
def _seeds(seed: int | None) -> dict[str, Any]:
    first, second = get_seed(seed)
    return {"seed": first, "seed2": second}


@export("random.uniform_candidate_sampler", v1=["nn.uniform_candidate_sampler"])
@dispatched
def uniform_candidate_sampler(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int,
                              seed: int | None = None, name: str | None = None) -> Any:
    """Draws classes uniformly; returns them, and the expected counts of true and drawn classes."""
    return uniform_op(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
                      **_seeds(seed), name=name)


@export("random.log_uniform_candidate_sampler", v1=["nn.log_uniform_candidate_sampler"])
@dispatched
def log_uniform_candidate_sampler(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int,
                                  seed: int | None = None, name: str | None = None) -> Any:
    """Draws classes by Zipf's law: for classes that are numbered in the order of falling frequency."""
    return log_uniform_op(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
                          **_seeds(seed), name=name)


@export("random.learned_unigram_candidate_sampler", "nn.learned_unigram_candidate_sampler")
@dispatched
def learned_unigram_candidate_sampler(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int,
                                      seed: int | None = None, name: str | None = None) -> Any:
    """Draws classes with their observed frequencies."""
    return learned_op(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
                      **_seeds(seed), name=name)


@export("random.fixed_unigram_candidate_sampler", "nn.fixed_unigram_candidate_sampler")
@dispatched
def fixed_unigram_candidate_sampler(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int,
                                    vocab_file: str = "", distortion: float = 1.0, num_reserved_ids: int = 0,
                                    num_shards: int = 1, shard: int = 0, unigrams: Any = (), seed: int | None = None,
                                    name: str | None = None) -> Any:
    """Draws classes by given weights, from a list or from the last column of a file."""
    return fixed_op(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
                    vocab_file=vocab_file, distortion=distortion, num_reserved_ids=num_reserved_ids,
                    num_shards=num_shards, shard=shard, unigrams=list(unigrams), **_seeds(seed), name=name)


@export("random.all_candidate_sampler", "nn.all_candidate_sampler")
@dispatched
def all_candidate_sampler(true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None = None,
                          name: str | None = None) -> Any:
    """All classes, each expected once: turns a sampled loss into the full one."""
    return all_op(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, **_seeds(seed), name=name)


@export("nn.compute_accidental_hits")
@dispatched
def compute_accidental_hits(true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None,
                            name: str | None = None) -> Any:
    """Where drawn candidates are true classes: rows, positions among the candidates, and weights to mask them."""
    return hits_op(true_classes, sampled_candidates, num_true=num_true, **_seeds(seed), name=name)


# -- losses ----------------------------------------------------------------------------------------------------------
def _sampled_logits(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
                    num_true: int, sampled_values: Any, remove_accidental_hits: bool, partition_strategy: str,
                    seed: int | None) -> tuple:
    """The logits [batch, num_true + num_sampled] of true and drawn classes, and the labels that go with them."""
    inputs, labels = convert(inputs), cast(convert(labels), dtypes.int64)
    kind = inputs.dtype.base_dtype
    flat = get("Reshape")(labels, np.array([-1], np.int32))
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes, seed)
    sampled, true_count, sampled_count = (get("StopGradient")(v) for v in sampled_values)
    sampled = cast(sampled, dtypes.int64)
    ids = get("ConcatV2")([flat, sampled], 0)
    all_w = cast(embedding_lookup(weights, ids, partition_strategy=partition_strategy), kind)
    all_b = cast(embedding_lookup(biases, ids, partition_strategy=partition_strategy), kind)
    count = shape_of(flat)[0]
    true_w, true_b = all_w[:count], get("Reshape")(all_b[:count], np.array([-1, num_true], np.int32))
    sampled_logits = get("MatMul")(inputs, all_w[count:], transpose_b=True) + all_b[count:]
    width = shape_of(true_w)[1]
    per_row = get("Reshape")(true_w, get("Pack")([-1, num_true, width]))
    true_logits = get("Sum")(get("ExpandDims")(inputs, np.int32(1)) * per_row, np.int32(2)) + true_b
    if remove_accidental_hits:
        sampled_logits = sampled_logits + cast(_mask(labels, sampled, num_true, num_sampled), kind)
    true_logits = true_logits - cast(get("Log")(true_count), kind)
    sampled_logits = sampled_logits - cast(get("Log")(sampled_count), kind)
    logits = get("ConcatV2")([true_logits, sampled_logits], 1)
    wanted = get("ConcatV2")([get("OnesLike")(true_logits) / num_true, get("ZerosLike")(sampled_logits)], 1)
    return logits, wanted


def _mask(labels: Tensor, sampled: Tensor, num_true: int, num_sampled: int) -> Tensor:
    """A matrix of zeros with the lowest float where a drawn class is a true one."""
    rows, ids, low = compute_accidental_hits(labels, sampled, num_true)
    where = get("Pack")([rows, cast(ids, dtypes.int32)], axis=1)
    size = get("Pack")([shape_of(labels)[0], num_sampled])
    return get("SparseToDense")(where, size, low, 0.0, validate_indices=False)


def _nce(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int,
         sampled_values: Any, remove_accidental_hits: bool, partition_strategy: str, name: str | None) -> Tensor:
    with name_scope(name, "nce_loss", [biases, inputs, labels]):
        logits, wanted = _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true,
                                         sampled_values, remove_accidental_hits, partition_strategy, None)
        losses = softmax.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits, name="sampled_losses")
        return get("Sum")(losses, np.int32(1))


@export(v1=["nn.nce_loss"])
@dispatched
def nce_loss(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
             sampled_values: Any = None, remove_accidental_hits: bool = False, partition_strategy: str = "mod",
             name: str | None = "nce_loss") -> Tensor:
    """The noise-contrastive estimation loss of each example.

    Args:
        weights: Weights [classes, dim], or a list of shards.
        biases: Biases [classes].
        labels: True classes [batch, num_true].
        inputs: Inputs [batch, dim].
        num_sampled: How many classes to sample per batch.
        num_classes: Number of classes.
        num_true: How many true classes an example has.
        sampled_values: What a `*_candidate_sampler` returned; log-uniform samples by default.
        remove_accidental_hits: Whether sampled classes that are true ones are left out.
        partition_strategy: How ids are distributed over several tables: `"mod"` in turns, `"div"` in contiguous blocks.
        name: Name of the operation.

    Returns:
        A vector [batch].

    >>> weights, biases = tf.ones([100, 4]), tf.zeros([100])
    >>> loss = tf.nn.nce_loss(weights, biases, labels=[[3], [5]], inputs=tf.ones([2, 4]), num_sampled=8, num_classes=100)
    >>> loss.shape
    TensorShape([2])
    """
    return _nce(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
                remove_accidental_hits, partition_strategy, name)


@export(v2=["nn.nce_loss"])
@dispatched
def nce_loss_v2(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
                num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = False,
                name: str | None = "nce_loss") -> Tensor:
    """The noise-contrastive estimation loss of each example."""
    return _nce(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
                remove_accidental_hits, "div", name)


def _sampled_softmax(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
                     num_true: int, sampled_values: Any, remove_accidental_hits: bool, partition_strategy: str,
                     seed: int | None, name: str | None) -> Tensor:
    with name_scope(name, "sampled_softmax_loss", [biases, inputs, labels]):
        logits, wanted = _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true,
                                         sampled_values, remove_accidental_hits, partition_strategy, seed)
        wanted = get("StopGradient")(wanted, name="labels_stop_gradient")
        return softmax.softmax_cross_entropy_with_logits_v2(wanted, logits)


@export(v1=["nn.sampled_softmax_loss"])
@dispatched
def sampled_softmax_loss(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
                         num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = True,
                         partition_strategy: str = "mod", name: str | None = "sampled_softmax_loss",
                         seed: int | None = None) -> Tensor:
    """The softmax cross entropy of each example over its true classes and a few drawn ones (for training only).

    Args:
        weights: Weights [classes, dim], or a list of shards.
        biases: Biases [classes].
        labels: True classes [batch, num_true].
        inputs: Inputs [batch, dim].
        num_sampled: How many classes to sample per batch.
        num_classes: Number of classes.
        num_true: How many true classes an example has.
        sampled_values: What a `*_candidate_sampler` returned; log-uniform samples by default.
        remove_accidental_hits: Whether sampled classes that are true ones are left out.
        partition_strategy: How ids are distributed over several tables: `"mod"` in turns, `"div"` in contiguous blocks.
        name: Name of the operation.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.

    Returns:
        A vector [batch]. It estimates the full loss while training; evaluate with the full softmax.

    >>> weights, biases = tf.ones([100, 4]), tf.zeros([100])
    >>> inputs = tf.ones([2, 4])
    >>> tf.nn.sampled_softmax_loss(weights, biases, labels=[[3], [5]], inputs=inputs, num_sampled=8, num_classes=100).shape
    TensorShape([2])
    """
    return _sampled_softmax(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
                            remove_accidental_hits, partition_strategy, seed, name)


@export(v2=["nn.sampled_softmax_loss"])
@dispatched
def sampled_softmax_loss_v2(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
                            num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = True,
                            seed: int | None = None, name: str | None = "sampled_softmax_loss") -> Tensor:
    """The softmax cross entropy of each example over its true classes and a few drawn ones (for training only)."""
    return _sampled_softmax(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
                            remove_accidental_hits, "div", seed, name)

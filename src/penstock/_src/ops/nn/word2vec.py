"""The ops of the word2vec tutorial: pairs of words from a text, and training by negative sampling in place."""
from __future__ import annotations

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import rank_is
from penstock._src.io.skipgrams import SkipGrams
from penstock._src.ops.registry import op

skipgram = op("Skipgram", "-> vocab_word: string, vocab_freq: int32, words_per_epoch: int64, current_epoch: int32, "
              "total_words_processed: int64, examples: int32, labels: int32",
              "filename: string, batch_size: int, window_size: int = 5, min_count: int = 5, subsample: float = 0.001",
              stateful=True).no_gradient()
neg_train = op("NegTrain", "w_in: Ref(float32), w_out: Ref(float32), examples: int32, labels: int32, lr: float32 ->",
               "vocab_count: list(int), num_negative_samples: int", stateful=True).no_gradient()


@skipgram.shape
def _skipgram_shape(*, batch_size):
    return [(None,), (None,), (), (), (), (batch_size,), (batch_size,)]


@skipgram.kernel(device="cpu")
def _skipgram_kernel(*, filename, batch_size, window_size, min_count, subsample, ctx, node):
    if batch_size < 1 or window_size < 1:
        raise errors.invalid(f"batch_size and window_size must be positive, got {batch_size} and {window_size}")
    state = ctx.resources.get_or_create("", node.name, SkipGrams,
                                        lambda: SkipGrams(filename, window_size, min_count, subsample))
    examples, labels = state.take(batch_size)
    numbers = [torch.tensor(v, dtype=t) for v, t in ((len(state.text), torch.int64), (state.epoch, torch.int32),
                                                    (state.processed, torch.int64))]
    return (state.words.copy(), torch.from_numpy(state.counts.copy()), *numbers, torch.from_numpy(examples.copy()),
            torch.from_numpy(labels.copy()))


@neg_train.shape
def _neg_train_shape(w_in, w_out, examples, labels, lr):
    rank_is(w_in, 2)
    rank_is(w_out, 2)
    rank_is(examples, 1)
    rank_is(labels, 1)
    rank_is(lr, 0)
    return []


@neg_train.kernel(device="cpu")
def _neg_train_kernel(w_in, w_out, examples, labels, lr, *, vocab_count, num_negative_samples, ctx, node):
    chances = np.power(np.asarray(vocab_count, np.float64), 0.75)
    if chances.ndim != 1 or not np.isfinite(chances).all() or chances.sum() <= 0:
        raise errors.invalid("vocab_count must be counts that are not negative, one of them positive")
    with w_in.lock, w_out.lock:
        _check(w_in.read(), w_out.read(), examples, labels, len(chances), num_negative_samples)
        limits = torch.from_numpy(np.cumsum(chances / chances.sum()))
        drawn = torch.rand(len(examples), num_negative_samples, dtype=torch.float64)
        negative = torch.searchsorted(limits, drawn).clamp(max=len(chances) - 1)
        _descend(w_in.writable(), w_out.writable(), examples.long(), labels.long(), negative, float(lr))
    return ()


def _check(w_in: torch.Tensor, w_out: torch.Tensor, examples: torch.Tensor, labels: torch.Tensor, words: int, negative: int
           ) -> None:
    if w_in.ndim != 2 or w_in.shape != w_out.shape:
        raise errors.invalid("w_in.shape == w_out.shape")
    if examples.ndim != 1 or examples.shape != labels.shape:
        raise errors.invalid("examples.shape == labels.shape")
    if len(w_in) != words:
        raise errors.invalid(f"vocab_size mismatches: {len(w_in)} vs. {words}")
    if negative < 0:
        raise errors.invalid(f"num_negative_samples must not be negative, got {negative}")
    both = torch.cat([examples, labels])
    if both.numel() and not 0 <= int(both.min()) <= int(both.max()) < words:
        raise errors.invalid(f"examples and labels must be in [0, {words})")


def _descend(w_in: torch.Tensor, w_out: torch.Tensor, examples: torch.Tensor, labels: torch.Tensor, negative: torch.Tensor,
             lr: float) -> None:
    """A step for each pair, in sequence: towards the label, away from the words that were drawn."""
    words = torch.cat([labels[:, None], negative], 1)
    wanted = torch.zeros(words.shape[1])
    wanted[0] = 1
    counts = (negative != labels[:, None]).float()                     # a sampled word that equals the label is ignored
    counts = torch.cat([torch.ones(len(labels), 1), counts], 1)
    for example, others, used in zip(examples.tolist(), words, counts):
        mine, rows = w_in[example], w_out[others]
        step = (wanted - torch.sigmoid(rows @ mine)) * used * lr
        change = step @ rows
        w_out.index_add_(0, others, step[:, None] * mine)
        mine += change

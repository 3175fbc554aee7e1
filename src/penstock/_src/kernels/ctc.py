"""Connectionist temporal classification: loss with gradient, greedy decoding, prefix beam search.

Everything is laid out [time, batch, class] and works on the whole batch at once; only time is a loop. The blank is the
last class unless it is given. The usual loss is ATen's; where a label lasts one step only, or is the blank, the recursions
are here. ATen's reads all lengths on the host; for a matrix of labels on a GPU, the recursions are used, as one kernel.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import torch

from penstock._src.kernels import triton_ctc

aten = torch.ops.aten
_NEVER = float("-inf")
_HARDLY = math.log(1e-307)      # log-probability penalty for starting or ending in a wrong state where labels are a matrix


# -- loss ------------------------------------------------------------------------------------------------------------
def loss_and_gradient(logits: torch.Tensor, labels: torch.Tensor, label_lengths: torch.Tensor, lengths: torch.Tensor,
                      merge_repeated: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of each example, and its gradient with respect to the logits."""
    log_p = torch.log_softmax(logits, 2)
    if merge_repeated:
        loss, grad = _aten_loss(log_p, labels, label_lengths, lengths, log_p.shape[2] - 1)
    else:
        loss, grad = _recursive_loss(log_p, labels, label_lengths, lengths, merge_repeated, log_p.shape[2] - 1)
    impossible = torch.isinf(loss)
    if bool(impossible.any()):                 # no alignment exists: the gradient reduces all predictions
        grad = torch.where(impossible[None, :, None], log_p.exp(), grad)
    return loss, _until(grad, lengths)


def _until(grad: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The gradient with zeros at the steps after the end of each example."""
    inside = torch.arange(len(grad), device=grad.device)[:, None] < lengths
    return torch.where(inside[:, :, None], grad, grad.new_zeros(()))


def dense_loss_and_gradient(logits: torch.Tensor, labels: torch.Tensor, label_lengths: torch.Tensor, lengths: torch.Tensor,
                            blank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss and its gradient for a matrix of labels; where one is the blank or no alignment exists, see `_lenient_loss`."""
    log_p, longest = torch.log_softmax(logits, 2), labels.shape[1]
    lengths = lengths.clamp(0, len(logits))
    used = torch.arange(longest, device=labels.device) < label_lengths[:, None]
    valid = (labels >= 0) & (labels < logits.shape[2])
    known = torch.where(valid, labels, blank)
    on_device = triton_ctc.fits(log_p, 2 * longest + 1)
    given = log_p, known, label_lengths.clamp(0, longest), lengths.clamp(min=1)
    loss, grad = _recursive_loss(*given, True, blank) if on_device else _aten_loss(*given, blank)
    lenient = torch.isinf(loss) | (used & (~valid | (labels == blank))).any(1)
    lenient = lenient | (lengths == 0) | (label_lengths < 0) | (label_lengths > longest)
    if on_device:                              # for all of them, as nothing is read back
        other, slope = _lenient_loss(log_p, labels, label_lengths, lengths, blank)
        loss, grad = torch.where(lenient, other, loss), torch.where(lenient[None, :, None], slope, grad)
    elif bool(lenient.any()):
        rows = lenient.nonzero()[:, 0]
        loss[rows], grad[:, rows] = _lenient_loss(log_p[:, rows], labels[rows], label_lengths[rows], lengths[rows], blank)
    return loss, _until(grad, lengths)


def _aten_loss(log_p: torch.Tensor, labels: torch.Tensor, label_lengths: torch.Tensor, lengths: torch.Tensor,
               blank: int) -> tuple[torch.Tensor, torch.Tensor]:
    args = labels, lengths.tolist(), label_lengths.tolist()
    loss, alpha = aten._ctc_loss(log_p, *args, blank, False)
    grad = aten._ctc_loss_backward(torch.ones_like(loss), log_p, *args, loss, alpha, blank, False)
    return loss, grad


def _recursive_loss(log_p: torch.Tensor, labels: torch.Tensor, label_lengths: torch.Tensor, lengths: torch.Tensor,
                    merge_repeated: bool, blank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Forward and backward recursions over the states blank, label, blank, label, ... blank."""
    steps, batch, _ = log_p.shape
    states = torch.full((batch, 2 * labels.shape[1] + 1), blank, device=log_p.device)
    states[:, 1::2] = labels
    number = torch.arange(states.shape[1], device=log_p.device)
    is_label = number % 2 == 1
    stays = ~is_label | merge_repeated
    skips = is_label & (number >= 2)
    if merge_repeated:
        skips = skips & (states != states.roll(2, 1))
    exists = number <= 2 * label_lengths[:, None]
    emitted = torch.where(exists, log_p.gather(2, states.expand(steps, -1, -1)), _NEVER)
    ends = exists & (number >= 2 * label_lengths[:, None] - 1)
    alpha, beta = _both(emitted, _weight(number < 2), _weight(ends), stays, skips, lengths)
    both = alpha + beta
    total = torch.logsumexp(both[0], 1)
    posterior = torch.exp(both - total[None, :, None])
    expected = torch.zeros_like(log_p).scatter_add_(2, states.expand(steps, -1, -1), posterior)
    return -total, log_p.exp() - expected


def _lenient_loss(log_p: torch.Tensor, labels: torch.Tensor, label_lengths: torch.Tensor, lengths: torch.Tensor,
                  blank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss where every path counts: one that starts or ends in a wrong state is merely very unlikely.

    A label that is no class is emitted with certainty; one that is the blank is emitted like it, but has no part in the
    gradient. The states are those of `_recursive_loss`, for all columns of `labels`.
    """
    steps, batch, classes = log_p.shape
    states = torch.full((batch, 2 * labels.shape[1] + 1), blank, device=log_p.device)
    states[:, 1::2] = labels
    number = torch.arange(states.shape[1], device=log_p.device)
    skips = (number % 2 == 1) & (number >= 2) & (states != states.roll(2, 1))
    stays = torch.ones_like(skips)
    valid = (states >= 0) & (states < classes)
    of = torch.where(valid, states, blank).expand(steps, -1, -1)
    emitted = torch.where(valid, log_p.gather(2, of), log_p.new_zeros(()))
    anywhere = log_p.new_full(states.shape, _HARDLY)
    first = torch.logaddexp(_transition(anywhere, stays, skips), _weight(number < 2))
    ends = (number == 2 * label_lengths[:, None]) | (number == 2 * label_lengths[:, None] - 1)
    alpha, beta = _both(emitted, first, torch.where(ends, 0.0, anywhere), stays, skips, lengths)
    counts = valid & ((number % 2 == 0) | (states != blank))
    posterior = torch.where(counts, torch.softmax(alpha + beta, 2), 0.0)
    expected = torch.zeros_like(log_p).scatter_add_(2, of, posterior)
    nothing = torch.where(label_lengths == 0, 0.0, _HARDLY).to(log_p.dtype)
    total = torch.where(lengths == 0, nothing, torch.logsumexp((beta[0] + emitted[0])[:, :2], 1))
    return -total, log_p.exp() - expected


def _both(emitted: torch.Tensor, first: torch.Tensor, last: torch.Tensor, stays: torch.Tensor, skips: torch.Tensor,
          lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The forward and the backward recursion: see `triton_ctc.recursions`."""
    if triton_ctc.fits(emitted, emitted.shape[2]):
        return triton_ctc.recursions(emitted, first, last, stays, skips, lengths)
    return _forward(emitted, first, stays, skips), _backward(emitted, last, lengths, stays, skips)


def _weight(allowed: torch.Tensor) -> torch.Tensor:
    """The logarithm of one where something is allowed, of zero elsewhere."""
    return torch.where(allowed, 0.0, _NEVER)


def _shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    """The states shifted up (or down); vacated states have probability zero."""
    if abs(by) >= x.shape[-1]:
        return torch.full_like(x, _NEVER)
    return torch.constant_pad_nd(x, [by, -by], _NEVER)


def _transition(before: torch.Tensor, stays: torch.Tensor, skips: torch.Tensor) -> torch.Tensor:
    """The weight of each state after a transition, from those before it."""
    ways = [torch.where(stays, before, _NEVER), _shifted(before, 1), torch.where(skips, _shifted(before, 2), _NEVER)]
    return torch.logsumexp(torch.stack(ways), 0)


def _forward(emitted: torch.Tensor, first: torch.Tensor, stays: torch.Tensor, skips: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(emitted)
    out[0] = first + emitted[0]
    for t in range(1, len(emitted)):
        out[t] = _transition(out[t - 1], stays, skips) + emitted[t]
    return out


def _backward(emitted: torch.Tensor, last: torch.Tensor, lengths: torch.Tensor, stays: torch.Tensor,
              skips: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(emitted)
    after = torch.full_like(emitted[0], _NEVER)
    for t in range(len(emitted) - 1, -1, -1):
        ways = [torch.where(stays, after, _NEVER), _shifted(after, -1), _shifted(torch.where(skips, after, _NEVER), -2)]
        here = torch.where((lengths == t + 1)[:, None], last, torch.logsumexp(torch.stack(ways), 0))
        out[t] = here
        after = here + emitted[t]
    return out


# -- decoding --------------------------------------------------------------------------------------------------------
class Decoded(NamedTuple):
    """Label sequences as the parts of a sparse matrix [batch, longest]."""
    indices: torch.Tensor
    values: torch.Tensor
    shape: torch.Tensor


def _packed(labels: torch.Tensor, keep: torch.Tensor) -> Decoded:
    """The kept labels of each row [batch, steps], moved together to the left."""
    rows, _ = torch.nonzero(keep, as_tuple=True)
    place = (keep.cumsum(1) - 1)[keep]
    longest = int(keep.sum(1).max()) if keep.numel() else 0
    return Decoded(torch.stack([rows, place], 1), labels[keep].to(torch.int64),
                   torch.tensor([keep.shape[0], longest], device=labels.device))


def greedy(logits: torch.Tensor, lengths: torch.Tensor, merge_repeated: bool, blank: int) -> tuple[Decoded, torch.Tensor]:
    """The likeliest class of each step without blanks; and minus the sum of their logits, [batch, 1]."""
    best, labels = logits.max(2)
    best, labels = best.T, labels.T
    inside = torch.arange(len(logits), device=logits.device) < lengths[:, None]
    keep = inside & (labels != blank)
    if merge_repeated:
        keep[:, 1:] &= labels[:, 1:] != labels[:, :-1]
    score = -torch.where(inside, best, best.new_zeros(())).sum(1, keepdim=True)
    return _packed(labels, keep), score


class _Beam(NamedTuple):
    """The prefixes kept for each example, [batch, width]. A prefix is identified by a hash of its labels."""
    name: torch.Tensor
    parent: torch.Tensor          # the hash of the prefix without its last label
    last: torch.Tensor            # the last label, -1 for the empty prefix
    blank: torch.Tensor           # log probability of the alignments that end in a blank ...
    label: torch.Tensor           # ... and in a label

    def total(self) -> torch.Tensor:
        return torch.logaddexp(self.blank, self.label)


_MULTIPLIER, _INCREMENT, _EMPTY = 6364136223846793005, 1442695040888963407, 1 << 40


def _extended(name: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    mixed = (name ^ ((label + 1) * _INCREMENT)) * _MULTIPLIER
    return mixed ^ (mixed >> 29)


def _root(batch: int, width: int, like: torch.Tensor) -> _Beam:
    """Only the empty prefix; the other places are unused."""
    beam = _unused(batch, width, like)
    beam.name[:, 0] = _EMPTY
    beam.blank[:, 0] = 0
    return beam


def _unused(batch: int, width: int, like: torch.Tensor) -> _Beam:
    """Clears unused entries: unique hashes, and zero probability."""
    number = torch.arange(width, device=like.device).repeat(batch, 1)
    never = like.new_full((batch, width), _NEVER)
    return _Beam(-number - 1, torch.full_like(number, -_EMPTY), torch.full_like(number, -1), never, never.clone())


def _step(beam: _Beam, log_p: torch.Tensor) -> tuple[_Beam, torch.Tensor, torch.Tensor]:
    """The best prefixes after one more step, with the place each came from and the label it was extended by (or -1)."""
    batch, width = beam.last.shape
    labels = log_p.shape[1] - 1
    total, before = beam.total(), beam.blank
    # Prefixes that stay: by a blank, by repeating the last label, or reached again from their own beginning.
    begins = beam.parent[:, :, None] == beam.name[:, None, :]                     # [batch, prefix, its beginning]
    same = beam.last[:, :, None] == beam.last[:, None, :]
    reach = torch.where(begins, torch.where(same, before[:, None, :], total[:, None, :]), _NEVER).amax(2)
    own = log_p.gather(1, beam.last.clamp(min=0))
    stay_label = torch.where(beam.last >= 0, torch.logaddexp(beam.label, reach) + own, _NEVER)
    stay_blank = total + log_p[:, -1:]
    # Prefixes that are new: extended by each label, unless the beam has the result already.
    grown = total[:, :, None] + log_p[:, None, :-1]
    repeat = torch.nn.functional.one_hot(beam.last.clamp(min=0), labels).bool() & (beam.last >= 0)[:, :, None]
    grown = torch.where(repeat, before[:, :, None] + log_p[:, None, :-1], grown)
    example, child, start = torch.nonzero(begins, as_tuple=True)
    grown[example, start, beam.last[example, child]] = _NEVER
    scores = torch.cat([torch.logaddexp(stay_blank, stay_label), grown.flatten(1)], 1)
    best, at = scores.topk(width, 1)
    fresh = at >= width
    source = torch.where(fresh, torch.div(at - width, max(1, labels), rounding_mode="floor"), at)
    added = torch.where(fresh, (at - width) % max(1, labels), -1)
    kept = [t.gather(1, source) for t in (beam.name, beam.parent, beam.last, stay_blank, stay_label)]
    new = _Beam(torch.where(fresh, _extended(kept[0], added), kept[0]), torch.where(fresh, kept[0], kept[1]),
                torch.where(fresh, added, kept[2]), torch.where(fresh, _NEVER, kept[3]),
                torch.where(fresh, best, kept[4]))
    dead = torch.isneginf(best)
    new = _Beam(*(torch.where(dead, u, n) for u, n in zip(_unused(batch, width, log_p), new, strict=True)))
    return new, source, added


def beam_search(logits: torch.Tensor, lengths: torch.Tensor, width: int, paths: int,
                merge_repeated: bool) -> tuple[list[Decoded], torch.Tensor]:
    """The `paths` likeliest label sequences, and their log probabilities [batch, paths] (-inf: there are not so many)."""
    log_p = torch.log_softmax(logits, 2)
    steps, batch, _ = logits.shape
    beam = _root(batch, width, log_p)
    sources, labels = [], []
    idle = torch.arange(width, device=logits.device).expand(batch, width)
    for t in range(steps):
        on = (lengths > t)[:, None]
        new, source, added = _step(beam, log_p[t])
        beam = _Beam(*(torch.where(on, n, o) for n, o in zip(new, beam, strict=True)))
        sources.append(torch.where(on, source, idle))
        labels.append(torch.where(on, added, -1))
    score, place = beam.total().topk(paths, 1)
    trail = []
    for source, added in zip(reversed(sources), reversed(labels), strict=True):
        trail.append(added.gather(1, place))
        place = source.gather(1, place)
    found = torch.stack(trail[::-1], 2)
    return [_sequence(found[:, p], merge_repeated) for p in range(paths)], score


def _sequence(labels: torch.Tensor, merge_repeated: bool) -> Decoded:
    """Labels [batch, steps] with -1 for none, as sequences; equal neighbours made one if requested."""
    out = _packed(labels, labels >= 0)
    if not merge_repeated or not out.values.numel():
        return out
    dense = labels.new_full(tuple(out.shape.tolist()), -1)
    dense[out.indices[:, 0], out.indices[:, 1]] = out.values
    keep = dense >= 0
    keep[:, 1:] &= dense[:, 1:] != dense[:, :-1]
    return _packed(dense, keep)

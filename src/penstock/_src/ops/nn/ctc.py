"""Connectionist temporal classification (CTC): the ops and the public functions.

The algorithms are in `kernels/ctc.py`. The ops have the blank as the last class; functions that take another
`blank_index` move it there.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.kernels import ctc
from penstock._src.ops.arguments import renamed
from penstock._src.ops.array.array import is_sparse, shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.control.map_fn import map_rows
from penstock._src.ops.registry import get, op

_T = "T: type in {float32 float64} = float32"
ctc_loss_op = op("CTCLoss", "inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32 -> "
                            "loss: T, gradient: T",
                 "preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True, "
                 f"ignore_longer_outputs_than_inputs: bool = False, {_T}")
dense_loss_op = op("_CTCLossDense", "logits: T, labels: int32, label_length: int32, logit_length: int32 -> "
                                    "loss: T, gradient: T",
                   f"blank_index: int = 0, {_T}")
greedy_op = op("CTCGreedyDecoder", "inputs: T, sequence_length: int32 -> decoded_indices: int64, decoded_values: int64, "
                                   "decoded_shape: int64, log_probability: T",
               f"merge_repeated: bool = False, blank_index: int = -1, {_T}").no_gradient()
beam_op = op("CTCBeamSearchDecoder",
             "inputs: T, sequence_length: int32 -> decoded_indices: top_paths * int64, "
             "decoded_values: top_paths * int64, decoded_shape: top_paths * int64, log_probability: T",
             f"beam_width: int >= 1, top_paths: int >= 1, merge_repeated: bool = True, {_T}").no_gradient()


# -- loss ------------------------------------------------------------------------------------------------------------
@ctc_loss_op.shape
def _ctc_loss_shape(inputs, labels_indices, labels_values, sequence_length):
    x, rows = shapes.rank_is(inputs, 3), shapes.rank_is(labels_indices, 2)
    shapes.merge(rows[:1], shapes.rank_is(labels_values, 1))
    batch = shapes.merge(x[1:2], shapes.rank_is(sequence_length, 1))
    return [batch, (x[0], *batch, x[2])]


def _check_inputs(inputs: torch.Tensor, lengths: torch.Tensor, error: Any = errors.InvalidArgumentError) -> None:
    if inputs.ndim != 3:
        raise errors.invalid(f"inputs is not a 3-Tensor, but has shape {list(inputs.shape)}")
    if inputs.shape[0] == 0:
        raise errors.invalid("Max time or first dimension of input cannot be 0.")
    if inputs.shape[2] == 0:
        raise errors.invalid("there must be at least one class")
    if lengths.ndim != 1:
        raise errors.invalid("sequence_length is not a vector")
    if lengths.shape[0] != inputs.shape[1]:
        raise error(None, None, f"len(sequence_length) != batch_size.  len(sequence_length):  {lengths.shape[0]} "
                                f"batch_size: {inputs.shape[1]}")
    for b, n in enumerate(lengths.tolist()):
        if n > inputs.shape[0]:
            raise error(None, None, f"sequence_length({b}) <= {inputs.shape[0]}")
        if n < 0:
            raise errors.invalid(f"seq_len({b}) < 0")


def _check_sparse(indices: torch.Tensor, values: torch.Tensor, batch: int) -> None:
    if indices.ndim != 2 or indices.shape[1] != 2:
        raise errors.invalid(f"labels_indices is not a matrix of two columns, but has shape {list(indices.shape)}")
    if values.ndim != 1 or values.shape[0] != indices.shape[0]:
        raise errors.invalid("labels_indices and labels_values must contain the same number of rows, but saw shapes: "
                             f"{list(indices.shape)} vs. {list(values.shape)}")
    if not len(indices):
        return
    outside = (indices < 0).any(1) | (indices[:, 0] >= batch)
    if bool(outside.any()):
        i = int(outside.nonzero()[0])
        raise errors.invalid(f"label SparseTensor is not valid: indices[{i}] = {indices[i].tolist()} is out of bounds: "
                             f"need 0 <= index < [{batch},{int(indices[:, 1].max()) + 1}]")
    ahead = (indices[1:, 0] > indices[:-1, 0]) | (indices[1:, 0] == indices[:-1, 0]) & (indices[1:, 1] > indices[:-1, 1])
    if not bool(ahead.all()):
        i = int((~ahead).nonzero()[0]) + 1
        raise errors.invalid(f"label SparseTensor is not valid: indices[{i}] = {indices[i].tolist()} is out of order or "
                             "repeated. Use `tf.sparse.reorder` to create a correctly ordered copy.")


def _dense(rows: torch.Tensor, values: torch.Tensor, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values grouped by row as a matrix, and the length of each row."""
    counts = torch.bincount(rows, minlength=batch)
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(rows), device=rows.device) - starts[rows]
    out = torch.zeros((batch, int(counts.max()) if batch else 0), dtype=torch.int64, device=rows.device)
    out[rows, place] = values.to(torch.int64)
    return out, counts


def _labels(indices: torch.Tensor, values: torch.Tensor, batch: int, classes: int,
            collapse: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The labels as a matrix, their number in each row, and the number that was given (with null labels)."""
    rows = indices[:, 0]
    given = torch.bincount(rows, minlength=batch)
    if bool((given == 0).any()):
        raise errors.invalid(f"Labels length is zero in batch {int((given == 0).nonzero()[0])}")
    if collapse and len(rows):
        new = torch.ones_like(rows, dtype=torch.bool)
        new[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
        rows, values = rows[new], values[new]
    null = values >= classes - 1
    late = null[:-1] & ~null[1:] & (rows[1:] == rows[:-1])
    if bool(late.any()):
        raise errors.invalid("Saw a non-null label (index >= num_classes - 1) following a null label, batch: "
                             f"{int(rows[1:][late][0])} num_classes: {classes}")
    if bool((values < 0).any()):
        raise errors.invalid(f"All labels must be nonnegative integers, batch: {int(rows[values < 0][0])}")
    labels, lengths = _dense(rows[~null], values[~null], batch)
    return labels, lengths, given


@ctc_loss_op.kernel
def _ctc_loss_kernel(inputs, labels_indices, labels_values, sequence_length, *, preprocess_collapse_repeated,
                     ctc_merge_repeated, ignore_longer_outputs_than_inputs):
    _check_inputs(inputs, sequence_length)
    batch = inputs.shape[1]
    if batch == 0:
        raise errors.invalid("batch_size must not be 0")
    _check_sparse(labels_indices, labels_values, batch)
    labels, label_lengths, given = _labels(labels_indices, labels_values, batch, inputs.shape[2],
                                           preprocess_collapse_repeated)
    lengths = sequence_length.to(torch.int64)
    too_long = given > lengths
    if not ignore_longer_outputs_than_inputs and bool(too_long.any()):
        b = int(too_long.nonzero()[0])
        raise errors.invalid("Not enough time for target transition sequence (required: "
                             f"{int(given[b])}, available: {int(lengths[b])}){b}You can turn this error into a warning "
                             "by using the flag ignore_longer_outputs_than_inputs")
    ignored = too_long | (lengths == 0)
    loss, gradient = ctc.loss_and_gradient(inputs, labels, label_lengths.masked_fill(ignored, 0),
                                           lengths.clamp(min=1), ctc_merge_repeated)
    return loss.masked_fill(ignored, 0), gradient.masked_fill(ignored[None, :, None], 0)


@dense_loss_op.shape
def _dense_loss_shape(logits, labels, label_length, logit_length):
    x, rows = shapes.rank_is(logits, 3), shapes.rank_is(labels, 2)
    lengths = shapes.merge(shapes.rank_is(label_length, 1), shapes.rank_is(logit_length, 1))
    batch = shapes.merge(shapes.merge(x[1:2], rows[:1]), lengths)
    return [batch, (x[0], *batch, x[2])]


@dense_loss_op.kernel
def _dense_loss_kernel(logits, labels, label_length, logit_length, *, blank_index):
    if logits.ndim != 3 or labels.ndim != 2 or label_length.ndim != 1 or logit_length.ndim != 1 \
            or not logits.shape[1] == len(labels) == len(label_length) == len(logit_length):
        found = ", ".join(str(list(x.shape)) for x in (logits, labels, label_length, logit_length))
        raise errors.invalid(f"logits, labels and lengths do not belong together: their shapes are {found}")
    classes = logits.shape[2]
    if 0 in logits.shape[:2] or not -classes <= blank_index < classes:
        raise errors.invalid(f"there is no loss of logits {list(logits.shape)} with blank {blank_index}")
    blank, labels = blank_index % classes, labels.to(torch.int64)
    if blank:       # classes are counted from the blank on: -1 is the blank, and its own number the class before it
        labels = torch.where(labels == -1, blank, torch.where(labels == blank, blank - 1, labels))
    return ctc.dense_loss_and_gradient(logits, labels, label_length.to(torch.int64), logit_length.to(torch.int64), blank)


@dense_loss_op.gradient
@ctc_loss_op.gradient
def _ctc_loss_gradient(op, grad_loss, _):
    message = ("Currently there is no way to take the second derivative of ctc_loss due to the fused implementation's "
               "interaction with tf.gradients()")
    gradient = get("PreventGradient")(op.outputs[1], message=message)
    per_example = get("Reshape")(grad_loss, np.array([1, -1, 1], np.int32))
    return per_example * gradient, None, None, None


# -- decoders --------------------------------------------------------------------------------------------------------
@greedy_op.shape
def _greedy_shape(inputs, sequence_length):
    batch = shapes.merge(shapes.rank_is(inputs, 3)[1:2], shapes.rank_is(sequence_length, 1))
    return [(None, 2), (None,), (2,), (*batch, 1)]


@greedy_op.kernel
def _greedy_kernel(inputs, sequence_length, *, merge_repeated, blank_index):
    _check_inputs(inputs, sequence_length, errors.FailedPreconditionError)
    classes = inputs.shape[2]
    if not -classes <= blank_index < classes:
        raise errors.invalid(f"blank_index expected to be between {-classes} and {classes - 1} but was {blank_index}")
    decoded, score = ctc.greedy(inputs, sequence_length, merge_repeated, blank_index % classes)
    return (*decoded, score)


@beam_op.shape
def _beam_shape(inputs, sequence_length, *, top_paths):
    batch = shapes.merge(shapes.rank_is(inputs, 3)[1:2], shapes.rank_is(sequence_length, 1))
    return [*[(None, 2)] * top_paths, *[(None,)] * top_paths, *[(2,)] * top_paths, (*batch, top_paths)]


@beam_op.kernel
def _beam_kernel(inputs, sequence_length, *, beam_width, top_paths, merge_repeated):
    _check_inputs(inputs, sequence_length, errors.FailedPreconditionError)
    if top_paths > beam_width:
        raise errors.invalid("requested more paths than the beam width.")
    if beam_width * inputs.shape[2] > 1 << 28:
        raise errors.ResourceExhaustedError(None, None, f"beam_width is too large: {beam_width}")
    decoded, score = ctc.beam_search(inputs, sequence_length, beam_width, top_paths, merge_repeated)
    if bool(torch.isinf(score).any()):
        raise errors.invalid("Less leaves in the beam search than requested.")
    return [d.indices for d in decoded], [d.values for d in decoded], [d.shape for d in decoded], score


# -- public functions ------------------------------------------------------------------------------------------------
def _time_major(logits: Any, time_major: bool) -> Tensor:
    logits = convert(logits, name="logits")
    return logits if time_major else get("Transpose")(logits, np.array([1, 0, 2], np.int32))


@export(v1=["nn.ctc_loss"])
@dispatched
def ctc_loss(labels: Any, inputs: Any = None, sequence_length: Any = None, preprocess_collapse_repeated: bool = False,
             ctc_merge_repeated: bool = True, ignore_longer_outputs_than_inputs: bool = False, time_major: bool = True,
             logits: Any = None) -> Tensor:
    """The CTC loss of each example; `labels` is a SparseTensor, the blank is the last class.

    Args:
        labels: SparseTensor of class numbers [batch, time].
        inputs: Logits [time, batch, classes].
        sequence_length: Number of time steps per example.
        preprocess_collapse_repeated: Whether repeated labels are merged first.
        ctc_merge_repeated: Whether repeated outputs without a blank between them are one label.
        ignore_longer_outputs_than_inputs: Whether examples with more labels than steps have loss 0 instead of an error.
        time_major: Whether `inputs` is [time, batch, ...] instead of [batch, time, ...].
        logits: Alias of `inputs`.

    Returns:
        A vector [batch]. The last class is the blank.

    >>> labels = tf.SparseTensor([[0, 0], [0, 1]], [1, 2], [1, 2])
    >>> logits = tf.zeros([5, 1, 4])         # time, batch, classes; the last class is the blank
    >>> tf.nn.ctc_loss(labels, logits, sequence_length=[5]).numpy()
    array([3.3761237], dtype=float32)
    """
    if not is_sparse(labels):
        raise TypeError("Expected labels (first argument) to be a SparseTensor")
    logits = _time_major(renamed("logits", logits, "inputs", inputs), time_major)
    return ctc_loss_op(logits, labels.indices, labels.values, sequence_length,
                       preprocess_collapse_repeated=preprocess_collapse_repeated, ctc_merge_repeated=ctc_merge_repeated,
                       ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs).loss


def _check_blank(logits: Tensor, blank_index: int) -> None:
    dims = logits.static_dims
    if dims is not None and len(dims) < 3:
        raise ValueError(f"logits must have rank at least 3, got shape {logits.shape}.")
    known = None if dims is None else dims[2]
    if known == 0:
        raise ValueError(f"logits must have at least 1 class, got shape {logits.shape}.")
    if known is not None and not -known <= blank_index < known:
        raise ValueError(f"blank_index ({blank_index}) must be in range [-{known}, {known}).")


def _blank_last(logits: Tensor, values: Tensor, blank_index: int) -> tuple[Tensor, Tensor]:
    """Logits with the blank moved to the end, and labels that are numbered to match."""
    _check_blank(logits, blank_index)
    classes = shape_of(logits)[2]
    blank = blank_index if blank_index >= 0 else classes + blank_index
    if isinstance(blank, (int, np.integer)) and logits.static_dims is not None and logits.static_dims[2] == blank + 1:
        return logits, values
    parts = [logits[:, :, :blank], logits[:, :, blank + 1:], logits[:, :, blank:blank + 1]]
    limit = blank if not isinstance(blank, Tensor) else get("Cast")(blank, DstT=values.dtype.base_dtype)
    lower = get("Less")(values, limit)
    return get("ConcatV2")(parts, 2), get("SelectV2")(lower, values, values - 1)


@export(v1=["nn.ctc_loss_v2"], v2=["nn.ctc_loss"])
@dispatched
def ctc_loss_v2(labels: Any, logits: Any, label_length: Any, logit_length: Any, logits_time_major: bool = True,
                unique: Any = None, blank_index: int | None = None, name: str | None = None) -> Tensor:
    """The CTC loss of each example; `labels` is a matrix with `label_length`, or a SparseTensor.

    Dense labels have the blank as class 0 unless `blank_index` says otherwise; a label that is the blank is an element of the
    sequence like the others. `unique` is accepted and not needed. Where dense labels have no alignment, the loss is large.
    """
    with name_scope(name, "ctc_loss_dense", [logits, label_length, logit_length]):
        logits = convert(logits, name="logits")
        if logits.dtype.size < 4:                     # the kernel sums over paths in 32 bits at least
            wide = ctc_loss_v2(labels, get("Cast")(logits, DstT=dtypes.float32), label_length, logit_length, logits_time_major,
                               unique, blank_index)
            return get("Cast")(wide, DstT=logits.dtype)
        if is_sparse(labels):
            if blank_index is None:
                raise ValueError("Sparse labels need a blank_index.")
            moved, values = _blank_last(_time_major(logits, logits_time_major), convert(labels.values), blank_index)
            return ctc_loss_op(moved, labels.indices, values, logit_length).loss
        moved, blank = _time_major(logits, logits_time_major), blank_index or 0
        _check_blank(moved, blank)
        integers = [get("Cast")(convert(x, name=n), DstT=dtypes.int32)
                    for x, n in ((labels, "labels"), (label_length, "label_length"), (logit_length, "logit_length"))]
        return dense_loss_op(moved, *integers, blank_index=blank).loss


def _sparse_tensor(indices: Any, values: Any, shape: Any) -> Any:
    return SparseTensor(indices, values, shape)


@export("nn.ctc_greedy_decoder")
@dispatched
def ctc_greedy_decoder(inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None) -> tuple:
    """The likeliest class of each step, without blanks and repetitions: a list of one SparseTensor, and scores.

    `blank_index` is the class of blanks; by default it is the last one, and negative numbers count from the end.
    """
    out = greedy_op(inputs, sequence_length, merge_repeated=merge_repeated,
                    blank_index=-1 if blank_index is None else blank_index)
    return [_sparse_tensor(*out[:3])], out[3]


@export(v1=["nn.ctc_beam_search_decoder"])
@dispatched
def ctc_beam_search_decoder(inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1,
                            merge_repeated: bool = True) -> tuple:
    """The `top_paths` likeliest label sequences as SparseTensors, and their log probabilities."""
    out = beam_op(inputs, sequence_length, beam_width=beam_width, top_paths=top_paths, merge_repeated=merge_repeated)
    return [_sparse_tensor(*parts) for parts in zip(*out[:3], strict=True)], out[3]


@export(v1=["nn.ctc_beam_search_decoder_v2"], v2=["nn.ctc_beam_search_decoder"])
@dispatched
def ctc_beam_search_decoder_v2(inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1) -> tuple:
    """The `top_paths` likeliest label sequences as SparseTensors, and their log probabilities."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


@export("nn.collapse_repeated")
@dispatched
def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple:
    """Labels [batch, time] with equal neighbours made one, and the new lengths."""
    with name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels, seq_length = convert(labels, name="labels"), convert(seq_length, name="seq_length")
        cast, place = get("Cast"), get("Range")(0, shape_of(labels)[1], 1)
        first = get("OnesLike")(get("Equal")(labels[:, :1], labels[:, :1]))
        new = get("ConcatV2")([first, get("NotEqual")(labels[:, 1:], labels[:, :-1])], 1)
        inside = get("Less")(place, get("ExpandDims")(cast(seq_length, DstT=dtypes.int32), np.int32(1)))
        keep = get("LogicalAnd")(new, inside)
        counts = get("Cumsum")(cast(keep, DstT=dtypes.int32), np.int32(1))
        lengths = get("Sum")(cast(keep, DstT=dtypes.int32), np.int32(1))
        where = get("Where")(keep)
        column = get("GatherNd")(counts, where) - 1
        target = get("Pack")([where[:, 0], cast(column, DstT=dtypes.int64)], axis=1)
        size = get("Pack")([shape_of(labels)[0], get("Max")(lengths, np.array([0], np.int32))])
        out = get("ScatterNd")(target, get("GatherNd")(labels, where), cast(size, DstT=dtypes.int64))
        return out, cast(lengths, DstT=seq_length.dtype.base_dtype)


@export("nn.ctc_unique_labels")
@dispatched
def ctc_unique_labels(labels: Any, name: str | None = None) -> Any:
    """For each row of labels: the different labels (filled up with zeros), and the place of each label among them."""
    with name_scope(name, "ctc_unique_labels", [labels]):
        labels = convert(labels, name="labels")

        def one(row: Any) -> list:
            y, place = get("Unique")(row)
            filled = get("Pad")(y, get("Pack")([get("Pack")([0, get("Size")(place) - get("Size")(y)])]))
            return [get("Cast")(filled, DstT=dtypes.int64), place]
        return map_rows(one, labels, dtype=[dtypes.int64, dtypes.int32])

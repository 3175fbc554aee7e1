"""Matrices of old checkpoints for new vocabularies: GenerateVocabRemapping, LoadAndRemapMatrix."""
from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.io import paths
from penstock._src.kernels import strings
from penstock._src.ops.io.save_restore import open_reader
from penstock._src.ops.registry import op

generate_vocab_remapping = op(
    "GenerateVocabRemapping", "new_vocab_file: string, old_vocab_file: string -> remapping: int64, num_present: int32",
    "new_vocab_offset: int >= 0, num_new_vocab: int >= 0, old_vocab_size: int >= -1 = -1").no_gradient()
generate_vocab_remapping.shape(lambda new_vocab_file, old_vocab_file, *, num_new_vocab: [(num_new_vocab,), ()])


def _lines(path: np.ndarray, what: str) -> list[bytes]:
    return paths.read_bytes(strings.scalar(path, what)).splitlines()


@generate_vocab_remapping.kernel(device="cpu")
def _generate_vocab_remapping_kernel(new_vocab_file, old_vocab_file, *, new_vocab_offset, num_new_vocab, old_vocab_size):
    new = _lines(new_vocab_file, "new_vocab_file")[new_vocab_offset:new_vocab_offset + num_new_vocab]
    if len(new) < num_new_vocab:
        raise errors.invalid(f"The new vocabulary has {len(new)} lines from {new_vocab_offset} on, not {num_new_vocab}")
    old = _lines(old_vocab_file, "old_vocab_file")
    known = {word: i for i, word in enumerate(old if old_vocab_size < 0 else old[:old_vocab_size])}
    found = torch.tensor([known.get(word, -1) for word in new], dtype=torch.int64)
    return found, (found >= 0).sum().to(torch.int32)


load_and_remap_matrix = op(
    "LoadAndRemapMatrix", "ckpt_path: string, old_tensor_name: string, row_remapping: int64, col_remapping: int64, "
    "initializing_values: float32 -> output_matrix: float32",
    "num_rows: int >= 0, num_cols: int >= 1, max_rows_in_memory: int = -1", stateful=True).no_gradient()
load_and_remap_matrix.shape(lambda ckpt_path, old_tensor_name, row_remapping, col_remapping, initializing_values, *, num_rows,
                            num_cols: (num_rows, num_cols))


@load_and_remap_matrix.kernel(device="cpu")
def _load_and_remap_matrix_kernel(ckpt_path, old_tensor_name, row_remapping, col_remapping, initializing_values, *, num_rows,
                                  num_cols):
    if row_remapping.ndim != 1:
        raise errors.invalid(f"The row_remapping tensor must be 1-D, got shape {list(row_remapping.shape)}")
    if len(row_remapping) != num_rows:
        raise errors.invalid(f"Size of row_remapping is {row_remapping.numel()} instead of being equal to num_rows={num_rows}")
    if col_remapping.numel() not in (0, num_cols):
        raise errors.invalid(f"Provided col_remapping, but its size is {col_remapping.numel()} instead of being equal to "
                             f"num_cols={num_cols}")
    path, name = (os.fsdecode(strings.scalar(t.reshape(()) if t.size == 1 else t, what))
                  for t, what in ((ckpt_path, "ckpt_path"), (old_tensor_name, "old_tensor_name")))
    with open_reader(path) as reader:
        dtype, shape = reader.describe(name)
        if dtype != dtypes.float32 or len(shape) != 2:
            raise errors.invalid(f"Old tensor {name} must be a float32 matrix, it is {dtype.name} {list(shape)}")
        old = reader.read(name)
    columns = col_remapping if col_remapping.numel() else torch.arange(num_cols)
    if not col_remapping.numel() and shape[1] != num_cols:
        raise errors.invalid(f"The old matrix has {shape[1]} columns, but num_cols is {num_cols} without a remapping")
    rows, columns = _checked(row_remapping, shape[0], "row"), _checked(columns, shape[1], "column")
    known = (rows >= 0)[:, None] & (columns >= 0)[None, :]
    missing = int((~known).sum())
    if initializing_values.numel() != missing:
        raise errors.invalid(f"initializing_values contained {initializing_values.numel()} elements, but {missing} missing "
                             "values remain.")
    out = torch.empty(num_rows, num_cols)
    out[~known] = initializing_values.reshape(-1)
    out[known] = old[rows[rows >= 0]][:, columns[columns >= 0]].reshape(-1)
    return out


def _checked(remapping: Any, size: int, what: str) -> Any:
    used = remapping[remapping >= 0]
    if used.numel() and int(used.max()) >= size:
        raise errors.invalid(f"Maximum {what} id in remapping is {int(used.max())} and is larger than the old matrix ({size})")
    if used.unique().numel() != used.numel():
        raise errors.UnimplementedError(None, None, f"Old {what} ids are used more than once in the remapping")
    return remapping

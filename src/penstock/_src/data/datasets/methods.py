"""The functions behind methods of datasets, which are written in terms of the class (`dataset.py` looks them up here)."""
from penstock._src.data.datasets.extras import dense_to_ragged_batch, sparse_batch
from penstock._src.data.datasets.grouping import bucket_by_sequence_length, group_by_window
from penstock._src.data.datasets.padding import padded_batch
from penstock._src.data.datasets.readers import list_files
from penstock._src.data.datasets.sampling import choose_from_datasets, rejection_resample, sample_from_datasets
from penstock._src.data.datasets.stored import load, save, snapshot

__all__ = ["bucket_by_sequence_length", "choose_from_datasets", "dense_to_ragged_batch", "group_by_window", "list_files",
           "load", "padded_batch", "rejection_resample", "sample_from_datasets", "save", "snapshot", "sparse_batch"]

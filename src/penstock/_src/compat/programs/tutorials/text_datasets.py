"""`contrib.learn.datasets.text_datasets`: DBpedia's texts and their classes, as CSV files."""
from __future__ import annotations

import os
import tarfile
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.compat.programs.tutorials import base

URL = "https://github.com/le-scientifique/torchDatasets/raw/master/dbpedia_csv.tar.gz"
FAKE = [(1 + k % 15, f"title {k}", f"a text of class {1 + k % 15}, number {k}") for k in range(30)]


def maybe_download_dbpedia(data_dir: str) -> None:
    """Fetches the texts into `data_dir/dbpedia_csv`, unless they are there."""
    folder = os.path.join(data_dir, "dbpedia_csv")
    if tf.gfile.Exists(os.path.join(folder, "train.csv")) and tf.gfile.Exists(os.path.join(folder, "test.csv")):
        return
    packed = base.maybe_download("dbpedia_csv.tar.gz", data_dir, URL)
    with tarfile.open(packed, "r:*") as archive:
        archive.extractall(data_dir, filter="data")


def load_dbpedia(size: str = "small", test_with_fake_data: bool = False, data_dir: str | None = None) -> Any:
    """Texts and classes, from `dbpedia_data` in the folder TF_EXP_BASE_DIR; of the small size, one line in a thousand.

    >>> dbpedia = load_dbpedia(test_with_fake_data=True)     # a few made-up lines
    """
    if test_with_fake_data:
        made = base.Dataset(np.array([row[1:] for row in FAKE]), np.array([row[0] for row in FAKE], np.int32))
        return base.Datasets(train=made, validation=None, test=made)
    folder = data_dir or os.path.join(os.environ.get("TF_EXP_BASE_DIR", ""), "dbpedia_data")
    maybe_download_dbpedia(folder)
    parts = []
    for part in ("train", "test"):
        path = os.path.join(folder, "dbpedia_csv", f"{part}.csv")
        if size == "small":
            base.shrink_csv(path, 1000)
            path = path.replace(".csv", "_small.csv")
        parts.append(base.load_csv_without_header(path, target_dtype=np.int32, features_dtype=str, target_column=0))
    return base.Datasets(train=parts[0], validation=None, test=parts[1])

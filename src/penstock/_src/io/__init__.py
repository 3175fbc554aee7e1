"""Files: access through fsspec, atomic writes, and the formats that others read (records, tables, tensor bundles).

This package is independent of graphs; ops, checkpoints and summaries use it.
"""
from penstock._src.io import file_api, record  # noqa: F401

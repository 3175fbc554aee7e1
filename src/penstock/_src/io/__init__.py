"""Files: access through fsspec, atomic writes, and the formats that others read (records, tables, tensor bundles).

Nothing here knows graphs: ops, checkpoints and summaries stand on top of it.
"""
from penstock._src.io import file_api, record  # noqa: F401

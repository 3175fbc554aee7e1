"""Embedding variables: tables of rows that are found by key, and made when a key is first seen."""
from penstock._src.state.embeddings import create, incremental, options, variable  # noqa: F401

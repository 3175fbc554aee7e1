"""Embedding variables: tables of rows by key, created when a key is first looked up."""
from penstock._src.state.embeddings import create, incremental, multihash, options, variable  # noqa: F401

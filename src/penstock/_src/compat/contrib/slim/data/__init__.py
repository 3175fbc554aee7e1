"""slim's readers of data: descriptions of data sets, decoders of examples, and providers that read them through queues."""
from penstock._src.compat.contrib.slim.data import decoding, providers, reading  # noqa: F401

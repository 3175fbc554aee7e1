"""slim's readers of data: descriptions of data sets, decoders of examples, and providers that read them through queues."""
from penstock.contrib.slim.data import decoding, providers, reading  # noqa: F401

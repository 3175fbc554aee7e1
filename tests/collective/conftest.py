"""The clusters of tests/distributed."""
from tests.distributed.conftest import cluster  # noqa: F401

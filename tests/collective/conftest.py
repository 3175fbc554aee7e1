"""The clusters of tests/cluster."""
from tests.cluster.conftest import cluster  # noqa: F401

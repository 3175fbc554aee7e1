"""What the kernels of collective ops use: groups and their limits, meeting points, buckets, and names of algorithms."""
from penstock._src.collective.group import Limit
from penstock._src.collective.hub import meeting_point
from penstock._src.collective.mover import Bucket
from penstock._src.collective.tuner import named

__all__ = ["Bucket", "Limit", "meeting_point", "named"]

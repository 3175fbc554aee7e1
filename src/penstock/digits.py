"""The digits that examples train on: see `load`."""
from penstock._src.tools.digits import *  # noqa: F403

"""`util.tf_inspect`: Python's inspect, with what newer Pythons have removed."""
from inspect import *  # noqa: F403
from inspect import getfullargspec, signature, unwrap  # noqa: F401

getargspec = getfullargspec

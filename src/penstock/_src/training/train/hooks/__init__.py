"""Hooks around the steps of a monitored session, one file per purpose."""
from penstock._src.training.train.hooks import base, checkpoint, reporting, stopping, timer  # noqa: F401

"""tf.distribute.coordinator: one process runs functions on many workers, with variables on parameter servers.

`cluster_coordinator.py` has the public class. Scheduled functions (`closures.py`) wait in a queue; a thread per worker
(`workers.py`) takes them, and puts back those that a lost worker did not finish. `values.py` has their results and per-worker
values, `inputs.py` the datasets of workers.
"""
from penstock._src.models.distribute.coordinator import cluster_coordinator  # noqa: F401

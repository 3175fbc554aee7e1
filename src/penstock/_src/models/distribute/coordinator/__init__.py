"""tf.distribute.coordinator: one program that has functions run on many workers, while variables are on parameter servers.

`cluster_coordinator.py` is what programs hold. Scheduled functions (`closures.py`) wait in a queue; a thread per worker
(`workers.py`) takes them, and returns what a lost worker did not finish. `values.py` has their results and what each worker
has for itself, `inputs.py` the datasets of workers.
"""
from penstock._src.models.distribute.coordinator import cluster_coordinator  # noqa: F401

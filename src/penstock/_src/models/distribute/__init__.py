"""tf.distribute: one program over many devices.

A Strategy (`strategy.py`) determines where replicas run and where variables are; its `extended` (`extended.py`) does the work.
`contexts.py` returns the strategy and replica that a thread works for. `replicas.py` runs a function for each replica;
`variables.py` and `values.py` hold what replicas have; `cross_device_ops.py` brings values together; `datasets.py` cuts
batches. The strategies: `default.py`, `one_device.py`, `mirrored.py`, `central_storage.py`,
`multi_worker.py` (with `elastic.py`), `parameter_server.py` and, for one coordinating program, `coordinated.py` with
`coordinator/`.
"""
from penstock._src.models.distribute import default  # noqa: F401  (what code finds where no strategy was entered)

"""tf.distribute: one program over many devices.

A Strategy (`strategy.py`) says where replicas run and where variables live; its `extended` (`extended.py`) does the work.
`contexts.py` knows which strategy and replica a thread works for. `replicas.py` runs a function for each replica;
`variables.py` and `values.py` hold what replicas have; `cross_device_ops.py` brings values together; `datasets.py` cuts
batches. The strategies: `default.py`, `one_device.py`, `mirrored.py`, `central_storage.py`,
`multi_worker.py` (with `elastic.py`), `parameter_server.py` and, for one coordinating program, `coordinated.py` with
`coordinator/`.
"""
from penstock._src.cluster import server  # noqa: F401  (tf.distribute.Server)
from penstock._src.models.distribute import (  # noqa: F401
    central_storage,
    cluster_resolver,
    contexts,
    cross_device_ops,
    datasets,
    elastic,
    losses,
    mirrored,
    multi_worker,
    one_device,
    parameter_server,
    partitioners,
    steps,
    tpu,
)
from penstock._src.models.distribute.coordinator import cluster_coordinator  # noqa: F401

"""Training: optimizers, learning-rate decays, moving averages, the global step; coordinators, queue runners
and batches; monitored sessions and their hooks."""
from penstock._src.cluster import cluster, device_setter, server  # noqa: F401  (tf.train.Server)
from penstock._src.state import checkpoint  # noqa: F401  (tf.train.Saver and its kin)
from penstock._src.training.train import (  # noqa: F401
    adadelta,
    adagrad,
    adagrad_da,
    adam,
    adam_async,
    coordinator,
    event_iterator,
    ftrl,
    global_step,
    gradient_descent,
    hooks,
    input,
    learning_rate_decay,
    loss_scale,
    momentum,
    monitored_session,
    moving_averages,
    proximal,
    queue_runner,
    rmsprop,
    scaffold,
    session_manager,
    staged,
    staleness,
    supervisor,
    sync_replicas,
)

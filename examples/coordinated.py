"""Training by one program: the chief schedules steps, workers run them, parameter servers keep the variables.

    penstock launch --coordinated --ps 2 --workers 3 examples/coordinated.py --folder=/tmp/digits

A worker may be killed at any time: its step is run by another one, and when it is back it gets work again. When a parameter
server or the chief is lost, the chief is started again and continues from the last checkpoint.
"""
import argparse
from typing import Any

import penstock as tf
from penstock import digits


def batches(size: int = 32) -> tf.data.Dataset:
    """The training digits again and again; every worker shuffles them in its own way."""
    (x, y), _ = digits.load()
    data = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 64).astype("float32"), y.astype("int64")))
    return data.shuffle(len(y)).repeat().batch(size)


def network() -> tf.keras.Model:
    """A network with one hidden layer."""
    return tf.keras.Sequential([tf.keras.layers.Dense(32, activation="relu", input_shape=[64]), tf.keras.layers.Dense(10)])


def train(strategy: tf.distribute.Strategy, steps: int = 400, folder: str | None = None,
          save_steps: int = 100) -> tuple[float, int]:
    """Trains up to a number of steps; returns the accuracy on the test digits, and the step at which training began."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model, optimizer = network(), tf.keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    losses = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    @tf.function
    def step(iterator: Any) -> Any:
        def replica(batch: Any) -> Any:
            x, y = batch
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(losses(y, model(x, training=True)))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss
        return strategy.run(replica, args=(next(iterator),))

    saved = None
    if folder:
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        saved = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
        checkpoint.restore(saved.latest_checkpoint)
    began = int(optimizer.iterations.numpy())
    iterator: Any = iter(coordinator.create_per_worker_dataset(batches))       # type: ignore[call-overload]
    for first in range(began, steps, save_steps):
        for _ in range(min(save_steps, steps - first)):
            loss = coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        print(f"step {int(optimizer.iterations.numpy())}: loss {loss.fetch():.3f}", flush=True)
        if saved:
            saved.save()
    _, (x, y) = digits.load()
    guesses = model.predict(x.reshape(-1, 64).astype("float32"), verbose=0).argmax(1)
    return float((guesses == y).mean()), began


def main() -> None:
    """The part of this process, as TF_CONFIG says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", help="where checkpoints go; none are written without it")
    parser.add_argument("--steps", type=int, default=400, help="steps that all workers take together")
    options = parser.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("ps", "worker"):
        tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
    accuracy, began = train(tf.distribute.ParameterServerStrategy(resolver), options.steps, options.folder)
    print(f"began at step {began}; accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()

"""Training under a ParameterServerStrategy, with a checkpoint every 10 steps; TF_CONFIG has the task of this process.

The chief schedules steps. When it is lost, or a parameter server is, it is started again and restores the last checkpoint.
"""
import argparse
import pathlib
import time

import numpy as np

TRUE, TOGETHER, DELAY = [[1.0], [2.0], [3.0], [4.0]], 10, 0.1


def dataset():
    import penstock as tf
    x = np.random.RandomState(0).randn(64, 4).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x @ np.array(TRUE, "float32"))).shuffle(64).repeat().batch(16)


def train(tf, strategy, folder, steps):
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        w, number = tf.Variable(tf.zeros([4, 1])), tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(iterator):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - y) ** 2)
        w.assign_sub(0.05 * tape.gradient(loss, w))
        number.assign_add(1)
        return loss
    saved = tf.train.CheckpointManager(tf.train.Checkpoint(w=w, number=number), str(folder), max_to_keep=2)
    saved.restore_or_initialize()
    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    while number.numpy() < steps:
        results = [coordinator.schedule(step, args=(iterator,)) for _ in range(TOGETHER)]
        coordinator.join()
        coordinator.fetch(results)
        (folder / "chief_0.positions").touch()
        saved.save(int(number.numpy()))
        time.sleep(DELAY)
    return int(number.numpy()), w.numpy()


def main():
    import penstock as tf
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("ps", "worker"):
        tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
    options.folder.mkdir(parents=True, exist_ok=True)
    done, w = train(tf, tf.distribute.ParameterServerStrategy(resolver), options.folder, options.steps)
    difference = float(np.abs(w - TRUE).max())
    print(f"worker 0: step {done} loss {difference:.4f} accuracy {float(difference < 0.1)}", flush=True)


if __name__ == "__main__":
    main()

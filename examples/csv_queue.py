"""Training from CSV files with queues: a filename queue, several reader threads, a shuffled instance queue.

    python examples/csv_queue.py                 # writes some files to a temporary folder and trains on them
    python examples/csv_queue.py a.csv b.csv     # files with a header; the last column is the target

The stages end in order. When the filename queue is closed and empty, each reader gets OutOfRangeError; when the last
reader has ended, its QueueRunner closes the instance queue; training takes what is left in it, then gets OutOfRangeError
itself, and is over.
"""
import argparse
import csv
import pathlib
import random
import tempfile
from typing import Any

import penstock.compat.v1 as tf

FEATURES = 3


def write_files(folder: str, count: int = 4, rows: int = 200, seed: int = 0) -> list[str]:
    """CSV files of y = 2 x1 - x2 + 3 + noise, with gaps: missing values of x3 (which does not matter)."""
    rng = random.Random(seed)
    names = []
    for i in range(count):
        names.append(str(pathlib.Path(folder) / f"part-{i}.csv"))
        with open(names[-1], "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(["x1", "x2", "x3", "y"])
            for _ in range(rows):
                x1, x2 = rng.uniform(-1, 1), rng.uniform(-1, 1)
                x3 = rng.uniform(-1, 1) if rng.random() < 0.9 else ""
                out.writerow([x1, x2, x3, 2 * x1 - x2 + 3 + rng.gauss(0, 0.01)])
    return names


def input_pipeline(filenames: list[str], readers: int, epochs: int, batch_size: int) -> Any:
    """A batch of (features, target) for each step, from `readers` threads."""
    filename_queue = tf.train.string_input_producer(filenames, num_epochs=epochs, shuffle=True)
    instance_queue = tf.RandomShuffleQueue(capacity=500, min_after_dequeue=50, dtypes=[tf.float32, tf.float32],
                                           shapes=[[FEATURES], []], name="instance_q", shared_name="shared_instance_q")

    def read_and_push() -> Any:
        _, line = tf.TextLineReader(skip_header_lines=1).read(filename_queue)
        *x, y = tf.decode_csv(line, record_defaults=[[0.0]] * FEATURES + [[]])
        return instance_queue.enqueue([tf.stack(x), y])

    tf.train.add_queue_runner(tf.train.QueueRunner(instance_queue, [read_and_push() for _ in range(readers)]))
    return instance_queue.dequeue_up_to(batch_size)


def train(filenames: list[str], readers: int = 4, epochs: int = 5, batch_size: int = 20, rate: float = 0.1) -> Any:
    """Fits a linear model; returns its weights, its bias, and the number of examples that it was trained on."""
    with tf.Graph().as_default():
        x, y = input_pipeline(filenames, readers, epochs, batch_size)
        weights = tf.Variable(tf.zeros([FEATURES]), name="weights")
        bias = tf.Variable(0.0, name="bias")
        error = tf.reduce_sum(x * weights, axis=1) + bias - y
        step = tf.train.GradientDescentOptimizer(rate).minimize(tf.reduce_mean(tf.square(error)))
        size = tf.shape(y)[0]

        coord, seen = tf.train.Coordinator(), 0
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            try:
                while not coord.should_stop():
                    _, n = sess.run([step, size])
                    seen += int(n)
            except tf.errors.OutOfRangeError:
                pass                                   # the end of the input
            finally:
                coord.request_stop()
            coord.join(threads, stop_grace_period_secs=10)
            w, b = sess.run([weights, bias])
            return w.tolist(), float(b), seen


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weights, bias, seen = train(args.files or write_files(folder), args.readers, args.epochs)
    print(f"{seen} examples: y = {' + '.join(f'{w:.3f} x{i + 1}' for i, w in enumerate(weights))} + {bias:.3f}")


if __name__ == "__main__":
    main()

"""Train a small convolutional network on handwritten digits: `python -m penstock.demo`.

A first program, and a short tour of the graph API: build a graph once, then run parts of it in a session, step by step. It
writes a TensorBoard log of loss, accuracy and the graph.
"""

import argparse
import importlib
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary

from penstock._src.io.events import EventsWriter
from penstock._src.tools import digits

Report = Callable[[int, float, float], None]


class Model(NamedTuple):
    """The parts of the graph that a step feeds or fetches."""

    graph: Any
    images: Any
    labels: Any
    loss: Any
    accuracy: Any
    train: Any
    init: Any


def build(tf: ModuleType, lr: float, seed: int) -> Model:
    """Build the network with the v1 API of the module `tf`, in its own graph."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(seed)
        images = tf.placeholder(tf.float32, [None, 8, 8, 1], name="images")
        labels = tf.placeholder(tf.int64, [None], name="labels")
        x = _conv(tf, images, 32, "conv1")
        x = _conv(tf, x, 64, "conv2")
        x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", name="pool")
        x = tf.reshape(x, [-1, 4 * 4 * 64], name="flat")
        x = tf.nn.relu(_dense(tf, x, 128, "hidden"))
        logits = _dense(tf, x, 10, "logits")
        with tf.name_scope("metrics"):
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses, name="loss")
            hits = tf.equal(tf.argmax(logits, 1), labels)
            accuracy = tf.reduce_mean(tf.cast(hits, tf.float32), name="accuracy")
        train = tf.train.AdamOptimizer(lr).minimize(loss)
        return Model(graph, images, labels, loss, accuracy, train, tf.global_variables_initializer())


def _conv(tf: ModuleType, x: Any, filters: int, scope: str) -> Any:
    with tf.variable_scope(scope):
        fan_in = 3 * 3 * int(x.shape[-1])
        init = tf.random_normal_initializer(stddev=(2.0 / fan_in) ** 0.5)
        kernel = tf.get_variable("kernel", [3, 3, int(x.shape[-1]), filters], initializer=init)
        bias = tf.get_variable("bias", [filters], initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME") + bias)


def _dense(tf: ModuleType, x: Any, units: int, scope: str) -> Any:
    with tf.variable_scope(scope):
        fan_in = int(x.shape[-1])
        init = tf.random_normal_initializer(stddev=(2.0 / fan_in) ** 0.5)
        weights = tf.get_variable("weights", [fan_in, units], initializer=init)
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.matmul(x, weights) + bias


class EventLog:
    """A TensorBoard event file in a folder."""

    def __init__(self, logdir: Path) -> None:
        self._writer = EventsWriter(logdir)

    def graph(self, graph: Any) -> None:
        data = graph.as_graph_def().SerializeToString()
        self._writer.add(Event(wall_time=time.time(), graph_def=data))

    def scalars(self, step: int, **values: float) -> None:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=v) for tag, v in values.items()])
        self._writer.add(Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        self._writer.close()


@contextmanager
def progress(console: Console, epochs: int) -> Iterator[Report]:
    """A bar on a terminal, one line per epoch elsewhere; returns `report(epoch, loss, accuracy)`."""
    text = "epoch {}/{}  loss {:.4f}  held-out accuracy {:.2%}"
    if not console.is_terminal:
        yield lambda epoch, loss, accuracy: print(text.format(epoch, epochs, loss, accuracy), flush=True)
        return
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task("starting", total=epochs)
        yield lambda epoch, loss, accuracy: bar.update(
            task, completed=epoch, description=text.format(epoch, epochs, loss, accuracy)
        )


def train(tf: ModuleType, args: argparse.Namespace, log: EventLog, console: Console) -> float:
    """Train for `args.epochs` and return the accuracy on the images held out."""
    (x_train, y_train), (x_test, y_test) = digits.load(seed=args.seed)
    model = build(tf, args.lr, args.seed)
    log.graph(model.graph)
    held_out = {model.images: x_test, model.labels: y_test}
    rng = np.random.default_rng(args.seed)
    step = 0
    with tf.Session(graph=model.graph) as session, progress(console, args.epochs) as report:
        session.run(model.init)
        for epoch in range(1, args.epochs + 1):
            order = rng.permutation(len(x_train))
            for start in range(0, len(order), args.batch):
                rows = order[start : start + args.batch]
                feeds = {model.images: x_train[rows], model.labels: y_train[rows]}
                _, loss = session.run([model.train, model.loss], feeds)
                step += 1
                log.scalars(step, loss=float(loss))
            accuracy = float(session.run(model.accuracy, held_out))
            log.scalars(step, accuracy=accuracy)
            report(epoch, float(loss), accuracy)
    return accuracy


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m penstock.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=_positive(int), default=10, help="passes over the images (10)")
    parser.add_argument("--batch", type=_positive(int), default=32, help="images per step (32)")
    parser.add_argument("--lr", type=_positive(float), default=1e-3, help="Adam's learning rate (0.001)")
    parser.add_argument("--logdir", type=Path, help="where the log goes (logs/demo-<time>)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, split and order (0)")
    args = parser.parse_args(argv)
    if args.logdir is None:
        args.logdir = Path("logs") / time.strftime("demo-%Y%m%d-%H%M%S")
    return args


def _positive(kind: type) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be greater than 0, got {text}")
        return value

    convert.__name__ = kind.__name__
    return convert


def main(argv: list[str] | None = None, tf: ModuleType | None = None) -> int:
    """Run the demo; `tf` is the module that builds and runs the graph, penstock's v1 names by default."""
    args = parse(argv)
    if tf is None:
        tf = importlib.import_module("penstock.compat.v1")
    tf.disable_v2_behavior()
    console = Console()
    log = EventLog(args.logdir)
    start = time.perf_counter()
    try:
        accuracy = train(tf, args, log, console)
        code = 0
        print(f"held-out accuracy {accuracy:.2%} after {time.perf_counter() - start:.1f} s")
    except KeyboardInterrupt:
        code = 130
        print("\nstopped before the end")
    finally:
        log.close()
    print(f"log in {args.logdir.resolve()}\nopen it with: {_tensorboard_command(args.logdir)}")
    return code


def _tensorboard_command(logdir: Path) -> str:
    beside_python = Path(sys.executable).with_name("tensorboard")
    tool = "tensorboard" if shutil.which("tensorboard") or not beside_python.exists() else str(beside_python)
    return shlex.join([tool, "--logdir", str(logdir)])


if __name__ == "__main__":
    sys.exit(main())

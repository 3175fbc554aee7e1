"""Programs to simulate, built with the public functions as a user would build them.

Each function returns a `Build`: called with the number of servers, it builds the graph of worker 0. Ops whose time is known, or
belongs to another machine (a GPU), have it in `costs`.
"""
from __future__ import annotations

import math
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.simulate.job import Build, Program

_FLOAT = 4                          # bytes


def _device(servers: int) -> Any:
    return tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")


def dense_null_step(size: int) -> Build:
    """Every worker reads all of a model of `size` bytes, which is spread over the servers, and adds as much to it."""
    def build(servers: int) -> Program:
        with tf.Graph().as_default() as graph, tf.device(_device(servers)):
            elements = max(1, size // servers // _FLOAT)
            updates = []
            for i in range(servers):
                v = tf.get_variable(f"v{i}", [elements], use_resource=False)
                updates.append(tf.assign_add(v, tf.identity(v) * 0.5).op)
            free = ("Mul", "AssignAdd") if size >= 1 << 20 else ()
            costs = {op.name: 0.0 for op in graph.get_operations() if op.type in free}
            return Program(graph, updates, costs=costs)
    return build


def sparse_null_step(table: int, row: int = 2048, entries: int = 32, costs: dict[str, float] | None = None) -> Build:
    """Every worker reads `entries` random rows of `row` bytes from a table of `table` bytes, which is spread over the servers,
    and adds as much to them. `costs` has the seconds of ops by their types."""
    def build(servers: int) -> Program:
        with tf.Graph().as_default() as graph, tf.device(_device(servers)):
            rows, columns = table // row // servers, row // _FLOAT
            ids = tf.random_uniform([entries], maxval=rows * servers, dtype=tf.int32)
            parts = tf.dynamic_partition(ids // servers, ids % servers, servers)
            updates = []
            for i, part in enumerate(parts):
                part.set_shape([max(1, entries // servers)])
                v = tf.get_variable(f"v{i}", [rows, columns], use_resource=False)
                with tf.colocate_with(v):
                    read = tf.gather(v, part)
                updates.append(tf.scatter_add(v, part, read * 0.5).op)
            given = {op.name: costs[op.type] for op in graph.get_operations() if costs and op.type in costs}
            return Program(graph, updates, costs=given)
    return build


def synchronous(graph: Any, opt: Any, train_op: Any, global_step: Any) -> Program:
    """Training with a SyncReplicasOptimizer: what its hook and the chief's thread run (training/train/sync_replicas.py)."""
    with graph.as_default():
        setup = [[global_step.initializer], [opt.chief_init_op], [opt.get_init_tokens_op()]]
        return Program(graph, [train_op.op], setup, [[opt.local_step_init_op.op]],
                       list(opt.get_chief_queue_runner().enqueue_ops))


# -- training -----------------------------------------------------------------------------------------------------------------
Blocks = list[dict[int, int]]       # of a model, from input to output: the elements that each server has of it


def data_parallel(blocks: Blocks, seconds: float, examples: int, replicas: int = 0, backups: int = 0) -> Build:
    """Training of a model that is computed block by block, forward and back, while variables and gradients travel. All
    variables are requested when a step begins. Each block has one variable per server, and takes the same time, a third of it
    forward. RMSProp applies the gradients. With `replicas`, so many of them make an update (SyncReplicasOptimizer), and
    `backups` more workers compute them."""
    def build(servers: int) -> Program:
        with tf.Graph().as_default() as graph, tf.device(_device(servers)):
            step = tf.train.get_or_create_global_step()
            pairs, costs = _computed(blocks, seconds)
            opt: Any = tf.train.RMSPropOptimizer(0.1)
            if not replicas:
                return Program(graph, [opt.apply_gradients(pairs, step)], [[step.initializer]], costs=costs, examples=examples)
            opt = tf.train.SyncReplicasOptimizer(opt, replicas, replicas + backups)
            made = synchronous(graph, opt, opt.apply_gradients(pairs, step), step)
            made.costs, made.examples = costs, examples
            return made
    return build


def _computed(blocks: Blocks, seconds: float) -> tuple[list, dict[str, float]]:
    """Gradients with their variables, and the costs of the ops that compute them."""
    costs: dict[str, float] = {}
    read, pairs, before = [], [], []                                # type: ignore[var-annotated]
    for k, block in enumerate(blocks):
        variables = [_variable(f"v{k}_{i}", [n], i) for i, n in sorted(block.items()) if n]
        read.append([(tf.identity(v), v) for v in variables])
        with tf.control_dependencies([r for r, _ in read[-1]] + before):
            before = [tf.no_op(f"forward{k}")]
        costs[f"forward{k}"] = seconds / len(blocks) / 3
    for k in reversed(range(len(blocks))):
        with tf.control_dependencies(before):
            before = [tf.no_op(f"back{k}")]
        with tf.control_dependencies(before):
            pairs += [(tf.identity(r), v) for r, v in read[k]]
        costs[f"back{k}"] = seconds / len(blocks) * 2 / 3
    return pairs, costs


def _variable(name: str, shape: list[int], server: int) -> Any:
    with tf.device(f"/job:ps/task:{server}"):
        return tf.get_variable(name, shape, use_resource=False, initializer=tf.zeros_initializer())


def inception_v3(servers: int, blocks: int = 4) -> Blocks:
    """Inception-v3 in some blocks. The device setter puts one variable after the other on the servers, whatever their size."""
    found: Blocks = [dict.fromkeys(range(servers), 0) for _ in range(blocks)]
    with tf.Graph().as_default(), tf.device(_device(servers)):
        tf.contrib.slim.nets.inception.inception_v3(tf.placeholder(tf.float32, [32, 299, 299, 3]), num_classes=1001)
        every = tf.trainable_variables()
        for i, v in enumerate(every):
            found[i * blocks // len(every)][int(v.device.rpartition(":")[2])] += math.prod(v.shape.as_list())
    return found


def softmax(sampled: int, batch: int, seconds: float, vocabulary: int = 40_000, size: int = 512) -> Build:
    """A language model whose last layer is spread over the servers, which multiply by it where it is. Every worker works for
    some seconds, and sends `batch` vectors of `size` numbers to each server. With `sampled` classes, only their rows count."""
    def build(servers: int) -> Program:
        with tf.Graph().as_default() as graph, tf.device(_device(servers)):
            with tf.device("/job:worker/task:0"):
                hidden = tf.get_variable("hidden", [batch, size], use_resource=False)
                with tf.control_dependencies([tf.no_op("work")]):
                    hidden = tf.identity(hidden)
            back, updates = [], []
            for i in range(servers):
                rows = vocabulary // servers + (i < vocabulary % servers)
                used = sampled // servers + (i < sampled % servers)
                weights = tf.get_variable(f"softmax{i}", [rows, size], use_resource=False)
                with tf.colocate_with(weights):
                    ids = tf.random_uniform([used], maxval=rows, dtype=tf.int32) if sampled else None
                    w = tf.gather(weights, ids) if sampled else tf.identity(weights)
                    logits = tf.matmul(hidden, w, transpose_b=True)
                    back.append(tf.matmul(logits, w))
                    grad = tf.matmul(logits, hidden, transpose_a=True)
                    updates.append((tf.scatter_sub(weights, ids, grad) if sampled else tf.assign_sub(weights, grad)).op)
            with tf.device("/job:worker/task:0"):
                total = tf.add_n(back)
            return Program(graph, [total.op, *updates], costs={"work": seconds}, examples=batch)
    return build

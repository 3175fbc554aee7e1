"""Programs to simulate, built with the public functions as a user would build them.

Each function returns a `Build`: called with the number of servers, it builds the graph of worker 0. Ops whose time is known, or
belongs to a machine that is not here (a GPU), have it in `costs`.
"""
from __future__ import annotations

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
            costs = {op.name: 0.0 for op in graph.get_operations() if op.type in ("Mul", "AssignAdd")} if size > 1 << 20 else {}
            return Program(graph, updates, costs=costs)
    return build


def sparse_null_step(table: int, row: int = 2048, entries: int = 32) -> Build:
    """Every worker reads `entries` random rows of `row` bytes from a table of `table` bytes, which is spread over the servers,
    and adds as much to them."""
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
            return Program(graph, updates)
    return build


def synchronous(graph: Any, opt: Any, train_op: Any, global_step: Any) -> Program:
    """Training with a SyncReplicasOptimizer: what its hook and the chief's thread run (training/train/sync_replicas.py)."""
    with graph.as_default():
        setup = [[global_step.initializer], [opt.chief_init_op], [opt.get_init_tokens_op()]]
        return Program(graph, [train_op.op], setup, [[opt.local_step_init_op.op]],
                       list(opt.get_chief_queue_runner().enqueue_ops))

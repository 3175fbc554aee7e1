"""SyncReplicasOptimizer: workers compute gradients of the same step, and the mean of the first ones is applied.

Each variable has an accumulator beside it, and there is one queue of tokens. A worker adds its gradients to the
accumulators and takes a token; the token is the step to which its next gradients will belong. A thread of the chief takes the
mean as soon as `replicas_to_aggregate` gradients have arrived, applies it, and puts new tokens into the queue. A gradient that
arrives later belongs to a past step: it is stale, and dropped. So the slowest `total_num_replicas - replicas_to_aggregate`
workers do not delay the others.

A slow worker must not delay the others: unused tokens are discarded when those of the next step are issued, and no worker takes
a second token of a step to which it has contributed. Otherwise it would compute gradients that are stale before they are done.
A worker that is killed after its contribution and restarted may contribute to the same step again: these gradients are dropped,
so that no worker counts twice in a mean. A worker that ends notifies the accumulators, which then do not wait for its
gradients; the chief continues applying gradients until the others have ended too.
"""
from __future__ import annotations

import contextlib
import time
from typing import Any

from penstock._src.base import dtypes, errors, tf_logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import colocate_with, control_dependencies, device, name_scope
from penstock._src.kernels.devices.device_spec import DeviceSpecV2
from penstock._src.ops.array.fill import fill
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get
from penstock._src.ops.state.accumulator import ONCE, WORKER, ConditionalAccumulator, SparseConditionalAccumulator
from penstock._src.ops.state.queue_classes import FIFOQueue
from penstock._src.state.variables.collections import global_variables, report_uninitialized_variables
from penstock._src.state.variables.functions import assign
from penstock._src.state.variables.variable import VariableV1
from penstock._src.training.train.hooks.base import SessionRunHook
from penstock._src.training.train.optimizer_around import OptimizerAround
from penstock._src.training.train.queue_runner import QueueRunner
from penstock._src.training.train.session_manager import is_ready

PATIENCE = 10.0                     # seconds without a step after which a chief that has ended stops waiting


@export(v1=["train.SyncReplicasOptimizer"])
class SyncReplicasOptimizer(OptimizerAround):
    """Applies the mean of the gradients of several workers.

    `replicas_to_aggregate` gradients make a step; `total_num_replicas` workers compute them. The workers beyond are backups.

    Args:
        opt: Optimizer that applies the averaged gradients.
        replicas_to_aggregate: Number of gradients in an average; fewer than workers makes the slowest ones backups.
        total_num_replicas: Number of workers, by default `replicas_to_aggregate`.
        variable_averages: `ExponentialMovingAverage` to maintain.
        variables_to_average: Variables of these averages.
        use_locking: Whether updates hold a lock on the variable, so that concurrent steps do not interleave.
        name: Prefix of the names.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", initializer=1.)
    ...     step = tf.train.get_or_create_global_step()
    ...     sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1, total_num_replicas=1)
    ...     train = sync.minimize(w * w, global_step=step)
    ...     with tf.train.MonitoredTrainingSession(hooks=[sync.make_session_run_hook(is_chief=True)]) as sess:
    ...         _ = sess.run(train)
    """

    def __init__(self, opt: Any, replicas_to_aggregate: int, total_num_replicas: int | None = None,
                 variable_averages: Any = None, variables_to_average: Any = None, use_locking: bool = False,
                 name: str = "sync_replicas"):
        super().__init__(opt, use_locking, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        tf_logging.info("SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s", replicas_to_aggregate, total)
        self._replicas_to_aggregate, self._total_num_replicas = replicas_to_aggregate, total
        self._variable_averages, self._variables_to_average = variable_averages, variables_to_average
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._gradients_applied = False
        self._accumulators: list[tuple[Any, str]] = []            # with their devices
        self._global_step: Any = None
        self._sync_token_queue: Any = None
        self._chief_queue_runner: Any = None

    # -- the graph ----------------------------------------------------------------------------------------------------
    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """The op that every worker runs: it adds the gradients to those of the others, and waits for the next step."""
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        self._make_local_step(global_step)
        with name_scope(None, self._name):
            added, means = self._aggregate(pairs)
            with self._beside_global_step():
                update = self._opt.apply_gradients(means, global_step)
                train_op = self._make_tokens(added, update, global_step)
            self._make_members(global_step)
        self._gradients_applied = True
        return train_op

    def _make_local_step(self, global_step: Any) -> None:
        """The step that this worker's gradients belong to, kept on the worker."""
        anchor = get("NoOp")()
        with colocate_with(anchor):
            self._local_step = VariableV1(0, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES],
                                          dtype=global_step.dtype.base_dtype, name="sync_rep_local_step")
        task = DeviceSpecV2.from_string(anchor.device)
        self._worker = f"/job:{task.job}/task:{task.task or 0}" if task.job else "/job:worker/task:0"
        self.local_step_init_op = assign(self._local_step, global_step)
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())

    @contextlib.contextmanager
    def _beside_global_step(self) -> Any:
        with device(self._global_step.device), name_scope(""):
            yield

    def _aggregate(self, pairs: list) -> tuple[list, list]:
        """The ops that add gradients to the accumulators, and the means that these return, with their variables."""
        added, means = [], []
        for grad, var in pairs:
            if grad is None:
                means.append((None, var))
                continue
            with device(var.device):
                add, mean, accumulator = self._accumulate(grad, var)
            self._accumulators.append((accumulator, var.device))
            added.append(add)
            means.append((mean, var))
        return added, means

    def _accumulate(self, grad: Any, var: Any) -> tuple:
        shared, count = var.name + "/grad_accum", self._replicas_to_aggregate
        once = self._total_num_replicas >= count         # else workers have to add several gradients to a step
        with context.current_graph()._attr_scope({WORKER: self._worker, **({ONCE: True} if once else {})}):
            if isinstance(grad, Tensor):
                dense = ConditionalAccumulator(grad.dtype, shape=var.get_shape(), shared_name=shared)
                return dense.apply_grad(grad, self._local_step), dense.take_grad(count), dense
            if isinstance(grad, IndexedSlices):
                sparse = SparseConditionalAccumulator(grad.dtype, shape=(), shared_name=shared)
                return sparse.apply_indexed_slices_grad(grad, self._local_step), sparse.take_indexed_slices_grad(count), sparse
        raise ValueError("Unknown grad type!")

    def _make_tokens(self, added: list, update: Any, global_step: Any) -> Any:
        """The op that takes a token when gradients were added; the chief's thread that issues tokens when they were applied."""
        queue = FIFOQueue(-1, global_step.dtype.base_dtype, shapes=(), name="sync_token_q", shared_name="sync_token_q")
        # The runner closes its queue when it ends: it must not be the one that outlives the session.
        dummy = FIFOQueue(1, dtypes.int32, shapes=(), name="dummy_queue", shared_name="dummy_queue")
        with control_dependencies(added):
            # A worker contributes one gradient to a step, unless there are fewer workers than gradients.
            token = get("SyncTokensTake")(queue.queue_ref, self._local_step) \
                if self._total_num_replicas >= self._replicas_to_aggregate else queue.dequeue()
        train_op = assign(self._local_step, token)
        with control_dependencies([update]):
            now = global_step.read_value() if hasattr(global_step, "read_value") else identity(global_step)
            tokens = fill([self._tokens_per_step], now)
            sync_op = get("SyncTokensPut")(queue.queue_ref, tokens)
        if self._variable_averages is not None:
            with control_dependencies([sync_op]):
                sync_op = self._variable_averages.apply(self._variables_to_average)
        cancels = [dummy.close(cancel_pending_enqueues=True)]
        for accumulator, place in self._accumulators:
            with device(place):
                cancels.append(accumulator._interrupt())
        self._sync_token_queue = queue
        self._chief_queue_runner = QueueRunner(dummy, [sync_op], cancel_op=group(*cancels))
        return train_op

    def _make_members(self, global_step: Any) -> None:
        """The ops for the beginning and end of a session."""
        steps, begins, ends = [], [], []
        for accumulator, place in self._accumulators:
            with device(place):
                steps.append(accumulator.set_global_step(global_step, name="SetGlobalStep"))
                begins.append(accumulator._meet(self._worker, self._total_num_replicas, True))
                ends.append(accumulator._meet(self._worker, self._total_num_replicas, False))
        self.chief_init_op = group(self.local_step_init_op, *steps)
        self._begin_op, self._end_op = group(*begins), group(*ends)
        with device(self._accumulators[0][1]):
            self._tallies = self._accumulators[0][0]._tallies()

    # -- for the chief, and for inspection -----------------------------------------------------------------------------
    def get_chief_queue_runner(self) -> QueueRunner:
        """The thread of the chief: it takes means, applies them, and issues tokens."""
        if not self._gradients_applied:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """An op that puts the first tokens into the queue, for the chief to run when it begins."""
        if not self._gradients_applied:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} (needed)")
        if num_tokens <= 0:
            return get("NoOp")(name="no_init_tokens")
        with self._beside_global_step():
            return self._sync_token_queue.enqueue_many((fill([num_tokens], self._global_step),))

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """The hook that a MonitoredSession needs; it may be made before the gradients are."""
        return SyncReplicasHook(self, is_chief, num_tokens)

    def gradient_counts(self, session: Any) -> dict[str, dict[str, int]]:
        """How many gradients of each worker were applied, and how many came too late and were dropped.

        >>> opt.gradient_counts(sess)
        {'/job:worker/task:0': {'applied': 120, 'stale': 3, 'dropped': 3}}
        """
        workers, counts = session.run(self._tallies)
        return {worker.decode(): {"applied": int(applied), "stale": int(stale), "dropped": int(stale)}
                for worker, (applied, stale, _) in zip(workers, counts, strict=True)}


class SyncReplicasHook(SessionRunHook):
    """Starts and ends the participation of a worker in synchronous training."""

    ends_first = True                       # before the last checkpoint is written: others may continue for a while

    def __init__(self, sync_optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int):
        self._sync_optimizer, self._is_chief, self._num_tokens = sync_optimizer, is_chief, num_tokens
        self._longest = 0.0                                      # seconds between two steps
        self._last: float | None = None                          # when the last one ended
        self._local_init_op: Any = None

    def begin(self) -> None:
        """Finds the ops."""
        opt = self._sync_optimizer
        if not opt._gradients_applied:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
        self._local_init_op = opt.chief_init_op if self._is_chief else opt.local_step_init_op
        if self._is_chief:
            self._init_tokens_op = opt.get_init_tokens_op(self._num_tokens)
            self._new_tokens_op = opt.get_init_tokens_op(max(self._num_tokens, opt._replicas_to_aggregate))
            self._last_tokens_op = opt.get_init_tokens_op(max(opt._total_num_replicas, opt._replicas_to_aggregate))

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Initializes the worker's step, and starts the chief's thread."""
        opt = self._sync_optimizer
        ready, why = is_ready(opt.ready_for_local_init_op, session, "Model is not ready for SyncReplicasOptimizer local init.")
        if not ready:
            raise RuntimeError("Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: "
                               f"{self._local_init_op.name}, error: {why}")
        (_, counts), step = session.run([opt._tallies, opt._global_step])
        session.run([self._local_init_op, opt._begin_op])
        if self._is_chief:
            # After a restart, workers may have lost gradients to accumulators that were not at the restored step yet, or wait
            # for the step after one that is undone: every worker may start the restored step again.
            begins = step == 0 and not counts[:, :2].any()
            session.run(self._init_tokens_op if begins else self._new_tokens_op)
            opt.get_chief_queue_runner().create_threads(session, coord=coord, daemon=True, start=True)
        self._last = None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Measures the duration of steps."""
        now = time.monotonic()
        if self._last is not None:
            self._longest = max(self._longest, now - self._last)
        self._last = now

    def end(self, session: Any) -> None:
        """Tells the others not to wait for this worker. The chief continues for them.

        A worker that joins later would wait for a step that never ends, because the chief is gone: a token is left for each
        worker, so that it finishes its step and reads the global step.
        """
        with contextlib.suppress(errors.OpError):                # a lost task does not wait
            session.run(self._sync_optimizer._end_op)
            if self._is_chief:
                self._wait_for_others(session)
                session.run(self._last_tokens_op)

    def _wait_for_others(self, session: Any) -> None:
        """Waits until all others have ended, or no step was taken for a while."""
        opt = self._sync_optimizer
        patience, last, since = max(PATIENCE, 5 * self._longest), None, time.monotonic()
        while time.monotonic() - since < patience:
            (_, counts), step = session.run([opt._tallies, opt._global_step])
            if not counts[:, 2].any():
                return
            if step != last:
                last, since = step, time.monotonic()
            time.sleep(0.05)
        tf_logging.warning("Some workers have not ended, and made no step for %d s. The chief ends without them.", patience)

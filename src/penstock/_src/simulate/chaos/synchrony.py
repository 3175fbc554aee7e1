"""Synchronous training with a backup worker, while messages are late, and workers and the chief crash and come back.

The graph is that of the real SyncReplicasOptimizer, and its kernels are called: accumulators, tokens, steps. Each worker's
gradient has a number at the worker's index and zeros elsewhere, so that an update shows which gradients are in its mean.
Invariants: an update has the gradients of as many workers as it needs, and of none twice; the global step counts the updates;
an acknowledged update is not lost while the servers live; after the last fault, updates continue.
"""
from __future__ import annotations

import functools
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.cluster.peers import task_name
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.simulate.chaos.choices import Choices, check
from penstock._src.simulate.chaos.steps import CALM, ChaosWire
from penstock._src.simulate.cluster import Cluster, MasterRun, Task
from penstock._src.simulate.machines import Machine, Machines
from penstock._src.simulate.plan import Costs, SimulatedDevice, StepCode, compile_step

WORKERS, NEEDED, UPDATES = 4, 3, 6
_SCALE = 12                          # so that a mean of up to four gradients is exact


class _Codes:
    """The programs of the tasks, compiled once."""

    def __init__(self) -> None:
        own, server = task_name("worker", 0), task_name("ps", 0)
        devices = DeviceSet([SimulatedDevice(t, Machine()) for t in (own, server)])
        setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
        with tf.Graph().as_default(), tf.device(setter):
            step = tf.train.get_or_create_global_step()
            total = tf.get_variable("total", [WORKERS], tf.int64, tf.zeros_initializer(), use_resource=False)
            with tf.device("/job:worker/task:0"):
                me = tf.get_local_variable("me", [WORKERS], tf.int64, tf.zeros_initializer(), use_resource=False)
                gradient = tf.identity(me)
            opt = tf.train.SyncReplicasOptimizer(_Adding(), NEEDED, WORKERS)
            train = opt.apply_gradients([(gradient, total)], step)
            again = opt.get_init_tokens_op()

            def compiled(*what: Any) -> StepCode:
                return compile_step(what, [], devices, own, Costs())
            self.step, self.chief = compiled(train.op), compiled(*opt.get_chief_queue_runner().enqueue_ops)
            self.first = [compiled(step.initializer, total.initializer), compiled(opt.chief_init_op), compiled(again)]
            self.chief_again = [compiled(opt.chief_init_op), compiled(again)]
            self.join = [[compiled(me.assign([_SCALE * (i == w) for i in range(WORKERS)]).op),
                          compiled(opt.local_step_init_op.op)] for w in range(WORKERS)]
            self.total, self.global_step = total.op, step.op


class _Adding(tf.train.Optimizer):
    """Adds gradients to integers."""

    def __init__(self) -> None:
        super().__init__(False, "adding")

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return tf.assign_add(var, grad).op

    def _valid_dtypes(self) -> set:
        return {tf.int64}


@functools.cache
def _codes() -> _Codes:
    return _Codes()


class World:
    """One run."""

    def __init__(self, choices: Choices):
        self.choices, self.codes = choices, _codes()
        self.cluster = Cluster({"ps": 1, "worker": WORKERS}, Machines(), wire=ChaosWire)
        self.clock, wire = self.cluster.clock, self.cluster.wire
        wire.tasks = {t.host: t for t in self.cluster.tasks.values()}
        wire.choices = Choices(given=())             # no faults during set-up
        self.server, self.workers = self.cluster.job("ps")[0], self.cluster.job("worker")
        self.updates, self.seen, self.faults = 0, [0] * WORKERS, 0

    def run(self) -> None:
        """Set-up, faults, then a period without faults in which updates must continue."""
        for code in self.codes.first:
            self._must(self.workers[0], code)
        for i, task in enumerate(self.workers):
            for code in self.codes.join[i]:
                self._must(task, code)
        self.cluster.wire.choices = self.choices
        self.faults = self.choices.choose(4)
        for _ in range(self.faults):
            self.clock.after(self.choices.choose(200) / 100, self._fault)
        for task in self.workers:
            self._step(task)
        self._update()
        self.clock.run(until=lambda: not self._goes_on(), limit=4 * CALM)
        check(self.updates >= UPDATES, f"{self.updates} updates were made, and no more in the calm")

    def _must(self, task: Task, code: StepCode) -> None:
        ended: list[Any] = []
        MasterRun(task, code, ended.append).start()
        self.clock.run(until=lambda: bool(ended))
        check(ended == [None], f"set-up has failed: {ended}")

    # -- the workers and the chief ------------------------------------------------------------------------------------
    def _step(self, task: Task) -> None:
        life = task.life

        def ended(error: BaseException | None) -> None:
            if task.life == life and error is None and self._goes_on():
                self._step(task)
        MasterRun(task, self.codes.step, ended).start()

    def _update(self) -> None:
        chief, life = self.workers[0], self.workers[0].life

        def ended(error: BaseException | None) -> None:
            if chief.life == life and error is None:
                self._look()
                if self._goes_on():
                    self._update()
        MasterRun(chief, self.codes.chief, ended).start()

    def _goes_on(self) -> bool:
        return self.updates < UPDATES or self.faults > 0

    def _look(self) -> None:
        """Checks the update that was acknowledged, and those before it whose acknowledgement was lost."""
        total = [int(n) for n in self._read(self.codes.total)]
        step = int(self._read(self.codes.global_step))
        new = [b - a for a, b in zip(self.seen, total, strict=True)]
        made = step - self.updates
        check(made >= 1, f"an update was acknowledged and is lost: the global step is {step} after {self.updates} updates")
        check(sum(new) == made * _SCALE, f"the gradients of {made} updates add up to {new}")
        check(max(new) <= made * _SCALE // NEEDED, f"a gradient was applied twice in {made} updates: {new}")
        self.updates, self.seen = step, total

    def _read(self, op: Any) -> Any:
        found = next(v for k, v in self.server.resources.items() if k[1] == op.name)
        return found.read() if hasattr(found, "read") else found.value

    # -- faults -------------------------------------------------------------------------------------------------------
    def _fault(self) -> None:
        task = self.workers[self.choices.choose(WORKERS)]
        if not self.choices.choose(3) or not task.alive:
            self.faults -= 1
        else:
            task.crash()
            self.clock.after(0.1 + self.choices.choose(40) / 10, self._restart, task)

    def _restart(self, task: Task) -> None:
        """A worker comes back; the chief sets the accumulators and issues tokens, as its hook does after a restart."""
        self.faults -= 1
        task.restart()
        stages = list(self.codes.join[self.workers.index(task)])
        if task is self.workers[0]:
            stages += self.codes.chief_again
        self._stage(task, stages, task.life)

    def _stage(self, task: Task, stages: list[StepCode], life: int) -> None:
        if task.life != life:
            return
        if not stages:
            self._step(task)
            if task is self.workers[0]:
                self._update()
            return

        def ended(error: BaseException | None) -> None:
            if error is None:
                self._stage(task, stages[1:], life)
        MasterRun(task, stages[0], ended).start()


def world(choices: Choices) -> None:
    """One schedule."""
    World(choices).run()

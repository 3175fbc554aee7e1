"""The state of a distributed step, without sockets, threads or waiting."""

import ast
import pathlib
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from penstock._src.base import errors
from penstock._src.cluster import step_state
from penstock._src.cluster.step_state import (
    END_SECONDS,
    ORPHANED,
    REMEMBERED,
    Abort,
    Begin,
    Cancel,
    CancelOwn,
    Deliver,
    EndBy,
    Finish,
    MasterStep,
    StepPlan,
    WorkerSteps,
    restarted,
)

A, B, C = (f"/job:worker/replica:0/task:{i}" for i in range(3))


def _unavailable(text="the connection was closed"):
    return errors.UnavailableError(None, None, text)


def _begun(step):
    for task, in step.start():
        assert step.begins(task)
    return step


def _only(actions, kind):
    return [a for a in actions if type(a) is kind]


def test_the_module_needs_no_sockets_threads_or_clocks():
    """What a simulator runs must not reach the machine around it."""
    tree = ast.parse(pathlib.Path(step_state.__file__).read_text())
    imported = {getattr(n, "module", None) or n.names[0].name for n in ast.walk(tree)
                if isinstance(n, (ast.Import, ast.ImportFrom))}
    assert imported == {"__future__", "collections.abc", "typing", "penstock._src.base"}


# -- the master's side ----------------------------------------------------------------------------------------------------
def test_two_tasks_that_lose_their_connection_fail_a_step_that_one_of_them_is_in():
    step = _begun(MasterStep(1, StepPlan({A: [0], B: []}, None, 1)))
    assert step.part_done(B, 1, []) == ()
    assert step.parted(B, C, "reset") == () and step.error is None          # the step does not use C
    actions = step.parted(B, A, "reset")
    assert [a.task for a in _only(actions, Abort)] == [A] and A in step.error.message and B in step.error.message
    (finish,) = step.part_failed(A, 1, _unavailable())
    assert finish.error is step.error
    assert step.parted(B, A, "again") == ()


def test_values_of_all_parts_come_together():
    step = MasterStep(7, StepPlan({A: [2], B: [0]}, [1], 3))
    assert step.start() == (Begin(A), Begin(B))
    assert step.begins(A) and step.begins(B)
    assert step.waits_for == [A, B]
    assert step.tensor(7, ["k"], [1.0]) == (Deliver(["k"], [1.0]),)
    assert step.part_done(A, 7, ["a"]) == ()
    assert step.part_done(B, 7, ["b"], ["l"], [2.0]) == (Deliver(["l"], [2.0]),)
    assert step.own_done(["own"]) == (Finish(("b", "own", "a"), None, frozenset()),)
    assert step.ended


def test_an_error_of_a_part_aborts_the_others_and_waits_for_them():
    step = _begun(MasterStep(1, StepPlan({A: [0], B: [], C: []}, None, 1)))
    error = errors.InvalidArgumentError(None, None, "wrong")
    actions = step.part_failed(B, 1, error)
    assert [a.task for a in _only(actions, Abort)] == [A, C] and _only(actions, EndBy) == [EndBy(END_SECONDS)]
    assert all("wrong" in a.why for a in _only(actions, Abort))
    assert step.part_failed(A, 1, _unavailable()) == ()             # a later error
    assert step.part_done(C, 1, []) == (Finish((), error, frozenset()),)


def test_tasks_that_do_not_end_their_parts_lose_their_connections():
    step = _begun(MasterStep(1, StepPlan({A: [], B: []}, None, 0)))
    step.part_failed(A, 1, errors.InternalError(None, None, "wrong"))
    (finish,) = step.time_is_up()
    assert finish.dropped == {B} and isinstance(finish.error, errors.InternalError)


def test_the_own_part_ends_before_the_step_does():
    step = _begun(MasterStep(1, StepPlan({A: []}, [], 0)))
    error = _unavailable()
    actions = step.task_lost(A, error)
    assert [type(a) for a in actions] == [CancelOwn]
    assert step.time_is_up() == () and not step.ended
    (finish,) = step.own_failed(errors.CancelledError(None, None, "cancelled"))
    assert A in finish.error.message and finish.dropped == {A}


def test_a_part_that_has_not_begun_does_not_begin_after_an_error():
    step = MasterStep(1, StepPlan({A: [], B: []}, [], 0))
    assert step.start() and step.begins(A)
    assert [a.task for a in _only(step.cancelled(errors.CancelledError(None, None, "no")), Abort)] == [A]
    assert not step.begins(B)
    assert step.own_done([]) == (EndBy(END_SECONDS),)
    assert _only(step.part_done(A, 1, []), Finish)[0].dropped == frozenset()


@pytest.mark.parametrize("why, kind", [(_unavailable(), errors.UnavailableError), (restarted(A), errors.AbortedError),
                                       (_unavailable(f"The task {A} is lost: silent"), errors.UnavailableError)])
def test_a_lost_task_is_named(why, kind):
    step = _begun(MasterStep(1, StepPlan({A: [0]}, None, 1)))
    (finish,) = step.task_lost(A, why)
    assert type(finish.error) is kind and finish.error.message.count(A) == 1


def test_a_task_that_is_lost_after_its_answer_ends_the_step():
    """Its values may still be on the way."""
    step = _begun(MasterStep(1, StepPlan({A: [0], B: []}, None, 1)))
    step.part_done(A, 1, [1.0])
    assert [a.task for a in _only(step.task_lost(A, _unavailable()), Abort)] == [B]


def test_a_deadline_names_the_tasks_that_have_not_ended():
    step = _begun(MasterStep(1, StepPlan({A: [], B: []}, None, 0)))
    step.part_done(A, 1, [])
    step.deadline_passed()
    assert isinstance(step.error, errors.DeadlineExceededError) and B in str(step.error) and A not in str(step.error)


def test_an_error_of_python_aborts_too():
    step = _begun(MasterStep(1, StepPlan({A: []}, [], 0)))
    actions = step.own_failed(ZeroDivisionError("by zero"))
    assert [type(a) for a in actions] == [Abort, CancelOwn, EndBy] and isinstance(actions[1].error, errors.AbortedError)
    (finish,) = step.part_failed(A, 1, errors.AbortedError(None, None, "aborted"))
    assert isinstance(finish.error, ZeroDivisionError)


def test_messages_of_other_steps_change_nothing():
    step = _begun(MasterStep(5, StepPlan({A: [0]}, [], 1)))
    assert step.tensor(4, ["k"], [1]) == step.part_done(A, 4, [1]) == step.part_failed(A, 4, _unavailable()) == ()
    assert step.waits_for == [A] and step.error is None


class MasterRules(RuleBasedStateMachine):
    """A master's step under any order of events."""

    @initialize(others=st.integers(1, 4), own=st.booleans())
    def make(self, others, own):
        self.names = [f"/job:worker/replica:0/task:{i}" for i in range(others)]
        self.step = MasterStep(3, StepPlan({t: [i] for i, t in enumerate(self.names)}, [others] if own else None, others + own))
        self.finished, self.aborted, self.timers, self.cancels = [], [], 0, 0
        self.begun, self.answered, self.lost, self.first, self.own_runs = set(), set(), set(), None, own
        self.open = [t for t, in self.step.start()]

    def carry_out(self, actions, error=None):
        if error is not None and self.first is None and not self.finished:
            self.first = error
        for action in actions:
            assert not self.finished, "an action follows the end"
            if isinstance(action, Finish):
                self.finished.append(action)
            elif isinstance(action, Abort):
                self.aborted.append(action.task)
            elif isinstance(action, EndBy):
                self.timers += 1
            elif isinstance(action, CancelOwn):
                assert self.own_runs
                self.cancels += 1
            else:
                assert self.own_runs and self.first is None

    def name(self, i):
        return self.names[i % len(self.names)]

    @rule(i=st.integers(0, 3))
    def begins(self, i):
        task = self.name(i)
        if task in self.open:
            self.open.remove(task)
            assert self.step.begins(task) == (self.first is None)
            if self.first is None:
                self.begun.add(task)

    @rule(i=st.integers(0, 3), number=st.sampled_from([3, 3, 3, 2]))
    def done(self, i, number):
        task = self.name(i)
        before = set(self.answered)
        if number == 3 and task in self.begun and task not in self.lost:
            self.answered.add(task)
        actions = self.step.part_done(task, number, [task], ["key"], ["sent"])
        assert task not in before or not actions
        self.carry_out(actions)

    @rule(i=st.integers(0, 3), number=st.sampled_from([3, 3, 2]))
    def failed(self, i, number):
        task, error = self.name(i), errors.InternalError(None, None, "wrong")
        counts = number == 3 and task in self.begun and task not in self.answered | self.lost
        if counts:
            self.answered.add(task)
        self.carry_out(self.step.part_failed(task, number, error), error if counts else None)

    @rule(i=st.integers(0, 3), again=st.booleans())
    def loses(self, i, again):
        task = self.name(i)
        fails = self.first is None and not self.finished
        if not self.finished:
            self.lost.add(task)
        self.carry_out(self.step.task_lost(task, restarted(task) if again else _unavailable()), "lost")
        if fails:
            assert task in self.step.error.message

    @rule(number=st.sampled_from([3, 2]))
    def tensor(self, number):
        self.carry_out(self.step.tensor(number, ["key"], [1]))

    @precondition(lambda self: self.own_runs)
    @rule(error=st.none() | st.just(errors.NotFoundError(None, None, "own")))
    def own_ends(self, error):
        actions = self.step.own_done(["own"]) if error is None else self.step.own_failed(error)
        self.carry_out(actions, error)
        self.own_runs = False

    @rule(deadline=st.booleans())
    def ends_from_outside(self, deadline):
        error = errors.CancelledError(None, None, "cancelled")
        self.carry_out(self.step.deadline_passed() if deadline else self.step.cancelled(error), error)

    @precondition(lambda self: self.timers)
    @rule()
    def time(self):
        self.carry_out(self.step.time_is_up())
        assert self.finished

    @invariant()
    def ends_once_and_keeps_nothing(self):
        step = self.step
        assert len(self.finished) <= 1 and step.ended == bool(self.finished)
        assert len(self.aborted) == len(set(self.aborted)) and self.timers <= 1 and self.cancels <= 1
        if self.finished:
            (finish,) = self.finished
            assert not self.own_runs and (finish.error is None) == (self.first is None)
            assert not any((step._pending, step._results, step._begun, step._lost, step._plan.fetches))
            if finish.error is None:
                assert self.answered == set(self.names) and list(finish.values)[:len(self.names)] == self.names
            assert finish.dropped >= self.lost & set(self.names)

    @invariant()
    def the_others_are_told(self):
        if self.first is not None:
            silent = self.begun - self.answered - self.lost
            assert silent <= set(self.aborted) <= self.begun
            assert self.finished or self.own_runs or silent, "a failed step waits for no part, and has not ended"
            assert not silent or self.own_runs or self.timers, "a failed step waits without a limit"

    def teardown(self):
        """Whatever has happened, a step ends when its parts and its time do."""
        if not hasattr(self, "step"):
            return
        if self.own_runs:
            self.own_ends(errors.NotFoundError(None, None, "own"))
        if not self.finished:
            self.ends_from_outside(False)
        if not self.finished:
            self.time()
        self.ends_once_and_keeps_nothing()


def test_any_order_of_events_ends_a_step_once():
    run_state_machine_as_test(MasterRules, settings=settings(max_examples=300, stateful_step_count=20, deadline=None))


# -- the worker's side ----------------------------------------------------------------------------------------------------
def test_values_wait_for_their_step():
    steps = WorkerSteps(0.0)
    assert steps.tensor("m:1", ["k"], [1]) == ()
    assert list(steps.begin("m:1", ("m", 1))) == [Deliver(["k"], [1])]
    assert steps.tensor("m:1", ["l"], [2]) == (Deliver(["l"], [2]),)
    steps.end("m:1")
    assert not len(steps) and steps.tensor("m:1", ["late"], [3]) == () and not len(steps)


def test_an_abort_that_comes_first_keeps_the_step_from_beginning():
    steps = WorkerSteps(0.0)
    steps.tensor("m:1", ["k"], [1])
    assert steps.abort("m:1", _unavailable()) == () and not len(steps)
    with pytest.raises(errors.AbortedError, match="before it began"):
        steps.begin("m:1", ("m", 1))


def test_a_step_is_cancelled_once_and_takes_no_values_afterwards():
    steps, error = WorkerSteps(0.0), _unavailable()
    steps.begin("m:1", ("m", 1))
    assert steps.abort("m:1", error) == (Cancel("m:1", error),)
    assert steps.abort("m:1", error) == steps.tensor("m:1", ["k"], [1]) == () == tuple(steps.abort_all(error))


def test_the_steps_of_a_lost_master_end_and_no_others():
    steps, error = WorkerSteps(0.0), _unavailable()
    for step, master in (("m:1", ("m", 1)), ("m:2", ("m", 2)), ("n:1", ("n", 1)), ("own:1", None)):
        steps.begin(step, master)
    assert steps.master_lost(("m", 1), error) == [Cancel("m:1", error)]
    assert [a.step for a in steps.abort_all(error)] == ["m:2", "n:1", "own:1"]


def test_values_of_a_step_that_never_begins_are_dropped_in_time():
    steps = WorkerSteps(100.0)
    steps.tensor("m:1", ["k"], [1])
    steps.tick(100.0 + ORPHANED)
    assert len(steps) == 1
    steps.tensor("m:2", ["k"], [1])
    steps.tick(100.1 + ORPHANED)
    assert len(steps) == 1
    steps.tick(100.2 + 2 * ORPHANED)
    assert not len(steps)


def test_what_is_kept_is_bounded():
    steps = WorkerSteps(0.0)
    for i in range(3 * REMEMBERED):
        steps.tensor(f"m:{i}", ["k"], [1])
    assert len(steps) == REMEMBERED and len(steps._over | steps._over_before) <= 2 * REMEMBERED


# -- both together --------------------------------------------------------------------------------------------------------
class _Cluster:
    """A master and its workers, over a wire that delivers in any order, and loses tasks."""

    def __init__(self, draw, others):
        self.draw, self.tasks = draw, [f"/job:worker/replica:0/task:{i}" for i in range(others)]
        self.workers = {t: WorkerSteps(0.0) for t in self.tasks}
        self.dead, self.wire = set(), []

    def step(self, number):
        """Runs one step to its end; what goes wrong is drawn."""
        draw, name = self.draw, f"master:{number}"
        state = MasterStep(number, StepPlan({t: [i] for i, t in enumerate(self.tasks)}, [], len(self.tasks)))
        own, out, timer = True, [], False

        def act(actions):
            nonlocal timer
            for action in actions:
                if isinstance(action, Abort):
                    self.wire.append((action.task, "abort", name))
                elif isinstance(action, EndBy):
                    timer = True
                elif isinstance(action, Finish):
                    out.append(action)
        for task, in state.start():
            if state.begins(task):
                self.wire.append((task, "run", name))
            if draw.random() < 0.1:
                act(state.cancelled(errors.CancelledError(None, None, "drawn")))
            for other in self.tasks:
                self.wire.append((other, "tensor", name))
        for _ in range(10_000):
            if out:
                break
            what = draw.random()
            if self.wire and what < 0.8:
                self.deliver(state, act, *self.wire.pop(draw.randrange(len(self.wire))))
            elif own and what < 0.9:
                own = False
                act(state.own_done([]) if draw.random() < 0.9 else state.own_failed(errors.InternalError(None, None, "own")))
            elif what < 0.92:
                self.lose(draw.choice(self.tasks), state, act)
            elif timer and not self.wire:
                act(state.time_is_up())
            elif not self.wire and not own and not timer:
                act(state.deadline_passed())
        (finish,) = out
        return finish

    def lose(self, task, state, act):
        if task not in self.dead:
            self.dead.add(task)
            self.workers[task] = WorkerSteps(0.0)               # it comes back with nothing
            self.wire = [m for m in self.wire if m[0] != task]
            act(state.task_lost(task, _unavailable()))

    def close(self, tasks, name):
        """The connections of a step to some tasks end, and with them what its worker runs of it."""
        self.wire = [m for m in self.wire if m[0] not in tasks or m[2] != name]
        for task in tasks:
            self.workers[task].abort(name, _unavailable())
            self.workers[task].end(name)

    def deliver(self, state, act, task, what, name):
        worker = self.workers[task]
        if task in self.dead:
            return
        if what == "tensor":
            worker.tensor(name, ["k"], [1])
        elif what == "abort":
            for cancel in worker.abort(name, _unavailable("aborted")):
                self.wire.append((task, "cancelled", cancel.step))
        elif what == "run":
            try:
                worker.begin(name, ("master", 1))
            except errors.AbortedError as e:
                act(state.part_failed(task, int(name.partition(":")[2]), e))
                return
            if self.draw.random() < 0.8:                        # others wait for something that never comes
                self.wire.append((task, "ends", name))
        elif what in ("ends", "cancelled") and name in worker.running:
            worker.end(name)
            number = int(name.partition(":")[2])
            failed = what == "cancelled" or self.draw.random() < 0.1
            act(state.part_failed(task, number, _unavailable("part")) if failed else state.part_done(task, number, [task]))


@pytest.mark.parametrize("seed", range(100))
def test_steps_over_a_simulated_wire(seed):
    """Steps in sequence: each ends once, as its parts did, and late messages of one do not disturb the next."""
    draw = random.Random(seed)
    cluster = _Cluster(draw, draw.randint(1, 4))
    for number in range(1, 11):
        cluster.dead.clear()
        finish = cluster.step(number)
        assert finish.error is not None or list(finish.values) == cluster.tasks
        cluster.close(finish.dropped, f"master:{number}")
        assert not any(w.running for w in cluster.workers.values())
    late = MasterStep(11, StepPlan({}, None, 0))
    for message in cluster.wire:
        cluster.deliver(late, lambda actions: None, *message)
    for worker in cluster.workers.values():
        assert not worker.running
        worker.tick(2 * ORPHANED)                               # values of steps that a restarted task did not begin
        assert not len(worker)

"""The state of a distributed step, without input or output: events come in, actions go out.

There are no sockets, threads, clocks or waits here. `MasterStep` is one run of a step as its master sees it; `WorkerSteps` is
the table of all steps that have a part at one task. Each event is a method that returns the actions to carry out, in order.
Time comes in as events too. The drivers are `task_step.py` for masters and `worker.py` for workers; both call with a lock held
and act after releasing it. A simulator drives the same classes over a simulated clock and wire.

What a master guarantees:

- A step ends once, with values if all of its parts have ended well, else with its first error.
- After the first error no further part begins. Each task whose part has begun, and has not ended, gets one abort.
- A step fails when one of its tasks is lost, or when two of them have lost their connection while one of them is in it.
- A failed step waits for the ends of its parts, so that the next step finds every task idle, but no longer than END_SECONDS.
  The connections of tasks that have not answered by then are dropped: they may still carry messages of this step.
- Events after the end, and messages of other steps, are ignored.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock._src.base import errors

END_SECONDS = 10.0                  # that the parts of a failed step have to end
ORPHANED = 60.0                     # seconds that values are kept for a step which does not begin
REMEMBERED = 4096                   # ended steps, at least, whose late messages are recognized


# -- actions --------------------------------------------------------------------------------------------------------------
class Begin(NamedTuple):
    """Send a task its part. The driver may delay the message until it has values to send with it."""
    task: str


class Deliver(NamedTuple):
    """Values for ops of this task, from another one."""
    keys: Sequence[Any]
    values: Sequence[Any]


class CancelOwn(NamedTuple):
    """Cancel the part of this task: the step has failed."""
    error: errors.OpError


class Abort(NamedTuple):
    """Abort the part of a task."""
    task: str
    why: str


class EndBy(NamedTuple):
    """Call `time_is_up` after so many seconds."""
    seconds: float


class Finish(NamedTuple):
    """The step has ended. The connections to `dropped` must not be used again."""
    values: tuple
    error: BaseException | None
    dropped: frozenset[str]


Action = Deliver | CancelOwn | Abort | EndBy | Finish
Actions = Sequence[Action]
NOTHING: Actions = ()


# -- errors ---------------------------------------------------------------------------------------------------------------
def restarted(task: str) -> errors.OpError:
    """The error of a session one of whose tasks was restarted."""
    return errors.AbortedError(None, None, f"The task {task} was restarted: its state is lost. Create a new session.")


def lost(task: str, why: errors.OpError) -> errors.OpError:
    """The error of a step that has lost a task; it names the task."""
    kind: Any = errors.exception_type_from_error_code(why.error_code)
    return why if task in why.message else kind(None, None, f"The task {task} is lost: {why.message}")


def _aborted(error: BaseException) -> errors.OpError:
    return error if isinstance(error, errors.OpError) else errors.AbortedError(None, None, f"The step has failed: {error!r}")


# -- the master's side ----------------------------------------------------------------------------------------------------
class StepPlan:
    """What all runs of a step have in common. `fetches` has, for each other task, the positions of the values that it returns;
    `own` those of this task's part, or None if it has none; `size` is the number of all."""

    __slots__ = ("fetches", "own", "size", "begin")

    def __init__(self, fetches: dict[str, Sequence[int]], own: Sequence[int] | None, size: int):
        self.fetches, self.own, self.size = fetches, own, size
        self.begin = tuple(Begin(task) for task in fetches)


class MasterStep:
    """One run of a step."""

    __slots__ = ("number", "error", "ended", "_plan", "_own_runs", "_pending", "_begun", "_results", "_lost")

    def __init__(self, number: int, plan: StepPlan):
        self.number, self._plan = number, plan
        self.error: BaseException | None = None
        self.ended = False
        self._own_runs = plan.own is not None
        self._pending = set(plan.fetches)            # tasks that have not ended their parts
        self._begun: set[str] = set()
        self._lost: set[str] = set()
        self._results: list[Any] = [None] * plan.size

    @property
    def waits_for(self) -> list[str]:
        """The tasks whose parts have not ended."""
        return sorted(self._pending)

    def start(self) -> Sequence[Begin]:
        """The step begins."""
        return self._plan.begin if self.error is None else ()

    def begins(self, task: str) -> bool:
        """A part is about to be sent; whether it should be. It should not after an error."""
        if self.ended or self.error is not None:
            return False
        self._begun.add(task)
        return True

    # -- what parts report ------------------------------------------------------------------------------------------------
    def tensor(self, number: int, keys: Sequence[Any], values: Sequence[Any]) -> Actions:
        """A task has sent values for ops of this one."""
        if number != self.number or not self._own_runs or self.error is not None:
            return NOTHING
        return (Deliver(keys, values),)

    def part_done(self, task: str, number: int, values: Sequence[Any], keys: Sequence[Any] = (),
                  sent: Sequence[Any] = ()) -> Actions:
        """A task has ended its part; it may have sent values for ops of this one along."""
        if number != self.number or task not in self._pending or task not in self._begun:
            return NOTHING
        self._pending.discard(task)
        if self.error is None:
            self._put(self._plan.fetches[task], values)
            if sent and self._own_runs:
                return (Deliver(keys, sent),)
        return self._if_over()

    def part_failed(self, task: str, number: int, error: errors.OpError) -> Actions:
        """The part of a task has ended with an error."""
        if number != self.number or task not in self._pending or task not in self._begun:
            return NOTHING
        self._pending.discard(task)
        return self.fail(error)

    def task_lost(self, task: str, why: errors.OpError) -> Actions:
        """The connection to a task has ended, or the task was restarted (`restarted`)."""
        if task not in self._plan.fetches or self.ended:
            return NOTHING
        self._lost.add(task)
        self._pending.discard(task)
        return self.fail(lost(task, why))

    def parted(self, task: str, other: str, why: str) -> Actions:
        """The connection between two other tasks has ended: what one had sent to the other may be lost. They still may have
        connections to this task, and would wait."""
        plan = self._plan.fetches
        if task not in plan or other not in plan or not self._pending & {task, other}:
            return NOTHING
        return self.fail(errors.UnavailableError(None, None, f"The connection between {task} and {other} is lost: {why}"))

    def own_done(self, values: Sequence[Any]) -> Actions:
        """This task's part has ended."""
        if self.error is None and self._own_runs:
            self._put(self._plan.own or (), values)
            if self._pending:
                self._own_runs = False
                return NOTHING
        return self._own_over()

    def own_failed(self, error: BaseException) -> Actions:
        """This task's part has ended with an error, or did not begin."""
        failed = self.fail(error)
        return (*failed, *self._own_over())

    def _own_over(self) -> Actions:
        if not self._own_runs:
            return NOTHING
        self._own_runs = False
        if self.error is not None and self._pending:
            return (EndBy(END_SECONDS),)
        return self._if_over()

    def _put(self, positions: Sequence[int], values: Sequence[Any]) -> None:
        for i, position in enumerate(positions):
            self._results[position] = values[i]

    # -- what else can happen ---------------------------------------------------------------------------------------------
    def cancelled(self, error: errors.OpError) -> Actions:
        """The client, or the end of its session, has cancelled the step."""
        return self.fail(error)

    def deadline_passed(self) -> Actions:
        """The time of the step is up."""
        return self.fail(errors.DeadlineExceededError(
            None, None, "Timed out waiting for notification" +
            (f": the parts of a step on {', '.join(self.waits_for)} have not ended" if self._pending else "")))

    def fail(self, error: BaseException) -> Actions:
        """The first error ends the step everywhere; later ones are dropped."""
        if self.ended:
            return NOTHING
        if self.error is not None:
            return self._if_over()
        self.error = error
        self._pending &= self._begun                 # no other part will begin
        actions: list[Action] = [Abort(task, f"The step has failed on another task: {error}") for task in self.waits_for]
        if self._own_runs:
            actions.append(CancelOwn(_aborted(error)))
        elif self._pending:
            actions.append(EndBy(END_SECONDS))
        return (*actions, *self._if_over())

    def time_is_up(self) -> Actions:
        """Stops waiting for tasks that have not ended their parts of a failed step."""
        if self.ended or self.error is None or self._own_runs:
            return NOTHING
        self._lost |= self._pending
        self._pending.clear()
        return self._if_over()

    def _if_over(self) -> Actions:
        if self._pending or self._own_runs or self.ended:
            return NOTHING
        self.ended = True
        finish = Finish(tuple(self._results) if self.error is None else (), self.error,
                        frozenset(self._lost) if self._lost else _NO_TASKS)
        self._plan = _NO_PLAN
        self._results.clear()
        self._begun.clear()
        self._lost.clear()
        return (finish,)


_NO_PLAN = StepPlan({}, None, 0)     # of steps that have ended
_NO_TASKS: frozenset[str] = frozenset()


# -- the worker's side ----------------------------------------------------------------------------------------------------
class Cancel(NamedTuple):
    """Cancel what runs here of a step."""
    step: str
    error: errors.OpError


Master = tuple[str, int] | None      # task and incarnation of a step's master; None where that is this task


class WorkerSteps:
    """The steps that one task takes part in: those that run, values of those that have not begun, and late messages."""

    __slots__ = ("_running", "_aborted", "_early", "_over", "_over_before", "_now")

    def __init__(self, now: float) -> None:
        self._running: dict[str, Master] = {}
        self._aborted: set[str] = set()                                  # of those that run
        self._early: dict[str, tuple[float, list[Deliver]]] = {}         # values that came before their step, and when
        self._over: set[str] = set()                                     # the last steps to end or to be aborted,
        self._over_before: set[str] = set()                              # and those before them
        self._now = now

    @property
    def running(self) -> list[str]:
        """The steps that have begun and not ended."""
        return list(self._running)

    def __len__(self) -> int:
        return len(self._running) + len(self._early)

    def begin(self, step: str, master: Master) -> Sequence[Deliver]:
        """A part begins: returns the values that have come already. AbortedError if the step was aborted before."""
        if step in self._over or step in self._over_before:
            raise errors.AbortedError(None, None, "The step was aborted before it began.")
        self._running[step] = master
        early = self._early.pop(step, None)
        return early[1] if early is not None else ()

    def tensor(self, step: str, keys: Sequence[Any], values: Sequence[Any]) -> Sequence[Deliver]:
        """Another task has sent values. Those of a step that has not begun are kept; of one that is over, dropped."""
        if step in self._running:
            return () if step in self._aborted else (Deliver(keys, values),)
        if step not in self._over and step not in self._over_before:
            if step not in self._early and len(self._early) >= REMEMBERED:
                self._forget(next(iter(self._early)))
            self._early.setdefault(step, (self._now, []))[1].append(Deliver(keys, values))
        return ()

    def abort(self, step: str, error: errors.OpError) -> Sequence[Cancel]:
        """The step ends here: what runs of it, or what has come for it."""
        if step not in self._running:
            self._forget(step)
            return ()
        if step in self._aborted:
            return ()
        self._aborted.add(step)
        return (Cancel(step, error),)

    def abort_all(self, error: errors.OpError) -> Sequence[Cancel]:
        """All steps end here."""
        return self._abort_each(self._running, error)

    def master_lost(self, master: Master, error: errors.OpError) -> Sequence[Cancel]:
        """Ends the steps of a lost master."""
        return self._abort_each([step for step, its in self._running.items() if its == master], error)

    def _abort_each(self, steps: Iterable[str], error: errors.OpError) -> Sequence[Cancel]:
        return [action for step in steps for action in self.abort(step, error)]

    def end(self, step: str) -> None:
        """A part has ended, successfully or not."""
        if step in self._running:
            del self._running[step]
            self._aborted.discard(step)
            self._forget(step)

    def tick(self, now: float) -> None:
        """It is `now`, in seconds of any clock. Drops values whose step has not begun: its master was lost before it could
        abort the step."""
        self._now = now
        for step in [step for step, (since, _) in self._early.items() if now - since > ORPHANED]:
            self._forget(step)

    def _forget(self, step: str) -> None:
        self._early.pop(step, None)
        self._over.add(step)
        if len(self._over) >= REMEMBERED:
            self._over_before, self._over = self._over, set()

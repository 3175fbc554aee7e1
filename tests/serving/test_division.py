"""When batches run as several smaller steps, and what becomes of their requests."""
import threading

import numpy as np
import pytest

from penstock._src.base import errors
from penstock._src.serving.batching import Batcher, Task
from penstock._src.serving.config import Batching
from penstock._src.serving.division import Division, shares


def task(rows):
    return Task({"x": np.zeros((rows, 1), np.float32)}, ("y",), rows, 0.0)


def learned(whole, divided, most=4, rows=8):
    """A division that has measured both ways of batches with some rows."""
    made = Division(most)
    for _ in range(3):
        assert made.parts(rows, 8, 3) == 1
        made.took(rows, 1, whole)
    for _ in range(3):
        if made.parts(rows, 8, 3) > 1:
            made.took(rows, made.parts(rows, 8, 3), divided)
    return made


def test_the_faster_way_is_chosen():
    assert learned(0.2, 0.1).parts(8, 8, 3) == 4 and learned(0.1, 0.2).parts(8, 8, 3) == 1
    assert learned(0.2, 0.1).parts(8, 2, 3) == 2                     # no more than requests
    assert learned(0.2, 0.1).parts(8, 8, 1) == 2 and learned(0.2, 0.1).parts(8, 8, 0) == 1       # or threads
    assert learned(0.2, 0.1).parts(9, 8, 3) == 1                     # another size is measured on its own


def test_short_steps_and_single_cores_stay_whole():
    assert learned(0.004, 0.001).parts(8, 8, 3) == 1
    assert learned(0.2, 0.1, most=1).parts(8, 8, 3) == 1


def test_the_slower_way_is_tried_again():
    made = learned(0.2, 0.1)
    chosen = []
    for _ in range(220):
        chosen.append(made.parts(8, 8, 3))
        made.took(8, chosen[-1], 0.02 if chosen[-1] == 1 else 0.1)      # it has become the faster one
    assert chosen[0] == 4 and chosen[-1] == 1 and chosen.count(4) < 200


def test_shares_have_about_the_same_number_of_rows():
    tasks = [task(n) for n in (1, 1, 1, 1, 4, 4)]
    for parts, wanted in ((1, [12]), (2, [8, 4]), (3, [4, 4, 4]), (6, [1, 1, 1, 1, 4, 4])):
        made = shares(tasks, parts)
        assert [sum(t.rows for t in group) for group in made] == wanted and [t for g in made for t in g] == tasks
    rng = np.random.default_rng(0)
    for _ in range(200):
        tasks = [task(int(n)) for n in rng.integers(1, 9, rng.integers(1, 12))]
        parts = int(rng.integers(1, len(tasks) + 1))
        made = shares(tasks, parts)
        assert len(made) == parts and all(made) and [t for g in made for t in g] == tasks


@pytest.mark.parametrize("bad", [None, 2])
def test_a_batch_that_is_divided_answers_every_request(bad):
    """Two threads meet in the step: the parts of a batch run at the same time. One that fails concerns its request only."""
    together, seen = threading.Barrier(2), []

    def run(feeds, fetches):
        x = feeds["x"]
        if len(x) == 2 and x[0, 0] >= 0:
            together.wait(60)
        if bad is not None and (x == bad).any():
            raise errors.invalid("bad row")
        seen.append(len(x))
        return [x * 2]
    batcher = Batcher(run, Batching(max_batch_size=4, batch_timeout_micros=60_000_000, num_batch_threads=2), divided=2)
    batcher._division.parts = lambda rows, tasks, idle: 2
    try:
        results = [batcher.submit({"x": np.full((1, 1), i, np.float32)}, ("y",)) for i in range(4)]
        for i, result in enumerate(results):
            if i == bad:
                with pytest.raises(errors.InvalidArgumentError, match="bad row"):
                    result.result(60)
            else:
                assert result.result(60)[0].item() == 2 * i
    finally:
        batcher.close()
    assert sorted(seen) == ([2, 2] if bad is None else [1, 2])

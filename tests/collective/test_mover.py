"""Buckets that are reduced beside the computation: the same sums, and errors where they are awaited."""
import threading

import pytest
import torch

from penstock._src.base import errors
from penstock._src.collective.group import Limit
from penstock._src.collective.hub import Hub
from penstock._src.collective.mover import Bucket


def together(n, work):
    """Runs `work(group, rank)` on a thread for each of n members of one hub; returns the results."""
    hub, results = Hub(), [None] * n

    def member(i):
        try:
            name = f"/device:CPU:{i}"
            group = hub.join(1, n, name, Limit(seconds=60))
            results[group.rank_of[name]] = work(group, group.rank_of[name])
        except Exception as e:
            results[i] = e
    threads = [threading.Thread(target=member, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(90)
        assert not t.is_alive()
    movers = [m for g in hub._groups.values() for m in g._movers.values()]
    hub.close()
    for m in movers:
        m._thread.join(60)
        assert not m._thread.is_alive()
    return results


@pytest.mark.parametrize("prioritize", [False, True])
def test_sums(prioritize):
    def work(group, rank):
        buckets = []
        for step in range(3):
            for number in (2, 1, 0):
                arrays = [torch.full((3, number + 1), float(rank + step)), torch.arange(4.) * (number + 1)]
                bucket = Bucket(arrays, 3 * step + number, "ring", Limit(seconds=60), f"bucket {number}")
                buckets.append(group.mover(rank).start(bucket, prioritize))
        sums = [b.wait(Limit(seconds=60)) for b in buckets]
        assert len(group.mover(rank).spans) == 9
        return sums
    results = together(3, work)
    for sums in results:
        for i, (first, second) in enumerate(sums):
            step, number = i // 3, 2 - i % 3
            assert torch.equal(first, torch.full((3, number + 1), 3.0 + 3 * step))
            assert torch.equal(second, torch.arange(4.) * 3 * (number + 1))


def test_different_buckets_are_an_error_where_they_are_waited_for():
    def work(group, rank):
        bucket = Bucket([torch.zeros(3 + rank)], 0, "ring", Limit(seconds=60), "a bucket")
        group.mover(rank).start(bucket, False)
        with pytest.raises(errors.InvalidArgumentError, match="Shape mismatch in a bucket"):
            bucket.wait(Limit(seconds=60))
        return "raised"
    assert together(2, work) == ["raised"] * 2


def test_a_group_that_ends_ends_its_buckets():
    bucket = Bucket([torch.zeros(3)], 0, "ring", Limit(seconds=60), "a bucket")

    def work(group, rank):
        if rank == 0:
            group.mover(0).start(bucket, False)
            group._hub.drop(group, errors.UnavailableError(None, None, "a member is gone"))
            with pytest.raises(errors.UnavailableError, match="gone"):
                bucket.wait(Limit(seconds=60))
            with pytest.raises(errors.UnavailableError, match="gone"):
                group.mover(0)
        return rank
    assert together(2, work) == [0, 1]

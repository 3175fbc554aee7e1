"""The numbers that the OSDI 2016 paper states, from the constants of data_files/osdi16.yaml, within 15% each.

The full table is made by `penstock simulate paper`; here, fewer steps are run.
"""
import pytest

from penstock._src.simulate import figures


@pytest.mark.parametrize("kind", figures.NULL_STEPS)
def test_null_steps(kind):
    for workers, paper in zip((1, 100), figures.NULL_STEPS[kind][1], strict=True):
        assert figures.null_step(kind, workers, 2) == pytest.approx(paper, rel=figures.TOLERANCE)


def test_sparse_null_steps_do_not_depend_on_the_size_of_the_table():
    assert figures.null_step("sparse, 2 GB", 10, 2) == figures.null_step("sparse, 16 GB", 10, 2)


def test_asynchronous_training_saturates_the_servers():
    job = figures.inception(200)
    assert job.results.examples_per_second == pytest.approx(2300, rel=figures.TOLERANCE)
    share, task, _ = job.results.bottleneck()
    assert share > 0.8 and task.startswith("/job:ps")


def test_backup_workers_shorten_the_step():
    without, four = (figures.backups(b, 6) for b in (0, 4))
    assert four == pytest.approx(1.93, rel=figures.TOLERANCE) and without > 1.05 * four


def test_sampled_softmax():
    assert figures.softmax_flops(0) / figures.softmax_flops(512) == pytest.approx(78, rel=figures.TOLERANCE)
    assert figures.words_per_second(0, 4, 2, 2) / figures.words_per_second(0, 4, 1, 2) > 1.5

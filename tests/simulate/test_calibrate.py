"""Constants from measured times, and where processes are pinned."""
import pytest
import yaml

from penstock._src.simulate import bench, calibrate
from penstock._src.simulate.bench import Case, Round
from penstock._src.simulate.job import Job
from penstock._src.simulate.machines import Machine, Machines, Network, dump, parse

US = 1e-6


def test_processes_are_pinned_to_cores_in_turn():
    assert bench.pins(Case(4, 2, 2), 2) == {("client", 0): 0, ("client", 1): 1, ("worker", 0): 0, ("worker", 1): 1,
                                            ("ps", 0): 0, ("ps", 1): 1}
    assert len(set(bench.pins(Case(4, 4, 2), 16).values())) == 6
    assert set(bench.pins(Case(4, beside=3), 2).values()) == {0, 1}


def test_the_rounds_with_the_shortest_steps_count():
    rounds = [Round(step, step / 4, step / 2, step / 8, 0.1, 2) for step in (9.0, 1.0, 8.0, 2.0, 3.0, 7.0, 6.0, 5.0, 4.0, 9.0)]
    assert calibrate.undisturbed(rounds) == Round(1.5, 0.375, 0.75, 0.1875, 0.1, 2)
    assert rounds[0].work == 9.0


def _times(step, client, worker, server, servers=1, spread=0.0):
    return Round(step * US, client * US, worker * US, server * US, spread, servers)


@pytest.fixture
def measured(monkeypatch):
    """Times of a machine of two cores: messages of 20 us, 10 us for caches that others have used, copies at 20 GB/s."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    found = {case: _times(300, 50, 150, 100) for case in calibrate._CALIBRATION}
    found[calibrate._MORE_SERVERS] = _times(400, 50, 260, 100, 2)
    found[calibrate._CROWDED] = _times(900, 90, 270, 160)
    beside = [(c, c.beside + 1, 20) for c in calibrate._BESIDE]
    for case, slower, refill in [(calibrate._SHORT, 1, 0), (calibrate._LONG, 1, 0), *beside]:
        small = found[case._replace(size=calibrate._SMALL)]
        copied = slower * 2 * case.size / 20e9 / US
        found[case] = _times(0, small.client / US + refill, small.worker / US + copied + refill,
                             small.server / US + copied + 2 * refill)
    return found


def test_constants_explain_the_times_they_come_from(measured):
    machines = calibrate.constants(measured, 1e10, 1e10, 0.0)
    worker, server = machines.of("worker"), machines.of("ps")
    assert worker.cold_seconds == pytest.approx(10 * US) and worker.send_seconds == pytest.approx(20 * US)
    assert worker.client_seconds == pytest.approx(40 * US) and worker.step_seconds == pytest.approx(60 * US)
    assert server.begin_seconds == pytest.approx(20 * US)
    assert [m.copy_bandwidth for m in (worker, server)] == pytest.approx([20e9, 20e9])
    assert machines.network.cached(5 * calibrate._LARGE + 3 * calibrate._LARGE) == pytest.approx((2.0, 20 * US))
    assert calibrate.predicted(machines, Case(4)) == pytest.approx(300 * US, rel=0.01)
    assert calibrate.predicted(machines, Case(4 << 20)) == pytest.approx(300 * US + 4 * (4 << 20) / 20e9, rel=0.15)
    again = parse(yaml.safe_load(dump(machines)))
    assert again.network.caches == machines.network.caches


def test_points_of_a_machine_file_are_checked():
    with pytest.raises(Exception, match="caches must be a list"):
        parse({"network": {"caches": [1, 2]}})
    job = Job(calibrate.programs.dense_null_step(4)(1), Machines({"default": Machine()}, Network()), 1, 1)
    assert job.cluster.cores.slower == 1.0

"""Constants from measured times, and where processes are pinned."""
import pytest
import yaml

from penstock._src.simulate import bench, calibrate
from penstock._src.simulate.bench import Case, Round
from penstock._src.simulate.machines import Machine, Machines, Network, dump, parse
from penstock._src.simulate.memory import Memory

US = 1e-6


def test_processes_are_pinned_to_cores_in_turn():
    assert bench.pins(Case(4, 2, 2), 2) == {("client", 0): 0, ("client", 1): 1, ("worker", 0): 0, ("worker", 1): 1,
                                            ("ps", 0): 0, ("ps", 1): 1}
    assert len(set(bench.pins(Case(4, 4, 2), 16).values())) == 6
    assert set(bench.pins(Case(4, beside=3), 2).values()) == {0, 1}
    assert set(bench.numbers(Case(4, clients=3, cores=1)).values()) == {0}


def test_the_rounds_count_in_which_other_programs_worked_least():
    rounds = [Round(step, step / 4, step / 2, step / 8, 0.1, 2, step / 100) for step in (9.0, 1.0, 8.0, 2.0, 3.0, 7.0, 6.0, 5.0,
                                                                                         4.0, 9.0)]
    assert calibrate.undisturbed(rounds) == Round(4.0, 1.0, 2.0, 0.5, 0.1, 2, 0.04)
    assert calibrate._calm(rounds) == 4


def test_constants_explain_the_times_they_come_from(monkeypatch):
    """Times of simulated processes of a known machine: the constants that are found predict cases that were not measured."""
    monkeypatch.setattr(calibrate, "_PASSES", 6)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    common = {"cores": 2, "nic": 1e12, "send_seconds": 12 * US, "receive_seconds": 12 * US, "op_seconds": 1 * US,
              "after_seconds": 5 * US}
    known = Machines({"worker": Machine(**common, client_seconds=30 * US, step_seconds=90 * US, cold_share=0.1,
                                        client_cold_share=0.05, large_seconds=5 * US),
                      "ps": Machine(**common, begin_seconds=40 * US, cold_share=0.14)},
                     Network(latency=8 * US, one_machine=True, jitter=0.2,
                             caches=[[4e6, 60e9, 0.2], [16e6, 50e9, 0.5], [32e6, 35e9, 2.0], [60e6, 20e9, 3.0]]))
    found = {case: calibrate.simulated(known, case).round for case in calibrate._CALIBRATION}
    machines = calibrate.constants(found, known.of("worker").flops, known.of("worker").memory_bandwidth, 1 * US)
    for case in calibrate._COMPARED:
        assert calibrate.predicted(machines, case) == pytest.approx(calibrate.predicted(known, case), rel=0.1)
    again = parse(yaml.safe_load(dump(machines)))
    assert again.network.caches == machines.network.caches


def test_points_of_a_machine_file_are_checked():
    with pytest.raises(Exception, match="caches must be a list"):
        parse({"network": {"caches": [1, 2]}})
    for wrong in ([[4e6, 0.0, 1.0]], [[4e6, 1e9, 1.0], [4e6, 2e9, 1.0]], [[0.0, 1e9, 1.0]]):
        with pytest.raises(Exception, match="different sizes"):
            parse({"network": {"caches": wrong}})
    assert parse({"network": {"caches": [[2e6, 1e9, 1.0], [1e6, 2e9, 0.5]]}}).network.caches[0][0] == 1e6


def test_bandwidth_and_share_lie_between_the_points():
    network = Network(caches=[[16e6, 4e9, 1.0], [32e6, 1e9, 3.0]])
    assert network.cached(8e6) == (4e9, 0.5) and network.cached(48e6) == (1e9, 3.0) and Network().cached(1e6) == (0.0, 0.0)
    assert network.cached(24e6) == (pytest.approx(1.6e9), 2.0)             # seconds per byte: 0.25 and 1 nanoseconds


def test_the_distance_of_a_value_counts_each_value_since_then_once():
    memory = Memory(Network(caches=[[1000.0, 1.0, 1000.0]]), 1.0)          # the share is the distance
    assert memory._distance("a", 4) == 4 and memory._distance("b", 8) == 12
    assert memory._distance("b", 8) == 8 and memory._distance("a", 4) == 12 and memory.bytes == 12
    assert memory.cold("work") == 12 and memory.cold("work") == 0          # it was never done before, and then it was
    assert memory.touch("c", 2) == memory.touch("c", 2) == 2
    assert memory.cold("work") == 2 and memory._distance("c", 3) == 3 and memory.bytes == 15

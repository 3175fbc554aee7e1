"""Results, traces, sweeps, recorded steps, and the command."""
import json

import pytest

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.simulate import beyond, figures, plots, programs, recorded, sweep
from penstock._src.simulate.job import Job
from penstock._src.simulate.machines import Machine, Machines, Network
from penstock._src.simulate.plan import Run
from penstock._src.simulate.trace import Trace
from penstock_cli import main

MODEL = """
import penstock.compat.v1 as tf

def model(case):
    x = tf.random_normal([case.batch or 8, 20])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 5)))
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
"""


def test_the_critical_path_goes_from_the_first_message_to_the_last():
    machines = Machines({"default": Machine(nic=1e9)}, Network(latency=1e-3))
    job = Job(programs.dense_null_step(10**7)(1), machines, 1, 1)
    trace = job.cluster.trace = Trace()
    job.run(1)
    own = job.workers[0].name
    path = trace.critical_path(trace.events[0].step, own)
    assert path[0].source == own and path[-1].source.startswith("/job:ps") and path[-1].label == "end"
    assert all(a.end <= b.end for a, b in zip(path, path[1:], strict=False))
    assert path[-1].end - path[0].start == pytest.approx(job.results.times[0], rel=0.01)
    rows = json.loads(trace.chrome())["traceEvents"]
    assert {r["ph"] for r in rows} == {"M", "X"} and len(rows) == len(trace.events) + 2


def test_a_trace_that_is_full_ends_and_changes_nothing():
    def run(trace):
        job = Job(programs.dense_null_step(10**6)(2), figures.constants(), 3, 2)
        job.cluster.trace = trace
        return job.run(5), job
    small, job = run(Trace(most=10))
    plain, _ = run(None)
    assert small.steps_per_second == plain.steps_per_second and job.cluster.trace is None


def test_a_chart_has_a_line_for_each_series():
    text = plots.Chart("a < b", "workers", "steps/s", {"one": [(1, 2.0), (10, 3.0)], "two": [(1, 1.0), (10, 9.0)]},
                       {"stated": [(1, 2.5), (10, 5.0)]}, log=True).svg
    assert text.count("<polyline") == 2 and text.count("<circle") == 7 and "a &lt; b" in text and text.endswith("</svg>\n")


@pytest.mark.parametrize("simulated, status", [(2.2, 0), (2.4, 1)])
def test_the_figures_of_the_paper_are_tables_and_charts(simulated, status, tmp_path, monkeypatch, capsys):
    def everything():
        yield figures.Point("6: null step", "scalar", "ms", 2.0, simulated)
        yield figures.Claim("6: null step", "it grows", True, "1, 2")
        yield plots.Chart("Null steps", "workers", "ms", {"scalar": [(1, 1.0), (2, 2.0)]})
    monkeypatch.setattr(figures, "everything", everything)
    assert main(["simulate", "paper", "--plots", str(tmp_path / "plots")]) == status
    said = capsys.readouterr().out
    assert f"| 2 ms | {simulated} ms |" in said and "| it grows | yes | 1, 2 |" in said
    assert "Null steps" in (tmp_path / "plots" / "figure6.svg").read_text()


def test_more_servers_until_they_do_not_help():
    machines = Machines({"ps": Machine(nic=1e8), "worker": Machine(nic=4e8)}, Network(latency=0.0))
    found = sweep.servers_needed(lambda case: programs.dense_null_step(10**7)(case.servers), machines, sweep.Case(1), 3, 0.3)
    assert [n for n, _, _ in found] == [1, 2, 4, 8, 16, 32][:len(found)] and found[-1][0] >= 8
    assert found[1][1] > 1.5 * found[0][1] and found[-1][1] < 1.3 * found[-2][1]


def test_sweeps_are_over_known_numbers():
    assert len(list(sweep.cases(sweep.Case(), {"workers": [1, 2], "servers": [1, 2, 3]}))) == 6
    for wrong in ({"gpus": [1]}, {"workers": [0]}, {"servers": []}):
        with pytest.raises(errors.InvalidArgumentError):
            list(sweep.cases(sweep.Case(), wrong))


def test_a_recorded_step_is_simulated_with_its_times(tmp_path):
    made = tf.RunMetadata()
    for i, (device, micros, size, inputs) in enumerate((
            ("ps", 100, 10**6, ()), ("worker", 5000, 10**6, (0,)), ("ps", 300, 0, (1,)))):
        node = made.cost_graph.node.add(name=f"op{i}", id=i, device=f"/job:{device}/replica:0/task:0/device:CPU:0",
                                        compute_time=micros)
        node.output_info.add(size=size)
        for source in inputs:
            node.input_info.add(preceding_node=source, preceding_port=0)
    path = tmp_path / "step.pb"
    path.write_bytes(made.SerializeToString())
    code = recorded.step_code(recorded.load(str(path)))
    assert code.own.seconds == pytest.approx(0.005) and [i.label for i in code.own.code if type(i) is Run] == ["op1"]
    machines = Machines({"default": Machine(nic=1e9, send_seconds=0.0, receive_seconds=0.0)}, Network(latency=0.0))
    from penstock._src.simulate.job import Program
    took = Job(Program(tf.Graph(), [], code=code), machines, 1, 1).run(3).median
    assert took == pytest.approx(0.0001 + 0.001 + 0.005 + 0.001 + 0.0003, rel=0.01)
    path.write_bytes(b"\xff\xff\xff")
    with pytest.raises(errors.OpError):
        recorded.load(str(path))


def test_a_tree_broadcasts_in_the_logarithm_of_the_members():
    eight, sixty_four = (beyond._broadcast(n, 10**9) for n in (8, 64))
    assert sixty_four == pytest.approx(2 * eight, rel=0.1)


def test_the_command_runs_and_sweeps_programs(tmp_path, capsys):
    file = tmp_path / "program.py"
    file.write_text(MODEL)
    trace, chart = tmp_path / "trace.json", tmp_path / "chart.svg"
    assert main(["simulate", "run", str(file), "--workers", "3", "--servers", "2", "--trace", str(trace)]) == 0
    said = capsys.readouterr().out
    assert "steps/s" in said and "critical path" in said and json.loads(trace.read_text())["traceEvents"]
    over = ["--over", "workers=1,2", "--over", "batch=8,16"]
    assert main(["simulate", "sweep", str(file), *over, "--plot", str(chart)]) == 0
    assert chart.read_text().count("<polyline") == 2
    assert main(["simulate", "servers", str(file), "--workers", "2"]) == 0
    assert "servers are enough" in capsys.readouterr().out
    assert main(["simulate", "chaos", "--schedules", "5", "--world", "membership"]) == 0
    assert main(["simulate", "run", str(tmp_path / "none.py")]) == 1


def test_a_campaign_goes_on_where_it_stopped(tmp_path, capsys):
    record = str(tmp_path / "campaign.json")
    chaos = ["simulate", "chaos", "--world", "membership", "--record", record]
    assert main([*chaos, "--schedules", "5"]) == 0
    assert main([*chaos, "--schedules", "12"]) == 0
    assert "| membership | 12 | 0 |" in capsys.readouterr().out
    assert main([*chaos, "--schedules", "20", "--minutes", "0"]) == 0
    assert json.loads((tmp_path / "campaign.json").read_text())["worlds"]["membership"]["schedules"] == 12
    assert main([*chaos, "--seed", "3"]) == 1


def test_one_op_more_costs_more(tmp_path):
    """Batch sizes reach the program."""
    file = tmp_path / "program.py"
    file.write_text(MODEL)
    from penstock._src.tools.simulate import _program
    make = _program(str(file))
    small, large = (sweep.run(make, Machines(), sweep.Case(1, 1, batch=b), 3).results.median for b in (8, 80_000))
    assert large > 1.5 * small

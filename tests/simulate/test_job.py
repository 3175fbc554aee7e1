"""Programs on simulated clusters: the real placement, partition and state of steps, on a simulated clock."""
import pytest

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.simulate import bench, programs
from penstock._src.simulate.job import LOCKSTEP, Job
from penstock._src.simulate.machines import Machine, Machines, Network, Straggling, dump, parse
from penstock._src.simulate.plan import Run, Send, Wait

FAST = Machines({"default": Machine(nic=1e9, send_seconds=0.0, receive_seconds=0.0, op_seconds=0.0)}, Network(latency=0.0))


def test_a_step_takes_as_long_as_its_bytes_need():
    """100 MB in and out of one worker at 1 GB/s, in both directions at once but for the first and last of four shards."""
    job = Job(programs.dense_null_step(100_000_000)(4), FAST, 1, 4, LOCKSTEP)
    results = job.run(5)
    assert results.median_round == pytest.approx(0.125, rel=1e-3)
    assert results.count == 5 and not job.errors


def test_workers_share_the_servers():
    """Forty workers want 25 MB each from every server, and return as much: a second in each direction."""
    took = Job(programs.dense_null_step(100_000_000)(4), FAST, 40, 4, LOCKSTEP).run(3).median_round
    assert 1.0 < took < 1.2


def local(workers, servers, **more):
    """The time of a step of processes that share two cores."""
    machine = Machine(cores=2, nic=1e12, send_seconds=1e-3, receive_seconds=1e-3, op_seconds=0.0, client_seconds=2e-3, **more)
    machines = Machines({"default": machine}, Network(latency=0.0, one_machine=True))
    return workers / Job(programs.dense_null_step(4)(servers), machines, workers, servers).run(60).steps_per_second


def test_tasks_of_one_machine_share_its_cores():
    """A step has four messages per server and its client: 10 ms of work with one server, one thing after the other. The parts
    of two servers overlap where they have different cores. Many workers keep both cores busy."""
    assert local(1, 1) == pytest.approx(10e-3, rel=0.01)
    assert 12e-3 < local(1, 2) < 18e-3
    assert local(6, 2) == pytest.approx(6 * 18e-3 / 2, rel=0.05)


def test_a_process_uses_one_core():
    """The only server handles four messages of each worker, and is the bottleneck where there are more cores."""
    machine = Machine(cores=16, nic=1e12, send_seconds=1e-3, receive_seconds=1e-3, op_seconds=0.0)
    machines = Machines({"default": machine}, Network(latency=0.0, one_machine=True))
    job = Job(programs.dense_null_step(4)(1), machines, 8, 1)
    assert 1 / job.run(60).steps_per_second == pytest.approx(4e-3, rel=0.02)


def test_a_process_finds_caches_that_others_have_used():
    """The worker (4 ms of a step) and its client (2 ms) take turns on one core, the server has the other."""
    assert local(1, 1, cold_share=0.5) == pytest.approx(10e-3 + 0.5 * 2e-3, rel=0.01)
    assert local(1, 1, client_cold_share=0.5) == pytest.approx(10e-3 + 0.5 * 4e-3, rel=0.01)


def test_each_message_is_a_turn_of_its_own():
    """Two workers have a core each, with a server: each server has turns for both of them, and other processes in between."""
    machine = Machine(cores=2, nic=1e12, send_seconds=1e-3, receive_seconds=1e-3, op_seconds=0.0, client_seconds=2e-3)
    network = Network(latency=0.0, one_machine=True, jitter=0.5)
    job = Job(programs.dense_null_step(4)(2), Machines({"default": machine}, network), 2, 2)
    count = job.run(100).count
    servers = [task.host.process for task in job.cluster.job("ps")]
    assert all(s.others > 3e-3 * count for s in servers)        # of four turns of each in two steps


def test_what_is_sent_leaves_before_its_sender_has_ended():
    """Work after a message overlaps with its receiver's, on another core; not on the same one."""
    assert local(1, 1, after_seconds=0.5e-3) < local(1, 1) + 0.1e-3
    assert local(6, 2, after_seconds=0.5e-3) > local(6, 2) + 3e-3


def test_an_idle_core_has_to_be_woken():
    """One worker: the cores of the server and of the worker are idle before each of their messages. Many: no core is idle."""
    assert local(1, 1, idle_seconds=1e-3) == pytest.approx(13e-3, abs=1.1e-3)
    assert local(6, 2, idle_seconds=1e-3) == pytest.approx(local(6, 2), rel=0.05)


def test_other_processes_on_a_core_cost_a_change():
    """One turn of the worker follows its client's, which has the same core; the server has its core to itself."""
    assert local(1, 1, switch_seconds=1e-3) == pytest.approx(11e-3, abs=0.1e-3)


def test_who_sends_to_an_idle_core_has_to_interrupt_it():
    """One worker and one server wait for each other: two messages of each. Many: no core is idle."""
    assert local(1, 1, interrupt_seconds=1e-3) == pytest.approx(14e-3, abs=0.1e-3)
    assert local(6, 2, interrupt_seconds=1e-3) == pytest.approx(local(6, 2), rel=0.05)


def test_several_clients_of_a_worker():
    """Each has a step at a time: the worker's core is never idle."""
    machine = Machine(cores=2, nic=1e12, send_seconds=1e-3, receive_seconds=1e-3, op_seconds=0.0, client_seconds=2e-3)
    machines = Machines({"default": machine}, Network(latency=0.0, one_machine=True))
    job = Job(programs.dense_null_step(4)(1), machines, 1, 1, clients=3)
    assert 1 / job.run(60).steps_per_second == pytest.approx(6e-3, rel=0.02)          # its work, and a client's
    assert len(job.workers[0].host.clients) == 3


def test_further_workers_beside_a_job_are_not_measured():
    """They have a server of their own; on three cores more nothing changes, on the same ones everything takes longer."""
    machine = Machine(cores=8, nic=1e12, send_seconds=1e-3, receive_seconds=1e-3, op_seconds=0.0)
    machines = Machines({"default": machine}, Network(latency=0.0, one_machine=True))

    def took(pins):
        job = Job(bench.null_step(4, 0, 1), machines, 1, 2, beside=[bench.null_step(4, 1, 1)], pins=pins)
        assert job.run(30).count >= 30 and list(job.ended) == job.workers
        return 1 / job.results.steps_per_second
    apart = {("worker", 0): 0, ("worker", 1): 1, ("ps", 0): 2, ("ps", 1): 3}
    assert took(apart) == pytest.approx(8e-3, rel=0.01)
    assert took(dict.fromkeys(apart, 0)) == pytest.approx(16e-3, rel=0.05)


def four_megabytes(workers, caches, **more):
    """The job, and the time of a step, of processes on two cores that do nothing but touch values."""
    machine = Machine(cores=2, nic=1e12, send_seconds=0.0, receive_seconds=0.0, op_seconds=0.0, **more)
    network = Network(latency=0.0, one_machine=True, caches=caches)
    job = Job(bench.null_step(4_000_000, 0, 1), Machines({"default": machine}, network), workers, 1)
    return job, workers / job.run(60).steps_per_second


def test_values_are_touched_at_the_speed_of_the_caches_that_hold_them():
    """The server copies its variable, the worker multiplies and copies the product, the server adds it: each touches two
    values. Four values of 4 MB are used in turn; what a further worker uses comes in between, but for the variable."""
    flat = [[1e6, 10e9, 0.0]]
    job, seconds = four_megabytes(1, flat)
    assert job.cluster.cores.memory.bytes == 16_000_000 and seconds == pytest.approx(8 * 4e6 / 10e9, rel=0.01)
    steep = [[16e6, 10e9, 0.0], [16.1e6, 1e9, 0.0]]
    assert four_megabytes(1, steep)[1] == pytest.approx(seconds, rel=0.01)
    job, slow = four_megabytes(3, steep)
    assert job.cluster.cores.memory.bytes == 40_000_000 and 3 * seconds / 2 < four_megabytes(3, flat)[1] < slow


def test_work_takes_longer_when_values_have_replaced_what_it_uses():
    """The client has 2 ms of work, and 16 MB are touched between two of its turns; nothing is, with small values."""
    caches = [[16e6, 1e15, 0.5]]
    assert four_megabytes(1, caches, client_seconds=2e-3)[1] == pytest.approx(3e-3, rel=0.01)
    machines = Machines({"default": Machine(cores=2, client_seconds=2e-3)}, Network(one_machine=True, caches=caches))
    job = Job(bench.null_step(4, 0, 1), machines, 1, 1)
    job.run(60)
    assert job.workers[0].host.clients[0].busy == pytest.approx(2e-3 * job.results.count, rel=0.02)


def test_messages_that_a_thread_finds_belong_to_one_turn():
    """A worker waits for the values of two servers that have other cores, and gets its own core when both have come."""
    machine = Machine(cores=3, nic=1e12, send_seconds=1e-3, receive_seconds=1e-3, op_seconds=0.0, client_seconds=20e-3)
    machines = Machines({"default": machine}, Network(latency=0.0, one_machine=True))
    pins = {("worker", 0): 0, ("worker", 1): 0, ("ps", 0): 1, ("ps", 1): 2}
    job = Job(programs.dense_null_step(4)(2), machines, 2, 2, pins=pins)
    count = job.run(100).count
    assert sum(t.host.process.switches for t in job.workers) < 3.5 * count


def test_random_times_have_the_given_mean():
    network = Network(latency=0.0, one_machine=True, jitter=0.3)
    machine = Machine(cores=2, nic=1e12, send_seconds=1e-3, receive_seconds=1e-3, op_seconds=0.0)
    job = Job(programs.dense_null_step(4)(1), Machines({"default": machine}, network), 1, 1)
    assert 1 / job.run(100).steps_per_second == pytest.approx(8e-3, rel=0.05)


def test_copies_take_time_of_both_ends():
    """Four megabytes are read and returned: each is copied by its sender and by its receiver, at 1 GB/s."""
    machine = Machine(nic=1e12, send_seconds=0.0, receive_seconds=0.0, op_seconds=0.0, copy_bandwidth=1e9)
    job = Job(programs.dense_null_step(4_000_000)(1), Machines({"default": machine}, Network(latency=0.0)), 1, 1, LOCKSTEP)
    assert job.run(5).median_round == pytest.approx(16e-3, rel=0.01)


def test_sparse_steps_do_not_depend_on_the_size_of_the_table():
    small, large = (Job(programs.sparse_null_step(size)(4), Machines(), 4, 4, LOCKSTEP).run(3).median_round
                    for size in (2 * 10**9, 16 * 10**9))
    assert small == large


def test_parts_are_those_of_the_real_partition():
    job = Job(programs.dense_null_step(64)(2), FAST, 1, 2)
    assert sorted(job.step.others) == [f"/job:ps/replica:0/task:{i}" for i in range(2)]
    for part in job.step.others.values():
        assert [type(i) for i in part.code if type(i) is not Run] == [Send, Wait]


def test_the_same_seed_gives_the_same_times():
    machines = Machines({"worker": Machine(straggling=Straggling(0.1, 0.2, 100.0))})
    times = [Job(programs.sparse_null_step(10**6)(2), machines, 3, 2, seed=seed).run(5).times for seed in (1, 1, 2)]
    assert times[0] == times[1] != times[2]


def _sync(workers, backups=0, servers=2):
    setter = tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        step = tf.train.get_or_create_global_step()
        loss = sum(tf.reduce_sum(tf.square(tf.get_variable(f"w{i}", [1000], use_resource=False))) for i in range(servers))
        opt = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), workers, workers + backups)
        train = opt.minimize(loss, global_step=step)
        return programs.synchronous(graph, opt, train, step)


def test_synchronous_training_applies_each_step_once():
    """The real accumulators and tokens decide: every worker contributes one gradient to every update."""
    job = Job(_sync(5), Machines(), 5, 2)
    results = job.run(8)
    assert not job.errors
    assert len(results.rounds) >= 7
    assert max(job.ended.values()) - min(job.ended.values()) <= 1


def test_a_backup_worker_takes_the_place_of_a_slow_one():
    slow = Machines({"worker": Machine(straggling=Straggling(0.0, 0.2, 5000.0))})
    without, with_one = (Job(_sync(5, b), slow, 5 + b, 2).run(40).median_round for b in (0, 2))
    assert with_one < 0.7 * without


def test_machine_files_are_checked():
    text = dump(Machines({"ps": Machine(nic=2e9)}, Network(latency=1e-3)))
    import yaml
    again = parse(yaml.safe_load(text))
    assert again.of("ps").nic == 2e9 and again.network.latency == 1e-3 and again.of("worker") == Machine()
    for wrong, words in (({"machines": {"ps": {"cpus": 3}}}, "unknown field 'cpus'"),
                         ({"machines": {"ps": {"nic": "fast"}}}, "a number"), ({"network": {"latency": -1}}, "negative"),
                         ([1], "mapping"), ({"racks": 1}, "no part called")):
        with pytest.raises(errors.InvalidArgumentError, match=words):
            parse(wrong)


def test_training_goes_on_when_tasks_fail_and_come_back():
    """A task fails every few seconds, and is back after half a second: steps are lost, and the job ends."""
    def program(failures):
        machine = Machine(nic=1e8, failures_per_day=failures, restart_seconds=0.5)
        return Job(programs.dense_null_step(10**7)(2), Machines({"default": machine}), 3, 2)
    calm, stormy = program(0), program(20_000)
    without, with_failures = calm.run(60), stormy.run(60)
    assert without.failures == 0 and with_failures.failures > 3 and not stormy.errors
    assert with_failures.count >= 180 and with_failures.seconds > without.seconds

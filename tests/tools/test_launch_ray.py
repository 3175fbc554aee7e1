"""`penstock launch --on ray`: a real Ray cluster of several nodes on this machine, and the launcher's decisions without one."""
import contextlib
import json
import pathlib
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import launch_ray
from penstock._src.cluster.launch_ray import Options
from penstock_cli import main
from tests.checks import eventually, gone

pytestmark = [pytest.mark.distributed, pytest.mark.filterwarnings("ignore")]                # Ray's own warnings
PROGRAM = pathlib.Path(__file__).parent / "elastic_program.py"


@pytest.fixture
def ray():
    return pytest.importorskip("ray", reason="Ray is not installed: pip install 'penstock[ray]'")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_on_ray(ray, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(f"""
import json, os, time
config = json.loads(os.environ['TF_CONFIG'])
job, index, folder = config['task']['type'], config['task']['index'], {str(tmp_path)!r}
mark = os.path.join(folder, 'died')
if job == 'worker' and index == 1 and not os.path.exists(mark):
    open(mark, 'w').close()
    os.kill(os.getpid(), 9)
open(os.path.join(folder, f'{{job}}{{index}}'), 'w').write(os.environ['TF_CONFIG'] + str(os.getpid()))
if job == 'ps': time.sleep(1000)
""")
    launcher = [sys.executable, "-m", "penstock", "launch", "--on", "ray"]
    done = subprocess.run([*launcher, "--ps", "1", "--workers", "2", path], capture_output=True, text=True, timeout=400,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "will be retried" not in done.stdout + done.stderr
    assert "] [worker" not in done.stdout and "(worker 1 pid=" in done.stdout + done.stderr        # one prefix
    written = {n: (tmp_path / n).read_text() for n in ("ps0", "worker0", "worker1")}
    assert len({json.dumps(json.loads(w[:w.rindex("}") + 1])["cluster"]) for w in written.values()}) == 1
    assert eventually(lambda: gone(int(written["ps0"].rpartition("}")[2])))
    path.write_text("import sys\nsys.exit(5)")
    done = subprocess.run([*launcher, "--ps", "0", "--workers", "1", "--restarts", "0", path], capture_output=True, timeout=400,
                          check=False)
    assert done.returncode == 5


@pytest.fixture
def nodes(ray, monkeypatch):
    """A Ray cluster of this machine, which has one node with one CPU at first. Ray gives a node 30 seconds to register, which
    is not enough on a loaded machine; here it has five minutes."""
    from ray._private import services
    from ray.cluster_utils import Cluster
    get_node = services.get_node

    def patiently(*args):
        found = []

        def registered():
            with contextlib.suppress(RuntimeError):
                found.append(get_node(*args))
            return found
        assert eventually(registered, 300), "the node did not start"
        return found[0]
    monkeypatch.setattr(services, "get_node", patiently)
    monkeypatch.setenv("RAY_gcs_server_port_wait_time_s", "300")
    cluster = Cluster()
    try:
        cluster.add_node(wait=False, num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()


@contextlib.contextmanager
def training(address, folder, *checkpoints):
    """A job that trains until the file `stop` is there."""
    command = [sys.executable, "-m", "penstock", "launch", "--on", "ray", "--address", address, "--ps", "1", "--workers", "1",
               "--max-workers", "3", "--worker-cpus", "0.8", str(PROGRAM), str(folder), *checkpoints]
    with open(folder / "log", "w") as log:
        job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield job
        finally:
            job.kill()
            job.wait(60)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_workers_join_and_leave_with_the_machines(nodes, tmp_path):
    def worker(index):
        try:
            return json.loads((tmp_path / f"worker{index}.json").read_text())
        except FileNotFoundError:
            return None

    def goes_on(index):
        before = worker(index)["own"]
        return eventually(lambda: worker(index)["own"] > before + 5, 120)

    with training(nodes.address, tmp_path) as job:
        assert eventually(lambda: worker(0), 120), (tmp_path / "log").read_text()
        assert worker(1) is None                                 # there is no room
        added = nodes.add_node(wait=False, num_cpus=1)
        assert eventually(lambda: worker(1), 120), (tmp_path / "log").read_text()
        assert goes_on(0) and goes_on(1)
        first = worker(1)["pid"]
        nodes.remove_node(added, allow_graceful=False)           # as when a machine is taken away
        assert eventually(lambda: gone(first), 120)
        assert goes_on(0)
        for _ in range(2):
            nodes.add_node(wait=False, num_cpus=1)
        assert eventually(lambda: worker(1)["pid"] != first and worker(2), 180), (tmp_path / "log").read_text()
        assert goes_on(0) and goes_on(1) and goes_on(2)
        (tmp_path / "stop").touch()
        assert job.wait(120) == 0, (tmp_path / "log").read_text()
    log = (tmp_path / "log").read_text()
    assert "worker 1 is lost; it joins again when there is room" in log and "will be retried" not in log
    final = worker(0)
    assert final["step"] > final["own"] and final["loss"] < 1.0          # the others took part, in the same variables


@pytest.fixture
def bucket(monkeypatch):
    """The URL of an empty bucket of an S3 server on this machine."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    moto = pytest.importorskip("moto.server", reason="moto, an S3 server for tests, is not installed")
    server = moto.ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1",
                        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    import s3fs
    from fsspec.asyn import get_loop
    get_loop().set_default_executor(ThreadPoolExecutor(1, "fsspecIO"))           # as long as fsspec's loop: tests/leaks.py
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("models")
    yield "s3://models/run"
    server.stop()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_training_continues_from_a_checkpoint_in_an_object_store(bucket, nodes, tmp_path):
    """The second job has another folder: it knows of the first one only by the bucket."""
    first, second = tmp_path / "first", tmp_path / "second"

    def worker(folder):
        try:
            return json.loads((folder / "worker0.json").read_text())
        except FileNotFoundError:
            return {"step": 0, "own": 0}

    def trained(folder, step):
        folder.mkdir()
        with training(nodes.address, folder, bucket) as job:
            assert eventually(lambda: worker(folder)["step"] > step, 180), (folder / "log").read_text()
            (folder / "stop").touch()
            assert job.wait(120) == 0, (folder / "log").read_text()

    trained(first, 50)
    saved = int(tf.train.latest_checkpoint(bucket).rpartition("-")[2])
    assert saved >= 40
    trained(second, saved + 5)
    assert worker(second)["own"] <= worker(second)["step"] - saved


# -- without Ray --------------------------------------------------------------------------------------------------------------
class LostError(Exception):
    """Ray's error for an actor that is gone."""


class FakeRay:
    """Ray's interface as the launcher uses it. Calls of `address` are answered while there is room; `events` says, one after
    the other, how the calls of `run` end: a pair of the task and its exit status, or None for a lost actor."""

    def __init__(self, room, events):
        self.room, self.events = room, list(events)
        self.exceptions = types.SimpleNamespace(RayActorError=LostError)
        self.util = types.SimpleNamespace(placement_group=lambda *_, **__: types.SimpleNamespace(ready=lambda: "ready"),
                                          remove_placement_group=lambda group: None)
        self.runs, self.started, self.numbers = {}, [], iter(range(1000))
        self.answers = {}

    def remote(self, kind):
        return self

    def options(self, **options):
        made = FakeRay.Actor(self, "scheduling_strategy" in options, self.numbers)
        return types.SimpleNamespace(remote=lambda name: made)

    class Actor:
        def __init__(self, ray, placed, numbers):
            number = next(numbers)

            def address():
                call = ("address", number)
                if placed:
                    ray.answers[call] = f"h:{number}"
                return call

            def run(job, index, command, environment, restarts):
                call = ("run", number)
                ray.runs[call] = (job, index)
                ray.started.append((job, index, environment))
                return call
            self.address, self.run, self.stop = (types.SimpleNamespace(remote=f) for f in (address, run, lambda: None))

    def get(self, calls):
        if isinstance(calls, list):
            return [self.get(c) for c in calls]
        answer = self.answers[calls]
        if answer is None:
            raise LostError
        return answer

    def wait(self, calls, num_returns=1, timeout=None):
        if calls == ["ready"] or timeout == launch_ray._GRACE:
            return calls, []
        waiting = [c for c in calls if c[0] == "address"]
        if waiting and self.room > 0:
            self.room -= 1
            self.answers[waiting[0]] = f"h:{waiting[0][1]}"
            return waiting[:1], []
        name, code = self.events.pop(0)
        call = next(c for c, n in self.runs.items() if n == name and c in calls)
        self.answers[call] = code
        self.room += code is None
        return [call], []

    def kill(self, actor):
        pass


@pytest.fixture
def launched(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    for name in ("ray.util", "ray.util.scheduling_strategies"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["ray.util.scheduling_strategies"].PlacementGroupSchedulingStrategy = lambda group, bundle: bundle
    path = tmp_path / "program.py"
    path.write_text("pass")

    def run(room, events, workers=1, **options):
        fake = FakeRay(room, events)
        code = launch_ray._Job(fake, [str(path)], {"ps": 1, "chief": 0, "worker": workers, "evaluator": 0},
                               Options(**options)).run()
        assert not fake.events
        return code, fake.started
    return run


def workers_of(started):
    """Of each start of a worker: index, the workers' addresses that it gets, whether it joins."""
    return [(i, json.loads(e["TF_CONFIG"])["cluster"]["worker"], e.get("PENSTOCK_JOINS")) for job, i, e in started
            if job == "worker"]


def test_workers_join_up_to_the_limit(launched):
    code, started = launched(2, [(("worker", 2), 0), (("worker", 0), 0), (("worker", 1), 0)], most=4)
    assert code == 0
    assert workers_of(started) == [(0, ["h:1"], None), (1, ["h:1", "h:2"], "1"), (2, ["h:1", "h:2", "h:3"], "1")]


def test_a_lost_worker_joins_again_under_its_index(launched):
    events = [(("worker", 1), None), (("worker", 1), None), (("worker", 1), 0), (("worker", 0), 0)]
    code, started = launched(1, events, most=2, restarts=0)               # those that join may be lost at any time
    assert code == 0
    assert [i for i, *_ in workers_of(started)] == [0, 1, 1, 1]
    assert workers_of(started)[-1][1] == ["h:1", "h:4"]                   # at a new address


def test_a_worker_of_the_beginning_moves_so_often(launched):
    assert launched(0, [(("worker", 1), None), (("worker", 1), 0), (("worker", 0), 0)], workers=2, restarts=1)[0] == 0
    assert launched(0, [(("worker", 1), None), (("worker", 1), None)], workers=2, restarts=1)[0] == 1


def test_a_chief_that_is_lost_or_a_task_that_fails_ends_the_job(launched, capsys):
    assert launched(0, [(("worker", 0), None)])[0] == 1
    assert "worker 0 is lost" in capsys.readouterr().out
    assert launched(1, [(("worker", 1), 7)], most=2)[0] == 7


def test_nobody_joins_after_the_end(launched):
    code, started = launched(0, [(("worker", 0), 0), (("worker", 1), None)], workers=2, most=5)
    assert code == 0 and len(workers_of(started)) == 2


def test_options_that_do_not_fit(capsys, tmp_path):
    path = tmp_path / "x.py"
    path.touch()
    for args, word in ((["--max-workers", "3"], "--on ray"), (["--on", "ray", "--coordinated"], "--coordinated"),
                       (["--on", "ray", "--workers", "4", "--max-workers", "3"], "fewer than the 4 workers")):
        assert main(["launch", *args, str(path)]) == 1
        assert word in capsys.readouterr().err

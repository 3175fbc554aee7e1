"""`penstock launch` and `penstock server`: real processes, their logs, their deaths, their end."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import launch, status, tf_config
from penstock._src.cluster.ports import free_addresses
from penstock_cli import main
from tests.checks import eventually, gone

pytestmark = pytest.mark.distributed


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text("import json, os, sys, time\nconfig = json.loads(os.environ['TF_CONFIG'])\n"
                        f"job, index = config['task']['type'], config['task']['index']\nfolder = {str(tmp_path)!r}\n{text}")
        return str(path)
    return write


def started(*args):
    return subprocess.Popen([sys.executable, "-m", "penstock", "launch", *args], stdout=subprocess.PIPE, text=True)


def task_lines(launcher):
    """What the tasks print, without what the launcher says of them."""
    return (line for line in launcher.stdout if not line.startswith("-- "))


def test_everybody_knows_the_cluster_and_the_secret(script, capfd):
    path = script("""
print(json.dumps(config), os.environ['PENSTOCK_SECRET'], sys.argv[1:], flush=True)
open(f"{folder}/{job}", "w").close()
while job == "ps" or not os.path.exists(f"{folder}/ps"):       # which ends when the workers do
    time.sleep(0.02)
""")
    assert main(["launch", "--ps", "1", "--workers", "2", path, "--rate=1", "x"]) == 0
    lines = [ln for ln in capfd.readouterr().out.splitlines() if "cluster" in ln and ln.startswith("[")]
    assert sorted(ln.split("] ")[0].strip("[ ") for ln in lines) == ["ps 0", "worker 0", "worker 1"]
    clusters = {json.dumps(json.loads(ln.split("] ", 1)[1].split("}}")[0] + "}}")["cluster"]) for ln in lines}
    assert len(clusters) == 1 and len(set(sum(json.loads(clusters.pop()).values(), []))) == 3
    assert len({ln.split("}} ")[1].split()[0] for ln in lines}) == 1 and all("['--rate=1', 'x']" in ln for ln in lines)


def test_textbook_flags_are_given_to_scripts_that_name_them(script):
    source = 'flags.DEFINE_string("job_name", ""); flags.DEFINE_integer("task_index", 0); flags.DEFINE_string("ps_hosts", "")'
    cluster = {"ps": ["a:1", "b:2"], "worker": ["c:3"]}
    assert launch.flags_for(source, cluster, "ps", 1) == ["--job_name=ps", "--task_index=1", "--ps_hosts=a:1,b:2"]
    assert launch.flags_for("print(1)", cluster, "ps", 1) == []


def test_a_task_that_dies_is_started_again(script, capfd):
    path = script("""
mark = os.path.join(folder, 'died')
if job == 'worker' and index == 1 and not os.path.exists(mark):
    open(mark, 'w').close()
    os.kill(os.getpid(), 9)
if job == 'ps': time.sleep(1000)
""")
    assert main(["launch", "--ps", "1", "--workers", "2", path]) == 0
    out = capfd.readouterr().out
    assert "[worker 1] -- was killed by SIGKILL; restarting in 0.2 s (1 of 3)" in out and "1 restarts" in out


def test_a_task_that_dies_too_often_ends_the_job(script, capfd):
    path = script("if index == 1: sys.exit(7)\ntime.sleep(1000)")
    assert main(["launch", "--ps", "0", "--workers", "2", "--restarts", "1", path]) == 7
    assert "failed with 7, and was already restarted 1 times: ending the job" in capfd.readouterr().out


def test_one_signal_ends_everybody(script):
    """Also what the tasks have started, and tasks that are stopped."""
    path = script("""
import signal, subprocess
child = subprocess.Popen(['sleep', '100'])
print(os.getpid(), child.pid)
if index == 1: os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(1000)
""")
    launcher = started("--ps", "1", "--workers", "2", path)
    lines = task_lines(launcher)
    pids = [int(p) for _ in range(3) for p in next(lines).split("] ")[1].split()]
    launcher.send_signal(signal.SIGINT)
    launcher.stdout.read()
    assert launcher.wait(60) == 128 + signal.SIGINT
    launcher.stdout.close()
    assert eventually(lambda: all(map(gone, pids)))


def test_what_launch_prints_leads_to_the_cluster(script, monkeypatch):
    """The status command works as it is printed, with no secret set; the page is served at the printed address."""
    for name in ("PENSTOCK_SECRET", "PENSTOCK_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)
    path = script("""
import penstock.compat.v1 as tf
server = tf.train.Server(config["cluster"], job, index)
while not os.path.exists(os.path.join(folder, "end")): time.sleep(0.05)
""")
    launcher = started("--ps", "1", "--workers", "1", path)
    try:
        said = {}
        for line in launcher.stdout:
            if line.startswith("-- "):
                said.update([line[3:].split(maxsplit=1)])
            if "is ready" in line:
                assert re.search(r"\] INFO \d\d:\d\d:\d\d /job:\w+/replica:0/task:0 is ready at grpc://", line), line
                if "/job:ps" in line:
                    break
        command, target = said["status"].split()[1:]
        assert command == "status" and target.removeprefix("grpc://") in said["cluster"]
        tasks = status.ask(target, timeout=60.0)["tasks"]
        assert {t["task"] for t in tasks} == {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"}
        with urllib.request.urlopen(said["page"].strip(), timeout=60) as page:
            assert "/job:ps/replica:0/task:0" in page.read().decode()
    finally:
        pathlib.Path(path).with_name("end").touch()
        launcher.stdout.read()
        launcher.stdout.close()
        assert launcher.wait(60) == 0


def test_a_server_from_the_command_line():
    address = free_addresses(1)[0]
    command = [sys.executable, "-m", "penstock", "server", "--cluster", f"ps={address}", "--job", "ps", "--task", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == f"/job:ps/task:0 listens at grpc://{address}\n"
    with tf.Graph().as_default(), tf.Session(f"grpc://{address}") as sess:
        assert sess.run(tf.constant(2.0) * 3.0) == 6.0
    server.terminate()
    server.stdout.close()
    assert server.wait(60) == 0


def test_a_server_from_tf_config(monkeypatch):
    cluster = {"ps": ["localhost:1", "localhost:2"], "worker": ["localhost:3"]}
    monkeypatch.setenv("TF_CONFIG", tf_config.tf_config(cluster, "ps", 1))
    spec, job, task = tf_config.from_environment()
    assert (spec.as_dict(), job, task) == (cluster, "ps", 1)
    assert tf_config.parse_cluster("ps=localhost:1,localhost:2;worker=localhost:3") == spec
    assert tf_config.parse_cluster('{"worker": {"2": "h:1"}}').as_dict() == {"worker": {2: "h:1"}}


def test_mistakes_are_said_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for args, word in ((["server"], "TF_CONFIG"), (["server", "--cluster", "ps"], "job=host"),
                       (["server", "--cluster", "ps=h:1;worker=h:2"], "job_name"),
                       (["server", "--cluster", "ps=h", "--job", "ps", "--task", "0"], "port"),
                       (["server", "--cluster", "ps=localhost:0", "--job", "ps", "--task", "3"], "3"),
                       (["launch", str(tmp_path / "none.py")], "none.py"), (["launch", "--workers", "0", "x.py"], "worker")):
        assert main(args) == 1
        assert word in capsys.readouterr().err
    monkeypatch.setenv("TF_CONFIG", "{")
    assert main(["server"]) == 1 and "TF_CONFIG" in capsys.readouterr().err


def test_tasks_do_not_outlive_a_launcher_that_is_killed(script):
    launcher = started("--ps", "0", "--workers", "2", script("print(os.getpid())\ntime.sleep(1000)"))
    lines = task_lines(launcher)
    pids = [int(next(lines).split("] ")[1]) for _ in range(2)]
    launcher.kill()
    launcher.wait(60)
    launcher.stdout.close()
    assert eventually(lambda: all(map(gone, pids)))


@pytest.mark.slow
def test_a_training_is_launched(tmp_path):
    """The digits on a cluster: while it trains, a parameter server is killed; it is started again, and the training ends."""
    example = pathlib.Path(__file__).parents[2] / "examples" / "digits_cluster.py"
    launcher = started("--ps", "1", "--workers", "2", str(example), f"--folder={tmp_path}", "--steps=300", "--delay=0.05")
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(iter(launcher.stdout.readline, "")))
    reader.start()
    try:
        def checkpoint():
            return any(tmp_path.glob("model.ckpt-[1-9]*.index"))
        assert eventually(checkpoint, 90), lines
        tasks = [p for p in os.listdir("/proc") if p.isdigit() and parent(p) == launcher.pid]
        ps = next(p for p in tasks if b"--job_name=ps" in pathlib.Path(f"/proc/{p}/cmdline").read_bytes())
        os.kill(int(ps), signal.SIGKILL)
        assert launcher.wait(120) == 0, lines
    finally:
        launcher.kill()
        reader.join(60)
        launcher.stdout.close()
    text = "".join(lines)
    assert "[ps 0    ] -- was killed by SIGKILL; restarting" in text
    assert text.count("worker 0: step 30") == 1 and text.count("worker 1: step 30") == 1


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None

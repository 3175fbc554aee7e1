"""penstock status and the status page: contents and access."""
import json
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import status, status_page
from penstock._src.cluster.slow_ops import Sampler
from penstock._src.cluster.status_charts import runs
from penstock._src.cluster.status_history import History
from penstock._src.cluster.status_metrics import prometheus
from penstock_cli import main
from tests.checks import eventually
from tests.cluster.conftest import addresses

pytestmark = pytest.mark.distributed


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_tasks_sessions_queues_and_waits(cluster, capsys):
    servers = cluster(ps=1, worker=2)
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(5, tf.float32, shared_name="inbox")
        other = tf.FIFOQueue(5, tf.float32, shared_name="nothing comes")
    put, take = queue.enqueue(1.0), other.dequeue(name="hungry")
    with tf.Session(servers["worker", 0].target) as sess:
        for _ in range(3):
            sess.run(put)
        waiting = threading.Thread(target=lambda: pytest.raises(tf.errors.OpError, sess.run, take))
        waiting.start()
        target = servers["worker", 1].target                   # any task knows all
        found = {}

        def seen():
            found.update({t["task"]: t for t in status.ask(target)["tasks"]})
            return found["/job:ps/replica:0/task:0"]["waits"]
        assert eventually(seen)
        ps, worker = found["/job:ps/replica:0/task:0"], found["/job:worker/replica:0/task:0"]
        sizes = {q["name"]: (q["size"], q["capacity"], q["waiting"]) for q in ps["queues"]}
        assert sizes == {"inbox": (3, 5, 0), "nothing comes": (0, 5, 1)}
        assert "hungry" in ps["waits"][0]["what"] and "nothing comes" in ps["waits"][0]["what"]
        assert worker["sessions"] == [{"number": 1, "steps": 4, "running": 1}] and ps["steps"] >= 3
        assert [d[0] for d in ps["devices"]] == ["/job:ps/replica:0/task:0/device:CPU:0"]
        assert main(["status", target]) == 0
        out = capsys.readouterr().out
        for word in ("/job:worker/replica:0/task:1", "inbox", "hungry", "Sessions", "steps/s"):
            assert word in out
        assert main(["status", target, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 3
    waiting.join(60)
    assert not waiting.is_alive()


def test_memory_and_the_variables_of_each_task(cluster):
    servers = cluster(ps=2, worker=1)
    for i, size in enumerate((10, 500)):
        with tf.device(f"/job:ps/task:{i}"):
            tf.get_variable(f"v{i}", [size], use_resource=bool(i))
    with tf.Session(servers["worker", 0].target) as sess:
        sess.run(tf.global_variables_initializer())
        first, second, worker = status.ask(servers["worker", 0].target)["tasks"]
    assert first["variables"] == {"count": 1, "bytes": 40, "largest": [["v0", 40]]}
    assert second["variables"] == {"count": 1, "bytes": 2000, "largest": [["v1", 2000]]}
    assert worker["variables"]["count"] == 0 and worker["memory"] > 1 << 20
    shown = {title: rows for title, _, rows in status.tables([first, second, worker])}
    assert shown["Variables"] == [["/job:ps/replica:0/task:0", "1", "40 B"], ["/job:ps/replica:0/task:1", "1", "2.0 KB"]]
    assert shown["Largest variables"] == [["v1", "/job:ps/replica:0/task:1", "2.0 KB"],
                                          ["v0", "/job:ps/replica:0/task:0", "40 B"]]


def test_a_task_that_does_not_answer_is_listed(capsys, monkeypatch):
    monkeypatch.setattr(status, "_PATIENCE", 0.3)
    server = tf.train.Server(addresses(ps=1, worker=1), "worker", 0)
    try:
        dead, alive = status.ask(server.target)["tasks"]
        assert "did not answer" in dead["error"] and alive["steps"] == 0
        assert main(["status", server.target]) == 0 and "did not answer" in capsys.readouterr().out
    finally:
        server.stop()
    assert main(["status", server.target, "--timeout", "0.2"]) == 1


def test_the_page_wants_its_key(cluster, capsys):
    server = cluster(ps=1)["ps", 0]
    assert main(["status", server.target, "--page"]) == 0
    url = capsys.readouterr().out.strip()

    def read(address):
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read().decode()
    assert "/job:ps/replica:0/task:0" in read(url)
    assert json.loads(read(url.replace("/?", "/status.json?")))[0]["task"] == "/job:ps/replica:0/task:0"
    for wrong in (url[:-1] + ("a" if url[-1] != "a" else "b"), url.partition("?")[0], url.replace("/?", "/etc/passwd?")):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            read(wrong)
    assert status.ask(server.target, "page")["url"] == url     # there is one page
    server.stop()
    with pytest.raises(urllib.error.URLError):
        read(url)


def task(name, **more):
    return {"task": name, "address": "a:1", "incarnation": "1", "up": 1.0, "devices": [], "steps": 1, "steps_per_second": 10.0,
            "sent_per_second": 0.0, "received_per_second": 2e6, "sessions": [], "queues": [], "waits": [], "memory": 1 << 20,
            "variables": {"count": 0, "bytes": 0, "largest": []}, "restarts": 0, "spent": [1.0, 2.0, 3.0],
            "step_seconds": [0.01, 0.02, 0.005], "links": [], "slow_ops": [], "scalars": {}, "checkpoints": [], **more}


def test_the_page_shows_a_straggler_and_a_lost_task_first():
    tasks = [task("/job:worker/task:0"), task("/job:worker/task:1"), task("/job:worker/task:2", steps_per_second=1.0),
             {"task": "/job:ps/task:0", "address": "b:1", "error": "<gone>"}]
    wrong = re.findall("<p class=wrong>(.*?)</p>", status_page.render(tasks))
    assert wrong == ["/job:ps/task:0 does not answer: &lt;gone&gt;", "/job:worker/task:2: 1.0 steps/s, where 10.0 are usual"]
    assert "class=wrong" not in status_page.render(tasks[:2])


def test_history():
    history = History()
    for now, value in enumerate((1.0, 2.0, None, 4.0)):
        tasks = [task("a"), task("b", steps_per_second=value) if value else {"task": "b", "address": "x", "error": "gone"}]
        history.add(tasks, now)
    history.add([task("a"), task("b", incarnation="2")], 4.0)
    assert [what for _, what in history.events] == ["b does not answer: gone", "b answers again", "b was restarted"]
    assert [[v for _, v in run] for run in runs(history._samples, "b", "steps_per_second")] == [[1.0, 2.0], [4.0, 10.0]]
    page = history.charts()
    assert page.count("<svg") == 8 and page.count("<polyline") == 8 * 3          # the line of b is interrupted
    assert "Seconds of a step: wait" in page and ">0.02</text>" in page
    assert ">2M</text>" in page and "b was restarted" in page
    assert History().charts() == ""


def test_the_page_of_a_large_cluster_stays_small():
    """Charts have the lowest, median and highest value of each job, few points, and the spikes; long tables are cut."""
    def many(when):
        peers = [f"/job:ps/task:{i}" for i in range(20)]
        links = [[peer, 1.0, 1.0, float(i), 0.0] for i, peer in enumerate(peers)]
        return [task(f"/job:worker/replica:0/task:{i}", links=links, memory=5e9 if (i, when) == (7, 1234.0) else 1e9)
                for i in range(100)]
    history = History()
    for n in range(617 * 2):
        history.add(many(float(n)), float(n))
    charts = history.charts()
    names = re.findall(r"&#9644; (.*?)</span>", charts)
    assert names == ["/job:worker, highest", "/job:worker, lowest", "/job:worker, median"]
    page = status_page.render(many(0.0), charts)
    assert len(page) < 300_000 and ">5G</text>" not in charts
    history.add(many(1234.0), 1234.0)
    charts = history.charts()
    memory, = re.findall(r"Memory, bytes.*?</figure>", charts)
    lines = [line.split() for line in re.findall("points='(.*?)'", memory)]
    assert ">5G</text>" in memory and "520.0,0.0" in lines[0] and all(len(points) < 270 for points in lines)
    assert "1900 more rows" in page and page.count("<td>/job:ps/task:19</td>") == 100        # the busiest links


def test_metrics_for_prometheus(cluster):
    server = cluster(ps=1)["ps", 0]
    address, _, key = status.ask(server.target, "page")["url"].partition("?key=")
    with tf.Session(server.target, graph=tf.Graph()) as sess:
        with sess.graph.as_default():
            queue = tf.FIFOQueue(3, tf.float32, shared_name='a"b')
            sess.run(queue.enqueue(1.0))
    request = urllib.request.Request(address + "metrics", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    who = '{task="/job:ps/replica:0/task:0"}'
    assert found["penstock_task_up" + who] == "1" and float(found["penstock_task_seconds" + who]) > 0
    size, = (v for k, v in found.items() if k.startswith("penstock_queue_size") and 'queue="a\\"b"' in k)
    assert size == "1" and found["penstock_stragglers"] == "0"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address + "metrics", timeout=60)
    assert prometheus([{"task": "t", "address": "a", "error": "gone"}]).count('penstock_task_up{task="t"} 0') == 1


def test_who_does_not_know_the_secret_sees_nothing(monkeypatch, capsys):
    monkeypatch.setenv("PENSTOCK_SECRET", "right")
    server = tf.train.Server.create_local_server()
    try:
        monkeypatch.setenv("PENSTOCK_SECRET", "wrong")
        for more in ([], ["--page"]):
            assert main(["status", server.target, *more]) == 1
        assert "secret" in capsys.readouterr().err
    finally:
        server.stop()


def test_stragglers():
    def task(name, rate, **tallies):
        return {"task": name, "steps_per_second": rate, "queues": [{"tallies": tallies}] if tallies else []}
    tasks = [task("/job:worker/replica:0/task:0", 10.0), task("/job:worker/replica:0/task:1", 11.0),
             task("/job:worker/replica:0/task:2", 1.0), task("/job:ps/replica:0/task:0", 30.0, a=[90, 10], b=[5, 60]),
             {"task": "/job:worker/replica:0/task:3", "error": "gone"}]
    assert status.stragglers(tasks) == ["/job:worker/replica:0/task:2: 1.0 steps/s, where 10.0 are usual",
                                        "b: 60 of 65 gradients came too late"]


def test_strangers_do_not_use_up_the_descriptors_of_a_page(monkeypatch):
    monkeypatch.setattr(status_page, "_MOST", 4)
    page, idle = status_page.StatusPage("localhost", lambda: []), []
    try:
        for _ in range(20):
            idle.append(socket.create_connection(page._server.server_address, timeout=60))
        with urllib.request.urlopen(page.url, timeout=60) as answer:
            assert answer.status == 200
        assert len(page._server._connections) <= 4
        assert eventually(lambda: sum("process_request_thread" in t.name for t in threading.enumerate()) <= 4)
    finally:
        for sock in idle:
            sock.close()
        page.close()


def test_a_page_whose_sampler_fails_goes_on(caplog):
    calls = []

    def collect():
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("no status yet")
        return []
    page = status_page.StatusPage("localhost", collect)
    try:
        assert eventually(lambda: len(calls) > 1)
        assert any("penstock history" in r.getMessage() and "no status yet" in r.getMessage() for r in caplog.records)
    finally:
        page.close()


def test_what_steps_spend_their_time_on(cluster):
    servers = cluster(ps=1, worker=2)
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(5, tf.float32, shared_name="inbox")
        large = tf.get_variable("large", [300, 300], use_resource=True)
    put, product = queue.enqueue(1.0), tf.reduce_sum(tf.matmul(large, large))
    with tf.device("/job:worker/task:0"):
        used = tf.identity(queue.dequeue()) + product
    with tf.Session(servers["worker", 0].target) as sess, tf.Session(servers["worker", 1].target) as other:
        sess.run(tf.global_variables_initializer())
        waiting = threading.Thread(target=lambda: sess.run(used))
        waiting.start()
        assert eventually(lambda: any(t["waits"] for t in status.ask(servers["worker", 0].target)["tasks"]))
        other.run(put)
        waiting.join(60)
        ps, worker, _ = status.ask(servers["worker", 0].target)["tasks"]
    for task in (ps, worker):
        compute, wait, transfer = task["spent"]
        assert compute > 0 and wait > 0 and transfer > 0 and len(status.step_time(task)) == 4
    sent, received, *_ = {peer: numbers for peer, *numbers in worker["links"]}["/job:ps/replica:0/task:0"]
    assert sent > 0 and received > 0
    titles = {title for title, *_ in status.tables([ps, worker])}
    assert {status.STEP_TIME, "Links"} <= titles


def test_a_step_of_one_task_is_counted(cluster):
    server = cluster(worker=1)["worker", 0]
    with tf.Session(server.target) as sess:
        before = status.ask(server.target)["tasks"][0]
        sess.run(tf.constant(1.0) + 1.0)
        after = status.ask(server.target)["tasks"][0]
    assert after["steps"] == before["steps"] + 1 and after["spent"][0] > before["spent"][0]


@pytest.mark.usefixtures("nothing_noted")
def test_scalars_and_checkpoints_reach_the_status(cluster, tmp_path):
    server = cluster(worker=1)["worker", 0]
    v, step = tf.get_variable("v", initializer=1.0), tf.train.get_or_create_global_step()
    merged = tf.summary.merge([tf.summary.scalar("loss", v * 0.25), tf.summary.histogram("spread", v)])
    with tf.Session(server.target) as sess, tf.summary.FileWriter(tmp_path) as writer:
        sess.run(tf.global_variables_initializer())
        writer.add_summary(sess.run(merged), 7)
        path = tf.train.Saver().save(sess, str(tmp_path / "model"), step)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="rate", simple_value=float("nan"))]), 8)
        task, = status.ask(server.target)["tasks"]
    assert task["scalars"] == {"loss": [7, 0.25], "rate": [8, "nan"]} and json.loads(json.dumps(task, allow_nan=False))
    assert [save[1] for save in task["checkpoints"]] == [path]
    assert status.problems([task]) == [f"{task['task']}: rate is nan at step 8"]
    history = History()
    history.add([task], 1.0)
    history.add([task], 2.0)
    assert "<figcaption>loss</figcaption>" in history.charts() and path in history.charts()
    lines = prometheus([task]).splitlines()
    assert f'penstock_scalar{{task="{task["task"]}",tag="loss"}} 0.25' in lines
    assert any(line.startswith("penstock_checkpoint_timestamp_seconds{") for line in lines)


def test_the_slowest_ops():
    sampler, running, end = Sampler(), threading.Event(), threading.Event()

    def slow(x):
        running.set()
        end.wait(60)
        return x
    op = tf.py_func(slow, [tf.constant(1.0)], tf.float32, name="slow_one")
    with tf.Session() as sess:
        working = threading.Thread(target=lambda: sess.run(op))
        working.start()
        assert running.wait(60)
        for _ in range(4):
            sampler.look()
        end.set()
        working.join(60)
        sampler.look()
    assert ["slow_one", 0.8] in [[name, part] for name, _, part in sampler.slowest()]


def test_all_wait_for_one():
    def worker(i, wait):
        return task(f"/job:worker/task:{i}", sessions=[{}], steps_per_second=10.0, step_seconds=[0.01, wait, 0.0])
    tasks = [worker(0, 0.08), worker(1, 0.081), worker(2, 0.005)]
    assert status.stragglers(tasks) == ["/job:worker/task:2: 95.0 ms of its own in each step, where 20.0 are usual"]
    assert status.stragglers(tasks[:2]) == []


def test_watched_from_outside_by_any_task_that_answers(cluster, monkeypatch):
    monkeypatch.setattr(status, "_SHORT", 0.2)
    monkeypatch.setattr(status, "_PATIENCE", 0.5)
    servers = cluster(ps=1, worker=1)
    watched = status.Watched({"ps": [servers["ps", 0].target.removeprefix("grpc://")],
                              "worker": [servers["worker", 0].target.removeprefix("grpc://")]}, "")
    assert ["error" in t for t in watched()] == [False, False]
    servers["ps", 0].stop()
    assert ["error" in t for t in watched()] == [True, False]
    servers["worker", 0].stop()
    assert ["error" in t for t in watched()] == [True, True]


@pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium is not installed")
@pytest.mark.timeout(500)
def test_the_page_in_a_browser(tmp_path):
    """The page follows the cluster without being loaded again, and its picture can be taken."""
    asked = []

    def collect():
        asked.append(1)
        return [task("/job:worker/task:0", steps=len(asked), slow_ops=[["dense/MatMul", "MatMul", 0.4]],
                     scalars={"loss": [len(asked), 1 / len(asked)]})]
    page = status_page.StatusPage("localhost", collect)
    try:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                   "--no-first-run", "--disable-background-networking"]
        shown = subprocess.run([*command, "--virtual-time-budget=9000", "--dump-dom", page.url], capture_output=True, text=True,
                               timeout=200, check=True).stdout
        picture = tmp_path / "page.png"
        subprocess.run([*command, f"--screenshot={picture}", page.url], capture_output=True, timeout=200, check=True)
    finally:
        page.close()
    assert "dense/MatMul" in shown and "class=\"bar\"" in shown and "class=\"wrong\"" not in shown
    steps, = map(int, re.findall("<td>loss</td><td>([0-9]+)</td>", shown))
    assert steps > 3                             # one of the sampler, one as loaded, and more since then
    assert picture.read_bytes()[:4] == b"\x89PNG"

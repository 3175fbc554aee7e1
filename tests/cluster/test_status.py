"""penstock status and the status page: contents and access."""
import json
import re
import socket
import threading
import urllib.error
import urllib.request

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import status, status_page
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
    assert shown["Variables"] == [["/job:ps/replica:0/task:0", "1", "40 B", "v0 (40 B)"],
                                  ["/job:ps/replica:0/task:1", "1", "2.0 KB", "v1 (2.0 KB)"]]


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
            "variables": {"count": 0, "bytes": 0, "largest": []}, **more}


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
    assert [[v for _, v in run] for run in history._runs("b", "steps_per_second")] == [[1.0, 2.0], [4.0, 10.0]]
    page = history.charts()
    assert page.count("<svg") == 4 and page.count("<polyline") == 4 * 3          # the line of b is interrupted
    assert ">2M</text>" in page and "b was restarted" in page
    assert History().charts() == ""


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

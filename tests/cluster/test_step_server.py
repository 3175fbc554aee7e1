"""The worker's end of a step link."""
import socket
import types

from penstock._src.base import errors
from penstock._src.cluster.link import Link
from penstock._src.cluster.step_server import StepServer


def test_a_part_whose_link_ends_while_it_begins_does_not_run():
    """Its master is lost between the message and the begin: no event would end the part later."""
    ours, theirs = socket.socketpair()
    link, seen = Link(ours, "/job:ps/task:0", 7), []
    exchange = types.SimpleNamespace(step="7:1", links={}, pump=None, waiting_to_go={})

    def begin(step, ctx, master):
        link.end(errors.UnavailableError(None, None, "it has been silent"))
        return exchange
    part = types.SimpleNamespace(feeds=0, on_one_thread=True, joins=(), waits_for_nothing=False, seconds=0.0)
    engine = types.SimpleNamespace(step_context=lambda timeout: None)
    worker = types.SimpleNamespace(
        session=lambda name: types.SimpleNamespace(parts={0: part}, engine=engine, format=None), begin=begin,
        run=lambda *_: seen.append("run") or (), end=lambda step: seen.append(f"end {step}"), abort=lambda *_: None)
    with theirs:
        server = StepServer(worker, link)
        try:
            server._run({"session": "s", "part": 0, "number": 1}, [])
        except errors.UnavailableError:
            seen.append("unavailable")
        link.close()
    assert seen == ["end 7:1", "unavailable"]

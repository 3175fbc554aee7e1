"""Random and mutated messages at every port of a cluster: it must continue serving, and its memory must not grow.

    python -m tests.cluster.fuzz --bytes 10000000
"""
import argparse
import contextlib
import json
import pathlib
import random
import socket
import struct

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.cluster import security, wire

WORDS = ["do", "create", "extend", "run", "close", "reset", "partial_setup", "partial_run", "devices", "link", "step", "watch",
         "client", "tensor", "abort", "register", "open", "session", "task", "to", "incarnation", "lost", "host", "fetches",
         "feeds", "options", "metadata", "fresh", "key", "dead", "part", "timeout", "trace", "peers", "targets", "by_tokens",
         "containers", "re", "id", "free", "values", "why", "handle"]


def garbage(draw, task):
    """Some bytes: noise, a message of a made-up kind, or a real one with a few bytes changed."""
    kind = draw.randrange(4)
    if kind == 0:
        return draw.randbytes(draw.randrange(1, 4000))
    header = {"do": draw.choice(WORDS), **{draw.choice(WORDS): thing(draw, 0) for _ in range(draw.randrange(8))}}
    if draw.random() < 0.5:
        header.update(task=task, to=task, incarnation=draw.randrange(1 << 62), lost=0.3, host="")
    values = [draw.choice([b"", draw.randbytes(draw.randrange(200)), None]) for _ in range(draw.randrange(3))]
    data = bytearray(b"".join(wire.pack(header, values)[0]))
    if kind == 1:
        header["values"] = thing(draw, 0)
        text = json.dumps(header).encode()
        return struct.pack("<4sIQQ", b"PNS2", len(text), draw.choice([0, 3, 1 << 20, 1 << 62]), 0) + text + draw.randbytes(50)
    for _ in range(draw.randrange(4) if kind == 2 else 0):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def thing(draw, depth):
    """Anything that JSON can say."""
    kind = draw.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return draw.choice([None, True, False, -1, 0, 1, 1 << 31, -(1 << 63), 1e308])
    if kind == 1:
        return draw.choice(WORDS)
    if kind == 2:
        return draw.randrange(1 << 40)
    if kind in (3, 4):
        shape = [draw.choice([0, 1, 3, 1 << 20, 1 << 40, -1])] * draw.randrange(4)
        return ["tensor", draw.choice(["float32", "int8", "no"]), shape]
    if kind == 5:
        return ["shared", "float32", [draw.randrange(100)], [0, 4096, draw.randrange(1 << 16), draw.randrange(100)]]
    if kind == 8:
        return {draw.choice(WORDS): thing(draw, depth + 1)}
    return [thing(draw, depth + 1) for _ in range(draw.randrange(4))]


def attack(host, port, task, size, seed=0):
    """Sends `size` bytes of garbage to a port, over many connections, most of which know how to greet."""
    draw = random.Random(seed)
    while size > 0:
        with contextlib.suppress(OSError, tf.errors.OpError), socket.create_connection((host, port), timeout=10) as sock:
            if draw.random() < 0.8:
                security.authenticate(sock, security.secret(), serving=False)
            for _ in range(draw.randrange(1, 30)):
                data = garbage(draw, task)
                size -= len(data)
                sock.sendall(data)
            if draw.random() < 0.1:
                sock.settimeout(0.05)
                sock.recv(1000)


def memory(pid):
    """Bytes of memory that a process has in use."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def serves(target):
    """Runs a step over both tasks."""
    with tf.Graph().as_default(), tf.Session(target, config=tf.ConfigProto(operation_timeout_in_ms=20_000)) as sess:
        with tf.device("/job:ps/task:0"):
            x = tf.placeholder(tf.float32, [3]) * 2.0
        with tf.device("/job:worker/task:0"):
            y = x + 1.0
        return np.array_equal(sess.run(y, {x.op.inputs[0]: [1, 2, 3]}), [3, 5, 7])


def main():
    from tests.cluster.conftest import Processes, addresses
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=10_000_000)
    args = parser.parse_args()
    tasks = Processes(addresses(ps=1, worker=1))
    try:
        tasks.start(("ps", 0), ("worker", 0))
        assert serves(tasks.target("worker"))
        for seed, part in ((1, args.bytes // 10), (2, args.bytes)):           # the first warms up
            for (job, i), process in tasks.running.items():
                host, port = tasks.spec[job][i].split(":")
                before = memory(process.pid)
                attack(host, int(port), f"/job:{job}/replica:0/task:{i}", part, seed)
                now = memory(process.pid)
                print(f"{job} {i}: {part} bytes, memory {before / 1e6:.0f} MB -> {now / 1e6:.0f} MB", flush=True)
        assert serves(tasks.target("worker")) and serves(tasks.target("ps"))
        print("both still serve")
    finally:
        tasks.end()


if __name__ == "__main__":
    main()

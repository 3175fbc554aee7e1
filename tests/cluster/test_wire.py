"""Messages over a link: numbers, repeated headers, and large messages in chunks that let small ones pass."""
import socket
import struct

import numpy as np
import pytest
import torch

from penstock._src.base import errors
from penstock._src.cluster import wire
from penstock._src.cluster.link import Link


@pytest.fixture
def ends():
    a, b = socket.socketpair()
    here, there = Link(a, "there", 1), Link(b, "here", 2)
    yield here, there
    here.close()
    there.close()


def test_a_head_is_sent_with_other_numbers_and_values(ends):
    here, there = ends
    head = wire.Head({"do": "tensor", "key": "ü"})
    for number, value in [(1, torch.tensor(2.0)), (2, torch.tensor(3.0)), (1 << 63, torch.arange(4)), (0, torch.ones(2, 0))]:
        here.post(head, [value], number)
        header, values = there.next()
        assert header.pop("number", 0) == number and header == {"do": "tensor", "key": "ü"}
        assert torch.equal(values[0], value) and values[0].dtype == value.dtype
        header["do"] = "changed by the receiver"


def test_what_a_header_says_is_not_kept_without_bound(ends):
    here, there = ends
    for i in range(3 * wire._KEPT):
        here.post({"n": i}, [torch.zeros(i % 7)])
        assert there.next()[0] == {"n": i}
    assert len(there._reader._known) <= wire._KEPT and len(wire._KINDS) <= wire._KEPT


def test_a_small_message_passes_a_large_one(ends):
    here, there = ends
    large = [torch.arange(24 << 20, dtype=torch.int8), b"x" * (3 << 20), np.array([b"a" * (2 << 20), b""], object), None]
    here.post({"do": "large"}, large, 7)                 # far more than a socket holds
    here.post({"do": "large too"}, [torch.ones(2 << 20)], 8)
    here.post({"do": "small"}, [torch.tensor(1)], 9)
    order = []
    for _ in range(3):
        header, values = there.next()
        order.append((header["do"], header["number"]))
        if header["do"] == "large":
            assert torch.equal(values[0], large[0]) and values[1] == large[1] and values[3] is None
            assert values[2].tolist() == large[2].tolist()
    assert order == [("small", 9), ("large too", 8), ("large", 7)]


def test_a_long_queue_of_messages_arrives_in_order(ends):
    here, there = ends
    for i in range(400):                                 # more than a socket holds
        here.post({"n": i}, [torch.full((2000,), i)])
    got = [there.next() for _ in range(400)]
    assert [h["n"] for h, _ in got] == list(range(400)) and all(int(v[0][0]) == h["n"] for h, v in got)


@pytest.mark.parametrize("frames", [
    [(b"PNSp", b"", 8, 3)],                                                              # a piece of nothing
    [(b"PNSb", b'{"values":[["bytes",8]],"stream":1}', 8, 0), (b"PNSp", b"", 9, 1)],     # more than was announced
    [(b"PNSb", b'{"values":[["bytes",8]]}', 8, 0)],
    [(b"PNSb", b'{"values":[["bytes",8]],"stream":1}', 8, 0)] * 2,
    [(b"PNSb", b'{"values":[["bytes",8]],"stream":%d}' % i, 8, 0) for i in range(100)],
    [(b"PNSb", b'{"values":[],"stream":1}', 0, 0)],
])
def test_pieces_that_do_not_fit_are_refused(frames):
    a, b = socket.socketpair()
    with a, b:
        for magic, text, size, number in frames:
            a.sendall(struct.pack("<4sIQQ", magic, len(text), size, number) + text)
        with pytest.raises(errors.InvalidArgumentError):
            wire.receive(b)

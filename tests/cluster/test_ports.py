"""Reserved ports: distinct, bindable, outside the ephemeral range, and not used by other processes."""
import socket
import subprocess
import sys

from penstock._src.cluster import ports


def test_listeners_of_the_kernel_never_take_a_reserved_port():
    reserved = {int(a.rsplit(":", 1)[1]) for a in ports.free_addresses(20, "127.0.0.1")}
    assert len(reserved) == 20
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(200)]
    assert not reserved & {s.getsockname()[1] for s in taken}
    for s in taken:
        s.close()
    for port in reserved:
        socket.create_server(("127.0.0.1", port)).close()


def test_another_process_does_not_reserve_the_same_port(monkeypatch):
    first = {int(a.rsplit(":", 1)[1]) for a in ports.free_addresses(50, "127.0.0.1")}
    low, high = min(first), min(first) + 200
    program = f"""
from penstock._src.cluster import ports
ports._LOWEST, ports._first_ephemeral = {low}, lambda: {high}
print(*[a.rsplit(":", 1)[1] for a in ports.free_addresses(100, "127.0.0.1")])
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert len(out.split()) == 100 and not first & set(map(int, out.split()))

"""Clients that are slow, broken or hostile; TLS and tokens; the end of a server."""
import gzip
import http.client
import json
import os
import random
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading

import grpc
import pytest

from penstock._src.base import errors
from penstock._src.cluster.ports import free_addresses
from penstock._src.graph.messages import TensorInfo
from penstock._src.graph.tensor_proto import make_tensor_proto
from penstock._src.serving import access, servable
from penstock._src.serving.http1 import HttpServer, Limits, Request, Response
from penstock._src.serving.messages import pb
from tests.serving.models import Client, config_of, floats, half_plus, serving

MODEL = "/v1/models/half_plus_two"


def raw(port, data, shut=False):
    """What the server answers to these bytes."""
    with socket.create_connection(("localhost", port), timeout=60) as sock:
        sock.sendall(data)
        if shut:
            sock.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := sock.recv(1 << 16):
            answer += piece
        return answer


@pytest.mark.parametrize("data, status", [
    (b"nonsense\r\n\r\n", 400), (b"GET / HTTP/3.0\r\n\r\n", 400), (b"\x16\x03\x01\x00\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n x: folded\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab", 400),
    (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400), (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nTransfer-Encoding: magic\r\n\r\n", 501),
    (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
    (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n80000000\r\n", 413),
    (b"POST " + MODEL.encode() + b":predict HTTP/1.1\r\nContent-Length: 2147483648\r\n\r\n{", 413),
    (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
    (b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", 431),
])
def test_what_is_not_http(served, client, data, status):
    assert raw(served.rest_port, data).startswith(b"HTTP/1.1 %d " % status)
    assert client.rest("POST", f"{MODEL}:predict", {"instances": [2]})[0] == 200


def test_a_body_that_breaks_off(served):
    assert raw(served.rest_port, b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc", shut=True).startswith(b"HTTP/1.1 400 ")


def test_chunks_and_several_requests_on_one_connection(served):
    body = json.dumps({"instances": [2.0]}).encode()
    chunked = b"POST %s:predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\nt: u\r\n\r\n" % (
        MODEL.encode(), body[:3], len(body) - 3, body[3:])
    answer = raw(served.rest_port, chunked + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2 and b'"predictions": [4.0]' in answer


def test_a_thousand_half_open_connections_do_not_disturb_others(served, client):
    """Fewer, if this process may not have the descriptors of both ends: the rest of the suite needs some, too."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, min(most, 4096) if most != resource.RLIM_INFINITY else 4096), most))
    held = []
    try:
        for i in range(min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3)):
            sock = socket.create_connection(("localhost", served.rest_port), timeout=60)
            sock.sendall((b"", b"POST ", b"GET / HTTP/1.1\r\nx")[i % 3])
            held.append(sock)
        assert client.rest("POST", f"{MODEL}:predict", {"instances": [2]}) == (200, {"predictions": [4.0]})
        assert client.predict("half_plus_two", x=floats(2))["y"].tolist() == [4.0]
    finally:
        for sock in held:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def with_limits(limits, talk):
    """Runs `talk` with the port of a small server."""
    import asyncio

    async def handler(request: Request) -> Response:
        return Response(request.body)

    async def main():
        server = HttpServer(handler, limits, lambda text: text.encode())
        port = await server.start("localhost", 0)
        try:
            return await asyncio.to_thread(talk, port)
        finally:
            await server.stop(1.0)
    return asyncio.run(main())


def test_slow_clients_are_dropped():
    limits = Limits(header_seconds=0.05, idle_seconds=0.05, body_seconds=0.05)
    assert with_limits(limits, lambda port: raw(port, b"GET / HT")) == b""
    assert with_limits(limits, lambda port: raw(port, b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")) == b""
    assert with_limits(limits, lambda port: raw(port, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent, answer", [(b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 "), (b"GET / HT", b"HTTP/1.1 200 "),
                                          (b"POST / HTTP/1.1\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
                                           b"HTTP/1.1 503 ")], ids=["idle", "half-open", "busy"])
def test_connections_are_limited(sent, answer):
    """At the limit, one without a request makes room for the next; if all have one, the next is refused."""
    def talk(port):
        with socket.create_connection(("localhost", port), timeout=60) as first:
            first.sendall(sent)
            if b"\r\n\r\n" in sent:
                assert first.recv(1000)                # the server has read it
            return raw(port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert with_limits(Limits(connections=1), talk).startswith(answer)


def test_connections_leave_descriptors_for_other_things(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    assert Limits().open_at_once() == 10 and Limits(connections=3).open_at_once() == 3


def test_a_small_body_that_inflates_to_a_large_one():
    body = gzip.compress(b"0" * 100_000)
    head = b"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert with_limits(Limits(body=10_000), lambda port: raw(port, head + body)).startswith(b"HTTP/1.1 413 ")


def test_the_inflated_size_of_a_body_is_bounded_by_its_size(monkeypatch):
    """A limit for all bodies would let each small one take as much memory as a large one."""
    monkeypatch.setattr("penstock._src.serving.http1._INFLATED", 5000)

    def sent(data):
        body = gzip.compress(data)
        head = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        return with_limits(Limits(), lambda port: raw(port, head + body))
    assert sent(bytes(1_000_000)).startswith(b"HTTP/1.1 413 ")
    assert sent(bytes(5000)).startswith(b"HTTP/1.1 200 ")
    assert sent(random.Random(1).randbytes(100_000)).startswith(b"HTTP/1.1 200 ")


def test_clients_that_reset_their_connections_are_not_logged(caplog):
    def talk(port):
        for data in (b"GET / HTTP/1.1\r\nx: ", b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"):
            for reset in (0, 1) * 5:                 # at once, or when the answer comes
                with socket.create_connection(("localhost", port), timeout=60) as sock:
                    sock.sendall(data)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", reset, 0))
        return raw(port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert with_limits(Limits(), talk).startswith(b"HTTP/1.1 200 ")
    assert not [r for r in caplog.records if r.name == "asyncio"]


def test_bytes_that_are_no_message(served):
    with grpc.insecure_channel(f"localhost:{served.port}") as channel:
        with pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(b"\xff" * 50, timeout=60)
        assert failed.value.code() == grpc.StatusCode.INTERNAL
        with pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary("/tensorflow.serving.PredictionService/Explode")(b"", timeout=60)
        assert failed.value.code() == grpc.StatusCode.UNIMPLEMENTED


# -- tokens and TLS ---------------------------------------------------------------------------------------------------
def test_tokens(tmp_path):
    half_plus(tmp_path, 1)
    with serving(config_of("m", tmp_path), tokens=("s3cret", "other")) as server:
        with Client(server) as stranger, Client(server, "wrong") as wrong, Client(server, "other") as known:
            for each in (stranger, wrong):
                assert each.http("POST", "/v1/models/m:predict", {"instances": [1]})[0] == 401
                assert each.http("GET", "/monitoring/prometheus/metrics")[0] == 401
                with pytest.raises(grpc.RpcError) as failed:
                    each.predict("m", x=floats(1))
                assert failed.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert stranger.http("GET", "/readyz")[0] == 200
            assert known.http("POST", "/v1/models/m:predict", {"instances": [1]})[0] == 200
            assert known.predict("m", x=floats(1))["y"].tolist() == [2.5]


@pytest.mark.parametrize("header", ["", "s3cret", "Basic s3cret", "Bearer", "Bearer s3cre", "Bearer s3cret2"])
def test_headers_that_are_no_token(header):
    with pytest.raises(errors.UnauthenticatedError):
        access.authorize(("s3cret",), header)


def test_configuration_is_not_taken_from_strangers(tmp_path):
    with serving(config_of("m", tmp_path), host="0.0.0.0") as server, Client(server) as client:
        with pytest.raises(grpc.RpcError) as failed:
            client.call("tensorflow.serving.ModelService", "HandleReloadConfigRequest", pb.ReloadConfigRequest(),
                        pb.ReloadConfigResponse)
        assert failed.value.code() == grpc.StatusCode.PERMISSION_DENIED


def certificate(folder):
    """A self-signed certificate for localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with openssl")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return key.read_text(), cert.read_text()


def test_tls_on_both_ports(tmp_path):
    half_plus(tmp_path / "m", 1)
    key, cert = certificate(tmp_path)
    with serving(config_of("m", tmp_path / "m"), ssl=pb.SSLConfig(server_key=key, server_cert=cert)) as server:
        context = ssl.create_default_context(cadata=cert)
        connection = http.client.HTTPSConnection("localhost", server.rest_port, context=context, timeout=60)
        connection.request("POST", "/v1/models/m:predict", '{"instances": [2]}')
        assert json.loads(connection.getresponse().read()) == {"predictions": [3.0]}
        connection.close()
        with grpc.secure_channel(f"localhost:{server.port}", grpc.ssl_channel_credentials(cert.encode())) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check", None, pb.HealthCheckResponse.FromString)
            assert check(b"", timeout=60).status == 1
        assert raw(server.rest_port, b"GET /healthz HTTP/1.1\r\n\r\n") == b""


# -- the command ------------------------------------------------------------------------------------------------------
@pytest.mark.distributed
def test_the_command_drains_on_sigterm(tmp_path):
    half_plus(tmp_path, 1)
    ports = [a.rsplit(":", 1)[1] for a in free_addresses(2)]
    command = [sys.executable, "-m", "penstock", "serve", "--model_name", "m", "--model_base_path", str(tmp_path),
               "--port", ports[0], "--rest_api_port", ports[1], "--enable_batching=true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}) as server:
        connection = http.client.HTTPConnection("localhost", int(ports[1]), timeout=60)
        try:
            assert server.stdout.readline().strip() == f"gRPC at 127.0.0.1:{ports[0]}"
            assert server.stdout.readline().strip() == f"REST at 127.0.0.1:{ports[1]}"
            connection.putrequest("POST", "/v1/models/m:predict")
            body = b'{"instances": [2]}'
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body[:5])
            with socket.create_connection(("localhost", int(ports[1]))) as probe:     # the first request is being read by now
                probe.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
                assert probe.recv(100).startswith(b"HTTP/1.1 200")
            server.send_signal(signal.SIGTERM)
            timer = threading.Timer(0.1, connection.send, [body[5:]])
            timer.start()
            assert json.loads(connection.getresponse().read()) == {"predictions": [3.0]}
            timer.join()
            assert server.wait(60) == 0
        finally:
            connection.close()
            server.kill()


@pytest.mark.parametrize("args, words", [
    ([], "--model_base_path"), (["--model_base_path", "x", "--port", "0"], "nothing could reach"),
    (["--model_base_path", "x", "--batching_parameters_file", "y"], "without --enable_batching")])
def test_flags_that_contradict_each_other(capsys, args, words):
    from penstock_cli import main
    assert main(["serve", *args]) == 1 and words in capsys.readouterr().err


def test_a_port_that_is_taken(tmp_path):
    half_plus(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises((errors.UnavailableError, OSError)), serving(config_of("m", tmp_path), port=taken.getsockname()[1]):
            pass


def test_more_levels_than_arrays_have_dimensions(client):
    nested = 1.0
    for _ in range(70):
        nested = [nested]
    status, answer = client.rest("POST", f"{MODEL}:predict", {"instances": nested})
    assert status == 400 and "dimension" in answer["error"]


def test_a_value_that_is_to_be_repeated_for_ever():
    """A request of a few bytes must not take gigabytes."""
    proto = make_tensor_proto(floats(1.0))
    del proto.tensor_shape.dim[:]
    proto.tensor_content = b""
    proto.float_val.append(1.0)
    size = proto.tensor_shape.dim.add(size=1 << 20)
    assert servable.checked(proto, TensorInfo(dtype=1, tensor_shape={"unknown_rank": True}), "x").shape == (1 << 20,)
    size.size = 1 << 29
    with pytest.raises(errors.InvalidArgumentError, match="would take"):
        servable.checked(proto, TensorInfo(dtype=1, tensor_shape={"unknown_rank": True}), "x")

"""The clock, and resources that serve first come, first served."""
from penstock._src.simulate.engine import Clock, Pipe, Servers
from penstock._src.simulate.machines import Machine, Network
from penstock._src.simulate.wire import Host, Wire


def test_calls_are_made_in_the_order_of_time_and_then_of_scheduling():
    clock, made = Clock(), []
    clock.at(2.0, made.append, "c")
    clock.at(1.0, made.append, "a")
    clock.at(1.0, made.append, "b")
    clock.at(1.0, lambda: clock.after(0.5, made.append, "later"))
    clock.run()
    assert made == ["a", "b", "later", "c"] and clock.now == 2.0 and clock.events == 5


def test_a_clock_stops_at_its_limit():
    clock, made = Clock(), []
    for i in range(10):
        clock.at(float(i), made.append, i)
    clock.run(limit=4.5)
    assert made == [0, 1, 2, 3, 4] and clock.now == 4.5


def test_servers_have_one_queue():
    two = Servers(2)
    assert [two.book(0.0, 1.0) for _ in range(4)] == [1.0, 1.0, 2.0, 2.0]
    assert two.book(5.0, 1.0) == 6.0 and two.busy == 5.0 and two.utilization(5.0) == 0.5


def test_bytes_pass_a_pipe_one_after_the_other():
    pipe = Pipe(100.0)
    assert pipe.book(0.0, 100) == 1.0 and pipe.begin(0.5) == 1.0 and pipe.book(0.5, 50) == 1.5 and pipe.bytes == 150


def _wire(**network):
    clock = Clock()
    machine = Machine(nic=1e6, send_seconds=0.0, receive_seconds=0.0)
    hosts = [Host(f"h{i}", machine, rack) for i, rack in enumerate((0, 0, 0, 1))]
    return clock, Wire(clock, Network(**{"latency": 0.5, "small": 1000, "header": 0, **network})), hosts


def test_senders_share_the_receiver_and_a_receiver_that_sends_is_not_slowed_down():
    clock, wire, (a, b, c, _) = _wire()
    came = []
    for source, target in ((a, c), (b, c), (c, a)):
        wire.send(source, target, 2_000_000, lambda s=source: came.append((s.name, clock.now)))
    clock.run()
    assert came == [("h0", 2.5), ("h2", 2.5), ("h1", 4.5)]      # two seconds each, in sequence into c


def test_small_messages_pass_between_the_chunks_of_large_ones():
    clock, wire, (a, b, *_) = _wire()
    came = []
    wire.send(a, b, 10_000_000, lambda: came.append(("large", clock.now)))
    wire.send(a, b, 1000, lambda: came.append(("small", clock.now)))
    clock.run()
    assert came == [("small", 0.501), ("large", 10.5)]


def test_receivers_share_a_sender_by_bytes():
    clock, wire, (a, b, c, d) = _wire(rack_uplink=1e9)
    came = []
    for target, size, count in ((c, 2_000_000, 2), (d, 2_000_000, 1), (b, 500_000, 4)):
        for _ in range(count):
            wire.send(a, target, size, lambda t=target: came.append(t.name))
    clock.run()
    assert came == ["h2", "h1", "h1", "h1", "h2", "h3", "h1"]      # three short messages pass one long message


def test_racks_share_their_uplinks():
    clock, wire, (a, b, _, far) = _wire(rack_size=3, rack_uplink=5e5)
    came = []
    wire.send(a, far, 1_000_000, lambda: came.append(clock.now))
    wire.send(b, far, 1_000_000, lambda: came.append(clock.now))
    clock.run()
    assert came == [2.5, 4.5]

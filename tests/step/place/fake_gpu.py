"""A fake GPU for machines without one: its tensors claim not to be on the host, and cannot be mixed with host tensors.

It stands in for `Cuda` in a DeviceSet, so that placement, adaptation and transfers are tried as they would be on a GPU.
Programs over several logical GPUs run on pretended streams: uses of memory are checked against what a stream has waited for.
"""
import threading

import torch

from penstock._src.kernels.devices.cuda import Cuda

_LOOKS = set("__get__ __len__ __repr__ as_subclass data_ptr detach dim element_size expand is_complex is_conj is_contiguous "
             "is_floating_point is_neg nelement numel permute reshape resolve_conj resolve_neg select size squeeze stride t "
             "transpose unsqueeze untyped_storage view".split())
_running = threading.local()


class Race(AssertionError):
    """A stream uses memory that another one may be writing, reading or giving away."""


class FakeStreams:
    """Streams with vector clocks. What a stream does is one tick of it; waiting for an event is knowing of ticks."""

    def __init__(self, devices, apart=True):
        n = len(devices) if apart else 1
        self.clocks = [[0] * n for _ in range(n)]
        self.now, self.apart, self.switches = 0, apart, 0
        self.fork()

    def fork(self):
        _running.streams = self
        for clock in self.clocks[1:]:
            clock[:] = map(max, clock, self.clocks[0])

    def join(self):
        self.now = 0
        for clock in self.clocks[1:]:
            self.clocks[0][:] = map(max, clock, self.clocks[0])
        _running.streams = None                            # a program has ended, or something runs alone

    def on(self, number):
        self.now = number if self.apart else 0
        self.switches += 1

    def sent(self, value, number=None):
        if not isinstance(value, OnGpu):
            return value
        assert number in (None, self.now) or not self.apart
        return FakeParcel(value.clone(), list(self.clocks[self.now]))

    def received(self, parcel, number=None):
        if type(parcel) is not FakeParcel:
            return parcel
        assert number in (None, self.now) or not self.apart
        self.clocks[self.now][:] = map(max, self.clocks[self.now], parcel.event)
        _notes(parcel.value)["users"].add(self.now)
        return parcel.value

    def share(self, values):
        for value in values:
            if isinstance(value, OnGpu):
                _notes(value)["users"].update(range(len(self.clocks)))

    def used(self, value, writes):
        """Notes that the current stream reads or writes a tensor; Race if it may not."""
        clock, notes = self.clocks[self.now], _notes(value)
        if notes["run"] is not self:                       # just made, or there before
            notes.update(run=self, uses=[], given=notes["given"] or not writes and notes["owner"] is None,
                         owner=self.now if notes["owner"] is None else notes["owner"])
        for stream, tick, wrote in notes["uses"]:
            if (writes or wrote) and tick > clock[stream]:
                raise Race(f"stream {self.now} {'writes' if writes else 'reads'} what stream {stream} "
                           f"{'writes' if wrote else 'reads'}")
        if self.now != notes["owner"] and self.now not in notes["users"] and not notes["given"]:
            raise Race(f"stream {self.now} uses memory of stream {notes['owner']}, which does not know it")
        clock[self.now] += 1
        notes["uses"].append((self.now, clock[self.now], writes))


class FakeParcel:
    """A tensor between pretended streams."""

    def __init__(self, value, event):
        self.value, self.event = value, event


def _notes(value):
    with torch._C.DisableTorchFunctionSubclass():
        storage = value.untyped_storage()
    if not hasattr(storage, "notes"):
        storage.notes = {"run": None, "owner": None, "users": set(), "uses": [], "given": False}
    return storage.notes


def _check(func, before, out):
    """Notes what a kernel read and wrote."""
    streams, name = getattr(_running, "streams", None), getattr(func, "__name__", "")
    if streams is None or name in _LOOKS:
        return
    written = before[:1] if name.endswith("_") and not name.endswith("__") else []
    for t in before:
        streams.used(t, any(t is w for w in written))
    for t in out if isinstance(out, (tuple, list)) else [out]:
        if isinstance(t, OnGpu) and _notes(t)["run"] is None:
            streams.used(t, True)


class OnGpu(torch.Tensor):
    """A tensor of the pretended GPU; what is computed from it is there too."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        flat = [t for a in args for t in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(t, torch.Tensor)]
        if any(isinstance(t, OnGpu) for t in flat) and any(not isinstance(t, OnGpu) and t.dim() for t in flat) \
                and func is not torch.Tensor.copy_:
            raise RuntimeError(f"Expected all tensors to be on the same device: {func}")
        out = super().__torch_function__(func, types, args, kwargs or {})
        _check(func, [t for t in flat if isinstance(t, OnGpu)], out)
        return out

    is_cpu = property(lambda self: False)
    is_cuda = property(lambda self: True)

    def cpu(self):
        return self.as_subclass(torch.Tensor).clone()


class FakeGpu(Cuda):
    """A logical GPU whose tensors are OnGpu."""

    __slots__ = ()

    @classmethod
    def torch_device(cls, physical):
        return torch.device("cpu")

    @classmethod
    def count(cls):
        return 1

    @classmethod
    def memory(cls, physical):
        return 1 << 30

    def describe(self):
        return "a pretended GPU"

    def allocate(self, shape, dtype):
        return self.put(super().allocate(shape, dtype))

    def put(self, value):
        if not isinstance(value, torch.Tensor) or not value.is_cpu:
            return value
        there = value.clone().as_subclass(OnGpu)
        _check(torch.clone, [], there)
        return there

    def start(self, value, to):
        if to.host:
            return value.cpu() if isinstance(value, torch.Tensor) else value
        streams = getattr(_running, "streams", None)
        return value if streams is None else streams.sent(value)

    def finish(self, parcel):
        return self.put(_running.streams.received(parcel) if type(parcel) is FakeParcel else parcel)

    streams = FakeStreams

    def synchronize(self):
        pass

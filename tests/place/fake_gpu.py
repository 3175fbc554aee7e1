"""A GPU for machines without one: tensors that say they are not on the host, and refuse to be mixed with those that are.

It stands in for `Cuda` in a DeviceSet, so that placement, adaptation and transfers are tried as they would be on a GPU.
"""
import torch

from penstock.place.cuda import Cuda


class OnGpu(torch.Tensor):
    """A tensor of the pretended GPU; what is computed from it is there too."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        flat = [t for a in args for t in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(t, torch.Tensor)]
        if any(isinstance(t, OnGpu) for t in flat) and any(not isinstance(t, OnGpu) and t.dim() for t in flat) \
                and func is not torch.Tensor.copy_:
            raise RuntimeError(f"Expected all tensors to be on the same device: {func}")
        return super().__torch_function__(func, types, args, kwargs or {})

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

    def put(self, value):
        return value.clone().as_subclass(OnGpu) if isinstance(value, torch.Tensor) and value.is_cpu else value

    def start(self, value, to):
        return value.cpu() if to.host and isinstance(value, torch.Tensor) else value

    def synchronize(self):
        pass

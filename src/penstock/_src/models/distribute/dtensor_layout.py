"""Meshes and layouts of tf.experimental.dtensor: a grid of devices, and which axes of a tensor are split over it."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.kernels.devices.device_config import eager_devices
from penstock._src.kernels.devices.device_spec import DeviceSpecV2

UNSHARDED, MATCH = "unsharded", "match"
export.value(UNSHARDED, v2=["experimental.dtensor.UNSHARDED"])
export.value(MATCH, v2=["experimental.dtensor.MATCH"])


@export(v2=["experimental.dtensor.Mesh"])
class Mesh:
    """A grid of devices with named dimensions."""

    def __init__(self, dim_names: list[str], global_device_ids: Any, local_device_ids: list[int], local_devices: list[str],
                 mesh_name: str = "", global_devices: Any = None, use_xla_spmd: bool = False):
        ids = np.asarray(global_device_ids)
        if len(set(dim_names)) != len(dim_names):
            raise ValueError(f"The names of mesh dimensions must be unique: {dim_names}")
        if ids.ndim != len(dim_names):
            raise ValueError(f"A mesh of {len(dim_names)} dimensions needs device ids of that rank, not {ids.ndim}")
        if len(local_devices) != len(local_device_ids):
            raise ValueError("Each local device needs an id")
        self._dim_names, self._ids = [str(n) for n in dim_names], ids
        self._local_ids, self._devices, self._name = list(local_device_ids), [full_name(d) for d in local_devices], mesh_name

    dim_names = property(lambda self: list(self._dim_names), doc="The names of the dimensions.")
    name = property(lambda self: self._name, doc="The name of the mesh.")
    size = property(lambda self: self._ids.size, doc="How many devices there are.")
    strides = property(lambda self: [s // self._ids.itemsize for s in np.ascontiguousarray(self._ids).strides],
                       doc="How far apart neighbours in each dimension are.")
    global_device_ids = property(lambda self: self._ids, doc="The ids of the devices, as a grid.")

    def shape(self) -> list[int]:
        """The sizes of the dimensions."""
        return list(self._ids.shape)

    def dim_size(self, dim_name: str) -> int:
        """The size of one dimension."""
        if dim_name not in self._dim_names:
            raise ValueError(f"{dim_name!r} is not a dimension of the mesh: it has {self._dim_names}")
        return self._ids.shape[self._dim_names.index(dim_name)]

    def contains_dim(self, dim_name: str) -> bool:
        """Whether there is a dimension of that name."""
        return dim_name in self._dim_names

    def device_type(self) -> str:
        """The type of the devices."""
        return self._devices[0].rpartition("device:")[2].partition(":")[0] if self._devices else ""

    def local_devices(self) -> list[str]:
        """The full names of the devices of this process: all of them."""
        return list(self._devices)

    def local_device_ids(self) -> list[int]:
        """The ids of the devices of this process."""
        return list(self._local_ids)

    def num_local_devices(self) -> int:
        """How many devices of this process there are."""
        return len(self._devices)

    def is_remote(self) -> bool:
        """Whether no device belongs to this process."""
        return not self._devices

    def min_global_device_id(self) -> int:
        """The least id of a device."""
        return int(self._ids.min())

    def coords(self, device_idx: int) -> np.ndarray:
        """Where in the grid a device is, by its position."""
        return np.array(np.unravel_index(device_idx, self._ids.shape))

    def unravel_index(self) -> list[dict[str, int]]:
        """For each device, its place in each dimension."""
        return [dict(zip(self._dim_names, map(int, self.coords(i)), strict=True)) for i in range(self.size)]

    def local_device_locations(self) -> list[dict[str, int]]:
        """For each device of this process, its place in each dimension."""
        return self.unravel_index()

    def to_string(self) -> str:
        """The mesh as text: name, dimensions, ids and devices."""
        dims = ",".join(f"{n}={s}" for n, s in zip(self._dim_names, self._ids.shape, strict=True))
        ids = ",".join(map(str, self._ids.ravel().tolist()))
        return f"{self._name}|{dims}|{ids}|{','.join(map(str, self._local_ids))}|{','.join(self._devices)}"

    @staticmethod
    def from_string(mesh_str: str) -> Mesh:
        """The mesh that `to_string` describes."""
        parts = mesh_str.split("|")
        if len(parts) < 5:
            raise ValueError(f"{mesh_str!r} does not describe a mesh")
        name, dims, ids, local, devices = parts[:5]
        sizes = [d.partition("=") for d in dims.split(",")]
        shape = [int(s) for _, _, s in sizes]
        return Mesh([n for n, _, _ in sizes], np.array([int(i) for i in ids.split(",")]).reshape(shape),
                    [int(i) for i in local.split(",")], devices.split(","), name)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Mesh) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        return f"Mesh.from_string({self.to_string()})"

    def __getitem__(self, dim_name: str) -> tuple[str, int]:
        return dim_name, self.dim_size(dim_name)


def full_name(device: Any) -> str:
    """The full name of a device of this process."""
    text = device.to_string() if isinstance(device, DeviceSpecV2) else str(getattr(device, "name", device))
    short = text.rpartition("device:")[2].lstrip("/")
    found = next((d.name for d in eager_devices().all if d.name.lower().endswith(f":{short.lower()}")), None)
    if found is None:
        raise ValueError(f"Unknown device {device}; there are {[d.name for d in eager_devices().all]}. Logical devices are "
                         "made by tf.config.set_logical_device_configuration, before the first op.")
    return found


@export(v2=["experimental.dtensor.Layout"])
class Layout:
    """For each axis of a tensor, the dimension of a mesh that it is split over, or UNSHARDED."""

    def __init__(self, sharding_specs: Any, mesh: Mesh):
        if not isinstance(mesh, Mesh):
            raise ValueError("mesh is not a valid Mesh object.")
        specs = [str(s) for s in sharding_specs]
        for spec in specs:
            if spec != UNSHARDED and not mesh.contains_dim(spec):
                raise ValueError(f"{spec}: A dimension sharding must either be a valid mesh dimension or UNSHARDED.")
            if spec != UNSHARDED and specs.count(spec) > 1:
                raise ValueError(f"Mesh dimension {spec} was repeated in sharding specification {specs}. Mesh dimensions must "
                                 "be unique in a layout.")
        self._specs, self._mesh = specs, mesh

    sharding_specs = property(lambda self: list(self._specs), doc="The dimensions of the mesh, by axis.")
    mesh = property(lambda self: self._mesh, doc="The devices.")
    rank = property(lambda self: len(self._specs), doc="The number of axes.")
    shape = property(lambda self: [self.num_shards(i) for i in range(self.rank)], doc="The number of parts, by axis.")

    @classmethod
    def replicated(cls, mesh: Mesh, rank: int) -> Layout:
        """Each device has the whole tensor."""
        return cls([UNSHARDED] * rank, mesh)

    @classmethod
    def batch_sharded(cls, mesh: Mesh, batch_dim: str, rank: int, axis: int = 0) -> Layout:
        """One axis is split."""
        specs = [UNSHARDED] * rank
        specs[axis] = batch_dim
        return cls(specs, mesh)

    @classmethod
    def inner_sharded(cls, mesh: Mesh, inner_dim: str, rank: int) -> Layout:
        """The last axis is split."""
        return cls.batch_sharded(mesh, inner_dim, rank, axis=rank - 1)

    @staticmethod
    def from_string(layout_str: str) -> Layout:
        """The layout that `to_string` describes."""
        specs, _, mesh = layout_str.removeprefix("sharding_specs:").partition(", mesh:")
        return Layout([s for s in specs.split(",") if s], Mesh.from_string(mesh))

    def num_shards(self, idx: int) -> int:
        """How many parts an axis has."""
        return 1 if self._specs[idx] == UNSHARDED else self._mesh.dim_size(self._specs[idx])

    def is_fully_replicated(self) -> bool:
        """Whether no axis is split."""
        return all(n == 1 for n in self.shape)

    def is_batch_parallel(self) -> bool:
        """Whether only the first axis is split."""
        return self.rank > 0 and self._specs[0] != UNSHARDED and all(s == UNSHARDED for s in self._specs[1:])

    def delete(self, dims: list[int]) -> Layout:
        """The layout without some axes."""
        gone = {d % self.rank for d in dims}
        return Layout([s for i, s in enumerate(self._specs) if i not in gone], self._mesh)

    def local_shape(self, global_shape: Any) -> list[int]:
        """The shape of a part."""
        dims = list(global_shape)
        if len(dims) != self.rank:
            raise errors.invalid(f"A layout of rank {self.rank} does not match a tensor of shape {dims}")
        for i, n in enumerate(dims):
            if n % self.num_shards(i):
                raise errors.invalid(f"Axis {i} of size {n} cannot be split over the {self.num_shards(i)} devices of mesh "
                                     f"dimension {self._specs[i]!r}")
        return [n // self.num_shards(i) for i, n in enumerate(dims)]

    def global_shape_from_local_shape(self, local_shape: Any) -> tuple[int, ...]:
        """The shape of the tensor, from that of a part."""
        return tuple(n * self.num_shards(i) for i, n in enumerate(local_shape))

    def parts(self, global_shape: Any) -> list[tuple[slice, ...]]:
        """For each device, what it has of the tensor."""
        local = self.local_shape(global_shape)
        result = []
        for place in self._mesh.unravel_index():
            at = [0 if s == UNSHARDED else place[s] for s in self._specs]
            result.append(tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, local, strict=True)))
        return result

    def to_string(self) -> str:
        """The layout as text."""
        return f"sharding_specs:{','.join(self._specs)}, mesh:{self._mesh.to_string()}"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Layout) and self._specs == other._specs and self._mesh == other._mesh

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        return f"Layout.from_string({self.to_string()})"


@export(v2=["experimental.dtensor.create_mesh"])
def create_mesh(mesh_dims: Any = None, mesh_name: str = "", devices: Any = None, device_type: str | None = None,
                use_xla_spmd: bool = False) -> Mesh:
    """A mesh of the devices of this process.

    Args:
        mesh_dims: Pairs of name and size, or a dictionary; by default one dimension "x" with all devices.
        mesh_name: Name of the mesh.
        devices: Names of devices; by default all of `device_type`, or of the preferred type.
        device_type: "CPU" or "GPU".
        use_xla_spmd: Ignored.

    Returns:
        A Mesh.

    Raises:
        ValueError: if the sizes do not fit the number of devices.

    >>> mesh = tf.experimental.dtensor.create_mesh([("x", 3), ("y", 2)], devices=[f"CPU:{i}" for i in range(6)])
    """
    found = list(devices) if devices is not None else local_devices(device_type or preferred_device_type())
    dims = [("x", len(found))] if mesh_dims is None else list(mesh_dims.items() if isinstance(mesh_dims, dict) else mesh_dims)
    shape = [int(size) for _, size in dims]
    if math.prod(shape) != len(found):
        raise ValueError(f"length of devices ({len(found)}) must be equal to total size of the mesh of shape {shape}")
    ids = np.arange(len(found)).reshape(shape)
    return Mesh([name for name, _ in dims], ids, ids.ravel().tolist(), found, mesh_name)


@export(v2=["experimental.dtensor.create_distributed_mesh"])
def create_distributed_mesh(mesh_dims: Any, mesh_name: str = "", local_devices: Any = None, device_type: str | None = None,
                            use_xla_spmd: bool = False) -> Mesh:
    """A mesh over all clients, of which there is one."""
    return create_mesh(mesh_dims, mesh_name, local_devices, device_type)


@export(v2=["experimental.dtensor.local_devices"])
def local_devices(device_type: str, for_client_id: int | None = None) -> list[str]:
    """The full names of the devices of one type."""
    return [d.name for d in eager_devices().all if d.device_type == device_type.upper()]


@export(v2=["experimental.dtensor.preferred_device_type"])
def preferred_device_type() -> str:
    """GPU, where there is one, else CPU."""
    return next((d.device_type for d in eager_devices().all if d.device_type == "GPU"), "CPU")


def _of_one_client(name: str, value: Any, doc: str) -> None:
    """A function with the constant result of a single client."""
    def ask(*args: Any, **kwargs: Any) -> Any:
        return value
    ask.__name__, ask.__doc__ = name, doc
    export.value(ask, v2=[f"experimental.dtensor.{name}"])


_of_one_client("client_id", 0, "The number of this client.")
_of_one_client("num_clients", 1, "The number of clients.")
_of_one_client("job_name", "localhost", "The name of this client's job.")
_of_one_client("full_job_name", "localhost/replica:0/task:0", "The name of this client's job and task.")
_of_one_client("jobs", [], "The addresses of the clients; none with a single one.")
_of_one_client("heartbeat_enabled", False, "Whether clients watch each other.")
_of_one_client("device_name", "/job:localhost/replica:0/task:0/device:CUSTOM:0", "The name of the device of all DTensors.")


@export(v2=["experimental.dtensor.num_local_devices"])
def num_local_devices(device_type: str) -> int:
    """The number of devices of one type."""
    return len(local_devices(device_type))


@export(v2=["experimental.dtensor.num_global_devices"])
def num_global_devices(device_type: str) -> int:
    """The number of devices of one type over all clients, of which there is one."""
    return num_local_devices(device_type)

"""tf.data.experimental.service: datasets computed by other processes.

Dispatcher and workers are servers of the distributed runtime, each its own cluster. The dispatcher has two tables: the workers,
and the registered datasets. A client builds the ops of its dataset again (`ops/data/dataset_recipe.py`) in the
graph of a session with each worker, and takes elements from all of them as they arrive. Consumers of one job share its
iterators, which belong to the workers; a job without a name belongs to its session, and ends with it.
"""
from __future__ import annotations

import contextlib
import enum
import hashlib
import itertools
import queue
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.waits import Wait
from penstock._src.cluster.server import Server
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.dataset import VariantDataset
from penstock._src.data.pipelines.mapping import stage_of
from penstock._src.graph import context
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.functions import GraphFunction, function_name
from penstock._src.io import paths
from penstock._src.ops.control.functional import add_calling_op
from penstock._src.ops.data.dataset_recipe import rebuilt
from penstock._src.ops.registry import get
from penstock._src.ops.state.kept_tables import keep
from penstock.compat import v1 as tf

_AHEAD = 16                 # elements that a client takes from a worker before they are requested
_SECONDS = 60               # that a consumer waits for the first worker
_TABLES = ("workers", "datasets")


@export("data.experimental.service.ShardingPolicy")
class ShardingPolicy(enum.IntEnum):
    """Which part of the dataset a worker processes: everything (OFF), or its share. Elements of the datasets' sources, files
    among them, are assigned to the workers in turn when a job starts; each is processed by exactly one of them."""
    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


@export("data.experimental.service.DispatcherConfig")
class DispatcherConfig(NamedTuple):
    """Where a dispatcher listens; port 0 is any that is free.

    A dispatcher keeps its tables in memory. With `fault_tolerant_mode` they are also files of `work_dir`: another dispatcher
    with the same folder and port continues with the workers and datasets of the first.
    """
    port: int = 0
    protocol: str | None = None
    work_dir: str | None = None
    fault_tolerant_mode: bool = False
    worker_addresses: Any = None
    job_gc_check_interval_ms: int | None = None
    job_gc_timeout_ms: int | None = None
    worker_timeout_ms: int | None = None
    worker_max_concurrent_snapshots: int = 0


@export("data.experimental.service.WorkerConfig")
class WorkerConfig(NamedTuple):
    """The dispatcher that a worker works for (`host:port`), and where others reach the worker."""
    dispatcher_address: str
    worker_address: str | None = None
    port: int = 0
    protocol: str | None = None
    heartbeat_interval_ms: int | None = None
    dispatcher_timeout_ms: int | None = None
    data_transfer_protocol: str | None = None
    data_transfer_address: str | None = None


@export("data.experimental.service.CrossTrainerCache")
class CrossTrainerCache:
    """How consumers share elements: trainers with one job name share its elements, and none has a cache."""

    def __init__(self, trainer_id: str):
        if not trainer_id:
            raise ValueError("tf.data service cross-trainer cache requires a non-empty trainer ID.")
        self.trainer_id = trainer_id


class _Served:
    """The base of dispatchers and workers: a server that starts and stops."""

    def __init__(self, host: str, port: int, start: bool):
        self._server = Server({"service": [f"{host}:{port}"]}, start=False)
        self._address = self._server.target.removeprefix("grpc://")
        self._stopped = False
        if start:
            self.start()

    def start(self) -> None:
        """Starts the server; RuntimeError after `stop`."""
        if self._stopped:
            raise RuntimeError("Server cannot be started after it has been stopped: create another one.")
        self._server.start()

    def join(self) -> None:
        """Waits until the server is stopped."""
        self._server.join()

    def stop(self) -> None:
        """Stops the server."""
        self._stopped = True
        self._server.stop()

    _stop = stop


@export("data.experimental.service.DispatchServer")
class DispatchServer(_Served):
    """Keeps track of the workers and the datasets of a service.

    >>> dispatcher = tf.data.experimental.service.DispatchServer()
    >>> worker = tf.data.experimental.service.WorkerServer(tf.data.experimental.service.WorkerConfig(
    ...     dispatcher_address=dispatcher.target.split("://")[1]))
    >>> dataset = dataset.apply(tf.data.experimental.service.distribute("parallel_epochs", dispatcher.target))
    """

    def __init__(self, config: DispatcherConfig | None = None, start: bool = True):
        self._config = config or DispatcherConfig()
        if self._config.fault_tolerant_mode and not self._config.work_dir:
            raise ValueError("Cannot enable fault tolerant mode without configuring a work dir. Make sure to set `work_dir` in "
                             "the `config` object passed to `DispatcherServer`.")
        super().__init__("localhost", self._config.port, False)
        if self._config.fault_tolerant_mode:
            self._restore(str(self._config.work_dir))
        if start:
            self.start()

    def _restore(self, folder: str) -> None:
        """Lets the tables have their entries in files, which an earlier dispatcher may have written."""
        paths.makedirs(folder)
        for name in _TABLES:
            keep(self._server._resources, _shared(name), paths.join(folder, f"{name}.tfrecord"))

    @property
    def target(self) -> str:
        """The address for `distribute` and workers."""
        return self._server.target

    def _num_workers(self) -> int:
        return len(_table(self.target, "workers"))


@export("data.experimental.service.WorkerServer")
class WorkerServer(_Served):
    """Computes datasets for a dispatcher's clients, until it is stopped."""

    def __init__(self, config: WorkerConfig, start: bool = True):
        if not config.dispatcher_address:
            raise ValueError("Must specify a `dispatcher_address` in the `config` passed to `WorkerServer`.")
        self._config, self._registered = config, False
        super().__init__(*_host_and_port(config), start)

    def start(self) -> None:
        """Starts the server, and registers with the dispatcher."""
        super().start()
        if not self._registered:
            address = self._config.worker_address or self._address
            address = address.replace("%port%", self._address.rpartition(":")[2])
            _insert(f"grpc://{self._config.dispatcher_address}", "workers", self._address, address)
            self._registered = True

    def stop(self) -> None:
        """Stops the server, and unregisters from the dispatcher."""
        if self._registered:
            self._registered = False
            with contextlib.suppress(errors.OpError):
                _remove(f"grpc://{self._config.dispatcher_address}", "workers", self._address)
        super().stop()

    _stop = stop


def _host_and_port(config: WorkerConfig) -> tuple[str, int]:
    """The address at which a worker listens: the configured one, or a port of this machine."""
    host, _, port = (config.worker_address or "").rpartition(":")
    return host or "localhost", config.port or (int(port) if port.isdigit() else 0)


# -- the dispatcher's tables -------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _at(target: str) -> Iterator[Any]:
    with context.enter(tf.Graph()), tf.Session(target) as session:
        yield session


def _shared(name: str) -> str:
    return f"tf_data_service/{name}"


def _handle(name: str) -> Any:
    return get("MutableHashTableV2")(key_dtype=tf.string, value_dtype=tf.string, shared_name=_shared(name))


def _insert(target: str, name: str, key: Any, value: Any) -> None:
    with _at(target) as session:
        session.run(get("LookupTableInsertV2")(_handle(name), [key], [value]))


def _remove(target: str, name: str, key: Any) -> None:
    with _at(target) as session:
        session.run(get("LookupTableRemoveV2")(_handle(name), [key]))


def _table(target: str, name: str) -> dict[str, bytes]:
    with _at(target) as session:
        keys, values = session.run(get("LookupTableExportV2")(_handle(name), Tkeys=tf.string, Tvalues=tf.string))
    return {tf.compat.as_text(k): v for k, v in zip(keys.ravel(), values.ravel())}


def _workers(target: str) -> list[str]:
    """The workers' addresses, in an order that all clients see; waits until there is one."""
    pause, waited = threading.Event(), Wait(lambda: f"a worker to register with the dispatcher at {target}")
    for _ in range(_SECONDS * 10):
        found = _table(target, "workers")
        if found:
            return sorted(tf.compat.as_text(v) for v in found.values())
        pause.wait(waited.patience(0.1))
    raise errors.UnavailableError(None, None, f"No worker has registered with {target} in {_SECONDS} seconds.")


# -- a dataset on workers ----------------------------------------------------------------------------------------------
def _stage(dataset: Any) -> Any:
    variant = dataset._variant_tensor
    if hasattr(variant, "_value"):
        return stage_of(variant._value)
    with tf.Session(graph=variant.graph) as session:
        return stage_of(session.run(variant))


def _part(index: int, count: int) -> Callable:
    """The replacement of a source: every `count`th of its elements."""
    def shard(variant: Any, attrs: dict[str, Any]) -> Any:
        types = attrs.get("output_types") or attrs.get("Toutput_types") or [tf.string]
        shapes = attrs.get("output_shapes") or [tf.TensorShape([])] * len(types)
        spec = tuple(tf.TensorSpec(s, t) for s, t in zip(shapes, types))
        return VariantDataset(variant, spec).shard(count, index)._variant_tensor
    return shard


def _next(waiting: queue.Queue, about: str) -> Any:
    """The next item of a queue that threads fill."""
    waited = Wait(lambda: about)
    while True:
        with contextlib.suppress(queue.Empty):
            return waiting.get(timeout=waited.patience(60.0))


class _Job:
    """The elements of a dataset, from all workers."""

    def __init__(self, stage: Any, spec: Any, target: str, policy: ShardingPolicy, name: str | None):
        self.stage, self.spec, self.target, self.policy, self.name = stage, spec, target, policy, name
        self._numbers = itertools.count()

    def elements(self) -> Iterator[Any]:
        """An iteration over the dataset: the next one of this job."""
        number, workers = next(self._numbers), _workers(self.target)
        ended = threading.Event()
        waiting: queue.Queue = queue.Queue(_AHEAD * len(workers))
        sessions = [self._session(address, i, len(workers), number) for i, address in enumerate(workers)]
        threads = [threading.Thread(target=_take, args=(*opened, waiting, ended), name="penstock data service", daemon=True)
                   for opened in sessions]
        try:
            for thread in threads:
                thread.start()
            left = len(threads)
            while left:
                element, error = _next(waiting, f"an element of one of the data service's workers at {', '.join(workers)}")
                if error is None:
                    yield element
                elif isinstance(error, errors.OutOfRangeError):
                    left -= 1
                else:
                    raise error
        finally:
            ended.set()
            for session, _ in sessions:
                session.close()
            for thread in threads:
                thread.join(10)

    def _session(self, address: str, index: int, count: int, number: int) -> tuple[Any, Any]:
        """A session with a worker, and its fetches for the next element."""
        with context.enter(tf.Graph()) as graph:
            source = None if self.policy == ShardingPolicy.OFF or count == 1 else _part(index, count)
            body = FuncGraph("make_dataset")
            with body.as_default():
                body.outputs = [rebuilt(self.stage, source=source)]
            function = GraphFunction(body, function_name("make_dataset"))
            name = f"{self.name}/{number}" if self.name else str(uuid.uuid4())
            made = add_calling_op(get("_SharedOneShotIterator"), (), {"dataset_factory": function, "shared_name": name,
                                                                      **structure.outputs(self.spec)}, [function], "elements")
            following = get("IteratorGetNext")(made.outputs[0], **structure.outputs(self.spec))
            config = tf.ConfigProto(isolate_session_state=self.name is None)
            return tf.Session(f"grpc://{address}", graph=graph, config=config), following


def _take(session: Any, following: Any, waiting: queue.Queue, ended: threading.Event) -> None:
    """Takes elements from a worker until there are none, in a thread."""
    error: Any = None
    while error is None and not ended.is_set():
        try:
            element = session.run(following)
        except BaseException as e:                   # the consumer raises it
            element, error = None, e
        while not ended.is_set():
            with contextlib.suppress(queue.Full):
                waiting.put((element, error), timeout=0.1)
                break


def _policy(processing_mode: Any) -> ShardingPolicy:
    names = {"parallel_epochs": ShardingPolicy.OFF, "distributed_epoch": ShardingPolicy.DYNAMIC}
    if processing_mode in names:
        return names[processing_mode]
    if isinstance(processing_mode, ShardingPolicy):
        return processing_mode
    raise ValueError("tf.data service processing mode should be a `tf.data.experimental.service.ShardingPolicy`, "
                     f'`"parallel_epochs"`, or `"distributed_epoch"`. Got {processing_mode!r}.')


def _served(stage: Any, spec: Any, processing_mode: Any, service: Any, job_name: Any, consumers: tuple) -> Any:
    if service == "":
        raise ValueError("`service` must not be empty")
    if not isinstance(service, str) or "://" not in service:
        raise ValueError(f"`service` must be of the form `<protocol>://<address>`, got {service!r}")
    if job_name is not None and (not isinstance(job_name, str) or not job_name):
        raise ValueError(f"`job_name` must be a string that is not empty, got {job_name!r}")
    if consumers != (None, None):
        raise errors.UnimplementedError(None, None, "Coordinated reads (consumer_index, num_consumers) are not "
                                        "available; consumers of one job_name share its elements.")
    job = _Job(stage, spec, f"grpc://{service.partition('://')[2]}", _policy(processing_mode), job_name)
    flat = [tf.TensorSpec(s, t) for s, t in zip(structure.flat_shapes(spec), structure.flat_types(spec))]
    dataset = tf.data.Dataset.from_generator(lambda: (tuple(e) for e in job.elements()), tuple(s.dtype for s in flat),
                                             tuple(s.shape for s in flat))
    return dataset.map(lambda *tensors: structure.from_tensors(spec, list(tensors)))


@export("data.experimental.service.distribute")
def distribute(processing_mode: Any, service: str, job_name: str | None = None, consumer_index: int | None = None,
               num_consumers: int | None = None, max_outstanding_requests: int | None = None,
               data_transfer_protocol: str | None = None, compression: str | None = "AUTO", cross_trainer_cache: Any = None,
               target_workers: str = "AUTO") -> Callable:
    """A transformation: the workers of a service compute the preceding dataset.

    With `"parallel_epochs"` every worker goes through the whole dataset; with `"distributed_epoch"` and sharding policies, each
    through a part of it. Consumers with one `job_name`, in any process, share the elements.

    >>> dataset = tf.data.Dataset.range(10).map(f).apply(
    ...     tf.data.experimental.service.distribute("distributed_epoch", "grpc://localhost:5000"))
    """
    _policy(processing_mode)
    return lambda dataset: _served(_stage(dataset), dataset.element_spec, processing_mode, service, job_name,
                                   (consumer_index, num_consumers))


@export("data.experimental.service.register_dataset")
def register_dataset(service: str, dataset: Any, compression: str | None = "AUTO", dataset_id: str | None = None) -> Any:
    """Registers a dataset with a service, and returns its id."""
    with context.enter(tf.Graph()) as graph:
        rebuilt(_stage(dataset), stateful=False)
        data = graph.as_graph_def().SerializeToString()
    name = dataset_id or hashlib.sha256(data).hexdigest()[:16]
    _insert(f"grpc://{service.partition('://')[2]}", "datasets", name, data)
    return tf.constant(name) if dataset_id is None else tf.constant(dataset_id)


@export("data.experimental.service.from_dataset_id")
def from_dataset_id(processing_mode: Any, service: str, dataset_id: Any, element_spec: Any = None, job_name: str | None = None,
                    consumer_index: int | None = None, num_consumers: int | None = None,
                    max_outstanding_requests: int | None = None, data_transfer_protocol: str | None = None,
                    cross_trainer_cache: Any = None, target_workers: str = "AUTO") -> Any:
    """A dataset that was registered, computed by the workers of the service."""
    if element_spec is None:
        raise ValueError("`element_spec` must be specified: the type of the dataset's elements")
    found = tf.compat.as_text(dataset_id if isinstance(dataset_id, (str, bytes)) else tf.get_static_value(dataset_id))
    data = _table(f"grpc://{service.partition('://')[2]}", "datasets").get(found)
    if data is None:
        raise errors.NotFoundError(None, None, f"Dataset id {found} not found.")
    with context.enter(tf.Graph()) as graph:
        tf.import_graph_def(tf.GraphDef.FromString(data), name="")
        with tf.Session(graph=graph) as session:
            stage = stage_of(session.run(graph.get_operations()[-1].outputs[0]))
    return _served(stage, element_spec, processing_mode, service, job_name, (consumer_index, num_consumers))

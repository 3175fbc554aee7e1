"""PipelineModel: a Keras model that is trained in a pipeline."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.eager.function import Function
from penstock._src.graph import context
from penstock._src.graph.scopes import device
from penstock._src.models.keras.engine.data_adapter import unpack_x_y_sample_weight
from penstock._src.models.keras.engine.training import Model
from penstock._src.models.pipelining import schedule as schedules
from penstock._src.models.pipelining.cut import Piece, cut
from penstock._src.models.pipelining.runner import StageOf, Step
from penstock._src.ops.registry import get
from penstock._src.training.train.gradient_sums import added


@export("distribute.experimental.PipelineModel")
class PipelineModel(Model):
    """A Sequential or functional model cut into stages, one on each device, and trained with micro-batches.

    A batch is cut into `micro_batches`; stages work on different ones at the same time. Gradients are those of the whole batch,
    so training follows that of the model itself, but where layers inspect a batch as a whole (batch normalization: each
    micro-batch counts separately) or draw random numbers. Layers without variables yet make them on their stage's device.

    >>> model = tf.distribute.experimental.PipelineModel(model, ["/gpu:0", "/gpu:1"], micro_batches=8)
    >>> model.compile("adam", "mse")
    >>> model.fit(x, y)
    """

    _devices: Any
    _inference: Any
    _pieces: Any
    _seen: Any
    _training: Any

    def __init__(self, model: Any, devices: Sequence[str], micro_batches: int = 4, schedule: str = "1f1b",
                 cuts: Sequence[str] | None = None, name: str | None = None):
        super().__init__(name=name)
        if not context.executing_eagerly():
            raise RuntimeError("PipelineModel is for eager execution; in graphs there is "
                               "tf.distribute.experimental.pipelined_gradients.")
        schedules.schedule(schedule, len(devices), micro_batches)
        self.inner = model
        self._micro_batches, self._schedule = micro_batches, schedule
        pieces = cut(model, len(devices), cuts)
        self.__dict__["_pieces"], self.__dict__["_devices"] = pieces, list(devices)
        self.__dict__["_training"] = [_compiled(p, True) for p in pieces]
        self.__dict__["_inference"] = [_compiled(p, False) for p in pieces]
        self.__dict__["_seen"], self.__dict__["last_step"] = set(), None

    stages = property(lambda self: [list(p.layers) for p in self._pieces], doc="The layers of each stage.")

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """As of any model. Steps are not traced as a whole: each stage is."""
        super().compile(*args, **{**kwargs, "run_eagerly": True})

    def call(self, inputs: Any, training: Any = None) -> Any:                 # type: ignore[override]
        """Runs the stages in sequence."""
        tensors = nest.flatten(inputs)
        for stage, where in zip(self._training if training else self._inference, self._devices):
            with device(where):
                tensors = stage([get("Identity")(t) for t in tensors])
        self.inner.built = True                             # its layers have made their variables
        return self._packed(tensors)

    def _packed(self, tensors: list) -> Any:
        whole = self.inner
        return nest.pack_sequence_as(whole._nested_outputs, tensors) if whole._is_graph_network else tensors[0]

    def train_step(self, data: Any) -> dict[str, Any]:
        """Trains on a batch: its micro-batches through the pipeline, then one update."""
        x, y, weights = unpack_x_y_sample_weight(data)
        if not self._compiled.built or not self.built:
            self(x)                                         # variables, and what waits for the outputs
        step, parts = self._pipelined(x, y, weights)
        key = tuple((t.dtype, tuple(t.shape)) for t in nest.flatten(parts) if t is not None)
        step.run(threads=key in self._seen)                 # functions are traced in sequence
        self._seen.add(key)
        self.__dict__["last_step"] = step
        found: dict[int, tuple] = {}
        for stage in step.gradients:
            for number, (gradient, variable) in stage.items():
                found[number] = added(found.get(number, (None, variable))[0], gradient), variable
        self.optimizer.apply_gradients([found.get(id(v), (None, v)) for v in self.trainable_variables])
        outputs = [get("ConcatV2")(list(column), 0) if len(column) > 1 else column[0] for column in zip(*step.outputs)]
        self._update_metrics(y, self._packed(outputs), weights)
        return self.get_metrics_result()

    def _pipelined(self, x: Any, y: Any, weights: Any) -> tuple[Step, list]:
        rows = int(nest.flatten(x)[0].shape[0])
        count = min(self._micro_batches, rows)
        sizes = [rows // count + (i < rows % count) for i in range(count)]
        parts = _parts((x, y, weights), rows, sizes)

        def loss(outputs: list, micro: int) -> Any:
            _, targets, own = parts[micro]
            return self.compute_loss(None, targets, self._packed(outputs), own) * (sizes[micro] / rows)
        regularized = bool(self.losses)
        last = len(self._pieces) - 1
        stages = [StageOf(function, where, (lambda: self.trainable_variables) if i == last and regularized else piece.variables)
                  for i, (piece, where, function) in enumerate(zip(self._pieces, self._devices, self._training))]
        plan = schedules.schedule(self._schedule, len(stages), count)
        return Step(stages, plan, [nest.flatten(p[0]) for p in parts], loss), parts


def _compiled(piece: Piece, training: bool) -> Function:
    return Function(lambda tensors: piece.call(tensors, training), autograph=False)


def _parts(data: Any, rows: int, sizes: list[int]) -> list:
    """Batches cut along the first axis into structures of the sizes."""
    flat = [t if t is None else get("SplitV")(t, sizes, 0, num_split=len(sizes)) for t in nest.flatten(data)]
    for t in nest.flatten(data):
        if t is not None and int(t.shape[0]) != rows:
            raise ValueError(f"A batch has {rows} rows, but a part of it has the shape {t.shape}.")
    return [nest.pack_sequence_as(data, [c if c is None else c[i] for c in flat]) for i in range(len(sizes))]

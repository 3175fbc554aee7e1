"""Model parallelism: a model in stages on several devices, with micro-batches in a pipeline; layers split over devices.

`schedule.py` has the order in which stages work, and its cost. `graph.py` builds a pipeline into a graph from functions;
`cut.py`, `runner.py` and `model.py` make one of a Keras model. `parallel_layers.py` has layers whose weights are on several
devices. docs/pipelining.md shows both.
"""
from penstock._src.models.pipelining.graph import pipelined_gradients
from penstock._src.models.pipelining.model import PipelineModel
from penstock._src.models.pipelining.parallel_layers import (
    ColumnParallelDense,
    RowParallelDense,
    VocabularyParallelEmbedding,
)

__all__ = ["ColumnParallelDense", "PipelineModel", "RowParallelDense", "VocabularyParallelEmbedding", "pipelined_gradients"]

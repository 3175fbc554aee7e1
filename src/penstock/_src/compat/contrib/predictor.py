"""tf.contrib.predictor: a model in its own session, called with arrays."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.predictor.{name}"])


class Predictor:
    """A callable model: `predictor({"x": array})` returns a dictionary of arrays."""

    def __init__(self, graph: Any, session: Any, feed_tensors: dict[str, Any], fetch_tensors: dict[str, Any]):
        self._graph, self._session, self._feed, self._fetch = graph, session, feed_tensors, fetch_tensors

    @property
    def graph(self) -> Any:
        """The model's graph."""
        return self._graph

    @property
    def session(self) -> Any:
        """The session that runs it."""
        return self._session

    @property
    def feed_tensors(self) -> dict[str, Any]:
        """The inputs, by name."""
        return self._feed

    @property
    def fetch_tensors(self) -> dict[str, Any]:
        """The outputs, by name."""
        return self._fetch

    def __call__(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        unknown = set(input_dict) - set(self._feed)
        if unknown:
            raise ValueError(f"Got unexpected keys in input_dict: {unknown}\nexpected: {set(self._feed)}")
        return self._session.run(self._fetch, {self._feed[key]: value for key, value in input_dict.items()})


@_export("from_saved_model")
def from_saved_model(export_dir: Any, signature_def_key: str | None = None, signature_def: Any = None,
                     input_names: dict[str, str] | None = None, output_names: dict[str, str] | None = None,
                     tags: str | None = None, graph: Any = None, config: Any = None) -> Predictor:
    """A predictor of a SavedModel's signature, or of tensors by their names.

    >>> predictor = tf.contrib.predictor.from_saved_model("exported"); predictor({"x": [[1.0]]})
    """
    if (input_names is None) != (output_names is None):
        raise ValueError("Pass both input_names and output_names, or neither.")
    if sum(given is not None for given in (signature_def_key, signature_def, input_names)) > 1:
        raise ValueError("You must specify at most one of signature_def_key OR signature_def OR (input_names AND "
                         "output_names).")
    graph = graph or tf.Graph()
    with graph.as_default():
        session = tf.Session(config=config, graph=graph)
        meta = tf.saved_model.loader.load(session, (tags or "serve").split(","), export_dir)
        if input_names is None:
            signature = signature_def or _signature(meta, signature_def_key or "serving_default", export_dir)
            input_names = {key: info.name for key, info in signature.inputs.items()}
            output_names = {key: info.name for key, info in signature.outputs.items()}
        return Predictor(graph, session, _tensors(graph, input_names), _tensors(graph, output_names))


def _signature(meta: Any, key: str, folder: Any) -> Any:
    if key not in meta.signature_def:
        raise ValueError(f"Got signature_def_key {key!r}. Available signatures of {folder} are {sorted(meta.signature_def)}.")
    return meta.signature_def[key]


def _tensors(graph: Any, names: Any) -> dict[str, Any]:
    return {key: graph.get_tensor_by_name(name) for key, name in names.items()}


@_export("from_estimator")
def from_estimator(estimator: Any, serving_input_receiver_fn: Callable, output_key: str | None = None, graph: Any = None,
                   config: Any = None) -> Predictor:
    """A predictor of an estimator's latest checkpoint."""
    graph = graph or tf.Graph()
    with graph.as_default():
        receiver = serving_input_receiver_fn()
        spec = estimator._call_model_fn(receiver.features, None, tf.estimator.ModeKeys.PREDICT, estimator.config)
        outputs = spec.export_outputs
        key = output_key or "serving_default"
        if key not in outputs:
            raise KeyError(f"output_key must be one of {sorted(outputs)}, got {key}")
        latest = tf.train.latest_checkpoint(estimator.model_dir)
        session = tf.train.MonitoredSession(tf.train.ChiefSessionCreator(
            checkpoint_filename_with_path=latest, scaffold=spec.scaffold, config=config))
        fetch = outputs[key].as_signature_def(receiver.receiver_tensors).outputs
        return Predictor(graph, session, receiver.receiver_tensors, _tensors(graph, {k: i.name for k, i in fetch.items()}))

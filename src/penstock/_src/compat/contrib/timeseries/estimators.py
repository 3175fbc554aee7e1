"""Models of series as estimators: train on windows, evaluate to filter, predict from where that ended."""
from __future__ import annotations

from typing import Any

from penstock._src.compat.contrib.timeseries.keys import SavedModelLabels, State, TrainEvalFeatures, public, state_key
from penstock._src.compat.contrib.timeseries.state_space import StructuralEnsemble
from penstock._src.compat.contrib.timeseries.windows import ARModel
from penstock.compat import v1 as tf

_TIMES, _VALUES, _STATE = TrainEvalFeatures.TIMES, TrainEvalFeatures.VALUES, State.STATE_TUPLE
_MODES = tf.estimator.ModeKeys


def _last_seen(name: str, tensor: Any) -> tuple[Any, Any]:
    """A metric whose value is a tensor of the last step."""
    kept = tf.get_variable(f"{name}_last", initializer=lambda: tf.zeros([0] * tensor.shape.ndims, tensor.dtype),
                           trainable=False, validate_shape=False, collections=[tf.GraphKeys.LOCAL_VARIABLES],
                           use_resource=False)
    return tf.identity(kept), tf.assign(kept, tensor, validate_shape=False)


@public
class TimeSeriesRegressor(tf.estimator.Estimator):
    """An estimator of a model of series. `evaluate` returns `mean`, `covariance`, `observed`, `times` and the state at the end.

    >>> estimator.train(RandomWindowInputFn(reader, window_size=16, batch_size=16), steps=300)
    >>> evaluation = estimator.evaluate(WholeDatasetInputFn(reader), steps=1)
    >>> predictions, = estimator.predict(predict_continuation_input_fn(evaluation, steps=100))
    """

    def __init__(self, model: Any, state_manager: Any = None, optimizer: Any = None, model_dir: str | None = None,
                 config: Any = None, head_type: Any = None):
        self._model = model
        make = optimizer if callable(optimizer) else (lambda: optimizer) if optimizer is not None else \
            lambda: tf.train.AdamOptimizer(0.02)
        super().__init__(lambda features, labels, mode: _spec(model, make, features, mode), model_dir, config)

    def build_raw_serving_input_receiver_fn(self, default_batch_size: int | None = None,
                                            default_series_length: int | None = None) -> Any:
        """For `export_saved_model`: times, values and a state are fed, each as it is."""
        def receive() -> Any:
            size = [default_batch_size, default_series_length]
            fed = {_TIMES: tf.placeholder(tf.int64, size, _TIMES),
                   _VALUES: tf.placeholder_with_default(tf.zeros([1, 0, self._model.num_features], self._model.dtype),
                                                        [*size, self._model.num_features], _VALUES)}
            if self._model._columns:
                spec = tf.feature_column.make_parse_example_spec(self._model._columns)
                fed.update({k: tf.placeholder(f.dtype, [*size, *getattr(f, "shape", [1])], k) for k, f in spec.items()})
            for i, part in enumerate(self._model.start_state(tf.constant(1))):
                fed[state_key(i)] = tf.placeholder_with_default(part, [default_batch_size, *part.shape[1:]], state_key(i))
            return tf.estimator.export.ServingInputReceiver(fed, fed)
        return receive


def _spec(model: Any, optimizer: Any, features: dict[str, Any], mode: str) -> Any:
    features = {k: v if k == _STATE else tf.convert_to_tensor(v) for k, v in features.items()}
    if mode == _MODES.PREDICT:
        model.initialize_graph()
        return _serving(model, features) if state_key(0) in features else tf.estimator.EstimatorSpec(mode, predictions={
            **model.predict(features), _TIMES: features[_TIMES]})
    model.initialize_graph(features[_VALUES] if mode == _MODES.TRAIN else None)
    start = model.start_state(tf.shape(features[_TIMES])[0])
    outputs = model.get_batch_loss(features, mode, start)
    if mode == _MODES.TRAIN:
        step = optimizer().minimize(outputs.loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=outputs.loss, train_op=step)
    metrics = {name: _last_seen(name, tensor) for name, tensor in
               {**outputs.predictions, _TIMES: outputs.prediction_times}.items()}
    values, updates = zip(*(_last_seen(state_key(i), part) for i, part in enumerate(outputs.end_state)))
    metrics[_STATE] = values, tf.group(*updates)
    return tf.estimator.EstimatorSpec(mode, loss=outputs.loss, eval_metric_ops=metrics)


def _serving(model: Any, features: dict[str, Any]) -> Any:
    """The signatures of an exported model: predict from a state, filter from a state, filter from the start."""
    batch = tf.shape(features[_TIMES])[0]
    state = tuple(features[state_key(i)] for i in range(sum(k.startswith(State.STATE_PREFIX) for k in features)))
    export = tf.estimator.export.PredictOutput
    predicted = model.predict({**features, _STATE: state})
    made = {SavedModelLabels.PREDICT: export(predicted)}
    if isinstance(model, StructuralEnsemble) or features[_TIMES].shape.as_list()[1] is not None:
        for label, start in ((SavedModelLabels.FILTER, state), (SavedModelLabels.COLD_START_FILTER, model.start_state(batch))):
            outputs = model.get_batch_loss(features, _MODES.EVAL, start)
            predictions = {k: v for k, v in outputs.predictions.items() if k != "observed"}
            made[label] = export({**predictions, **{state_key(i): part for i, part in enumerate(outputs.end_state)}})
    return tf.estimator.EstimatorSpec(_MODES.PREDICT, predictions=predicted, export_outputs=made)


@public
class ARRegressor(TimeSeriesRegressor):
    """Autoregression over windows (`ARModel`)."""

    def __init__(self, periodicities: Any, input_window_size: int, output_window_size: int, num_features: int,
                 exogenous_feature_columns: Any = None, num_time_buckets: int = 10,
                 loss: str = ARModel.NORMAL_LIKELIHOOD_LOSS, hidden_layer_sizes: Any = None,
                 anomaly_prior_probability: Any = None, anomaly_distribution: Any = None, optimizer: Any = None,
                 model_dir: str | None = None, config: Any = None):
        if anomaly_prior_probability is not None or anomaly_distribution is not None:
            raise NotImplementedError("ARRegressor does not support a mixture of anomalies: leave "
                                      "anomaly_prior_probability and anomaly_distribution out")
        model = ARModel(periodicities, input_window_size, output_window_size, num_features, num_time_buckets, loss,
                        exogenous_feature_columns, hidden_layer_sizes)
        super().__init__(model, None, optimizer or (lambda: tf.train.AdagradOptimizer(0.1)), model_dir, config)


@public
class LSTMAutoRegressor(TimeSeriesRegressor):
    """Autoregression by an LSTM that reads a window, and another one that writes the next."""

    def __init__(self, periodicities: Any, input_window_size: int, output_window_size: int, model_dir: str | None = None,
                 num_features: int = 1, extra_feature_columns: Any = None, num_timesteps: int = 10,
                 loss: str = ARModel.NORMAL_LIKELIHOOD_LOSS, num_units: int = 128, optimizer: Any = "Adam", config: Any = None):
        model = ARModel(periodicities, input_window_size, output_window_size, num_features, num_timesteps, loss,
                        extra_feature_columns, num_units=num_units)
        if isinstance(optimizer, str):
            named = {"Adam": tf.train.AdamOptimizer, "Adagrad": tf.train.AdagradOptimizer, "RMSProp": tf.train.RMSPropOptimizer}
            kind = named[optimizer]

            def optimizer() -> Any:
                return kind(0.01)
        super().__init__(model, None, optimizer, model_dir, config)


@public
class StateSpaceRegressor(TimeSeriesRegressor):
    """An estimator of a state space model."""


@public
class StructuralEnsembleRegressor(StateSpaceRegressor):
    """Level, trend, cycles and a moving average, followed by a Kalman filter (`StructuralEnsemble`)."""

    def __init__(self, periodicities: Any, num_features: int, cycle_num_latent_values: int = 11, moving_average_order: int = 4,
                 autoregressive_order: int = 0, exogenous_feature_columns: Any = None, exogenous_update_condition: Any = None,
                 dtype: Any = tf.float64, anomaly_prior_probability: Any = None, optimizer: Any = None,
                 model_dir: str | None = None, config: Any = None, head_type: Any = None):
        if anomaly_prior_probability is not None:
            raise NotImplementedError("Anomalies are specified by exogenous features: leave anomaly_prior_probability out")
        model = StructuralEnsemble(periodicities, num_features, cycle_num_latent_values, moving_average_order,
                                   autoregressive_order, exogenous_feature_columns, exogenous_update_condition, dtype)
        super().__init__(model, None, optimizer, model_dir, config)

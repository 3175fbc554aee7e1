"""The programs of the matrix: one small model, trained in every way that TensorFlow has, under one strategy in one API.

    python -m tests.models.distribute.matrix v1 mirrored fit estimator loop     # a line of JSON for each program

The model is linear, begins at zero, and takes plain steps down the gradient of the squared error over global batches, so that
numpy knows the weights that all replicas together must find (`expected`).
"""
import json
import os
import sys
import tempfile
import traceback

import numpy as np

ROWS, BATCH, EPOCHS, RATE = 32, 8, 3, 0.1
SCALE = 128.0                                   # of the loss in mixed precision: far from overflow, so no step is skipped
STEPS = ROWS // BATCH * EPOCHS


def data():
    """Features, and labels."""
    x = np.random.RandomState(0).standard_normal((ROWS, 3)).astype(np.float32)
    return x, (x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.3).astype(np.float32)


def expected():
    """The weights after training."""
    x, y = (a.astype(np.float64) for a in data())
    w, b = np.zeros((3, 1)), np.zeros(1)
    for i in range(STEPS):
        rows = slice(i * BATCH % ROWS, i * BATCH % ROWS + BATCH)
        error = x[rows] @ w + b - y[rows]
        w, b = w - RATE * 2 * x[rows].T @ error / BATCH, b - RATE * 2 * error.mean(0)
    return w, b


def squared_error(w, b):
    x, y = data()
    return float(np.mean((x @ np.asarray(w) + np.asarray(b) - y) ** 2))


# -- the strategies ----------------------------------------------------------------------------------------------------------
def two_cpus(tf):
    config = getattr(tf.config, "experimental", tf.config)
    cpu = config.list_physical_devices("CPU")[0]
    config.set_virtual_device_configuration(cpu, [config.VirtualDeviceConfiguration()] * 2)


def strategy_of(tf, name):
    """The strategy of a name, as a program of the API would make it."""
    if name in ("mirrored", "central"):
        two_cpus(tf)
    cpus = ["/cpu:0", "/cpu:1"]
    if name == "default":
        return tf.distribute.get_strategy()
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(cpus)
    if name == "central":
        return tf.distribute.experimental.CentralStorageStrategy(cpus)
    if name == "multi_worker":
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    if name == "parameter_server":
        return tf.compat.v1.distribute.experimental.ParameterServerStrategy()
    if name == "coordinated":
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if resolver.task_type != "chief":
            tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        return tf.distribute.ParameterServerStrategy(resolver)
    raise ValueError(name)


# -- Keras -------------------------------------------------------------------------------------------------------------------
def model_of(tf, shape=True):
    given = {"input_shape": (3,)} if shape else {}
    return tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros", **given)])


def found(model):
    w, b = (np.asarray(a).tolist() for a in model.get_weights())
    return {"w": w, "b": b}


def fit(tf, strategy, source="arrays", shape=True, wrap=lambda optimizer: optimizer):
    """fit, evaluate and predict."""
    x, y = data()
    with strategy.scope():
        model = model_of(tf, shape)
        model.compile(wrap(tf.keras.optimizers.SGD(RATE)), "mse", metrics=["mse"])
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    if source == "arrays":
        model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
        loss = model.evaluate(x, y, batch_size=BATCH, verbose=0)[0]
        predicted = model.predict(x, batch_size=BATCH)
    else:
        model.fit(dataset, epochs=EPOCHS, verbose=0)
        loss = model.evaluate(dataset, verbose=0)[0]
        predicted = model.predict(dataset.map(lambda a, b: a))
    return {**found(model), "loss": float(loss), "predicted": np.asarray(predicted).ravel().tolist(),
            "dtype": np.asarray(predicted).dtype.name}


def fit_dataset(tf, strategy):
    return fit(tf, strategy, "dataset")


def fit_unbuilt(tf, strategy):
    """A model without an input shape has its variables made by fit, which is called outside of the scope."""
    return fit(tf, strategy, "arrays", shape=False)


def fit_mixed(tf, strategy):
    """Layers that compute in float16 on weights of float32."""
    precision, how = tf.keras.mixed_precision, {"dynamic": False, "initial_scale": SCALE}
    if sys.argv[1] == "v1":
        tf.keras.layers.enable_v2_dtype_behavior()
        how = {"loss_scale": SCALE}
    precision.set_global_policy("mixed_float16")
    try:
        return fit(tf, strategy, "dataset", wrap=lambda opt: precision.LossScaleOptimizer(opt, **how))
    finally:
        precision.set_global_policy("float32")


# -- Estimators --------------------------------------------------------------------------------------------------------------
def input_fn_of(tf, kind, per_replica, epochs=EPOCHS):
    """An input function; a batch is a replica's. Each worker of several has its rows of every global batch."""
    x, y = data()

    def dataset(input_context=None):
        if kind == "generator":
            made = tf.data.Dataset.from_generator(lambda: iter(zip(x, y)), (tf.float32, tf.float32), ((3,), (1,)))
        else:
            made = tf.data.Dataset.from_tensor_slices((x, y))
        if input_context is not None and input_context.num_input_pipelines > 1:
            made = made.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return made.repeat(epochs).batch(per_replica)

    def tensors():
        return tf.compat.v1.data.make_one_shot_iterator(dataset()).get_next()
    return tensors if kind == "tensors" else dataset


def model_fn(features, labels, mode, params):
    import penstock.compat.v1 as tf
    mixed = params["mixed"]
    with tf.variable_scope("", custom_getter=half_of(tf) if mixed else None):
        out = tf.layers.dense(tf.cast(features, tf.float16 if mixed else tf.float32), 1,
                              kernel_initializer=tf.zeros_initializer(), name="dense")
    out = tf.cast(out, tf.float32)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": out})
    loss = tf.losses.mean_squared_error(labels, out)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"mse": tf.metrics.mean_squared_error(labels, out)})
    optimizer = scaled(tf, tf.train.GradientDescentOptimizer(RATE)) if mixed else tf.train.GradientDescentOptimizer(RATE)
    train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def half_of(tf):
    """A getter of variables: they are float32, and are read as float16."""
    def read(getter, name, *args, dtype=None, **more):
        return tf.cast(getter(name, *args, dtype=tf.float32, **more), tf.float16)
    return read


def scaled(tf, optimizer):
    """An optimizer of 1.x whose loss is scaled, as computing in float16 needs it."""
    return tf.mixed_precision.MixedPrecisionLossScaleOptimizer(optimizer, tf.mixed_precision.FixedLossScale(SCALE))


def run_config(tf, strategy, name, folder, **more):
    distribute = {} if name == "default" else {"train_distribute": strategy}
    if name not in ("default", "multi_worker", "parameter_server"):
        distribute["eval_distribute"] = strategy
    return tf.estimator.RunConfig(model_dir=folder, save_summary_steps=None, **distribute, **more)


def of_estimator(tf, estimator, replicas, kind):
    estimator.train(input_fn_of(tf, kind, BATCH // replicas))
    got = estimator.evaluate(input_fn_of(tf, kind, BATCH, epochs=1))
    def features():
        return tf.data.Dataset.from_tensor_slices(data()[0]).batch(BATCH)
    predicted = [float(np.ravel(list(p.values())[0])[0]) for p in estimator.predict(features)]
    names = estimator.get_variable_names()
    w, b = (next(n for n in names if n.endswith(end)) for end in ("kernel", "bias"))
    return {"w": estimator.get_variable_value(w).tolist(), "b": estimator.get_variable_value(b).tolist(),
            "loss": float(got["loss"]), "predicted": predicted}


def estimator(tf, strategy, name="", kind="dataset", mixed=False):
    with tempfile.TemporaryDirectory() as folder:
        made = tf.estimator.Estimator(model_fn, config=run_config(tf, strategy, name, folder), params={"mixed": mixed})
        return of_estimator(tf, made, strategy.num_replicas_in_sync, kind)


def estimator_tensors(tf, strategy, name):
    return estimator(tf, strategy, name, "tensors")


def estimator_generator(tf, strategy, name):
    return estimator(tf, strategy, name, "generator")


def estimator_mixed(tf, strategy, name):
    return estimator(tf, strategy, name, mixed=True)


def keras_estimator(tf, strategy, name):
    """model_to_estimator of a compiled model."""
    with tempfile.TemporaryDirectory() as folder:
        model = model_of(tf)
        model.compile(tf.keras.optimizers.SGD(RATE), "mse")
        made = tf.keras.estimator.model_to_estimator(model, config=run_config(tf, strategy, name, folder))
        return of_estimator(tf, made, strategy.num_replicas_in_sync, "dataset")


def train_and_evaluate(tf, strategy, name):
    """In a cluster, what this task has to do; the evaluator, or the only process, has results."""
    folder = os.environ.get("MATRIX_FOLDER") or tempfile.mkdtemp()
    config = run_config(tf, strategy, name, folder, save_checkpoints_steps=STEPS // 2)
    made = tf.estimator.Estimator(model_fn, config=config, params={"mixed": False})
    job = config.task_type if config.cluster_spec.as_dict() or config.task_type == "evaluator" else ""
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    workers = sum(len(cluster.get(j, ())) for j in ("chief", "worker"))         # the evaluator is none of them
    replicas = workers if name == "multi_worker" else strategy.num_replicas_in_sync
    epochs = None if name == "parameter_server" or os.environ.get("MATRIX_ASYNC") else EPOCHS
    train = tf.estimator.TrainSpec(input_fn_of(tf, "dataset", BATCH // replicas, epochs), max_steps=STEPS)
    evaluate = tf.estimator.EvalSpec(input_fn_of(tf, "dataset", BATCH, 1), steps=None, start_delay_secs=0, throttle_secs=0)
    result = tf.estimator.train_and_evaluate(made, train, evaluate)
    if job and job != "evaluator":
        return {"job": job}
    step = int(result[0]["global_step"])
    evaluated = os.path.join(folder, f"model.ckpt-{step}")        # a worker may have saved a later one since
    w, b = (tf.train.load_variable(evaluated, f"dense/{name}").tolist() for name in ("kernel", "bias"))
    return {"w": w, "b": b, "loss": float(result[0]["loss"]), "step": step}


# -- loops by the user ------------------------------------------------------------------------------------------------------
def loop(tf, strategy, name, mixed=False):
    """strategy.run on a distributed dataset: a loop in Python in 2.x, a graph and a session in 1.x."""
    return (loop_in_graph if sys.argv[1] == "v1" else loop_eagerly)(tf, strategy, mixed)


def loop_mixed(tf, strategy, name):
    return loop(tf, strategy, name, mixed=True)


def loss_of(tf, x, y, w, b, mixed):
    """The squared error of a replica's rows, as a part of the mean over the global batch."""
    if mixed:
        x, w, b = (tf.cast(t, tf.float16) for t in (x, w, b))
    return tf.reduce_sum((tf.cast(x @ w + b, tf.float32) - y) ** 2) / BATCH


def dataset_of(tf):
    return tf.data.Dataset.from_tensor_slices(data()).batch(BATCH).repeat(EPOCHS)


def variables(tf):
    return tf.Variable(np.zeros((3, 1), np.float32), name="w"), tf.Variable(np.zeros(1, np.float32), name="b")


def loop_eagerly(tf, strategy, mixed):
    with strategy.scope():
        w, b = variables(tf)
        optimizer = tf.keras.optimizers.SGD(RATE)
        if mixed:
            optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, False, SCALE)

    def step(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            loss = loss_of(tf, x, y, w, b, mixed)
            minimized = optimizer.get_scaled_loss(loss) if mixed else loss
        gradients = tape.gradient(minimized, [w, b])
        optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(gradients) if mixed else gradients, [w, b]))
        return loss

    @tf.function
    def distributed(inputs):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(inputs,)), axis=None)
    loss = None
    for inputs in strategy.experimental_distribute_dataset(dataset_of(tf)):
        loss = float(distributed(inputs))
    return {"w": w.numpy().tolist(), "b": b.numpy().tolist(), "last": loss}


def coordinated_loop(tf, strategy):
    """Functions that a coordinator has the workers run, each with its own dataset."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        w, b = variables(tf)
        optimizer = tf.keras.optimizers.SGD(RATE)

    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w + b - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b]))
        return loss

    @tf.function
    def step(iterator):
        return strategy.run(replica, args=next(iterator))
    iterator = iter(coordinator.create_per_worker_dataset(lambda: dataset_of(tf).repeat()))
    for _ in range(STEPS):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join(timeout=100)
    return {"w": w.numpy().tolist(), "b": b.numpy().tolist()}


def loop_in_graph(tf, strategy, mixed):
    with tf.Graph().as_default(), strategy.scope():
        w, b = (tf.get_variable(n, s, initializer=tf.zeros_initializer(), use_resource=True)
                for n, s in (("w", [3, 1]), ("b", [1])))
        optimizer = tf.train.GradientDescentOptimizer(RATE)
        if mixed:
            optimizer = scaled(tf, optimizer)
        iterator = strategy.make_dataset_iterator(dataset_of(tf))

        def step(inputs):
            x, y = inputs
            loss = loss_of(tf, x, y, w, b, mixed)
            with tf.control_dependencies([optimizer.minimize(loss)]):
                return tf.identity(loss)
        per_replica = strategy.experimental_run_v2(step, args=(iterator.get_next(),)) \
            if hasattr(iterator, "get_next") else strategy.experimental_run(step, iterator)
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
            sess.run(iterator.initialize())
            sess.run(tf.global_variables_initializer())
            last = None
            for _ in range(STEPS):
                last = float(sess.run(loss))
            values = sess.run([w, b])
    return {"w": values[0].tolist(), "b": values[1].tolist(), "last": last}


# -- a process ---------------------------------------------------------------------------------------------------------------
BY_STRATEGY = (estimator, estimator_tensors, estimator_generator, estimator_mixed, keras_estimator, train_and_evaluate, loop,
               loop_mixed)
PROGRAMS = {f.__name__: f for f in (fit, fit_dataset, fit_unbuilt, fit_mixed, coordinated_loop, *BY_STRATEGY)}


def main():
    api, name, *programs = sys.argv[1:]
    if api == "v1":
        import penstock.compat.v1 as tf
        tf.disable_v2_behavior()
    else:
        import penstock as tf
    strategy = strategy_of(tf, name)
    for program in programs:
        work = PROGRAMS[program]
        try:
            if api == "v1":
                tf.reset_default_graph()
            result = work(tf, strategy, name) if work in BY_STRATEGY else work(tf, strategy)
        except Exception:
            result = {"error": traceback.format_exc()[-3000:]}
        print("RESULT " + json.dumps({"program": program, **result}), flush=True)


if __name__ == "__main__":
    main()

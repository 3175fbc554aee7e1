"""ParameterServerStrategy between graphs: places, results as on one device, programs in processes; cluster resolvers."""
import json
import subprocess
import sys

import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.models.distribute.stagger import Stagger
from tests.cluster.conftest import SOURCE, addresses, cluster  # noqa: F401

R = tf.distribute.cluster_resolver
SPEC = {"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1"]}


@pytest.fixture
def environment(monkeypatch):
    def put(spec, job, index):
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": spec, "task": {"type": job, "index": index}}))
    return put


# -- resolvers -------------------------------------------------------------------------------------------------------
def test_the_cluster_of_tf_config(environment):
    environment(SPEC, "worker", 1)
    found = R.TFConfigClusterResolver()
    assert found.cluster_spec() == tf.train.ClusterSpec(SPEC) and (found.task_type, found.task_id) == ("worker", 1)
    assert found.master() == "d:1" and found.master("ps", 0) == "a:1" and found.master(rpc_layer="x") == "x://d:1"
    found.task_id = 0
    assert found.master() == "c:1" and R.TFConfigClusterResolver(task_type="ps", task_id=1).master() == "b:1"


def test_no_cluster_and_a_given_one(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert R.TFConfigClusterResolver().cluster_spec().as_dict() == {} and R.TFConfigClusterResolver().master() == ""
    given = R.SimpleClusterResolver(tf.train.ClusterSpec(SPEC), master="grpc://m:1", task_type="ps", task_id=0)
    assert given.master() == "grpc://m:1" and given.master("worker", 0, "grpc") == "grpc://c:1"
    other = R.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["e:1"]}))
    union = R.UnionResolver(given, other)
    assert union.cluster_spec().as_dict() == {"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1", "e:1"]}
    assert union.task_type == "ps" and union.master() == "grpc://m:1"
    with pytest.raises(ValueError, match="At least one"):
        R.UnionResolver()


# -- places ----------------------------------------------------------------------------------------------------------
def test_variables_alternate_between_servers_and_ops_are_on_the_worker(environment):
    environment(SPEC, "worker", 1)
    strategy = tf.distribute.experimental.ParameterServerStrategy()
    extended = strategy.extended
    assert extended.worker_devices == ("/job:worker/replica:0/task:1/device:CPU:0",)
    assert [d[:26] for d in extended.parameter_devices] == ["/job:ps/replica:0/task:0/d", "/job:ps/replica:0/task:1/d"]
    assert extended.experimental_between_graph and not extended.experimental_should_init and not extended.should_checkpoint
    config = strategy.update_config_proto(tf.ConfigProto())
    assert list(config.device_filters) == ["/job:ps", "/job:worker/task:1"] and not config.isolate_session_state
    with tf.Graph().as_default(), strategy.scope():
        made = [tf.get_variable(f"v{i}", [2]) for i in range(3)]
        assert [v.device[:24] for v in made] == [f"/job:ps/replica:0/task:{i}" for i in (0, 1, 0)]
        with strategy.extended.colocate_vars_with(made[1]):
            assert tf.get_variable("beside", [2]).device == made[1].device
        local = tf.get_variable("own", [], synchronization=tf.VariableSynchronization.ON_READ, trainable=False)
        assert local.device.startswith("/job:worker/replica:0/task:1")
        total = strategy.experimental_run_v2(lambda: made[0] + made[1])
        assert total.device.startswith("/job:worker/replica:0/task:1")
        context = strategy.extended._input_context()
        assert (context.num_input_pipelines, context.input_pipeline_id) == (2, 1)


def test_without_a_cluster_variables_are_on_the_cpu(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = tf2.distribute.experimental.ParameterServerStrategy()
    with strategy.scope():
        v = tf2.Variable([1.0, 2.0])
        model = tf2.keras.Sequential([tf2.keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile("sgd", "mse")
    model.fit(np.ones((8, 3)), np.zeros(8), batch_size=4, verbose=0)
    assert model.predict(np.ones((1, 3)), verbose=0)[0, 0] < 3 and "CPU:0" in v.device


@pytest.mark.parametrize("spec, job, text", [({"worker": ["c:1", "d:1"]}, "worker", "must have `ps`"),
                                             (SPEC, "other", "'other'")])
def test_mistakes_in_the_cluster_are_named(environment, spec, job, text):
    environment(spec, job, 0)
    with pytest.raises(ValueError, match=text):
        tf.distribute.experimental.ParameterServerStrategy()


def test_eager_variables_are_refused_with_what_to_do(environment):
    environment(SPEC, "worker", 0)
    strategy = tf2.distribute.experimental.ParameterServerStrategy()
    with pytest.raises(RuntimeError, match="disable_v2_behavior"), strategy.scope():
        tf2.Variable(1.0)


# -- results ---------------------------------------------------------------------------------------------------------
def dense(x):
    return tf.layers.dense(tf.layers.dense(x, 12, tf.nn.relu, kernel_initializer=start(1)), 3, kernel_initializer=start(2))


def conv(x):
    h = tf.layers.conv2d(tf.reshape(x, [-1, 4, 4, 1]), 4, 3, kernel_initializer=start(1), use_bias=False)
    h = tf.nn.relu(tf.layers.batch_normalization(h, training=True))
    return tf.layers.dense(tf.layers.flatten(h), 3, kernel_initializer=start(2))


def embedding(x):
    ids = tf.cast(tf.abs(x[:, :4]) * 4, tf.int32) % 10
    table = tf.get_variable("table", [10, 5], initializer=start(1))
    return tf.layers.dense(tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1), 3, kernel_initializer=start(2))


def start(seed):
    return tf.glorot_uniform_initializer(seed=seed)


def trained(model, optimizer, strategy=None, target="", steps=50):
    """Losses and variables of some steps."""
    random = np.random.RandomState(0)
    xs, ys = random.randn(steps, 8, 16).astype(np.float32), random.randint(0, 3, (steps, 8))

    def build():
        x, y = tf.placeholder(tf.float32, [8, 16]), tf.placeholder(tf.int64, [8])
        loss = tf.losses.sparse_softmax_cross_entropy(y, model(x))
        return x, y, loss, optimizer().minimize(loss)
    with tf.Graph().as_default():
        if strategy is None:
            x, y, loss, step = build()
        else:
            with strategy.scope():
                x, y, loss, step = strategy.experimental_run_v2(build)
        with tf.Session(target) as sess:
            sess.run(tf.global_variables_initializer())
            losses = [sess.run([loss, step], {x: xs[i], y: ys[i]})[0] for i in range(steps)]
            return losses, sess.run(tf.trainable_variables())


@pytest.mark.distributed
@pytest.mark.parametrize("optimizer", [lambda: tf.train.GradientDescentOptimizer(0.1), lambda: tf.train.AdamOptimizer(0.01)],
                         ids=["SGD", "Adam"])
@pytest.mark.parametrize("model", [dense, conv, embedding])
def test_one_worker_follows_a_single_device(cluster, environment, model, optimizer):  # noqa: F811
    servers = cluster(ps=2, worker=1)
    spec = servers["worker", 0].server_def.cluster
    environment({job.name: [job.tasks[i] for i in sorted(job.tasks)] for job in spec.job}, "worker", 0)
    strategy = tf.distribute.experimental.ParameterServerStrategy()
    losses, values = trained(model, optimizer, strategy, servers["worker", 0].target)
    alone, expected = trained(model, optimizer)
    np.testing.assert_allclose(losses, alone, rtol=1e-4, atol=1e-5)
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


LECTURE = """
import json, os
import numpy as np
import penstock.compat.v1 as tf
from penstock import digits

tf.disable_v2_behavior()
task = json.loads(os.environ["TF_CONFIG"])
if task["task"]["type"] == "ps":
    tf.distribute.Server(task["cluster"], job_name="ps", task_index=task["task"]["index"]).join()
(x, y), (x_test, y_test) = digits.load()
distribution = tf.distribute.experimental.ParameterServerStrategy()
with distribution.scope():
    model = tf.keras.Sequential([tf.keras.layers.Flatten(input_shape=(8, 8, 1)), tf.keras.layers.Dense(64, activation="relu"),
                                 tf.keras.layers.Dense(10, activation="softmax")])
    model.compile(loss="sparse_categorical_crossentropy", optimizer=tf.keras.optimizers.SGD(0.2), metrics=["accuracy"])
model.fit(x, y, batch_size=32, epochs=4, verbose=0)
places = {v.device for v in model.weights}
print(json.dumps({"accuracy": float(np.mean(model.predict(x_test).argmax(1) == y_test)), "places": sorted(places)}), flush=True)
"""


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_lecture_program_in_processes(tmp_path):
    """Scope, compile, fit, predict: two workers change the variables of two parameter servers."""
    import os
    program = tmp_path / "program.py"
    program.write_text(LECTURE)
    spec = addresses(ps=2, worker=2)
    tasks = {}
    try:
        for job, index in (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)):
            config = json.dumps({"cluster": spec, "task": {"type": job, "index": index}})
            tasks[job, index] = subprocess.Popen(
                [sys.executable, program], stdout=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "TF_CONFIG": config})
        for index in range(2):
            out, _ = tasks["worker", index].communicate(timeout=300)
            found = json.loads(out.splitlines()[-1])
            assert found["accuracy"] > 0.85 and all(p.startswith("/job:ps/") for p in found["places"]), found
    finally:
        for process in tasks.values():
            process.kill()
            process.communicate()


# -- staggering ------------------------------------------------------------------------------------------------------
def seconds_a_step(workers, staggered, speeds=None, steps=30, alone=0.05, tick=0.002):
    """Of the second half of a simulated run. A step pulls, computes for 0.4 s, and pushes; a message takes 0.05 s, or so much
    longer as there are others under way in its direction. All workers begin together."""
    wait, begun, seen = [Stagger(i, workers) for i in range(workers)], [0.0] * workers, [[0.0] * workers] * workers
    phase, left, done, began, now = ["push"] * workers, [0.0] * workers, [-1] * workers, [0.0] * workers, 1.7e9
    after = {"push": "wait", "wait": "pull", "pull": "compute", "compute": "push"}
    took = []
    while len(took) < workers:
        at_once = {way: max(1, phase.count(way)) for way in ("pull", "push")}
        for i in range(workers):
            left[i] -= tick / at_once.get(phase[i], 1)
            if left[i] > 0:
                continue
            phase[i] = after[phase[i]]
            left[i] = {"pull": alone, "push": alone, "compute": 0.4 * (speeds or [1.0] * workers)[i], "wait": 0.0}[phase[i]]
            if phase[i] == "compute":
                seen[i] = list(begun)
            if phase[i] == "wait":
                done[i] += 1
                if done[i] == steps // 2:
                    began[i] = now
                if done[i] == steps:
                    took.append((now - began[i]) / (steps - steps // 2))
                left[i] = wait[i].delay(now, seen[i]) if staggered else 0.0
                begun[i] = now + left[i]
        now += tick
    return sum(took) / workers


def test_staggered_workers_do_not_send_together():
    assert seconds_a_step(4, staggered=False) == pytest.approx(0.4 + 8 * 0.05, abs=0.02)      # all four at once, always
    assert seconds_a_step(4, staggered=True) < 0.6                                             # 0.5 without collisions


def test_staggering_costs_little_where_it_does_not_help():
    speeds = [1.0, 1.1, 0.9, 1.3]
    assert seconds_a_step(4, True, speeds) < 1.05 * seconds_a_step(4, False, speeds)
    alone = Stagger(3, 4)
    assert [alone.delay(float(n), [0.0] * 4) for n in range(5)] == [0.0] * 5
    with pytest.raises(ValueError, match=r"worker must be in \[0, 4\), got 4"):
        Stagger(4, 4)


def test_workers_tell_each_other_when_they_began():
    with tf.Graph().as_default():
        tf.train.create_global_step()
        step = tf.train.get_global_step().assign_add(1)
        hooks = [tf.distribute.experimental.StaggerHook(i, 2) for i in range(2)]
        hooks[0].begin()
        tf.get_variable_scope().reuse_variables()              # in one graph, for once: workers share a variable
        hooks[1].begin()
        assert [v.op.name for v in tf.local_variables()] == ["stagger/begun"]                  # no part of checkpoints
        assert [v.op.name for v in tf.global_variables()] == ["global_step"]
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for hook in hooks:
                args = hook.before_run(None)
                got = sess.run([step, args.fetches], args.feed_dict)[1]
                hook.after_run(None, tf.train.SessionRunValues(got, None, None))
        assert hooks[0]._begun[0] > 0 and hooks[0]._begun[1] == 0
        assert hooks[1]._begun[0] == hooks[0]._begun[0] <= hooks[1]._begun[1]


# -- shards, estimators ----------------------------------------------------------------------------------------------
def test_partitioners():
    """The numbers are real TensorFlow's."""
    P = tf2.distribute.experimental.partitioners
    shape = tf2.TensorShape([100, 8])
    for made, expected in [(P.FixedShardsPartitioner(3), [3, 1]), (P.FixedShardsPartitioner(300), [100, 1]),
                           (P.MinSizePartitioner(800, max_shards=10), [4, 1]), (P.MinSizePartitioner(1, max_shards=7), [7, 1]),
                           (P.MaxSizePartitioner(1000), [4, 1]), (P.MaxSizePartitioner(1000, max_shards=2), [2, 1])]:
        assert list(made(shape, tf2.float32)) == expected
    assert P.FixedShardsPartitioner(3)(shape, tf2.float32, axis=1) == [1, 3]
    for wrong in (lambda: P.MinSizePartitioner(0), lambda: P.MaxSizePartitioner(1, max_shards=0)):
        with pytest.raises(ValueError, match="positive"):
            wrong()


def test_shards_alternate_between_servers(environment):
    environment(SPEC, "worker", 0)
    strategy = tf.distribute.experimental.ParameterServerStrategy()
    with tf.Graph().as_default(), strategy.scope():
        table = tf.get_variable("table", [10, 4], partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(3))
        assert [p.shape.as_list() for p in table] == [[4, 4], [3, 4], [3, 4]]
        assert [p.device[:24] for p in table] == [f"/job:ps/replica:0/task:{i}" for i in (0, 1, 0)]


@pytest.mark.distributed
def test_an_estimator_trains_under_the_strategy(cluster, environment, tmp_path):  # noqa: F811
    servers = cluster(ps=1, chief=1)
    spec = servers["chief", 0].server_def.cluster
    environment({job.name: [job.tasks[i] for i in sorted(job.tasks)] for job in spec.job}, "chief", 0)
    devices = []

    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
        devices.append(w.device)
        loss = tf.reduce_mean((tf.matmul(features, w) - labels) ** 2)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def input_fn():
        x = np.random.RandomState(0).randn(32, 3).astype(np.float32)
        y = x @ np.array([[1.0], [2.0], [3.0]], np.float32)
        return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)
    strategy = tf.distribute.experimental.ParameterServerStrategy()
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), tf.estimator.RunConfig(train_distribute=strategy))
    estimator.train(input_fn, steps=60)
    assert len(devices) == 1 and devices[0].startswith("/job:ps/replica:0/task:0")
    np.testing.assert_allclose(estimator.get_variable_value("w"), [[1], [2], [3]], atol=0.2)

"""MultiWorkerMirroredStrategy in real processes: the lecture's program, and the same numbers as one device."""
import json

import numpy as np
import pytest

from tests.models.distribute.workers import ROOT, SOURCE, Workers

pytestmark = pytest.mark.distributed

LECTURE = """
import json, sys
import numpy as np
import penstock as tf
distribution = tf.distribute.experimental.MultiWorkerMirroredStrategy(
    tf.distribute.experimental.CollectiveCommunication.{how})
with distribution.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu", input_shape=(4,)), tf.keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(0.1))
rng = np.random.default_rng(0)
x = rng.standard_normal((32, 4)).astype("float32")
y = x.sum(1, keepdims=True)
history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
predicted = model.predict(x)
print(json.dumps({{"replicas": distribution.num_replicas_in_sync, "loss": history.history["loss"],
                  "weights": [w.tolist() for w in model.get_weights()], "rows": len(predicted)}}))
"""


@pytest.mark.parametrize("how", ["AUTO", pytest.param("RING", marks=pytest.mark.slow)])
def test_the_lecture_program(how):
    with Workers(2, LECTURE.format(how=how)) as workers:
        first, second = workers.results()
    assert first["replicas"] == second["replicas"] == 2
    assert first["weights"] == second["weights"]                 # to the bit, though each began with its own
    np.testing.assert_allclose(first["loss"], second["loss"], rtol=1e-6)
    assert first["loss"][-1] < 0.7 * first["loss"][0]
    assert first["rows"] == second["rows"] == 32


def test_the_lecture_program_under_the_1x_api():
    """Keras's own session, of which no program knows, meets the other workers' in the strategy's collectives."""
    program = LECTURE.replace("import penstock as tf", "import penstock.compat.v1 as tf").format(how="AUTO")
    with Workers(2, program) as workers:
        first, second = workers.results()
    assert first["replicas"] == 2 and first["weights"] == second["weights"] and first["loss"][-1] < 0.7 * first["loss"][0]
    np.testing.assert_allclose(first["loss"], second["loss"], rtol=1e-6)
    assert first["rows"] == second["rows"] == 32


EQUIVALENT = """
import json, sys
import numpy as np
import penstock as tf
from tests.models.distribute import test_equivalence as e
strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(**json.loads({options!r})))
out = []
for kind, opt, dtype in json.loads({cases!r}):
    tf.keras.backend.set_floatx(dtype)
    found = e.trained(strategy, kind, opt, dtype)
    if strategy.extended._place.rank == 0:
        alone = e.trained(None, kind, opt, dtype)
        out.append(max(float(np.max(np.abs(np.asarray(a) - b) / (1 + np.abs(a)))) for a, b in zip(alone, found)))
    else:
        e.trained(None, kind, opt, dtype)
print(json.dumps(out))
"""
CASES = [(kind, opt, dtype) for kind in ("dense", "conv", "embedding") for opt in ("SGD", "Adam")
         for dtype in ("float64", "float32")]


def follows_one_device(workers, cases, **options):
    """50 steps with the same global batches: losses, metrics, predictions and weights."""
    program = EQUIVALENT.format(cases=json.dumps(cases), options=json.dumps(options))
    with Workers(workers, program, {"PYTHONPATH": f"{SOURCE}:{ROOT}"}) as running:
        differences = running.results()[0]
    for (kind, opt, dtype), difference in zip(cases, differences, strict=True):
        assert difference < {"float64": 1e-4, "float32": 1e-2}[dtype], (kind, opt, dtype)


def test_training_follows_one_device():
    follows_one_device(2, [("dense", "Adam", "float64"), ("embedding", "SGD", "float32")], prioritize=True, bytes_per_pack=200)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("workers, options", [(2, {}), (3, {"overlap": True, "bytes_per_pack": 200})])
def test_training_of_all_kinds_follows_one_device(workers, options, case):
    follows_one_device(workers, [case], **options)


DIFFERENT = """
import json, os, pathlib, time
import numpy as np
import penstock as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(timeout_seconds=150.0))
rank = strategy.extended._place.rank
try:
    strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([3 + rank])))
    print(json.dumps("fine"))
except tf.errors.OpError as e:
    print(json.dumps([type(e).__name__, e.message]))
here = pathlib.Path(os.environ["HERE"])               # one that ends at once could be taken for lost by the other
(here / str(rank)).touch()
while len(list(here.iterdir())) < 2:
    time.sleep(0.05)
"""


def test_different_programs_on_different_workers_are_an_error_that_names_them(tmp_path):
    with Workers(2, DIFFERENT, {"HERE": str(tmp_path)}) as running:
        for kind, message in running.results():
            assert kind == "InvalidArgumentError", message
            for word in ("Shape mismatch", "_WorkersReduce", "task:0", "task:1", "[3]", "[4]"):
                assert word in message


COMPRESSED = """
import json, sys
import numpy as np
import penstock as tf
C = tf.distribute.experimental.compression
options = tf.distribute.experimental.CommunicationOptions(implementation="RING")
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
sent_so_far = lambda: sum(link.sent for link in strategy.extended._server._peers.links())
x = np.random.RandomState(0).randn(32, 40).astype("float32")
out = {}
for codec in ("none", "bfloat16", "int8", "top_k", {"kind": "threshold", "config": {"threshold": 0.05}}):
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(50, input_shape=(40,), kernel_initializer="ones"),
                                     tf.keras.layers.Dense(3, kernel_initializer="ones")])
        opt = C.compress(tf.keras.optimizers.SGD(0.001), codec)
        model.compile(opt, "mse")
    model.train_on_batch(x, x[:, :3])
    counter, = strategy.experimental_local_results(opt.compressor.counter("sent"))
    before, counted = sent_so_far(), int(counter.numpy())
    for _ in range(4):
        model.train_on_batch(x, x[:, :3])
    sent, counted = sent_so_far() - before, int(counter.numpy()) - counted
    out[codec if isinstance(codec, str) else "threshold"] = [sent, counted, [v.numpy().sum().item() for v in model.variables]]
print(json.dumps(out))
"""


def test_encoded_gradients_are_what_workers_send_each_other():
    """What a codec makes goes over the links; all workers get the same variables, with enough bits about those without it."""
    with Workers(2, COMPRESSED, env={"PENSTOCK_SHARED_MEMORY": "0"}) as workers:
        first, second = workers.results()
    dense = first["none"][0]
    for codec, (sent, counted, variables) in first.items():
        assert second[codec][2] == variables
        assert counted <= sent <= counted + 10_000
        if codec in ("bfloat16", "int8"):
            np.testing.assert_allclose(variables[0], first["none"][2][0], rtol=0.05)
    assert first["bfloat16"][0] < 0.65 * dense
    assert first["int8"][0] < 0.45 * dense
    assert first["top_k"][0] < 0.2 * dense

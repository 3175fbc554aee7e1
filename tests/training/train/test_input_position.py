"""The position in the input data: a restarted worker continues with the next batch."""
import functools
import types

import pytest

import penstock.compat.v1 as tf
from tests.checks import eventually


def read(folder, last, lose_at=None, back_to=0, **options):
    """Trains to step `last`, and returns the batches that steps have read; at `lose_at` the worker dies without a word."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        it = tf.data.make_initializable_iterator(tf.data.Dataset.range(100).shuffle(10, seed=3).batch(2))
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, it.initializer)
        batch = it.get_next()
        with tf.control_dependencies([batch]):
            train = tf.assign_add(step, 1)
        hook = tf.train.experimental.InputPositionHook(str(folder), "worker_0", **options)
        scaffold = tf.train.Scaffold(init_op=tf.group(tf.assign(step, back_to)))
        seen = []
        with tf.train.MonitoredTrainingSession(hooks=[hook], scaffold=scaffold) as sess:
            while int(sess._tf_sess().run(step)) < last:
                if len(seen) == lose_at:
                    sess._tf_sess().close()
                    hook._writer.flush()
                    break
                seen.append(sess.run([batch, train])[0].tolist())
            hook._close()
        return seen


@pytest.fixture
def undisturbed(tmp_path):
    return read(tmp_path / "all", 20)


def test_a_worker_that_begins_again_goes_on(tmp_path, undisturbed):
    first = read(tmp_path, 20, lose_at=7)
    again = read(tmp_path, 20, back_to=7)
    assert first + again == undisturbed


def test_a_model_that_went_back_takes_the_input_with_it(tmp_path, undisturbed):
    first = read(tmp_path, 20, lose_at=9)
    again = read(tmp_path, 20, back_to=5)
    assert first[:5] + again == undisturbed


def test_a_torn_file_costs_one_batch_at_most(tmp_path, undisturbed):
    first = read(tmp_path, 20, lose_at=7)
    file = tmp_path / "worker_0.positions"
    file.write_bytes(file.read_bytes()[:-5])                     # killed while it wrote
    again = read(tmp_path, 20, back_to=7)
    assert again[0] == first[6] and first[:6] + again[:13] == undisturbed[:19]


def test_the_file_does_not_grow(tmp_path, undisturbed):
    assert read(tmp_path, 20, keep=2) == undisturbed
    assert len(list(tf.python_io.tf_record_iterator(str(tmp_path / "worker_0.positions")))) <= 5


def test_another_graph_is_refused(tmp_path):
    read(tmp_path, 3)
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        with pytest.raises(ValueError, match="no iterators"):
            tf.train.experimental.InputPositionHook(str(tmp_path), "worker_0").begin()
        for _ in range(2):
            tf.data.make_one_shot_iterator(tf.data.Dataset.range(3))
        with pytest.raises(tf.errors.InvalidArgumentError, match="1 iterators; the graph has 2"):
            tf.train.experimental.InputPositionHook(str(tmp_path), "worker_0").begin()


def test_the_hook_for_estimators(tmp_path):
    config = types.SimpleNamespace(num_worker_replicas=1, save_checkpoints_secs=None, save_checkpoints_steps=2)
    estimator = types.SimpleNamespace(_config=config, model_dir=str(tmp_path))

    def train(last):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            batch = tf.data.make_one_shot_iterator(tf.data.Dataset.range(100)).get_next()
            with tf.control_dependencies([batch]):
                up = tf.assign_add(step, 1)
            hooks = [tf.data.experimental.CheckpointInputPipelineHook(estimator), tf.train.StopAtStepHook(last_step=last)]
            with tf.train.MonitoredTrainingSession(hooks=hooks, checkpoint_dir=str(tmp_path), save_checkpoint_steps=2) as sess:
                seen = []
                while not sess.should_stop():
                    seen.append(int(sess.run([batch, up])[0]))
            return seen
    assert train(4) + train(9) == list(range(9))
    assert (tmp_path / "checkpoint_input").exists() and tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-9")


COUNTS = """
import sys, time
import penstock.compat.v1 as tf
tf.disable_v2_behavior()
step = tf.train.get_or_create_global_step()
it = tf.data.make_initializable_iterator(tf.data.Dataset.range(100000).shuffle(50, seed=1).batch(1).prefetch(2))
tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, it.initializer)
batch = it.get_next()
with tf.control_dependencies([batch]):
    train = tf.assign_add(step, 1)
hooks = [tf.train.experimental.InputPositionHook(sys.argv[1]), tf.train.StopAtStepHook(last_step=int(sys.argv[2]))]
with tf.train.MonitoredTrainingSession(checkpoint_dir=sys.argv[1], save_checkpoint_steps=7, save_summaries_steps=None,
                                       save_summaries_secs=None, log_step_count_steps=None, hooks=hooks) as sess:
    while not sess.should_stop():
        seen, at = sess.run([batch, train])
        print("read", at, seen[0], flush=True)
        time.sleep(0.004)
"""


@pytest.mark.distributed
def test_a_worker_that_is_killed_again_and_again_reads_everything_in_order(nursery, tmp_path):
    """The model goes back to its checkpoint with every death; its input too, but for a batch that may come again."""
    program, log, folder = tmp_path / "counts.py", tmp_path / "log", tmp_path / "model"
    program.write_text(COUNTS)
    log.touch()
    with tf.Graph().as_default(), tf.Session() as sess:
        one = tf.data.make_one_shot_iterator(tf.data.Dataset.range(100000).shuffle(50, seed=1)).get_next()
        order = [int(sess.run(one)) for _ in range(130)]
    for _ in range(4):
        already = log.read_text().count("read")
        child = nursery.start(log, program, folder, 120)
        enough = functools.partial(lambda child, lines: not child.alive() or log.read_text().count("read") >= lines, child)
        assert eventually(functools.partial(enough, already + 20), 60)
        child.signal(9)
        child.wait(60)
    child = nursery.start(log, program, folder, 120)
    assert child.wait(60) == 0, log.read_text()
    read = [tuple(map(int, line.split()[1:])) for line in log.read_text().splitlines() if line.startswith("read ")]
    missing = set(range(1, 121)) - {step for step, _ in read}       # a death between a checkpoint and the line of its step
    assert read[-1][0] == 120 and len(missing) <= 4, missing
    behind = [step - 1 - order.index(seen) for step, seen in read]     # a death may repeat a batch: all after it are later
    changes = [b - a for a, b in zip(behind, behind[1:], strict=False) if a != b]
    assert behind[0] == 0 and len(changes) <= 4 and set(changes) <= {-1, 1} and set(behind) <= set(range(5)), behind

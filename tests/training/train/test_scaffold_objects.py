"""A Scaffold whose saver is an object-based checkpoint."""
import penstock as tf2
import penstock.compat.v1 as tf


def test_a_scaffold_saves_an_object_based_checkpoint(tmp_path):
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=3.0, use_resource=True)
        step = tf.train.get_or_create_global_step()
        scaffold = tf.train.Scaffold(saver=tf2.train.Checkpoint(v=v))
        train = tf.group(step.assign_add(1), v.assign_add(1.0))
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), scaffold=scaffold, save_checkpoint_steps=2) as s:
            for _ in range(4):
                s.run(train)
    fresh = tf2.Variable(0.0)
    tf2.train.Checkpoint(v=fresh).restore(tf.train.latest_checkpoint(str(tmp_path))).expect_partial()
    assert fresh.numpy() == 7.0

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


def test_tables_that_a_local_init_op_leaves_out_are_initialized(tmp_path):
    """TensorFlow fails in the first step then ("Table not initialized"); published programs of its forks leave them out."""
    (tmp_path / "words").write_text("a\nb\n")
    with tf.Graph().as_default():
        table = tf.contrib.lookup.index_table_from_file(str(tmp_path / "words"))
        found = table.lookup(tf.constant(["b", "x"]))
        scaffold = tf.train.Scaffold(local_init_op=tf.local_variables_initializer())
        with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as sess:
            assert sess.run(found).tolist() == [1, -1]

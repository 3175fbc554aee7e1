"""Printing, logging, flags."""
import logging
import subprocess
import sys
import textwrap

import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.base import tf_logging
from penstock._src.graph import context


def test_print_eagerly(capsys, tmp_path):
    x = tf2.constant([[1., 2.], [3., 4.]])
    tf2.print("x:", x, {"a": [tf2.constant("s"), 7]}, sep="|", end="!\n")
    assert capsys.readouterr().err == 'x:|[[1 2]\n [3 4]]|{\'a\': ["s", 7]}!\n'
    tf2.print(tf2.constant("plain"), "{}", output_stream=sys.stdout)
    assert capsys.readouterr().out == '"plain" {}\n'
    tf2.print(tf2.constant("plain"), output_stream=f"file://{tmp_path / 'log'}")
    tf2.print(tf2.range(10), summarize=1, output_stream=f"file://{tmp_path / 'log'}")
    assert (tmp_path / "log").read_text() == "plain\n[0 ... 9]\n"
    with pytest.raises(ValueError, match="Unsupported output stream"):
        tf2.print("a", output_stream="nowhere")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unknown output stream"):
        tf2.raw_ops.PrintV2(input="a", output_stream="nowhere")
    with pytest.raises(tf.errors.NotFoundError, match="Cannot print to"):
        tf2.print("a", output_stream=f"file://{tmp_path}/no/such/folder")


def test_print_in_graphs(capsys):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [2])
        old = tf.Print(x, [x, tf.shape(x)], message="x = ", first_n=2)
        grad, = tf.gradients(old, x)
        new = tf.print("new", x)
        for _ in range(3):
            assert sess.run(old, {x: [1, 2]}).tolist() == [1, 2]
        assert capsys.readouterr().err == "x = [1 2][2]\n" * 2
        assert sess.run([new, grad], {x: [1, 2]})[1].tolist() == [1, 1]
        assert capsys.readouterr().err == "new [1 2]\n"
    with context.enter(None):
        assert tf.Print(tf2.constant([3]), []).numpy().tolist() == [3]


def test_print_to_the_log(caplog):
    with caplog.at_level(logging.INFO, logger="tensorflow"):
        tf2.print("to the log", output_stream=tf_logging.info)
        tf2.print("a warning", output_stream=tf_logging.WARN)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("INFO", "to the log"), ("WARNING", "a warning")]


def test_logging(caplog):
    before = tf.logging.get_verbosity()
    try:
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.debug("hidden")
        tf.logging.info("step %d", 3)
        for _ in range(5):
            tf.logging.log_every_n(tf.logging.WARN, "every", 2)
            tf.logging.log_first_n(tf.logging.WARN, "first", 1)
        tf.logging.log_if(tf.logging.ERROR, "if", True)
        assert [r.getMessage() for r in caplog.records] == ["step 3", "every", "first", "every", "every", "if"]
        assert {r.filename for r in caplog.records} == {"test_print.py"}
        assert tf.logging.get_verbosity() == tf.logging.INFO and tf.get_logger().name == "tensorflow"
    finally:
        tf.logging.set_verbosity(before)


def test_flags_and_run(tmp_path):
    """In its own process: flags are global."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import penstock.compat.v1 as tf
        tf.app.flags.DEFINE_float("rate", 0.1, "how fast")
        tf.flags.DEFINE_string("where", "here", "place")
        FLAGS = tf.flags.FLAGS

        def main(argv):
            FLAGS.where = FLAGS.where.upper()
            print(argv[1:], FLAGS.rate, FLAGS.where, "rate" in FLAGS)

        tf.app.run()
    """))
    done = subprocess.run([sys.executable, str(program), "--rate=0.5", "--unknown=1", "left"], capture_output=True,
                          text=True, timeout=100, check=True)
    assert done.stdout == "['--unknown=1', 'left'] 0.5 HERE True\n"


def test_import_does_not_load_absl():
    code = "import sys, penstock; sys.exit('absl.flags' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=100).returncode == 0


def test_timestamp():
    import time
    before, now = time.time(), float(tf2.timestamp())
    assert before <= now <= time.time()


def test_levels_of_absl(caplog):
    """They differ from those of Python's logging: 0, -1 and -2."""
    from absl import logging
    with caplog.at_level("INFO", logger="tensorflow"):
        for stream in (logging.INFO, logging.WARNING, logging.ERROR, logging.error):
            tf2.print("a line", output_stream=stream)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "ERROR", "ERROR"]
    with pytest.raises(ValueError, match="Unsupported output stream"):
        tf2.print("a line", output_stream=1)

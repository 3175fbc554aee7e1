"""`penstock check`: the names of TensorFlow's that a program uses."""
from penstock._src.compat.programs import guess, symbols
from penstock._src.compat.programs.check import check, report
from tests.compat.programs.running import penstock, program

PROGRAM = """
    import tensorflow as tf
    from tensorflow.contrib import nowhere as n
    from tensorflow.python.framework import ops
    nn = tf.nn
    x = tf.placeholder(tf.float32, [None, 2])
    y = nn.relu(x)
    z = n.conv(y)
    w = nn.rellu(x)
    v = ops.convert_to_tensor(1.0)
    tf.train.Saver().save
    """


def test_names_and_lines(tmp_path):
    api, found = check(program(tmp_path, PROGRAM))
    assert api == "v1"
    by_name = {f.name: f for f in found}
    assert by_name["tf.nn.relu"].here and by_name["tf.nn.relu"].where == ("7",)
    assert by_name["tf.python.framework.ops.convert_to_tensor"].here and by_name["tf.float32"].here
    assert {f.name for f in found if not f.here} == {"tf.contrib.nowhere.conv", "tf.nn.rellu"}
    assert by_name["tf.nn.rellu"].nearest[0] == "nn.relu"


def test_the_command(tmp_path):
    done = penstock("check", program(tmp_path, PROGRAM))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "program.py: TensorFlow 1.x, 7 names, 2 missing"
    assert any(line.startswith("  NO   tf.nn.rellu") and "line 9  nearest: tf.nn.relu, " in line for line in lines)
    assert penstock("check", program(tmp_path, "import tensorflow as tf\ntf.constant(1)\n")).returncode == 0
    bad = penstock("check", program(tmp_path, "x = (1\n"))
    assert bad.returncode == 2 and "program.py" in bad.stderr


def test_modules_beside_the_program_count(tmp_path):
    program(tmp_path, "import tensorflow as tf\nclass Model(tf.nothing.Base):\n    pass\n", "net/model.py")
    program(tmp_path, "", "net/__init__.py")
    text, lacking = report(program(tmp_path, "import tensorflow as tf\nfrom net.model import Model\n"))
    assert lacking == 1 and "net/model.py:2" in text


def test_nothing_is_left_in_place(tmp_path):
    import sys
    check(program(tmp_path, PROGRAM))
    assert not [m for m in sys.modules if m.split(".")[0] == "tensorflow"]


def test_scan_follows_aliases():
    source = symbols.scan("import tensorflow.compat.v1 as tf\nfrom tensorflow import keras as k\n"
                          "L = k.layers\nL.Dense(xrange(3))\ndef f(x):\n    return tf.nn.relu(x).shape\n")
    assert {(u.name, u.line, u.v1) for u in source.uses} == {
        ("tf.keras", 2, False), ("tf.keras.layers", 3, False), ("tf.keras.layers.Dense", 4, False), ("tf.nn.relu", 6, True)}
    assert "xrange" in source.undefined and "f" not in source.undefined


def test_guesses(tmp_path):
    def api(text):
        return guess.guess(program(tmp_path, "import tensorflow as tf\n" + text)).api
    assert api("tf.Session()") == api("tf.contrib.x.y()") == api("tf.mul(1, 2)") == "v1"
    assert api("it = d.make_one_shot_iterator()") == api("tf.train.AdamOptimizer(1)") == "v1"
    assert api("tf.constant(1)") == api("@tf.function\ndef f(): pass") == api("tf.compat.v1.Session()") == "v2"

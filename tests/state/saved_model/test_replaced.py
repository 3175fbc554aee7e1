"""A SavedModel that is saved over another one: there is always one of them, whole."""
import os
import threading

import pytest

import penstock as tf
from penstock._src.io import paths, replaced


class Small(tf.Module):
    def __init__(self):
        super().__init__()
        self.a = tf.Variable(1.0)

    @tf.function(input_signature=[])
    def f(self):
        return self.a


class Large(tf.Module):
    """Another structure, so that the message of one model does not fit the variables of the other."""

    def __init__(self, file=None):
        super().__init__()
        self.b = [tf.Variable([2.0, 2.0]), tf.Variable(1.0)]
        if file is not None:
            self.asset = tf.saved_model.Asset(file)

    @tf.function(input_signature=[])
    def f(self):
        return tf.reduce_sum(self.b[0]) - self.b[1]


def value(folder):
    return float(tf.saved_model.load(str(folder)).f())


def test_a_save_that_fails_leaves_the_model(tmp_path):
    (tmp_path / "words").write_text("a")
    model, large = tmp_path / "model", Large(str(tmp_path / "words"))
    tf.saved_model.save(Small(), str(model))
    before = sorted(paths_below(model))
    os.remove(tmp_path / "words")
    with pytest.raises(tf.errors.NotFoundError, match="words"):
        tf.saved_model.save(large, str(model))
    assert value(model) == 1.0 and sorted(paths_below(model)) == before


class Ended(BaseException):
    """The process ends."""


CHANGES = 6                          # the new folder, the data, the index, the fingerprint, the message, the folder is removed


@pytest.mark.parametrize("step", range(CHANGES + 1))
def test_a_saver_that_ends_in_the_middle_of_a_replacement(tmp_path, monkeypatch, step):
    tf.saved_model.save(Small(), str(tmp_path))
    left = [step]

    def counted(change):
        def run(path, *args):
            if ".writ" not in os.path.dirname(paths.as_text(path)) or "/.written" in paths.as_text(path):
                left[0] -= 1
                if left[0] < 0:
                    raise Ended
            return change(path, *args)
        return run
    with monkeypatch.context() as patched:
        for name in ("rename", "remove", "rmtree"):
            patched.setattr(replaced.paths, name, counted(getattr(paths, name)))
        try:
            tf.saved_model.save(Large(), str(tmp_path))
            assert step == CHANGES
        except Ended:
            assert step < CHANGES
    assert value(tmp_path) == (1.0 if step == 0 else 3.0)
    tf.saved_model.save(Small(), str(tmp_path))
    assert value(tmp_path) == 1.0 and not [p for p in paths_below(tmp_path) if p.startswith(".")]


def test_savers_of_one_folder_do_not_mix(tmp_path):
    def save(model):
        for _ in range(3):
            tf.saved_model.save(model, str(tmp_path))
    threads = [threading.Thread(target=save, args=(model,)) for model in (Small(), Large())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert value(tmp_path) in (1.0, 3.0) and not [p for p in paths_below(tmp_path) if p.startswith(".")]


def paths_below(folder):
    return [os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names]

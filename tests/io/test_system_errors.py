"""Errors of the operating system in penstock's types."""
import os

import pytest

import penstock as tf
from penstock._src.io import locks
from penstock._src.io.system_errors import typed


def test_an_interrupt_is_not_hidden_by_an_error_that_follows_from_it():
    with pytest.raises(KeyboardInterrupt), typed("file"):
        try:
            raise KeyboardInterrupt
        finally:
            os.close(-1)                             # as removing a folder does when it is interrupted


def test_an_error_while_an_earlier_interrupt_is_handled_is_typed():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(tf.errors.FailedPreconditionError, match="file"), typed("file"):
            os.close(-1)


def test_a_folder_that_cannot_be_locked(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="missing"), locks.folder_lock(str(tmp_path / "missing")):
        pass


@pytest.mark.parametrize("make", [lambda: tf.io.TFRecordWriter("/dev/full"),
                                  lambda: tf.io.TFRecordWriter("/dev/full", tf.io.TFRecordOptions(compression_type="GZIP")),
                                  lambda: tf.io.gfile.GFile("/dev/full", "wb")])
@pytest.mark.parametrize("closed", [True, False])
def test_a_file_on_a_full_disk(make, closed, caplog):
    """`close` raises what the destructor can only log, and the file is closed after it."""
    f = make()
    f.write(b"some bytes")
    if closed:
        with pytest.raises(tf.errors.ResourceExhaustedError):
            f.close()
        f.close()
    del f
    assert [r for r in caplog.records if "incomplete" in r.getMessage()] == [] if closed else caplog.records

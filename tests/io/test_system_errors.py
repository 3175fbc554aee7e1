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

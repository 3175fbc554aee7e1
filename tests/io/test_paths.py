"""Files on this machine and in fsspec's memory file system behave alike."""
import errno
import inspect
import os
import stat
import sys

import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.base import errors
from penstock._src.io import paths


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    if request.param == "local":
        yield str(tmp_path / "base")
    else:
        pytest.importorskip("fsspec")
        yield f"memory://{tmp_path.name}"


def write(path, text):
    with tf.io.gfile.GFile(path, "w") as f:
        f.write(text)


def test_a_file_is_written_read_and_found(folder):
    tf.io.gfile.makedirs(folder)
    path = tf.io.gfile.join(folder, "a.txt")
    write(path, "one\ntwo\n")
    with tf.io.gfile.GFile(path) as f:
        assert f.readline() == "one\n"
        assert f.tell() == 4
        f.seek(0)
        assert list(f) == ["one\n", "two\n"]
    assert tf.io.gfile.GFile(path, "rb").read(3) == b"one"
    assert v1.gfile.Exists(path) and not v1.gfile.Exists(path + "x")
    assert tf.io.gfile.stat(path).length == 8
    assert tf.io.gfile.listdir(folder) == ["a.txt"]
    assert [os.path.basename(p) for p in tf.io.gfile.glob(tf.io.gfile.join(folder, "*.txt"))] == ["a.txt"]
    assert tf.io.gfile.exists(tf.io.gfile.glob(tf.io.gfile.join(folder, "*"))[0])


def test_copy_rename_remove(folder):
    a, b, c = (tf.io.gfile.join(folder, "d", n) for n in "abc")
    v1.gfile.MakeDirs(tf.io.gfile.join(folder, "d"))
    write(a, "x")
    v1.gfile.Copy(a, b)
    with pytest.raises(errors.AlreadyExistsError):
        v1.gfile.Copy(a, b)
    v1.gfile.Copy(a, b, overwrite=True)
    v1.gfile.Rename(b, c)
    with pytest.raises(errors.AlreadyExistsError):
        v1.gfile.Rename(a, c)
    assert tf.io.gfile.listdir(tf.io.gfile.join(folder, "d")) == ["a", "c"]
    v1.gfile.Remove(a)
    with pytest.raises(errors.NotFoundError):
        v1.gfile.Remove(a)
    assert [(f, sorted(s), n) for f, s, n in tf.io.gfile.walk(folder)] == [
        (folder, ["d"], []), (tf.io.gfile.join(folder, "d"), [], ["c"])]
    v1.gfile.DeleteRecursively(folder)
    assert not tf.io.gfile.exists(c)
    with pytest.raises(errors.NotFoundError):
        tf.io.gfile.listdir(folder)


def test_reading_what_is_not_there(folder):
    with pytest.raises(errors.NotFoundError, match="nothing"):
        tf.io.gfile.GFile(tf.io.gfile.join(folder, "nothing")).read()


def test_ops_go_through_the_same_paths(folder):
    path = tf.io.gfile.join(folder, "sub", "a.bin")
    tf.io.gfile.makedirs(folder)
    tf.io.write_file(path, b"\x00\xff")
    assert tf.io.read_file(path).numpy() == b"\x00\xff"
    assert len(tf.io.matching_files(tf.io.gfile.join(folder, "sub", "*")).numpy()) == 1


def test_an_atomic_write_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), paths.atomic(path) as f:
        f.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    paths.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_modes_are_checked(tmp_path):
    with pytest.raises(errors.PermissionDeniedError):
        tf.io.gfile.GFile(tmp_path / "a", "w").read()
    with pytest.raises(errors.PermissionDeniedError):
        tf.io.gfile.GFile(tmp_path / "a", "r").write("x")
    with pytest.raises(errors.InvalidArgumentError):
        tf.io.gfile.GFile(tmp_path / "a", "q")


def test_an_unknown_file_system_is_named():
    with pytest.raises(errors.UnimplementedError, match="nosuch"):
        tf.io.gfile.exists("nosuch://x")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_the_system_has_run_out_of(number):
    with pytest.raises(errors.ResourceExhaustedError, match=f"/a; {os.strerror(number)}"), paths.typed("/a"):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("number, kind", [
    (errno.EROFS, errors.PermissionDeniedError), (errno.EACCES, errors.PermissionDeniedError),
    (errno.ENAMETOOLONG, errors.InvalidArgumentError), (errno.EINVAL, errors.InvalidArgumentError),
    (errno.ENOENT, errors.NotFoundError), (errno.EEXIST, errors.AlreadyExistsError),
    (errno.ENOTDIR, errors.FailedPreconditionError),
    (errno.ESTALE, errors.AbortedError), (errno.EIO, errors.UnknownError), (errno.ELOOP, errors.UnknownError)])
def test_numbers_of_the_system_have_tensorflows_errors(number, kind):
    """TensorFlow 2.21 raised these for a read-only folder, names of 300 characters, a link to itself, and so on."""
    with pytest.raises(errors.OpError, match=os.strerror(number)) as found, paths.typed("/a"):
        raise OSError(number, os.strerror(number))
    assert type(found.value) is kind


def test_an_error_without_a_number_has_its_kind():
    with pytest.raises(errors.NotFoundError, match="gone"), paths.typed("s3://a"):
        raise FileNotFoundError("gone")


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127], ids=["ascii", "accents"])
def test_the_longest_name_of_a_file_can_be_written(tmp_path, name):
    paths.write_atomically(tmp_path / name, b"1")
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(errors.InvalidArgumentError):
        paths.write_atomically(tmp_path / (name + "nn"), b"1")


def test_folders_deeper_than_the_stack_are_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deep, limit = "/".join("d" * 200), sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        paths.makedirs(deep)
    finally:
        sys.setrecursionlimit(limit)
    assert os.path.isdir(deep)
    with pytest.raises(errors.InvalidArgumentError):
        paths.makedirs("/".join("d" * 3000))
    assert not os.path.exists("/".join("d" * 201))


def test_links_stay_and_what_they_lead_to_is_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    os.symlink("file", tmp_path / "link")
    tf.io.write_file(str(tmp_path / "link"), "new")
    with paths.atomic_name(tmp_path / "link") as name, open(name, "wb") as f:
        f.write(b"newer")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"newer"
    os.symlink("later", tmp_path / "ahead")
    tf.io.write_file(str(tmp_path / "ahead"), "made")
    assert (tmp_path / "later").read_bytes() == b"made"


def test_a_pipe_or_a_device_is_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        tf.io.write_file(str(tmp_path / "pipe"), "through")
        assert os.read(end, 100) == b"through"
        with paths.atomic_name(tmp_path / "pipe") as name:
            assert name == str(tmp_path / "pipe")
    finally:
        os.close(end)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_a_replaced_file_keeps_its_rights(tmp_path):
    paths.write_atomically(tmp_path / "f", b"1")
    os.chmod(tmp_path / "f", 0o640)
    paths.write_atomically(tmp_path / "f", b"2")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640

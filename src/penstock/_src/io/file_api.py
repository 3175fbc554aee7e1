"""tf.io.gfile and tf.gfile: the public API for files, over `paths`."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.io import paths
from penstock._src.io.system_errors import reported


@export("io.gfile.GFile", v1=["gfile.GFile", "gfile.Open", "gfile.FastGFile"])
class GFile:
    r"""A file on any file system that fsspec supports. It is opened by the first read or write, as text unless the mode has a
    "b".

    Args:
        name: Path or URL.
        mode: As for `open`: `"r"`, `"w"`, `"a"`, with `"b"` for bytes.

    >>> with tf.io.gfile.GFile("notes.txt", "w") as f:
    ...     f.write("one\n")
    >>> with tf.io.gfile.GFile("notes.txt") as f:
    ...     print(f.read(), end="")
    one
    """

    def __init__(self, name: Any, mode: str = "r"):
        self._name, self._mode = name, mode
        self._binary = "b" in mode
        plain = mode.replace("b", "")
        if plain not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.invalid("mode is not 'r' or 'w' or 'a'")
        self._may_read = plain in ("r", "r+", "w+", "a+")
        self._may_write = plain != "r"
        self._reader: Any = None
        self._writer: Any = None

    name = property(lambda self: self._name, doc="The path.")
    mode = property(lambda self: self._mode, doc="The mode.")

    def _reading(self) -> Any:
        if self._reader is None:
            if not self._may_read:
                raise errors.PermissionDeniedError(None, None, "The file is not open for reading")
            if self._writer is not None:
                self._writer.flush()
            self._reader = paths.open_file(self._name, "rb")
        return self._reader

    def _writing(self) -> Any:
        if self._writer is None:
            if not self._may_write:
                raise errors.PermissionDeniedError(None, None, "The file is not open for writing")
            self._writer = paths.open_file(self._name, "ab" if "a" in self._mode else "wb")
        return self._writer

    def _given(self, data: bytes) -> Any:
        return data if self._binary else data.decode("utf-8")

    def size(self) -> int:
        """The number of bytes in the file."""
        return paths.stat(self._name).length

    def write(self, file_content: Any) -> None:
        """Appends text or bytes."""
        data = file_content.encode("utf-8") if isinstance(file_content, str) else file_content
        with paths.typed(self._name):
            self._writing().write(data)

    def read(self, n: int = -1) -> Any:
        """The next `n` bytes, or the rest."""
        with paths.typed(self._name):
            return self._given(self._reading().read(n))

    def readline(self) -> Any:
        """The next line with its end; empty at the end of the file."""
        with paths.typed(self._name):
            return self._given(self._reading().readline())

    def readlines(self) -> list:
        """The lines that are left."""
        return list(self)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Moves the reading position, from the beginning (0), from here (1) or from the end (2)."""
        if offset is None and position is None:
            raise TypeError("seek(): offset argument required")
        if offset is not None and position is not None:
            raise TypeError("seek(): offset and position may not be set simultaneously.")
        reader = self._reading()
        if whence not in (0, 1, 2):
            raise errors.invalid(f"Invalid whence argument: {whence}. Valid values are 0, 1, or 2.")
        start = (0, reader.tell(), self.size())[whence] if offset is not None else 0
        target = start + (position if offset is None else offset)       # type: ignore[operator]
        if target < 0:
            raise errors.invalid(f"Cannot seek to {target}")
        reader.seek(target)

    def tell(self) -> int:
        """The position of the next read, or of the next write if the file is only written."""
        return self._reading().tell() if self._may_read else self._writing().tell()

    def flush(self) -> None:
        """Flushes written data to the operating system."""
        if self._writer is not None:
            with paths.typed(self._name):
                self._writer.flush()

    def close(self) -> None:
        """Closes the file. Reading afterwards opens it again."""
        opened, self._reader, self._writer = (self._reader, self._writer), None, None
        with paths.typed(self._name):
            for f in opened:
                if f is not None:
                    f.close()

    def seekable(self) -> bool:
        """True: the reading position can be moved."""
        return True

    def readable(self) -> bool:
        """Whether the mode lets the file be read."""
        return self._may_read

    def writable(self) -> bool:
        """Whether the mode lets the file be written."""
        return self._may_write

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close()

    def __del__(self) -> None:
        for f in (getattr(self, "_reader", None), getattr(self, "_writer", None)):
            if f is not None:
                with reported():
                    f.close()


# -- names of both APIs ----------------------------------------------------------------------------------------------
def _each(pattern: Any, many: Callable[[Any], list[str]]) -> list[str]:
    if isinstance(pattern, (str, bytes)) or hasattr(pattern, "__fspath__"):
        return many(pattern)
    return [p for one in pattern for p in many(one)]


@export("io.gfile.get_registered_schemes")
def get_registered_schemes() -> list[str]:
    """The supported file-system schemes, as in "memory://"; the empty one is for local paths."""
    from fsspec import available_protocols
    return ["", *sorted(set(available_protocols()) | {"file"})]


@export("io.gfile.exists")
def exists(path: Any) -> bool:
    """Whether a file or directory exists.

    Args:
        path: Path or URL.

    Returns:
        A boolean.

    >>> tf.io.gfile.exists("absent.txt")
    False
    """
    return paths.exists(path)


@export(v1=["gfile.Exists"])
def exists_v1(filename: Any) -> bool:
    """Whether a file or directory exists.

    Args:
        filename: Path or URL.

    Returns:
        A boolean.

    >>> tf.gfile.Exists("absent.txt")
    False
    """
    return paths.exists(filename)


@export("io.gfile.remove")
def remove(path: Any) -> None:
    """Removes a file."""
    paths.remove(path)


@export(v1=["gfile.Remove"])
def remove_v1(filename: Any) -> None:
    """Removes a file.

    Args:
        filename: Path or URL.

    Raises:
        NotFoundError: if the file does not exist.

    >>> open("notes.txt", "w").close()
    >>> tf.gfile.Remove("notes.txt")
    >>> tf.gfile.Exists("notes.txt")
    False
    """
    paths.remove(filename)


@export("io.gfile.glob")
def glob(pattern: Any) -> list[str]:
    """The files that match a pattern, or one of several.

    Args:
        pattern: A pattern with `*`, `?` and `[…]`, or a list of patterns.

    Returns:
        A list of names.

    >>> tf.io.gfile.makedirs("data")
    >>> tf.io.write_file("data/a.txt", "text")
    >>> tf.io.gfile.glob("data/*.txt")
    ['data/a.txt']
    """
    return _each(pattern, paths.glob)


@export(v1=["gfile.Glob"])
def glob_v1(filename: Any) -> list[str]:
    """The files that match a pattern, or one of several.

    Args:
        filename: Pattern, or list of patterns.

    Returns:
        A list of paths.

    >>> for name in ("a.txt", "b.txt"):
    ...     open(name, "w").close()
    >>> sorted(tf.gfile.Glob("*.txt"))
    ['a.txt', 'b.txt']
    """
    return _each(filename, paths.glob)


@export("io.gfile.mkdir")
def mkdir(path: Any) -> None:
    """Creates a directory whose parent exists."""
    paths.mkdir(path)


@export(v1=["gfile.MkDir"])
def mkdir_v1(dirname: Any) -> None:
    """Creates a directory whose parent exists."""
    paths.mkdir(dirname)


@export("io.gfile.makedirs")
def makedirs(path: Any) -> None:
    """Creates a directory and its parents; an existing one is no error.

    Args:
        path: The directory.

    Returns:
        None.

    >>> tf.io.gfile.makedirs("a/b")
    >>> tf.io.gfile.isdir("a/b")
    True
    """
    paths.makedirs(path)


@export(v1=["gfile.MakeDirs"])
def makedirs_v1(dirname: Any) -> None:
    """Creates a directory and its parents.

    Args:
        dirname: Path or URL. It may exist.

    >>> tf.gfile.MakeDirs("log/train")
    >>> tf.gfile.IsDirectory("log/train")
    True
    """
    paths.makedirs(dirname)


@export("io.gfile.copy")
def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copies a file."""
    paths.copy(src, dst, overwrite)


@export(v1=["gfile.Copy"])
def copy_v1(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copies a file.

    Args:
        oldpath: File to read.
        newpath: File to write.
        overwrite: Whether an existing file is replaced.

    Raises:
        AlreadyExistsError: if `newpath` exists and `overwrite` is False.

    >>> with open("a.txt", "w") as f:
    ...     print("one", file=f)
    >>> tf.gfile.Copy("a.txt", "b.txt", overwrite=True)
    >>> tf.gfile.Exists("b.txt")
    True
    """
    paths.copy(oldpath, newpath, overwrite)


@export("io.gfile.rename")
def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Renames a file."""
    paths.rename(src, dst, overwrite)


@export(v1=["gfile.Rename"])
def rename_v1(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Renames a file.

    Args:
        oldname: Path.
        newname: New path.
        overwrite: Whether an existing file is replaced.

    Raises:
        AlreadyExistsError: if `newname` exists and `overwrite` is False.

    >>> open("a.txt", "w").close()
    >>> tf.gfile.Rename("a.txt", "b.txt")
    >>> tf.gfile.Exists("a.txt"), tf.gfile.Exists("b.txt")
    (False, True)
    """
    paths.rename(oldname, newname, overwrite)


@export("io.gfile.rmtree")
def rmtree(path: Any) -> None:
    """Removes a directory and its contents."""
    paths.rmtree(path)


@export(v1=["gfile.DeleteRecursively"])
def rmtree_v1(dirname: Any) -> None:
    """Removes a directory and its contents.

    Args:
        dirname: Path or URL.

    Raises:
        NotFoundError: if the directory does not exist.

    >>> tf.gfile.MakeDirs("log/train")
    >>> tf.gfile.DeleteRecursively("log")
    >>> tf.gfile.Exists("log")
    False
    """
    paths.rmtree(dirname)


@export("io.gfile.isdir")
def isdir(path: Any) -> bool:
    """Whether the path is a directory.

    Args:
        path: The path.

    Returns:
        A boolean.

    >>> tf.io.gfile.isdir("no_such_directory")
    False
    """
    return paths.isdir(path)


@export(v1=["gfile.IsDirectory"])
def isdir_v1(dirname: Any) -> bool:
    """Whether the path is a directory.

    Args:
        dirname: Path or URL.

    Returns:
        A boolean.

    >>> tf.gfile.MakeDirs("log")
    >>> tf.gfile.IsDirectory("log"), tf.gfile.IsDirectory("absent")
    (True, False)
    """
    return paths.isdir(dirname)


@export("io.gfile.listdir")
def listdir(path: Any) -> list[str]:
    """The names in a directory."""
    return paths.listdir(path)


@export(v1=["gfile.ListDirectory"])
def listdir_v1(dirname: Any) -> list[str]:
    """The names in a directory."""
    return paths.listdir(dirname)


@export("io.gfile.stat")
def stat(path: Any) -> paths.FileStatistics:
    """Length, time of the last change and kind of a file."""
    return paths.stat(path)


@export(v1=["gfile.Stat"])
def stat_v1(filename: Any) -> paths.FileStatistics:
    """Length, time of the last change and kind of a file."""
    return paths.stat(filename)


@export("io.gfile.join")
def join(path: Any, *paths_: Any) -> Any:
    """Joins path components.

    >>> tf.io.gfile.join("gs://bucket", "a", "b")
    'gs://bucket/a/b'
    """
    import posixpath
    return posixpath.join(path, *paths_)


@export("io.gfile.walk")
def walk(top: Any, topdown: bool = True, onerror: Callable | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """For each directory from `top` down (or up): its path, the directories in it, and the files in it."""
    top = paths.as_text(top)
    try:
        names = paths.listdir(top)
    except errors.NotFoundError as e:
        if onerror is not None:
            onerror(e)
        return
    folders = [n for n in names if paths.isdir(paths.join(top, n))]
    here = (top, folders, [n for n in names if n not in folders])
    if topdown:
        yield here
    for folder in folders:
        yield from walk(paths.join(top, folder), topdown, onerror)
    if not topdown:
        yield here


@export(v1=["gfile.Walk"])
def walk_v1(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """For each directory from `top` down (or up): its path, the directories in it, and the files in it."""
    return walk(top, in_order)

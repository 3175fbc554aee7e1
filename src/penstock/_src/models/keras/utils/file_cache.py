"""`keras.utils.get_file`: files in the cache folder (`~/.keras`), downloaded when they are missing."""
from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.io import archives
from penstock._src.io.download import digest, download, offline
from penstock._src.models.keras.backend.config import keras_home
from penstock._src.models.keras.utils.progress_bar import Progbar


@export("keras.utils.get_file")
def get_file(fname: str | None = None, origin: str | None = None, untar: bool = False, md5_hash: str | None = None,
             file_hash: str | None = None, cache_subdir: str = "datasets", hash_algorithm: str = "auto", extract: bool = False,
             archive_format: Any = "auto", cache_dir: Any = None, force_download: bool = False) -> str:
    """Returns the path of a file in the cache, downloading and unpacking it first if necessary.

    An interrupted download continues the next time. With `PENSTOCK_OFFLINE=1` nothing is downloaded.

    Args:
        fname: Name of the file, or an absolute path. By default, the last part of `origin`.
        origin: Address of the file (http, https or file).
        untar: Deprecated in favor of `extract`: the file is a tar archive, and the path returned is that of what it holds.
        md5_hash: Deprecated in favor of `file_hash`.
        file_hash: MD5 or SHA-256 of the file. A file in the cache with another hash is downloaded again.
        cache_subdir: Folder below `cache_dir`.
        hash_algorithm: 'md5', 'sha256' or 'auto', which goes by the length of the hash.
        extract: Whether to unpack the file, if it is an archive.
        archive_format: 'auto', 'tar', 'zip', None, or a list of them.
        cache_dir: By default `~/.keras` (or `KERAS_HOME`).
        force_download: Whether to download a file that is in the cache.

    Raises:
        ConnectionError: if the file cannot be downloaded. The message says where to put it by hand.
        ValueError: if the downloaded file does not have the hash.

    >>> path = tf.keras.utils.get_file("flowers.tgz", "https://example.org/flowers.tgz", extract=True)
    """
    if fname is None:
        if not origin:
            raise ValueError("Please specify the \"fname\" or the \"origin\" argument.")
        fname = os.path.basename(origin.rstrip("/"))
    file_hash = file_hash if file_hash is not None or md5_hash is None else md5_hash
    folder = os.path.join(os.fspath(cache_dir) if cache_dir else str(keras_home()), cache_subdir)
    path = os.path.join(folder, fname + ".tar.gz" if untar and not fname.endswith((".tar.gz", ".tgz", ".tar")) else fname)
    if force_download or not os.path.exists(path) or not _is_current(path, file_hash, hash_algorithm, origin):
        fetch(origin, path, file_hash)
    if untar or extract:
        _extract(path, folder, "tar" if untar else archive_format)
    return os.path.join(folder, fname) if untar else path


def fetch(origin: str | None, path: str, checksum: str | None = None) -> None:
    """Copies a file to the cache, from an address or from a local `file://` path."""
    if not origin:
        raise FileNotFoundError(f"{path} does not exist, and no address is given to download it from.")
    if origin.startswith("file://"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        shutil.copy(origin[len("file://"):], path)
        return
    print(f"Downloading data from {origin}", file=sys.stderr)
    bar: list[Progbar] = []

    def show(have: int, expected: int | None) -> None:
        if not bar:
            bar.append(Progbar(expected, unit_name="byte"))
        bar[0].update(have)
    download(origin, path, checksum, show)


def _is_current(path: str, file_hash: str | None, algorithm: str, origin: str | None) -> bool:
    """Whether a file of the cache has the hash that is requested; without a way to get another one, a wrong hash raises."""
    if file_hash is None or validate_file(path, file_hash, algorithm):
        return True
    if offline() or not origin:
        raise ValueError(f"{path} is incomplete or outdated: its {algorithm} hash is not {file_hash}. Get it again"
                         + (f" from {origin}." if origin else "."))
    print(f"{path} is incomplete or outdated (its hash is not {file_hash}); downloading it again.", file=sys.stderr)
    return False


def _extract(path: str, folder: str, archive_format: Any) -> bool:
    """Unpacks an archive, without paths that lead out of the folder; False if it is none."""
    kinds = [] if archive_format is None else ["tar", "zip"] if archive_format == "auto" else np.atleast_1d(archive_format)
    for kind in kinds:
        if kind == "tar" and tarfile.is_tarfile(path):
            with archives.opened_tar(path) as tar:
                tar.extractall(folder, archives.checked_members(tar, path), filter="data")
            return True
        if kind == "zip" and zipfile.is_zipfile(path):
            with archives.opened(path) as packed:
                for info in packed.infolist():
                    archives.check(info)
                packed.extractall(folder)
            return True
    return False


def validate_file(path: Any, file_hash: str, algorithm: str = "auto") -> bool:
    """Whether a file has a hash of the given kind; `auto` goes by its length."""
    kind = algorithm if algorithm in ("md5", "sha256") else "sha256" if len(file_hash) == 64 else "md5"
    return digest(os.fspath(path), kind) == file_hash.lower()

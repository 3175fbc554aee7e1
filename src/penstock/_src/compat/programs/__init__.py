"""Running programs written for TensorFlow unchanged.

`penstock run program.py` (`tools/run.py`) is `runner.py`: it guesses which API the program was written for (`guess.py`), lets
`import tensorflow` and everything below it find penstock (`importer.py`, with `reach_in.py` for TensorFlow's own folders and
`earlier.py` for names from before 1.0), restores names that Python and NumPy have removed since (`removed.py`), provides the
package `keras` (`standalone_keras.py`), does not wait for keys in plots (`plots.py`), sets up child processes (`children.py`),
and runs the file or notebook as `__main__`. `penstock check program.py` reads the names that it uses (`symbols.py`) without
running it.

    >>> import penstock
    >>> penstock.install()                    # the same, inside a process of your own
    >>> import tensorflow as tf               # is penstock
"""
from __future__ import annotations

from penstock._src.base.api import export


@export(v2=["install"])
def install(api: str | None = None) -> None:
    """Lets `import tensorflow` find penstock in this process.

    A TensorFlow that is installed is not changed, but hidden until the process ends.

    Args:
        api: `"v1"` for the 1.x API with graphs, `"v2"` for the 2.x API. By default the API that the running program was written
            for, as `penstock run` guesses it; 2.x for a session without a file, and for a program without a sign of 1.x.

    Raises:
        RuntimeError: if TensorFlow is already imported, or `install` was called before for the other API.

    >>> penstock.install("v1")
    >>> import tensorflow as tf
    >>> tf.Session().run(tf.constant(3) + 4)
    7
    """
    from penstock._src.compat.programs import removed, standalone_keras
    standalone_keras.install(api)
    removed.install()

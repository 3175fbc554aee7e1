"""Runs programs as a user does: `penstock run` in its own process."""
import os
import pathlib
import subprocess
import sys
import textwrap

SRC = str(pathlib.Path(__file__).parents[3] / "src")


def penstock(*arguments, cwd=None, timeout=100):
    """`python -m penstock ...`; returns the finished process, with its output as text."""
    env = {**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    return subprocess.run([sys.executable, "-m", "penstock", *map(str, arguments)], cwd=cwd, env=env, capture_output=True,
                          text=True, timeout=timeout)


def program(folder, text, name="program.py"):
    """Writes a program."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def output(folder, text, *arguments, **kwargs):
    """What a program prints, which must end well."""
    done = penstock("run", program(folder, text), *arguments, cwd=folder, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout

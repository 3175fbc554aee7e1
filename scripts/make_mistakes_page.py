"""Makes docs/mistakes.md: the errors of penstock and TensorFlow for the mistakes of tests/mistakes.

    python scripts/make_mistakes_page.py --tf .oracle/bin/python

It also records TensorFlow's exception types in tests/mistakes/types.json, which the tests compare with.
"""
from __future__ import annotations

import argparse
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).parent.parent
INTRODUCTION = """\
# Mistakes and their messages

Mistakes, each with the error of penstock and that of TensorFlow 2.21 (`tf.keras` is Keras 2 in both). Long messages are
cut. Made by `python scripts/make_mistakes_page.py --tf PYTHON` from `tests/mistakes`, whose tests compare the types.
"""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def outcomes(python: str, module: str) -> dict[str, list[str]]:
    """What each mistake raises with one framework."""
    done = subprocess.run([python, "-m", "tests.mistakes.run", module], cwd=ROOT, capture_output=True, text=True, check=True,
                          env={**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
    return json.loads(done.stdout.splitlines()[-1])


def shown(outcome: list[str]) -> str:
    """An error as on the page: without what differs between runs, and without stacks."""
    text = outcome[1].split("Original stack trace")[0].replace(f"{ROOT}/", "").replace(str(ROOT), ".")
    text = re.sub(r"\{\{function_node .*?\}\} ?|0x[0-9a-f]+|/tmp/\S+", "", text)
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r'\s*File "', line)]
    return textwrap.indent(textwrap.shorten(f"{outcome[0]}: {' '.join(lines)}", 400, placeholder=" …"), "    ")


def source(mistake: object) -> str:
    """The body of a mistake."""
    return textwrap.dedent("".join(inspect.getsourcelines(mistake)[0][1:])).strip()  # type: ignore[arg-type]


def main() -> None:
    """Writes the page and the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tf", required=True, help="the python of an environment with TensorFlow and tf_keras")
    theirs = outcomes(parser.parse_args().tf, "tensorflow")
    ours = outcomes(sys.executable, "penstock")
    sys.path.insert(0, str(ROOT))
    from tests.mistakes.run import ALL
    (ROOT / "tests" / "mistakes" / "types.json").write_text(json.dumps({n: o[0] for n, o in theirs.items()}, indent=1) + "\n")
    parts = [INTRODUCTION]
    for mistake in ALL:
        name = mistake.__name__
        title = name.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n```python mistake\n{source(mistake)}\n```\n\npenstock:\n\n{shown(ours[name])}\n\n"
                     f"TensorFlow:\n\n{shown(theirs[name])}\n")
    (ROOT / "docs" / "mistakes.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()

"""Makes docs/mistakes.md and a page per subject: the errors of penstock and TensorFlow for the mistakes of tests/mistakes.

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
import types
from collections.abc import Callable

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
Outcomes = dict[str, list[str]]
INTRODUCTION = """\
# Mistakes and their messages

{count} mistakes, each with the error of penstock and that of TensorFlow 2.21 (`tf.keras` is Keras 2 in both). All errors have
TensorFlow's type. `python scripts/make_mistakes_page.py --tf PYTHON` makes these pages from `tests/mistakes`, whose tests
compare the types.

| subject | mistakes |
|---|---|
"""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def outcomes(python: str, module: str) -> Outcomes:
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


def source(mistake: Callable[..., object]) -> str:
    """The body of a mistake."""
    return textwrap.dedent("".join(inspect.getsourcelines(mistake)[0][1:])).strip()


def title(mistake: Callable[..., object]) -> str:
    """The heading of a mistake."""
    return mistake.__name__.replace("_", " ").capitalize()


def page(subject: types.ModuleType, mistakes: list[Callable[..., object]], ours: Outcomes, theirs: Outcomes) -> str:
    """The page of a subject."""
    parts = [f"# {heading(subject)}\n\n[All subjects](../mistakes.md). Long messages are cut.\n"]
    for mistake in mistakes:
        name = mistake.__name__
        parts.append(f"## {title(mistake)}\n\n```python mistake\n{source(mistake)}\n```\n\npenstock:\n\n{shown(ours[name])}\n\n"
                     f"TensorFlow:\n\n{shown(theirs[name])}\n")
    return "\n".join(parts)


def heading(subject: types.ModuleType) -> str:
    """The title of a subject's page."""
    return (subject.__doc__ or "").splitlines()[0].rstrip(".")


def file_name(subject: types.ModuleType) -> str:
    """The page of a subject, beside the index."""
    return f"mistakes/{subject.__name__.rpartition('.')[2]}.md"


def main() -> None:
    """Writes the pages and the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tf", required=True, help="the python of an environment with TensorFlow and tf_keras")
    theirs = outcomes(parser.parse_args().tf, "tensorflow")
    ours = outcomes(sys.executable, "penstock")
    sys.path.insert(0, str(ROOT))
    from tests.mistakes.run import ALL, SUBJECTS
    (ROOT / "tests" / "mistakes" / "types.json").write_text(json.dumps({n: o[0] for n, o in theirs.items()}, indent=1) + "\n")
    (DOCS / "mistakes").mkdir(exist_ok=True)
    rows = []
    for subject, mistakes in SUBJECTS.items():
        (DOCS / file_name(subject)).write_text(page(subject, mistakes, ours, theirs))
        rows.append(f"| [{heading(subject)}]({file_name(subject)}) | {len(mistakes)} |\n")
    (DOCS / "mistakes.md").write_text(INTRODUCTION.format(count=len(ALL)) + "".join(rows))


if __name__ == "__main__":
    main()

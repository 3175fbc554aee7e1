"""Cells of notebooks run in an environment without penstock."""
import json
import subprocess
import sys

from tests.ecosystem import cells

CHECK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import cells
cells.main("another backend", sys.argv[2], sys.argv[3])
assert not {"penstock", "torch"} & set(sys.modules), "the reader has imported the library"
"""


def test_the_reader_of_notebooks_needs_no_penstock(tmp_path):
    notebook, outcomes = tmp_path / "a.ipynb", tmp_path / "outcomes.jsonl"
    sources = ["x = 1", "%matplotlib inline\nx / 0", "x + 1"]
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": s} for s in sources]}))
    subprocess.run([sys.executable, "-c", CHECK, cells.__file__.rpartition("/")[0], notebook, outcomes], check=True,
                   capture_output=True, text=True, timeout=300)
    messages = [json.loads(line)["message"] for line in outcomes.read_text().splitlines()]
    assert messages == ["", "ZeroDivisionError: division by zero", ""]

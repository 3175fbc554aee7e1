"""The programs of docs/distribute.md run as they are written."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / "docs" / "distribute.md"


def test_page():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 3
    names: dict = {}
    for block in (blocks[0], blocks[2]):           # the second one is for a process without logical CPUs
        exec(compile(block, str(PAGE), "exec"), names)
    copies = [c.numpy() for c in names["strategy"].experimental_local_results(names["w"])]
    assert len(copies) == 4 and all((c == copies[0]).all() for c in copies)
    assert float(names["loss"]) > 0
    program = f"import penstock as tf\n{blocks[1]}\nprint(len(tf.config.list_logical_devices('CPU')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"})
    assert done.stdout == "2\n", done.stderr

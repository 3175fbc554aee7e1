"""The programs of docs/distribute.md run as they are written."""
import pathlib
import re

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "distribute.md"


def test_page():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 3
    names: dict = {}
    for block in (blocks[0], blocks[2]):           # the logical CPUs of the second one are there in every test
        exec(compile(block, str(PAGE), "exec"), names)
    copies = [c.numpy() for c in names["strategy"].experimental_local_results(names["w"])]
    assert len(copies) == 4 and all((c == copies[0]).all() for c in copies)
    assert float(names["loss"]) > 0

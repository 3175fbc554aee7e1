"""docs/programs.md: its example, what `penstock check` says of it, how `penstock run` ends. docs/api.md: what it claims."""
import pathlib
import re

from penstock._src.compat.programs import check, importer
from tests.compat.programs.running import penstock, program

DOCS = pathlib.Path(__file__).parents[3] / "docs"


def block(kind):
    return re.search(rf"```{kind}\n(.*?)```", (DOCS / "programs.md").read_text(), re.S)[1]


def without_neighbours(text):
    """The text without the names after the nearest one: more may come."""
    return [re.sub(r"(nearest: [\w.]+).*", r"\1", line, flags=re.I) for line in text.splitlines()]


def test_the_example(tmp_path):
    path = program(tmp_path, block("python program"), "example.py")
    checked = penstock("check", path.name, cwd=tmp_path)
    assert checked.returncode == 1
    assert without_neighbours(checked.stdout) == without_neighbours(block("text check"))
    ran = penstock("run", path.name, cwd=tmp_path)
    assert ran.returncode == 1
    assert without_neighbours(ran.stderr) == without_neighbours(block("text run"))


def test_names_that_the_api_page_says_are_here():
    text = (DOCS / "api.md").read_text()
    first = text[text.index("## 1.x of"):text.index("## 2.x of")]
    claimed = [f"{module.removeprefix('tf').lstrip('.')}.{name}".lstrip(".") for module, listed in re.findall(
        r"^\*\*([\w.]+)\*\*: (.*)$", first, re.M) for name in re.findall(r"`(\w+)`", listed)]
    assert len(claimed) > 2000
    with importer.in_place("v1"):
        sample = [n for n in claimed[::7] if not n.startswith("estimator.")]       # that part is on its way
        assert [n for n in sample if not check.has(n)] == []

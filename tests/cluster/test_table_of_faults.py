"""docs/resilience.md names the test behind each row: they must exist."""
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


def test_every_row_is_backed_by_a_test():
    text = (ROOT / "docs" / "resilience.md").read_text().partition("## The table")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) > 12
    for row in rows:
        named = re.findall(r"`((?:tests/[\w/]+|\w+\.py)[\w./]*)?(?:::(\w+))?`", row.rpartition(" | ")[2])
        assert named, row
        file = None
        for path, name in named:
            if path:
                file = ROOT / path if path.startswith("tests/") else ROOT / "tests" / "cluster" / path
            assert file is not None and file.exists(), (path, row)
            if name:
                assert f"def {name}(" in file.read_text(), (name, row)

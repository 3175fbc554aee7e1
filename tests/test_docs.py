"""The examples in docs/ and README.md do what the text around them says."""
import ast
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.base import errors

ROOT = pathlib.Path(__file__).parents[1]


def blocks(name):
    """(line, what follows the word python, code) of every block of Python in a page."""
    text = (ROOT / name).read_text()
    return [(text[:m.start()].count("\n") + 2, m[1].strip(), m[2])
            for m in re.finditer(r"```python(.*)\n((?:.*\n)*?)```", text)]


def run(code, setup, page, line):
    """Runs a block, after a set-up in an empty default graph where there is one, with the page's line numbers."""
    scope = {}
    with tf.Graph().as_default() if setup else contextlib.nullcontext():
        exec(setup, scope)
        try:
            exec(compile("\n" * (line - 1) + code, str(ROOT / page), "exec"), scope)
        finally:
            if "sess" in scope:
                scope["sess"].close()


ERRORS = blocks("docs/errors.md")
SETUP = next(code for _, kind, code in ERRORS if kind == "setup")


@pytest.mark.parametrize("line, kind, code", [b for b in ERRORS if b[1] != "setup"],
                         ids=lambda v: str(v)[:40].replace("\n", " "))
def test_examples_of_errors(line, kind, code):
    if not kind:
        run(code, SETUP, "docs/errors.md", line)
        return
    name, _, words = kind.removeprefix("raises ").partition(":")
    expected = getattr(errors, name, None) or getattr(__import__("builtins"), name)
    with pytest.raises(expected, match=re.escape(words.strip()) or None):
        run(code, SETUP, "docs/errors.md", line)


def test_every_error_class_is_explained():
    text = (ROOT / "docs/errors.md").read_text()
    classes = {n for n in dir(tf.errors) if n.endswith("Error") and n != "OpError"}
    assert {n for n in classes if n not in text} <= {"UnauthenticatedError"}


@pytest.mark.parametrize("line, kind, code", blocks("README.md"), ids=lambda v: str(v)[:20].replace("\n", " "))
def test_examples_of_the_readme(line, kind, code, capsys):
    """What a comment after a print says is what is printed."""
    run(code, "", "README.md", line)
    said = re.findall(r"print\(.*\) +# (\[.*\])$", code, re.M)
    assert capsys.readouterr().out.split("\n")[:len(said)] == said


def test_examples_of_devices(capsys):
    """Blocks of Python, each with what it prints."""
    scope = {"tf": tf}
    with tf.Graph().as_default():
        for code, printed in re.findall(r"```python\n(.*?)```\n```\n(.*?)```", (ROOT / "docs/devices.md").read_text(), re.S):
            exec(code, scope)
            assert capsys.readouterr().out == printed
        scope["sess"].close()
    assert len(scope["metadata"].partition_graphs) == 2


def test_the_example_of_onnx(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (line, _, code), = blocks("docs/onnx.md")
    run(code, "", "docs/onnx.md", line)
    assert (tmp_path / "model.onnx").stat().st_size > 0


# -- tutorials --------------------------------------------------------------------------------------------------------
PAGES = [*sorted((ROOT / "docs" / "tutorials").glob("*.md")),
         *(ROOT / "docs" / f"{n}.md" for n in ("collectives", "compression", "embeddings", "migration", "pipelining"))]
PROGRAM_BLOCK = r"(?:<!-- set-up\n((?:(?!-->).)*?)-->\n)?^```python( fresh)?\n(.*?)^```(?:\n```\n(.*?)^```)?"


def programs(page):
    """(code, what it prints) of a page: its blocks in order, as one program up to a block that is marked `fresh`.

    A comment that begins with `set-up` is code, too: what a block needs and a reader need not see.
    """
    found = [["", ""]]
    for set_up, fresh, code, printed in re.findall(PROGRAM_BLOCK, page.read_text(), re.S | re.M):
        if fresh:
            found.append(["", ""])
        found[-1][0] += set_up + code
        found[-1][1] += printed
    return [program for program in found if program[0]]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorials_print_what_they_show(page, tmp_path):
    """Every block, in a process like the reader's."""
    for code, printed in programs(page):
        (tmp_path / "program.py").write_text(code)
        done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=250,
                              cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"})
        assert (done.returncode, done.stdout) == (0, printed), done.stderr


# -- no block without a test ------------------------------------------------------------------------------------------
# The tests that run blocks of other pages, and how many; None for all of them.
OTHER_TESTS = {"README.md": ("tests/test_docs.py", None), "docs/errors.md": ("tests/test_docs.py", None),
               "docs/devices.md": ("tests/test_docs.py", 3), "docs/onnx.md": ("tests/test_docs.py", 1),
               **{f"docs/mistakes/{p.name}": ("tests/mistakes/test_mistakes.py", None)
                  for p in (ROOT / "docs" / "mistakes").glob("*.md")},
               "docs/distribute.md": ("tests/models/distribute/test_docs.py", 3),
               "docs/coordinator.md": ("tests/models/distribute/test_coordinator_keras.py", 1),
               "docs/programs.md": ("tests/compat/programs/test_page.py", 1)}
SITE_PAGES = [p.relative_to(ROOT).as_posix() for p in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")),
                                                       ROOT / "benchmarks" / "README.md"]]


@pytest.mark.parametrize("page", SITE_PAGES)
def test_every_block_of_python_runs(page):
    """A block has a test that runs it, or is marked `no-run:` with the reason; an indented block is no Python."""
    marks = [mark for _, mark, _ in blocks(page)]
    assert len(marks) == (ROOT / page).read_text().count("```python")
    need = [mark for mark in marks if not re.fullmatch(r"no-run: .+", mark)]
    if ROOT / page in PAGES:
        assert set(need) <= {"", "fresh"}
        assert len(need) == len(re.findall(PROGRAM_BLOCK, (ROOT / page).read_text(), re.S | re.M))
    elif need:
        file, count = OTHER_TESTS[page]
        named = page if page in (ROOT / file).read_text() else pathlib.Path(page).parent.name
        assert named in (ROOT / file).read_text() and count in (None, len(need))
    assert [code for code in indented_blocks(page) if is_program(code)] == []


def indented_blocks(page):
    """The blocks of a page that are indented instead of fenced."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.S | re.M)
    return [textwrap.dedent(block) for block in re.findall(r"(?<=\n\n)((?:    .*\n|\n(?=    ))+)", text)]


def is_program(code):
    """Whether a text is Python that uses the library, not a command or an output."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return bool(names & {"tf", "penstock"}) or any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))


def test_every_page_is_on_the_site():
    """The menu of the site has each page of docs/ once."""
    menu = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert pages - set(menu) == set() and len(set(menu)) == len(menu)


# -- limitations.md ---------------------------------------------------------------------------------------------------
def test_what_is_left_out_is_not_there():
    with pytest.raises(penstock.errors.UnimplementedError):
        penstock.lite.TFLiteConverter.from_saved_model("model")
    assert not hasattr(tf.train, "do_quantize_training_on_graphdef")
    assert penstock.function(lambda x: x + 1, jit_compile=True)(1.0).numpy() == 2.0


def test_limits_have_their_errors():
    with pytest.raises(errors.UnimplementedError, match="use NHWC or NCHW"):
        penstock.nn.space_to_depth(penstock.zeros([1, 4, 4, 4], penstock.int8), 2, data_format="NCHW_VECT_C")
    with pytest.raises(errors.UnimplementedError, match="any byte"):
        penstock.strings.regex_full_match("a", r"\C")
    with pytest.raises(errors.ResourceExhaustedError):
        penstock.random.uniform([1 << 30, 1 << 10])
    with pytest.raises(errors.ResourceExhaustedError):
        penstock.zeros([1 << 40, 1 << 10])


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/devices.md", "docs/errors.md",
                                  "docs/limitations.md"])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target


def test_named_files_exist():
    """Files that ARCHITECTURE.md and CONTRIBUTING.md name in backquotes."""
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        for name in re.findall(r"`([\w/]+\.(?:py|md|txt|toml))`", (ROOT / page).read_text()):
            places = [ROOT / name, *(ROOT / "src/penstock").rglob(name)]
            assert any(p.exists() for p in places), f"{page}: {name}"


# -- ARCHITECTURE.md --------------------------------------------------------------------------------------------------
SOURCE = ROOT / "src/penstock/_src"


def test_the_picture_shows_the_folders_of_the_tree():
    picture = (ROOT / "ARCHITECTURE.md").read_text().split("## The folders, in the order of a step")[1].split("\n## ")[0]
    drawn = re.findall(r"^    (\w+)/ {2,}\S", picture, re.M)
    assert sorted(drawn) == sorted(p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__")
    inner = re.findall(r"(?<![\w/])(\w+)/(\w+)(?= ──►)|(\w+)/(?=[ ,:])", picture)
    assert inner and all(any(SOURCE.rglob("/".join(filter(None, names)))) for names in inner)


def test_walks_are_short_and_never_return():
    """Each walk has at most ten files, all of them in the tree, none of them twice."""
    walks = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Walks\n")[1].split("\n## ")[0].split("\n### ")[1:]
    assert [w.split("\n")[0] for w in walks] == ["One `session.run`", "One eager op with a tape", "One `tf.function`",
                                                 "One distributed step", "One `fit`", "One `save`",
                                                 "One request to `penstock serve`"]
    for walk in walks:
        files = re.findall(r"^\d+\. `([\w/]+\.py)`: ", walk, re.M)
        assert 4 <= len(files) <= 10 and len(set(files)) == len(files), walk
        assert [f for f in files if not (SOURCE / f).exists()] == []

"""Builds the documentation site in build/site: the pages of docs/, and one API page per public module.

    make site                           # builds with mkdocs-material, installed in .site
    python scripts/make_site.py pages   # only writes build/pages, what mkdocs builds from
    python scripts/make_site.py check   # opens every page of build/site in headless Chromium

The API pages come from the imported objects, so they show what a program gets: signature, docstring, and the file that defines
it. Material is used for its search, which finds a name among thousands of entries without a server.
"""
from __future__ import annotations

import argparse
import importlib
import inspect
import pathlib
import re
import shutil
import sys
import types
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
TOP_PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md",
             "CHANGELOG.md": "changelog.md", "SECURITY.md": "reporting.md", "benchmarks/README.md": "benchmarks.md"}
NOT_DOCUMENTED = ("compat.v2", "compat.v1.compat", "__internal__", "__operators__", "_src")
SECTIONS = "Args|Arguments|Returns|Raises|Yields|Attributes|References|Example|Examples"
LARGE = 500         # names of a module, above which its page is divided: a browser lays out a page of 1,400 entries in minutes
REPOSITORY_FILE = "https://github.com/penstock/penstock/blob/main/"


# -- pages written by hand ----------------------------------------------------------------------------------------------
def copy_pages() -> None:
    """Copies docs/ and the pages at the top of the repository, with links that fit the site's folders."""
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("__pycache__"))
    for source in PAGES.rglob("*.md"):
        text = source.read_text()
        source.write_text(plain_fences(relink(text, ROOT / "docs" / source.relative_to(PAGES), source)))
    for name, target in TOP_PAGES.items():
        (PAGES / target).write_text(plain_fences(relink((ROOT / name).read_text(), ROOT / name, PAGES / target)))


def plain_fences(text: str) -> str:
    """Removes what follows the language of a block of code: it is for the tests, and mkdocs would not see a block."""
    return re.sub(r"^(```\w+) .*$", r"\1", text, flags=re.M)


def relink(text: str, source: pathlib.Path, target: pathlib.Path) -> str:
    """Rewrites relative links of a page: to the page's place on the site, or to the repository for other files."""
    def new(match: re.Match[str]) -> str:
        path, anchor = match[2], match[3] or ""
        if "://" in path or path.startswith("mailto:"):
            return match[0]
        file = (source.parent / path).resolve()
        name = file.relative_to(ROOT).as_posix()
        if name in TOP_PAGES:
            place = PAGES / TOP_PAGES[name]
        elif name.startswith("docs/") and file.is_file():
            place = PAGES / name.removeprefix("docs/")
        else:
            return f"{match[1]}({REPOSITORY_FILE}{name}{anchor})"
        up = "../" * len(target.relative_to(PAGES).parts[:-1])
        return f"{match[1]}({up}{place.relative_to(PAGES).as_posix()}{anchor})"

    return re.sub(r"(\])\(([^)#\s]+)(#[^)]*)?\)", new, text)


# -- API pages ----------------------------------------------------------------------------------------------------------
def public_modules() -> list[str]:
    """The dotted names, below penstock, of the modules that users import."""
    package = ROOT / "src" / "penstock"
    names = set()
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name != "__main__" and not any(f".{name}.".startswith(f".{n}.") or f".{n}." in f".{name}." for n in NOT_DOCUMENTED):
            names.add(name)
    return sorted(names)


def signature(name: str, value: object) -> str:
    """A call of a function or class with its parameters, without annotations."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values() if p.name != "self"]
    try:
        text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    except ValueError:
        return name
    return name + re.sub(r"<(?:function|class|object|built-in|bound)[^>]*>", "...", text)


def markdown(doc: str) -> str:
    """A docstring as markdown: examples and indented blocks as code, sections as bold headings."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", doc):
        head = re.match(rf"({SECTIONS}):\s*\n?(.*)", paragraph, re.S)
        if paragraph.lstrip().startswith(">>>"):
            lines.append("```python\n" + inspect.cleandoc(paragraph) + "\n```")
        elif head:
            lines.append(f"**{head[1]}**\n\n{entries(head[2])}")
        elif paragraph.startswith("    "):
            lines.append("```\n" + inspect.cleandoc(paragraph) + "\n```")
        else:
            lines.append(escape(paragraph))
    return "\n\n".join(lines)


def entries(text: str) -> str:
    """The `name: description` lines of a section as a list; other text as it is."""
    items = re.split(r"\n(?=\s{0,4}\*{0,2}\w+(?:, \*{0,2}\w+)*: )", "\n" + inspect.cleandoc("\n" + text))
    found = [re.sub(r"\s+", " ", item).strip() for item in items if item.strip()]
    if not all(re.match(r"\*{0,2}\w+(?:, \*{0,2}\w+)*: ", item) for item in found):
        return escape(" ".join(found))
    return "\n".join(f"- `{name}`: {escape(text)}" for name, _, text in (item.partition(": ") for item in found))


def escape(text: str) -> str:
    """Text whose angle brackets, outside of code, are not taken for HTML."""
    return "".join(part if i % 2 else part.replace("<", "&lt;").replace("[", "\\[") for i, part in
                   enumerate(re.split(r"(`[^`]*`)", text)))


def members(value: type) -> Iterator[tuple[str, object]]:
    """The public methods that a class defines or overrides, or inherits from bases without a public name."""
    from penstock._src.base.api import TABLES
    public = {id(v) for table in TABLES.values() for v in table.values()}
    seen: set[str] = set()
    documented = [c for c in value.__mro__[1:] if id(c) in public or not c.__module__.startswith("penstock.")]
    for c in value.__mro__:
        if any(issubclass(base, c) for base in documented):
            continue
        for name, member in vars(c).items():
            function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            if not name.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function) and name not in seen:
                seen.add(name)
                yield name, getattr(value, name)


def entry(prefix: str, name: str, value: object) -> str:
    """The block of one name."""
    parts = [f"## {name} {{ #{name} }}"]
    if callable(value) and not isinstance(value, types.ModuleType):
        parts.append(f"```python\n{prefix}.{signature(name, value)}\n```")
        parts.append(markdown(inspect.getdoc(value) or ""))
        if inspect.isclass(value):
            parts += [f"**`{signature(n, m)}`**: {markdown(inspect.getdoc(m) or '')}" for n, m in members(value)]
    else:
        parts.append(f"`{escape(repr(value))[:120].replace('`', '')}`")
    return "\n\n".join(p for p in parts if p)


def boost(api: str, inner: str) -> str:
    """The front matter of an API page: how early a search shows it. A name is meant where most programs use it."""
    if inner in ("", "keras", "keras.layers", "data", "nn", "train") or inner.startswith("keras.") and inner.count(".") == 1:
        weight = 8 if api == "v2" else 4
    else:
        weight = 1 if re.match(r"raw_ops|contrib|experimental|keras\..*\..*", inner) else 2
    return f"---\nsearch:\n  boost: {weight}\n---\n\n"


def write_api_page(module: str) -> tuple[str, int]:
    """Writes the page of one module, or one page per letter if it is large; its path and how many names it has."""
    loaded = importlib.import_module(f"penstock.{module}" if module else "penstock")
    api = "v1" if module.startswith("compat.v1") else "v2"
    inner = module.removeprefix("compat.v1").lstrip(".") if api == "v1" else module
    prefix = f"tf.{inner}" if inner else "tf"
    names = [n for n in dir(loaded) if not n.startswith("_") and not isinstance(getattr(loaded, n, None), types.ModuleType)]
    page = PAGES / "api" / api / f"{inner or 'tf'}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    head = [f"# {prefix} ({api[1]}.x)", f"`import {loaded.__name__}` · [all modules of the {api[1]}.x API](index.md)"]
    parts = split(names) if len(names) > LARGE else {"": names}
    for letter, some in parts.items():
        blocks = [entry(prefix, n, getattr(loaded, n)) for n in some]
        place = page.with_name(f"{page.stem}-{letter}.md") if letter else page
        title = head[0] + (f": {letter.upper()}" if letter else "")
        place.write_text(boost(api, inner) + "\n\n".join([title, *head[1:], *blocks]) + "\n")
    if len(parts) > 1:
        page.write_text("\n\n".join([*head, *(index_of(page.stem, letter, some) for letter, some in parts.items())]) + "\n")
    return page.relative_to(PAGES / "api").as_posix(), len(names)


def split(names: list[str]) -> dict[str, list[str]]:
    """Names by their first letter, in lower case."""
    parts: dict[str, list[str]] = {}
    for name in names:
        parts.setdefault(name[0].lower(), []).append(name)
    return dict(sorted(parts.items()))


def index_of(stem: str, letter: str, names: list[str]) -> str:
    """The links from the page of a large module to one of its parts."""
    return f"## {letter.upper()}\n\n" + ", ".join(f"[`{n}`]({stem}-{letter}.md#{n})" for n in names)


def write_api() -> None:
    """Writes the pages of all modules and the index of each API."""
    written: dict[str, list[tuple[str, int]]] = {"v1": [], "v2": []}
    for module in public_modules():
        path, count = write_api_page(module)
        if count:
            written[path[:2]].append((path, count))
        else:
            (PAGES / "api" / path).unlink()
    for api, pages in written.items():
        total = sum(count for _, count in pages)
        lines = [f"- [`tf.{pathlib.Path(p).stem}`]({p.removeprefix(api + '/')}): {count} names" if not p.endswith("/tf.md")
                 else f"- [`tf`](tf.md): {count} names" for p, count in pages]
        (PAGES / "api" / api / "index.md").write_text(f"# The {api[1]}.x API\n\n{len(pages)} modules, {total} names.\n\n"
                                                      + "\n".join(lines) + "\n")


def write_pages() -> None:
    """Writes everything that mkdocs reads."""
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages()
    write_api()


# -- in a browser -------------------------------------------------------------------------------------------------------
def check() -> None:
    """Opens every page of the built site; a script error, a failed request or a dead link ends with status 1."""
    from browser import open_pages

    problems = open_pages(SITE)
    print("\n".join(problems) or "no problem found")
    sys.exit(bool(problems))


def main() -> None:
    """Runs what the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("pages", "check"))
    {"pages": write_pages, "check": check}[parser.parse_args().what]()


if __name__ == "__main__":
    main()

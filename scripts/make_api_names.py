"""Makes tests/api/names_v1.txt and names_v2.txt: TensorFlow's public names, with their argument lists.

    python scripts/make_api_names.py path/to/tensorflow/.git

TensorFlow 1.15 keeps a record of its API in tensorflow/tools/api/golden. A line here is a name of that record:
`nn.relu(features, name=None)` for what is called, `Graph.seed` for what is not, `class errors.AbortedError(errors.OpError)`
for a class and its public base, whose members are not repeated. Messages are left out, and the patterns in LEFT_OUT.
"""
from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

GOLDEN = "tensorflow/tools/api/golden"
FOLDER = pathlib.Path(__file__).parent.parent / "tests" / "api"
LEFT_OUT = (
    "raw_ops",               # made from the registry, and checked by the tests that walk it
    "pywrap_tensorflow",     # the bindings of TensorFlow's own C++ library
    "user_ops",              # a module for an example of TensorFlow's
    "compat.v1", "compat.v2",     # the other record
    "lite", "tpu", "estimator.tpu",     # other runtimes
    "errors.raise_exception_on_not_ok_status",     # about a C struct of TensorFlow's
    "ctc_loss_v2",                                 # a raw op that was public by accident
    "image.generate_bounding_box_proposals",       # has a kernel for GPUs alone
    "train.LooperThread.isAlive",                  # Python's threads have lost it
    "train.do_quantize_training_on_graphdef",      # C++ behind it; gone from TensorFlow 2
)
INSTANCE = re.compile(r"""is_instance: "<\w+ \\'([^']*)\\'>""")
ITEM = re.compile(r"""  (member|member_method) \{\s*name: "(\w+)"\s*(?:mtype|argspec): "((?:\\.|[^"\\])*)"\s*\}""")


def main(git_dir: str) -> None:
    """Writes one file per API."""
    for api in ("v1", "v2"):
        lines = sorted(set(lines_of(records(git_dir, api))))
        (FOLDER / f"names_{api}.txt").write_text("\n".join(lines) + "\n")
        print(f"{api}: {len(lines)} names")


def records(git_dir: str, api: str) -> dict[str, str]:
    """The record of each public module and class, by its name."""
    def git(*args: str) -> str:
        return subprocess.run(["git", f"--git-dir={git_dir}", *args], check=True, capture_output=True, text=True).stdout
    texts = [git("show", f"HEAD:{path}")
             for path in git("ls-tree", "-r", "--name-only", "HEAD", f"{GOLDEN}/{api}").split()]
    return {re.search(r'path: "tensorflow\.?([^"]*)"', t).group(1): t for t in texts if "tf_proto {" not in t}


def lines_of(texts: dict[str, str]) -> Iterator[str]:
    """The lines about every record that is not left out."""
    public: dict[str, str] = {}
    for name, text in sorted(texts.items(), key=lambda item: (item[0].count("."), item[0])):
        if "tf_class {" in text:
            public.setdefault(INSTANCE.findall(text)[0], name)
    members = {name: dict(members_of(text)) for name, text in texts.items()}
    for name, text in texts.items():
        if left_out(name):
            continue
        inherited: dict[str, str] = {}
        if "tf_class {" in text:
            bases = [public[i] for i in INSTANCE.findall(text)[1:] if i in public]
            inherited = members[bases[0]] if bases else {}
            yield f"class {name}({bases[0] if bases else ''})"
        for member, arguments in members[name].items():
            full = f"{name}.{member}" if name else member
            if inherited.get(member) != arguments and not left_out(full):
                yield full + arguments


def members_of(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of a member's name and its argument list, '' for what is not called."""
    for kind, name, escaped in ITEM.findall(text):
        detail = re.sub(r"\\(.)", r"\1", escaped)
        if kind == "member_method":
            yield name, arguments(detail)
        elif detail not in ("<type 'module'>", "<class 'google.protobuf.pyext.cpp_message.GeneratedProtocolMessageType'>"):
            yield name, ""


def left_out(name: str) -> bool:
    """Whether `name`, or what it stands below, is in LEFT_OUT."""
    return any(name == pattern or name.startswith(pattern + ".") for pattern in LEFT_OUT)


def arguments(argspec: str) -> str:
    """An argument list as Python writes it, from the record's `args=[...], varargs=..., defaults=[...]`."""
    args, varargs, keywords, defaults = re.fullmatch(
        r"args=(\[.*?\]), varargs=(\w+), keywords=(\w+), defaults=(.*?)(?:, )?", argspec, re.S).groups()
    names = ast.literal_eval(args)
    values = [v.encode("unicode_escape").decode() for v in ast.literal_eval(defaults) or ()]
    first = len(names) - len(values)
    shown = names[:first] + [f"{n}={v}" for n, v in zip(names[first:], values)]
    shown += [f"*{varargs}"] * (varargs != "None") + [f"**{keywords}"] * (keywords != "None")
    return f"({', '.join(shown)})"


if __name__ == "__main__":
    main(sys.argv[1])

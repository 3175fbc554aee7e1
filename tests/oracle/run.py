"""`python -m tests.oracle.run --tf PYTHON`: every sampled op, here and in real TensorFlow.

Each sample (and its variants in other dtypes) is built here, exported as a GraphDef, and run by both systems on the same
feeds; then the gradients that each system builds by itself are compared. The table goes to docs/oracle.md.
"""
from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.graph.gradients import is_trainable
from penstock._src.ops.registry import GRADIENTS, OPS
from tests.oracle import programs_data, programs_shared, records  # noqa: F401
from tests.oracle.differences import EXPLAINED, WITHOUT_EVIDENCE, unset
from tests.oracle.programs import PROGRAMS, BuiltProgram, OlderProgram
from tests.registry import recorded
from tests.registry.compare import TOLERANCE, differs
from tests.registry.load import all_samples, ids
from tests.registry.running import Built
from tests.registry.sample import SAMPLES, Sample
from tests.registry.variants import variants

HERE = os.path.dirname(os.path.abspath(__file__))
BAR = 0.97                          # the least part of the ops that are equal, and of those that are tried

RUNNABLE = sorted(name for name, op in OPS.items() if (op.kernels or op.control_flow) and not name.startswith("_"))


class Case:
    """One sample in one dtype, or one program: our graph and our answers."""

    def __init__(self, sample: Any, label: str, built: Any = None):
        self.sample, self.label = sample, label
        self.built = built or Built(sample)
        self.ops = [sample.op]                  # what the case is evidence for
        self.name = ""                          # of the sample, in the record of TensorFlow's values
        self.message = self.built.graph.as_graph_def()
        self.values: list = []
        self.failure = ""                       # why there are no values
        self.xs: list = []
        self.ys: list = []
        self.weights: list = []
        self.grads: list | None = None
        self.no_grads = ""                      # why there are none, where there is a gradient function
        try:
            self.values = self.built.run()
        except Exception as e:
            self.failure = shown(e)
        if not self.failure and GRADIENTS.get(sample.op) is not None and not sample.random:
            self._differentiate()

    def _differentiate(self) -> None:
        b = self.built
        self.ys = [(t, v) for t, v in zip(b.outputs, self.values, strict=True) if t.dtype.is_floating and is_trainable(t)]
        self.xs = [t for t in b.inputs if t in b.feeds and t.dtype.is_floating]
        if not self.ys or not self.xs:
            self.xs = []
            return
        rng = np.random.RandomState(5)
        self.weights = [rng.uniform(0.5, 1.5, np.shape(v)).astype(np.asarray(v).dtype) for _, v in self.ys]
        try:
            with b.graph.as_default(), tf.Session() as sess:
                found = tf.gradients([t for t, _ in self.ys], self.xs, [tf.constant(w) for w in self.weights])
                self.grads = sess.run([tf.zeros_like(x) if g is None else tf.convert_to_tensor(g)
                                       for g, x in zip(found, self.xs, strict=True)], b.feeds)
        except (LookupError, NotImplementedError, ValueError, tf.errors.UnimplementedError) as e:
            self.no_grads = shown(e)

    def write(self, file: Any, number: int) -> None:
        """The case as a record for the other side."""
        b = self.built
        arrays = [np.asarray(v) for v in b.feeds.values()] + self.weights
        proto = [tf.make_tensor_proto(a).SerializeToString() for a in arrays]
        records.write(file, {"id": str(number), "feeds": [t.name for t in b.feeds], "fetches": [t.name for t in b.outputs],
                             "xs": [t.name for t in self.xs], "ys": [t.name for t, _ in self.ys]},
                      [self.message.SerializeToString(), *proto])


def shown(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def make_cases(only: str | None) -> tuple[list[Case], list[tuple[str, str]]]:
    """Our side of all samples, and those that we cannot run ourselves."""
    cases, broken = [], []
    found = all_samples()
    for name, s in zip(ids(found), found, strict=True):
        if only and s.op not in only.split(","):
            continue
        for label, v in variants(s, OPS[s.op]):
            try:
                cases.append(Case(v, label))
                cases[-1].name = name if v is s else ""
            except Exception as e:
                if label == "as sampled" or not isinstance(e, (TypeError, ValueError)):
                    broken.append((s.op, f"{label}: {shown(e)}"))
    return cases, broken


def make_programs(only: str | None) -> tuple[list[Case], list[tuple[str, str]]]:
    """Our side of the programs: evidence for those of their ops that have no samples."""
    cases, broken = [], []
    for kind, build in itertools.product((BuiltProgram, OlderProgram), PROGRAMS):
        try:
            built = kind(build)
            if kind is OlderProgram and not built.renamed:
                continue
            ops = sorted(op for op in built.ops() if op in OPS and op not in SAMPLES)
            if only and not {*ops, build.__name__} & set(only.split(",")):
                continue
            case = Case(Sample(build.__name__, (), {}, None, False, 0, 0, False), f"program {build.__name__}", built)
            case.ops = ops
            cases.append(case)
        except Exception as e:
            broken.append((build.__name__, shown(e)))
    return cases, broken


def ask(python: str, cases: list[Case]) -> dict[int, tuple[dict, list[bytes]]]:
    """The other side's answers; a case that kills the process is named and passed over."""
    with tempfile.TemporaryDirectory() as folder:
        sent, got = os.path.join(folder, "cases"), os.path.join(folder, "results")
        with open(sent, "wb") as f:
            for i, c in enumerate(cases):
                c.write(f, i)
        answers: dict[int, tuple[dict, list[bytes]]] = {}
        done: list[str] = []
        while True:
            subprocess.run([python, os.path.join(HERE, "tf_side.py"), sent, got, *done], timeout=3000, check=False,
                           stderr=subprocess.DEVNULL)
            with open(got, "rb") as f:
                for header, parts in records.read(f):
                    answers[int(header["id"])] = header, parts
            missing = [i for i in range(len(cases)) if i not in answers]
            if not missing:
                return answers
            answers[missing[0]] = {"error": "TensorFlow's process died"}, []
            done = [str(i) for i in answers]


def compare(case: Case, header: dict, parts: list[bytes]) -> tuple[str, str]:
    """("equal" | "absent" | "different", why)."""
    if "error" in header:
        return "absent", header["error"].splitlines()[0]
    if case.failure:
        return "different", f"{case.label}: fails here: {case.failure}"
    theirs = [tf.make_ndarray(tf.make_tensor_proto(0).FromString(p)) for p in parts]
    n = header["n"]
    # A result is as exact as the least exact value of the case.
    tolerance = max((TOLERANCE.get(t.dtype.name, 0) for t in (*case.built.feeds, *case.built.outputs)), default=0)
    if not case.sample.random or case.sample.attrs.get("seed"):         # a seed produces the same numbers in both
        skipped = unset(case.sample, case.built.inputs[0].dtype.name if case.built.inputs else "")
        for i, (a, b) in enumerate(zip(case.values, theirs[:n], strict=True)):
            why = differs(a, b, tolerance) if i not in skipped else ""
            if why:
                return "different", f"{case.label}, output {i}: {why}"
    else:
        for a, b in zip(case.values, theirs[:n], strict=True):
            if np.shape(a) != np.shape(b):
                return "different", f"{case.label}: shape {np.shape(a)} here, {np.shape(b)} there"
    if header["grads"] and case.no_grads:
        return "different", f"{case.label}: no gradient here: {case.no_grads}"
    if header["grads"] and case.grads is not None:
        for i, (a, b) in enumerate(zip(case.grads, theirs[n:], strict=True)):
            why = differs(a, b, tolerance)
            if why:
                return "different", f"{case.label}, gradient {i}: {why}"
    return "equal", ""


def record(cases: list[Case], answers: dict) -> None:
    """Keeps TensorFlow's values for the samples that have no numpy reference; the tests compare with them."""
    kept = {c.name: (recorded.key(c.sample), answers[i][1][:answers[i][0]["n"]]) for i, c in enumerate(cases)
            if c.name and recorded.wanted(c.sample) and compare(c, *answers[i])[0] == "equal"}
    recorded.write(kept)


def summarize(cases: list[Case], answers: dict, broken: list) -> dict[str, dict]:
    """Per op: cases tried, equal, absent there, differences."""
    table: dict[str, dict] = {}
    for i, op in [(i, op) for i, case in enumerate(cases) for op in case.ops]:
        c = cases[i]
        row = table.setdefault(op, {"tried": 0, "equal": 0, "absent": 0, "grads": 0, "why": []})
        verdict, why = compare(c, *answers[i])
        row["tried"] += 1
        row["grads"] += c.grads is not None and answers[i][0].get("grads", False)
        if verdict == "equal":
            row["equal"] += 1
        elif verdict == "absent":
            row["absent"] += 1
            row.setdefault("there", f"absent there: {why[:120]}")
        else:
            row["why"].append(why)
    for op, why in broken:
        row = table.setdefault(op, {"tried": 0, "equal": 0, "absent": 0, "grads": 0, "why": []})
        row["tried"] += 1
        row["why"].append("fails here: " + why)
    return table


def report(table: dict[str, dict], path: str) -> tuple[int, int]:
    """Writes the table; returns (ops equal, ops compared)."""
    lines = ["# Ops against TensorFlow", "", "Made by `make oracle`: each sampled op runs in "
             "penstock and, from the same GraphDef and feeds, in", "TensorFlow; then the gradients that each builds by itself "
             "are compared. Ops with state and control flow run in small", "programs. `absent`: TensorFlow has no kernel for "
             "that case. A difference is explained, or shown as it was found.", ""]
    compared = {op: r for op, r in table.items() if r["tried"] > r["absent"]}
    equal = [op for op, r in compared.items() if not r["why"]]
    lines += [f"Ops with kernels: {len(RUNNABLE)}. Compared: {len(compared)}. Equal in every case: {len(equal)} "
              f"({100 * len(equal) / max(1, len(compared)):.1f}%). Cases: {sum(r['tried'] for r in table.values())}.", "",
              "| op | cases | equal | with gradient | absent there | difference |", "|---|---|---|---|---|---|"]
    for op in sorted(table):
        r = table[op]
        why = EXPLAINED.get(op, "; ".join(r["why"][:2])) if r["why"] else "" if op in compared else r["there"]
        lines.append(f"| {op} | {r['tried']} | {r['equal']} | {r['grads']} | {r['absent']} | {why.replace('|', '/')} |")
    lines += ["", "## Without evidence", "", "| op | why |", "|---|---|"]
    lines += [f"| {op} | {WITHOUT_EVIDENCE.get(op, 'no sample or program yet')} |" for op in untried(table)]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return len(equal), len(compared)


def untried(table: dict[str, dict]) -> list[str]:
    """The ops that no sample and no program has."""
    return sorted(op for op in RUNNABLE if op not in table)


def passes(table: dict[str, dict], equal: int, compared: int) -> bool:
    """Says what is wrong, if anything is: too few ops equal or tried, or a difference without an explanation."""
    unexplained = sorted(op for op, r in table.items() if r["why"] and op not in EXPLAINED)
    stale = sorted(op for op in EXPLAINED if op in table and not table[op]["why"])
    unknown = [op for op in untried(table) if op not in WITHOUT_EVIDENCE]
    for text, ops in (("differ without an explanation", unexplained), ("are explained but do not differ", stale),
                      ("have no sample or program", unknown)):
        if ops:
            print(f"{len(ops)} ops {text}: {', '.join(ops)}")
    return not unexplained and equal >= BAR * compared and len(unknown) <= (1 - BAR) * len(RUNNABLE)


def main() -> int:
    """Exit code 0 when enough ops are tried and equal, and every difference is explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tf", required=True, help="python of an environment with tensorflow")
    parser.add_argument("--only", help="comma-separated op names")
    parser.add_argument("--table", default="docs/oracle.md")
    args = parser.parse_args()
    tf.disable_v2_behavior()
    cases, broken = (a + b for a, b in zip(make_cases(args.only), make_programs(args.only), strict=True))
    print(f"{len(cases)} cases built here, {len(broken)} failed", flush=True)
    answers = ask(args.tf, cases)
    table = summarize(cases, answers, broken)
    if not args.only:
        record(cases, answers)
    os.makedirs(os.path.dirname(args.table) or ".", exist_ok=True)
    equal, compared = report(table, args.table if not args.only else os.devnull)
    for op in sorted(table):
        for why in table[op]["why"][:3]:
            print(f"  {op}: {why}")
        if args.only and table[op].get("there"):
            print(f"  {op} {table[op]['there']}")
    print(f"{equal} of {compared} ops equal in every case ({100 * equal / max(1, compared):.1f}%)")
    if args.only:
        return 0 if equal == compared else 1
    print(f"table in {args.table}")
    return 0 if passes(table, equal, compared) else 1


if __name__ == "__main__":
    sys.exit(main())

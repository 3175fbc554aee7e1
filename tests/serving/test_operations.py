"""Metrics, dashboards and manifests; and the import cost of serving for programs that do not serve."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

from penstock._src.cluster.status_metrics import METRICS
from penstock._src.serving.metrics import Metric, Metrics, exponential

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def test_histograms():
    metric = Metric("/a/b-c", "histogram", ("m",), exponential(1, 2, 4))
    for value in (0.5, 1, 3, 100):
        metric.observe('x"y', value=value)
    assert metric.lines() == [
        "# TYPE :a:b:c histogram", ':a:b:c_bucket{m="x\\"y",le="1"} 2', ':a:b:c_bucket{m="x\\"y",le="2"} 2',
        ':a:b:c_bucket{m="x\\"y",le="4"} 3', ':a:b:c_bucket{m="x\\"y",le="+Inf"} 4', ':a:b:c_sum{m="x\\"y"} 104.5',
        ':a:b:c_count{m="x\\"y"} 4']


@pytest.mark.parametrize("name", ["serving", "training"])
def test_dashboards_ask_for_metrics_that_exist(name):
    board = json.loads((DOCS / f"grafana_{name}.json").read_text())
    asked = {m for panel in board["panels"] for target in panel["targets"]
             for m in re.findall(r":tensorflow:[\w:]+|penstock_\w+", target["expr"])}
    known = {n for n, *_ in METRICS}
    for metric in Metrics().all:
        plain = re.sub("[^a-zA-Z0-9_]", ":", metric.name)
        known |= {plain} if metric.kind != "histogram" else {plain + end for end in ("_bucket", "_sum", "_count")}
    assert asked and asked <= known


def test_the_manifest_has_flags_that_exist():
    command = [sys.executable, "-m", "penstock", "serve", "--help"]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    flags = re.findall(r"- (--\w+)", (DOCS / "manifests" / "serving" / "serve.yaml").read_text())
    assert len(flags) > 5 and [f for f in flags if f not in known] == []


def test_importing_penstock_does_not_import_serving():
    code = "import sys, penstock; print([m for m in sys.modules if '_src.serving' in m or m == 'grpc'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"

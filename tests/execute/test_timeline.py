"""The Chrome trace of a step."""
import json

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.execute.timeline import Timeline


def traced():
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        with tf.device("/cpu:0"):
            a = tf.constant(np.ones([100, 100], np.float32), name="a")
        with tf.device("/cpu:1"):
            b = tf.matmul(a, a, name="b")
        c = tf.reduce_sum(b + a, name="c")
        metadata = tf.RunMetadata()
        assert sess.run(c, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata) == 1010000
    return metadata.step_stats


def test_ops_are_regions_of_their_device_and_arrows_join_them():
    events = json.loads(Timeline(traced()).generate_chrome_trace_format())["traceEvents"]
    devices = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert sorted(devices.values()) == [f"/job:localhost/replica:0/task:0/device:CPU:{i} Compute" for i in (0, 1)]
    regions = {e["args"]["name"]: e for e in events if e["ph"] == "X"}
    assert regions["b"]["name"] == "MatMul" and "CPU:1" in devices[regions["b"]["pid"]]
    assert regions["b"]["args"]["input0"] == regions["b"]["args"]["input1"] == "a"
    assert regions["a"]["ts"] <= regions["b"]["ts"] <= regions["c"]["ts"] and all(e["dur"] >= 1 for e in regions.values())
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "t"}
    assert starts.keys() == ends.keys() and len(starts) >= 5
    assert not any(e["ph"] in "st" for e in json.loads(
        Timeline(traced()).generate_chrome_trace_format(show_dataflow=False))["traceEvents"])


def test_peaks_of_memory():
    analysis = Timeline(traced()).analyze_step_stats()
    peak = analysis.allocator_maximums["cpu"]
    assert peak.num_bytes >= 2 * 40000 and "b" in peak.tensors and peak.timestamp > 0
    values = [e["args"]["cpu"] for e in analysis.chrome_trace.events if e["ph"] == "C"]
    assert max(values) == peak.num_bytes and min(values) >= 0

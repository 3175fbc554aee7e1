"""`core.util.test_log_pb2`: what benchmarks report, as messages."""
from google.protobuf import descriptor_pool

from penstock._src.graph.messages import declare

EntryValue, MetricEntry, BenchmarkEntry, BenchmarkEntries = declare(
    "penstock/test_log.proto", "penstock.test_log", descriptor_pool.DescriptorPool(), {
        "EntryValue": "double double_value = 1 | string string_value = 2",
        "MetricEntry": "string name = 1; double value = 2",
        "BenchmarkEntry": "string name = 1; int64 iters = 2; double cpu_time = 3; double wall_time = 4; double throughput = 5; "
                          "map<string, EntryValue> extras = 6; repeated MetricEntry metrics = 7",
        "BenchmarkEntries": "repeated BenchmarkEntry entry = 1"}).values()

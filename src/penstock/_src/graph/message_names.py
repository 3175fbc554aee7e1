"""Messages by name. The classes (`messages.py`) are loaded when one is requested: protobuf is slow to load."""
from __future__ import annotations

import functools
from typing import Any

from penstock._src.base.api import export


def message_class(name: str) -> Any:
    """The class of messages of a name, such as "Summary"."""
    from penstock._src.graph import messages
    return getattr(messages, name)


for _name in ("BytesList", "FloatList", "Int64List", "Feature", "Features", "FeatureList", "FeatureLists", "Example",
              "SequenceExample", "ClusterDef", "JobDef", "ServerDef"):
    export.later(functools.partial(message_class, _name), f"train.{_name}")
for _name in ("AttrValue", "ConfigProto", "GPUOptions", "GraphDef", "GraphOptions", "HistogramProto", "LogMessage",
              "MetaGraphDef", "NameAttrList", "NodeDef", "OptimizerOptions", "RunMetadata", "RunOptions",
              "SummaryMetadata", "TensorInfo"):
    export.later(functools.partial(message_class, _name), v1=[_name])
for _name in ("Event", "SessionLog", "Summary"):
    export.later(functools.partial(message_class, _name), v1=[_name, f"summary.{_name}"])
for _name in ("SummaryDescription", "TaggedRunMetadata"):
    export.later(functools.partial(message_class, _name), v1=[f"summary.{_name}"])
export.later(functools.partial(message_class, "SaverDef"), v1=["train.SaverDef"])
export.later(functools.partial(message_class, "OpLogProto"), v1=["profiler.OpLogProto"])

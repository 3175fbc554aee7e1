"""Samples of protocol buffers in tensors, of a message type that comes with the graph."""
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock._src.base import dtypes
from tests.registry.sample import s, sample

_F = descriptor_pb2.FieldDescriptorProto
_FIELDS = [("count", _F.TYPE_INT32, False, "7"), ("ids", _F.TYPE_INT64, True, ""), ("ratio", _F.TYPE_FLOAT, True, ""),
           ("exact", _F.TYPE_DOUBLE, False, "1.5"), ("name", _F.TYPE_STRING, False, "none"), ("tags", _F.TYPE_BYTES, True, ""),
           ("on", _F.TYPE_BOOL, True, ""), ("big", _F.TYPE_FIXED64, True, ""), ("small", _F.TYPE_UINT32, False, "")]
_file = descriptor_pb2.FileDescriptorProto(name="sample.proto", package="sample", syntax="proto2")
_message = _file.message_type.add(name="Thing")
for _number, (_name, _type, _repeated, _default) in enumerate(_FIELDS, 1):
    _field = _message.field.add(name=_name, number=_number, type=_type,
                                label=_F.LABEL_REPEATED if _repeated else _F.LABEL_OPTIONAL)
    if _default:
        _field.default_value = _default
_message.field.add(name="part", number=20, type=_F.TYPE_MESSAGE, type_name=".sample.Thing", label=_F.LABEL_REPEATED)
_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file)
Thing = message_factory.GetMessageClass(_pool.FindMessageTypeByName("sample.Thing"))
_SOURCE = b"bytes://" + descriptor_pb2.FileDescriptorSet(file=[_file]).SerializeToString()

_MESSAGES = [Thing(count=3, ids=[1, -2], ratio=[0.5], exact=2.25, name="a", tags=[b"x", b"y"], on=[True, False], big=[1 << 63],
                   small=9, part=[Thing(count=1), Thing(name="b")]),
             Thing(), Thing(ids=[5, 6, 7], tags=[b"\x00\xff"])]
_TYPES = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string, dtypes.string, dtypes.bool, dtypes.uint64,
          dtypes.uint32]
_GIVEN = {"message_type": "sample.Thing", "descriptor_source": _SOURCE}
_DATA = s(*(m.SerializeToString() for m in _MESSAGES))
sample("DecodeProtoV2", _DATA, field_names=[n for n, *_ in _FIELDS], output_types=_TYPES, **_GIVEN)
sample("DecodeProtoV2", _DATA.reshape(3, 1)[:2], field_names=["part", "count"], output_types=[dtypes.string, dtypes.int64],
       sanitize=True, **_GIVEN)
sample("DecodeProtoV2", s(*(str(m) for m in _MESSAGES)), field_names=["ids", "count"], message_format="text", **_GIVEN,
       output_types=[dtypes.int64, dtypes.int32],
       expect=lambda _: [np.array([[2, 1], [0, 0], [3, 0]]), np.array([[1, -2, 0], [0, 0, 0], [5, 6, 7]]),
                         np.array([[3], [7], [7]])])
sample("EncodeProto", np.array([[1, 2], [0, 1]], np.int32), [np.array([[3], [0]], np.int32), np.array([[1, 2], [4, 0]])],
       field_names=["count", "ids"], expect=lambda *_: s(Thing(count=3, ids=[1, 2]).SerializeToString(),
                                                         Thing(ids=[4]).SerializeToString()), **_GIVEN)
sample("EncodeProto", np.array([[2, 1, 1, 1]], np.int32),
       [s("x", "y").reshape(1, 2), s("name").reshape(1, 1), s(Thing(count=8).SerializeToString()).reshape(1, 1),
        np.array([[0.25]])], field_names=["tags", "name", "part", "exact"],
       expect=lambda *_: s(Thing(tags=[b"x", b"y"], name="name", part=[Thing(count=8)], exact=0.25).SerializeToString()),
       **_GIVEN)

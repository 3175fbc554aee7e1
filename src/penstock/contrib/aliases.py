"""Names of tf.contrib that have moved to tf as they were: framework's audio ops, autograph."""
from penstock.api import export, resolve

_MOVED = {
    **{f"framework.python.ops.audio_ops.{n}": f"audio.{n}" for n in ("encode_wav", "decode_wav")},
    "framework.python.ops.audio_ops.audio_spectrogram": "raw_ops.AudioSpectrogram",
    "framework.python.ops.audio_ops.mfcc": "raw_ops.Mfcc",
    "autograph.to_graph": "autograph.to_graph", "autograph.to_code": "autograph.to_code",
}
for _old, _new in _MOVED.items():
    export.later(lambda _new=_new: resolve("v1", _new, f"penstock.compat.v1.{_new.rpartition('.')[0]}"), v1=[f"contrib.{_old}"])

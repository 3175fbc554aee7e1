"""Names of tf.contrib that have moved to tf unchanged: framework's audio ops, autograph, signal."""
from penstock._src.base.api import export, resolve

_MOVED = {
    **{f"framework.python.ops.audio_ops.{n}": f"audio.{n}" for n in ("encode_wav", "decode_wav")},
    "framework.python.ops.audio_ops.audio_spectrogram": "raw_ops.AudioSpectrogram",
    "framework.python.ops.audio_ops.mfcc": "raw_ops.Mfcc",
    **{f"signal.{n}": f"signal.{n}" for n in (
        "frame", "hamming_window", "hann_window", "inverse_stft", "inverse_stft_window_fn", "linear_to_mel_weight_matrix",
        "mfccs_from_log_mel_spectrograms", "overlap_and_add", "stft")},
    "autograph.to_graph": "autograph.to_graph", "autograph.to_code": "autograph.to_code",
}
for _old, _new in _MOVED.items():
    export.later(lambda _new=_new: resolve("v1", _new), v1=[f"contrib.{_old}"])

"""Samples of sound."""
import io
import wave

import numpy as np

from tests.registry.sample import f, sample, scalar_string


def _wav(samples, rate):
    file = io.BytesIO()
    with wave.open(file, "wb") as w:
        w.setnchannels(samples.shape[1])
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(samples.astype("<i2").tobytes())
    return scalar_string(file.getvalue())


_INTS = np.array([[0, 1], [-32768, 32767], [1000, -5], [7, 8]], np.int16)
_FILE = _wav(_INTS, 8000)
sample("DecodeWav", _FILE, expect=lambda _: (_INTS / np.float32(32768), np.int32(8000)))
sample("DecodeWav", _FILE, desired_channels=1, desired_samples=6,
       expect=lambda _: (np.pad(_INTS[:, :1] / np.float32(32768), [(0, 2), (0, 0)]), np.int32(8000)))
sample("DecodeWav", _FILE, desired_channels=3, desired_samples=2,
       expect=lambda _: (_INTS[:2, [0, 1, 1]] / np.float32(32768), np.int32(8000)))
sample("EncodeWav", _INTS / np.float32(32768), np.int32(8000), expect=lambda a, r: _FILE)
sample("EncodeWav", f(5, 1), np.int32(44100))


def _spectrogram(x, window, stride, size):
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    frames = np.stack([x[i:i + window].T * hann for i in range(0, len(x) - window + 1, stride)], 1)
    return np.abs(np.fft.rfft(frames, size)).astype(np.float32)


sample("AudioSpectrogram", f(20, 2), window_size=8, stride=4, expect=lambda x: _spectrogram(x, 8, 4, 8))
sample("AudioSpectrogram", f(20, 1), window_size=6, stride=5, magnitude_squared=True,
       expect=lambda x: _spectrogram(x, 6, 5, 8) ** 2)
sample("AudioSpectrogram", f(3, 1), window_size=8, stride=4)
sample("Mfcc", f(1, 2, 257, low=0, high=4), np.int32(16000))
sample("Mfcc", f(2, 3, 129, low=0, high=4), np.int32(8000), upper_frequency_limit=3000.0, lower_frequency_limit=100.0,
       filterbank_channel_count=20, dct_coefficient_count=10)

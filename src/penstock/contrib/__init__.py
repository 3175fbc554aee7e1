"""tf.contrib: what programs of TensorFlow 1 found there, one package of ours for each of its packages.

A package is loaded when one of its names is asked for. All are written in terms of public functions, and export their names
under `contrib` in the 1.x API only.
"""
from penstock import api

_PACKAGES = ("framework", "layers", "losses", "metrics", "rnn", "slim", "training")

api.LAZY.update({f"contrib.{name}": f"{__name__}.{name}" for name in _PACKAGES})

"""Models of `run.py`: one file each, with the program for TensorFlow (`ours`) and the one for PyTorch (`theirs`)."""

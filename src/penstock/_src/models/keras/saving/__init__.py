"""Models and weights in files: HDF5, the zip file of Keras 3 (`.keras`), checkpoints and SavedModels."""

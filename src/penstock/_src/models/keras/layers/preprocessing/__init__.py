"""Preprocessing layers: numbers, categories, text and images made ready for a model, as a part of it."""
from penstock._src.models.keras.layers.preprocessing import augmentation, feature_space, images, lookup, numeric, text

"""Functions and classes written in terms of ops: linear algebra, images, ragged tensors, losses, metrics, tests."""

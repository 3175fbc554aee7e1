"""Basic modules: types, shapes, errors, nested structures, public names."""

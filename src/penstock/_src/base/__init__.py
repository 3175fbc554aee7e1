"""The foundation: types, shapes, errors, nested structures, public names."""

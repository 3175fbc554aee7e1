"""What everything stands on: types, shapes, errors, nested structures, public names."""

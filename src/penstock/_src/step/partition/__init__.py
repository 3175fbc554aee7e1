"""Cutting a placed step into one graph per device, with sends and receives where an edge was cut."""

"""What can be computed: one folder per family of ops, one file per block. `families` declares all of them.

Importing a module of this package, such as the registry, loads no family: the layers below the families need the registry.
"""

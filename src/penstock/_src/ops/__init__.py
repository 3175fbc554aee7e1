"""The ops: one folder per family, one file per group of related ops. `families` declares all of them.

Importing a module of this package, such as the registry, loads no family: the layers below the families need the registry.
"""

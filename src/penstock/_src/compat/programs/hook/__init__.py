"""A folder for the module path of processes that programs start: `sitecustomize.py` in it runs when Python starts."""

"""Known differences from TensorFlow, one line each; the table of docs/oracle.md quotes them."""

EXPLAINED: dict[str, str] = {}

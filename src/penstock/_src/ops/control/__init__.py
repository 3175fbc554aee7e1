"""Control flow, functions, assertions, calls of Python."""

"""The command `penstock`: one file per subcommand, each with `add_arguments(parser)` and `run(args)`.

The first line of a file's docstring is its description in `penstock --help`.
"""

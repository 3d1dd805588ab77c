"""The commands of the command line: each a module with `HELP`, `add_arguments` and `run`."""

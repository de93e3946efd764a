"""The command line: flags, the plan of notebooks, and running them."""

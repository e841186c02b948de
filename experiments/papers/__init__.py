"""Papers' experiments, each in a package, all under the command `ccp paper`.

`paper.py` defines papers and their parts, and runs them; `tables.py` has their tables and checks;
`commands.py` is the command. A new paper needs a package here, a line in `commands.py`, and a notebook.

May import: everything below `experiments`.
"""

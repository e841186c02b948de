"""Experiments of papers, run again: a module each, all under the command `ccp paper`.

`paper.py` says what a paper and its parts are, and runs them; `tables.py` has their tables and checks;
`commands.py` is the command. A new paper is a module here, a line in `commands.py`, and a notebook.

May import: everything below `experiments`.
"""

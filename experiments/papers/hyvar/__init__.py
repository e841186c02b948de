"""Hyvar: `paper.py` lists parts and claims; docs/papers/hyvar.md has the results."""

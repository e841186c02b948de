"""Hyvar: `paper.py` lists parts and claims; docs/papers/hyvar.md says what came out."""

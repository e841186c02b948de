"""R-Hybrid: `paper.py` lists parts and claims; docs/papers/r-hybrid.md has the results."""

"""INT-driven CUBIC: `paper.py` lists parts and claims; docs/papers/int-adaptive.md has the results."""

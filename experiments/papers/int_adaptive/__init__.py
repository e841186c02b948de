"""INT-driven CUBIC: `paper.py` lists parts and claims; docs/papers/int-adaptive.md says what came out."""

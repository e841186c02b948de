"""Flex-Cubic: `paper.py` lists parts and claims; docs/papers/flex-cubic.md has the results."""

"""R-TCP: `paper.py` lists parts and claims; docs/papers/r-tcp.md has the results."""

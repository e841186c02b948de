"""R-TCP: `paper.py` lists parts and claims; docs/papers/r-tcp.md says what came out."""

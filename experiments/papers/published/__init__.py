"""Published figures of others on Linux' CUBIC and BBR: `paper.py` lists parts and claims."""

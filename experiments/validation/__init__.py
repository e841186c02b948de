"""The simulated datapath held against the kernel: the same scenarios on both, and what differs.

May import what `experiments` may. Entry points: `cases.CASES`, `comparison.compare`, `ccp bench validation`.
"""

"""The simulated datapath held against the kernel: the same scenarios on both, and what differs.

May import what `experiments` may. Entry points: `drawing.draw_scenarios`, `heldout.Heldout`,
`ccp validate`.
"""

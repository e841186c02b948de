"""The simulator compared with the kernel on the same scenarios.

May import what `experiments` may. Entry points: `drawing.draw_scenarios`, `heldout.Heldout`,
`ccp validate`.
"""

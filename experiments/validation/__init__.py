"""The simulator compared with the kernel on the same scenarios.

This package may import what `experiments` may import. Entry points: `drawing.draw_scenarios`,
`heldout.Heldout`, `ccp validate`.
"""

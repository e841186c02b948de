"""Benchmarks: every figure in the docs is printed by one of these.

`ccp bench NAME [--json]` runs one. All share `experiments.bench.result`: metrics with value, unit, goal and
spread, measured in paired rounds within one run, so that a noisy machine disturbs both sides alike.
"""

"""Benchmarks: what ccplane costs.

`ccp bench NAME` runs one. All benchmarks measure in rounds (`experiments.bench.rounds`), repeat disturbed
rounds (`experiments.disturbance`), and return figures with intervals and verdicts
(`experiments.bench.result`).
"""

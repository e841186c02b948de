"""Benchmarks: what ccplane costs, measured by commands that can be repeated.

`ccp bench NAME` runs one. All measure in rounds (`experiments.bench.rounds`), throw away those that others
disturbed (`experiments.disturbance`), and return figures with intervals and verdicts
(`experiments.bench.result`).
"""

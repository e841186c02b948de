"""Experiments: the network lab, what runs in it, and what is measured.

Purpose: everything that compares algorithms. `experiments.netlab` builds small networks on this machine;
scenarios, benchmarks and the demonstration stand on it.

Entry points: `experiments.scenario` (what is run), `experiments.run`, `experiments.sweep`,
`experiments.results` (what is left), `experiments.plots`.

May import: every other package. Only `ccplane` imports this one, on demand; its commands reach `ccp`
through the entry-point group `ccplane.commands`.
"""

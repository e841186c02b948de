"""Experiments: the network lab, what runs in it, and what is measured.

`experiments.netlab` builds small networks on this machine; scenarios, benchmarks and the demo run on them.

Entry points: `experiments.scenario` (what to run), `experiments.run`, `experiments.sweep`,
`experiments.results` (what was recorded), `experiments.plots`.

This package may import every other package. Only `ccplane` imports it, on demand; its commands reach `ccp`
through the entry-point groups `ccplane.commands.PANEL`.
"""

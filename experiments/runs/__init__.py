"""The internals of scenarios, runs, results and sweeps: validation, execution, recording, repetition.

Use them through `experiments.scenario`, `experiments.run`, `experiments.results` and `experiments.sweep`.

The modules may import `experiments.netlab`, `experiments.traffic`, `ccplane.agent`, `ccp_algs`,
`ccplane.datapath`, `telemetry` and `broker`.
"""

"""How scenarios are checked, run, recorded and repeated; used through the modules above it.

Purpose: the parts behind `experiments.scenario`, `experiments.run`, `experiments.results` and
`experiments.sweep`.

May import: `experiments.netlab`, `experiments.traffic`, `ccplane.agent`, `ccp_algs`, `ccplane.datapath`,
`telemetry`, `broker`.
"""

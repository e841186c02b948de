"""A soak: an agent, a broker and a receiver under churn and disturbances for hours, and what grows meanwhile.

`make soak HOURS=2`, or `python -m experiments.soak --hours 2 --seed 7`. `draw` says what happens, from a
seed; `disturbances` makes it happen to the `plant` and the `network`; `samples` measures, `judge` judges.

May import: `ccplane.agent`, `experiments.netlab`, `experiments.bench`, `telemetry`.
"""

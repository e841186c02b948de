"""Soak test: agent, broker and receiver under churn and disturbances for hours; do their resources grow?

`make soak HOURS=2`, or `python -m experiments.soak --hours 2 --seed 7`. `draw` picks disturbances from a
seed; `disturbances` applies them to the `plant` and the `network`; `samples` measures, `judge` evaluates.

This package may import `ccplane.agent`, `experiments.netlab`, `experiments.bench` and `telemetry`.
"""

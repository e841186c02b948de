"""Preloaded by a worker of a test: stands in for root and the kernel, which a unit test has not."""

import os

from experiments import run
from tests.unit.experiments.recorded import record

os.geteuid = lambda: 0
run.DATAPATHS["ebpf"] = record

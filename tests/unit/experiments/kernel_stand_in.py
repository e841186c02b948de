"""Preloaded by workers of a test: replaces root and the kernel, which unit tests lack."""

import os

from experiments import run
from tests.unit.experiments.recorded import record

os.geteuid = lambda: 0
run.DATAPATHS["ebpf"] = record

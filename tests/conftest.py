"""What all tests share: how hard property tests search."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# No deadline: the machines that run this have other work, and a slow example is no wrong one.
settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.register_profile(
    "slow", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# A shell starts background jobs with SIGINT ignored, nohup ignores SIGHUP, children inherit both: tests of
# Ctrl-C and of hanging up would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

"""Errors of scenarios, runs, results and sweeps."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "scenario.bad_field": "a field of a scenario or grid is unknown or missing, or its value is invalid",
    "scenario.bad_param": "an algorithm has no such parameter, or the parameter cannot have this value",
    "scenario.cannot_write": "the file of a scenario cannot be written",
    "scenario.duplicate": "a name is used twice in one scenario",
    "scenario.no_file": "a file that was given, or that a scenario names, cannot be read",
    "scenario.syntax": "the text is not valid YAML",
    "scenario.time": "a time is after the end of its flow or of the run",
    "scenario.two_paths": "a path is described in addition to a scenario, which has its own",
    "scenario.unknown_algorithm": "no algorithm has this name",
    "scenario.unknown_name": "the scenario has no host, link, flow or field of this name",
    "run.agent": "the process that runs ccplane's algorithms for a run failed",
    "run.datapath": "the datapath that the scenario asks for is not available",
    "run.nothing_to_watch": "a run to be watched has no flow controlled by an agent",
    "run.no_samples": "no sample of a flow's connections was recorded",
    "run.publisher": "the process that publishes in-band telemetry for a run failed",
    "run.feature": "a process that a feature adds to a run failed",
    "run.regimes": "a process that detects regimes, or switches sockets, failed during a run",
    "run.wrong_congestion": "a connection did not use the congestion control that its flow asks for",
    "result.broken": "the files of a result are incomplete or damaged",
    "result.cannot_write": "a result, report or figure cannot be written",
    "result.exists": "the directory for a result exists and holds something else",
    "result.newer": "a result was written by a newer ccplane",
    "result.no_notebook": "no notebook of this name comes with ccplane",
    "result.not_found": "the directory holds no result",
    "sweep.aborted": "a sweep was aborted because its runs cannot succeed here",
    "sweep.bad_place": "the place where runs are to be done is invalid",
    "sweep.busy": "another sweep is under way in the directory",
    "sweep.cluster_lost": "the connection to the scheduler of the workers was lost",
    "sweep.no_root": "no worker has the privileges for runs on real sockets",
    "sweep.no_workers": "the scheduler has no workers",
    "sweep.other": "the directory holds something other than this sweep's runs",
    "sweep.other_algorithm": "an algorithm of an installed package differs on a worker",
    "sweep.other_version": "a worker runs another version of ccplane, which may give other results",
    "sweep.two_places": "runs are to be done both in processes of this machine and elsewhere",
    "sweep.unreachable": "no scheduler answers at the address given",
    "sweep.worker_died": "several workers in a row died during the same run",
    "sweep.worker_failed": "a worker failed outside of a run",
    "sweep.workers": "a worker process died",
}
"""Slug -> meaning; a test covers each."""


class ScenarioError(CcpError):
    """A scenario or a grid of scenarios is invalid."""


class RunError(CcpError):
    """A run failed, or cannot be done here."""


class ResultError(CcpError):
    """A result cannot be read or written."""


class SweepError(CcpError):
    """A sweep cannot continue."""

"""What can be wrong with scenarios, runs, results and sweeps."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "scenario.bad_field": "a field of a scenario or grid is unknown, missing, or has a value that cannot be",
    "scenario.bad_param": "an algorithm has no such parameter, or the parameter cannot have this value",
    "scenario.cannot_write": "the file of a scenario cannot be written",
    "scenario.duplicate": "two things of one scenario have the same name",
    "scenario.no_file": "a file that is asked for, or that a scenario names, cannot be read",
    "scenario.syntax": "the text is no YAML",
    "scenario.time": "something begins or happens after its end, or after that of the run",
    "scenario.two_paths": "a path is described beside a scenario, which has one",
    "scenario.unknown_algorithm": "no algorithm has this name",
    "scenario.unknown_name": "the scenario has no host, link, flow or field of this name",
    "run.agent": "the process that runs ccplane's algorithms for a run failed",
    "run.datapath": "the datapath that the scenario asks for is not there",
    "run.nothing_to_watch": "a run that is to be watched has no flow of an agent",
    "run.no_samples": "nothing was seen of a flow's connections",
    "run.publisher": "the process that publishes in-band telemetry for a run failed",
    "run.feature": "a process that a feature adds to a run failed",
    "run.regimes": "a process that tells regimes apart, or switches sockets, failed during a run",
    "run.wrong_congestion": "a connection did not use the congestion control that its flow asks for",
    "result.broken": "the files of a result cannot be read",
    "result.cannot_write": "a result cannot be written where it should be",
    "result.exists": "there is something else already where a result should be written",
    "result.newer": "a result was written by a newer ccplane",
    "result.not_found": "there is no result",
    "sweep.aborted": "a sweep was given up, because its runs cannot succeed here",
    "sweep.bad_place": "the place where runs are to be done is none",
    "sweep.busy": "another sweep is under way in the directory",
    "sweep.cluster_lost": "the scheduler of the workers that did runs is gone",
    "sweep.no_root": "runs on real sockets have no worker that may do them",
    "sweep.no_workers": "there is a scheduler, but nobody who does runs",
    "sweep.other": "the directory holds something else than this sweep's runs",
    "sweep.other_algorithm": "an algorithm of an installed package is another one on a worker",
    "sweep.other_version": "a worker has another ccplane, which may give other results",
    "sweep.two_places": "runs are to be done in processes of this machine, and elsewhere",
    "sweep.unreachable": "no scheduler answers where one should be",
    "sweep.worker_died": "workers died with a run, one after the other",
    "sweep.worker_failed": "a worker failed outside of a run",
    "sweep.workers": "a process that does runs died",
}
"""Slug -> what it means; each has a test that names it."""


class ScenarioError(CcpError):
    """A scenario or a grid of scenarios cannot be."""


class RunError(CcpError):
    """A run failed, or cannot be done here."""


class ResultError(CcpError):
    """A result cannot be read or written."""


class SweepError(CcpError):
    """A sweep cannot go on."""

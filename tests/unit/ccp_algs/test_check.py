import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ccp_algs import Algorithm, ContractError, Updates, VectorAlgorithm, check_algorithm
from ccp_algs.api import programs_of
from ccp_algs.fold import Ack, Flow, FoldProgram, control, every, total
from ccp_algs.params import Param
from ccp_algs.simulated_flow import registers_of
from ccplane.base._native import compile
from ccplane.base.errors import LangError


class Fold(FoldProgram):
    acked = total(Ack.bytes_acked)
    target = control(0)
    when = every(Flow.srtt_us)


class Good(Algorithm):
    program = Fold
    gain = Param(2, doc="growth")

    def on_report(self, report: Any) -> None:
        self.flow.set(cwnd_bytes=10_000, target=min(report.acked * self.gain, 1 << 30))


def test_summary_says_what_was_seen() -> None:
    summary = check_algorithm(Good, compile)
    assert summary.name == "Good"
    assert summary.params == {"gain": 2}
    assert summary.programs == {"default": Fold.source}
    assert summary.updates == summary.reports > 10


def test_algorithm_without_callbacks_keeps_the_contract() -> None:
    assert check_algorithm(type("Idle", (Algorithm,), {"program": Fold})).updates == 0


class Twin(Good):
    program = {"first": Fold, "second": "(def (Report (lost 0)))(when true (report))"}  # noqa: RUF012

    def on_report(self, report: Any) -> None:
        if "lost" in report.as_dict():
            assert report.lost >= 0
        else:
            self.flow.set_program("second", cwnd_bytes=20_000)


def test_reports_are_those_of_the_running_program() -> None:
    summary = check_algorithm(Twin, compile)
    assert list(summary.programs) == ["first", "second"]
    assert summary.updates == 1


numbers: Iterator[int] = itertools.count()


def on_report(code: str) -> type[Algorithm]:
    """Return an algorithm whose on_report runs `code`."""
    namespace: dict[str, Any] = {"numbers": numbers}
    exec(f"def on_report(self, report): {code}", namespace)
    return type("Bad", (Algorithm,), {"program": Fold, "on_report": namespace["on_report"]})


@pytest.mark.parametrize(
    ("cls", "slug"),
    [
        (type("Bare", (Algorithm,), {}), "contract.no_program"),
        (type("Bare", (Algorithm,), {"program": 5}), "contract.not_a_program"),
        (on_report("report.lost"), "contract.unknown_field"),
        (on_report("self.flow.set(tarjet=1)"), "contract.unknown_register"),
        (on_report("self.flow.set_program('second')"), "contract.unknown_program"),
        (on_report("self.flow.set(cwnd_bytes=-1)"), "contract.bad_value"),
        (on_report("self.flow.set(cwnd_bytes=0)"), "contract.bad_value"),
        (on_report("self.flow.set(cwnd_bytes=float('nan'))"), "contract.bad_value"),
        (on_report("self.flow.set(cwnd_bytes='many')"), "contract.bad_value"),
        (on_report("self.flow.set(cwnd_bytes=report.acked * 1500 + 1)"), "contract.bad_value"),
        (on_report("self.flow.set(target=2**64)"), "contract.bad_value"),
        (on_report("self.flow.set(rate_bytes_per_s=-0.5 - 1)"), "contract.bad_value"),
        (on_report("self.flow.set(target=next(numbers))"), "contract.not_deterministic"),
    ],
)
def test_broken_contract_is_named(cls: type[Algorithm], slug: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_algorithm(cls)
    assert caught.value.slug == slug


def test_exception_of_the_algorithm_comes_through_when_a_report_is_empty() -> None:
    with pytest.raises(ZeroDivisionError):
        check_algorithm(on_report("1 / report.acked"))


def test_program_that_does_not_compile_is_found() -> None:
    broken = type("Broken", (Algorithm,), {"program": "(def (Report (x 0)))(when true (:= Report.y 1))"})
    with pytest.raises(LangError):
        check_algorithm(broken, compile)


class Vector(VectorAlgorithm):
    program = Fold

    def on_reports(self, reports: Any, program: str) -> Updates | None:
        return Updates(reports["flow_id"], reports["cwnd_bytes"] + np.uint64(1))


def test_vectorised_algorithm_gets_arrays() -> None:
    summary = check_algorithm(Vector)
    assert summary.updates == 4 * summary.reports


def test_vectorised_algorithm_may_give_several_updates() -> None:
    def decide(self: Any, reports: Any, program: str) -> list[Updates]:
        return [Updates(reports["flow_id"], registers={"target": reports["acked"]})] * 2

    summary = check_algorithm(type("Good", (Vector,), {"on_reports": decide}))
    assert summary.updates == 8 * summary.reports


@pytest.mark.parametrize(
    ("updates", "slug"),
    [
        (lambda r: r["flow_id"], "contract.not_updates"),
        (lambda r: Updates(r["flow_id"], r["cwnd_bytes"].astype(float)), "contract.not_updates"),
        (lambda r: Updates(r["flow_id"], r["cwnd_bytes"][:1]), "contract.not_updates"),
        (lambda r: Updates(r["flow_id"] + np.uint64(9), r["cwnd_bytes"]), "contract.unknown_flow"),
        (lambda r: Updates(r["flow_id"], r["acked"] * np.uint64(2000)), "contract.bad_value"),
        (
            lambda r: Updates(r["flow_id"], r["cwnd_bytes"], r["acked"] * np.uint64(2000)),
            "contract.bad_value",
        ),
        (
            lambda r: Updates(r["flow_id"], registers={"tarjet": r["acked"]}),
            "contract.unknown_register",
        ),
        (
            lambda r: [Updates(r["flow_id"]), Updates(r["flow_id"], registers={"target": r["acked"][:1]})],
            "contract.not_updates",
        ),
        (lambda r: [Updates(r["flow_id"]), r["acked"]], "contract.not_updates"),
    ],
)
def test_broken_contract_of_a_vectorised_algorithm_is_named(updates: Any, slug: str) -> None:
    cls = type("Bad", (Vector,), {"on_reports": lambda self, reports, program: updates(reports)})
    with pytest.raises(ContractError) as caught:
        check_algorithm(cls)
    assert caught.value.slug == slug


def test_event_that_is_the_agents_is_refused() -> None:
    def on_create(self: Any, info: Any) -> None:
        self.flow.emit("flow:closed")

    with pytest.raises(ContractError) as caught:
        check_algorithm(type("Bad", (Good,), {"on_create": on_create}))
    assert caught.value.slug == "contract.bad_event"
    assert "`flow`" in caught.value.why


@pytest.mark.parametrize(
    "source",
    [
        Fold.source,
        "(def (Report (volatile acked 0) (low +infinity)) (target 5) (volatile on true))(when true (report))",
        "# (ghost 0)\n(def (x 0) # (ghost 1)\n (Report (y 0)) (z true)) (when (> x 1) (:= z true))",
        "(def (Report.acked 0) (Control.state 0))(when true (report))",
        "(def)(when true (report))",
    ],
)
def test_registers_of_source_are_those_that_the_compiler_finds(source: str) -> None:
    program = compile(source)
    fields, controls = registers_of(source)
    assert (sorted(fields), sorted(controls)) == (
        sorted(program.report_fields),
        sorted(program.control_registers),
    )


def test_single_program_is_called_default_and_the_first_of_several_leads() -> None:
    assert list(programs_of(Good)) == ["default"]
    assert next(iter(programs_of(Twin))) == "first"

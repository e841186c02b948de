"""The text that FoldProgram classes turn into."""

import dataclasses
import textwrap

import pytest

from ccp_algs.errors import FoldError
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Cwnd,
    Flow,
    FoldProgram,
    Micros,
    Part,
    Rate,
    Register,
    Statement,
    at_end,
    control,
    count,
    every,
    field,
    latest,
    let,
    max_,
    maximum,
    minimum,
    never,
    on,
    smoothed,
    state,
    total,
)
from ccplane.base._native import compile


def text(source: str) -> str:
    return textwrap.dedent(source).lstrip("\n")


def test_program_is_the_issues_own_example() -> None:
    class Example(FoldProgram):
        acked = total(Ack.bytes_acked)
        rtt_us = latest(Flow.rtt_sample_us)
        when = every(Flow.rtt_sample_us) | (Ack.lost_pkts_sample > 0)

    assert Example.source == text("""
        (def
          (Report
            (volatile acked 0)
            (rtt_us 0)
          )
        )
        (when true
          (:= Report.acked (+ Report.acked Ack.bytes_acked))
          (:= Report.rtt_us (if (< Flow.rtt_sample_us 4294967295) Flow.rtt_sample_us))
          (fallthrough)
        )
        (when (|| (> Micros Flow.rtt_sample_us) (> Ack.lost_pkts_sample 0))
          (report)
          (:= Micros 0)
          (fallthrough)
        )
    """)
    assert str(Example) == Example.source
    assert compile(Example.source).report_fields == ["acked", "rtt_us"] == list(Example.report_fields)


def test_every_kind_of_line_compiles_and_names_its_register() -> None:
    class All(FoldProgram):
        acked = total(Ack.bytes_acked)
        losses = total(Ack.lost_pkts_sample, when=Flow.ca_state == 3)
        rtt_us = latest(Flow.rtt_sample_us)
        low_us = minimum(Flow.rtt_sample_us)
        high_us = maximum(Flow.rtt_sample_us, per_report=True)
        mean_us = smoothed(Flow.rtt_sample_us, keep=7)
        mean_rate = smoothed(Flow.rate_outgoing)
        acks = count()
        marked = count(Ack.ecn_packets > 0)
        event = field(0)
        target = control(100)
        memory = state(INFINITY)
        share = let(Cwnd // target)
        urgent = let(Flow.was_timeout | (share > 3))
        set_event = event.set(2, when=urgent)
        grow = Cwnd.add(share, when=Flow.cwnd_limited)
        pace = Rate.set(target * 2)
        several = on(share > 1, memory.set(share), Cwnd.set(target, when=memory > 3), Micros.set(0))
        when = event > 0

    program = compile(All.source)
    assert set(program.report_fields) == set(All.report_fields)
    assert set(program.control_registers) == set(All.control_registers)
    assert "target" in All.control_registers
    assert All.report_fields == (
        "acked",
        "losses",
        "rtt_us",
        "low_us",
        "high_us",
        "mean_us",
        "mean_rate",
        "acks",
        "marked",
        "event",
    )


def test_conditional_window_is_an_event_of_its_own() -> None:
    class Program(FoldProgram):
        grow = Cwnd.set(Cwnd + 1, when=Cwnd < 5)
        when = never

    assert Program.source == text("""
        (def
        )
        (when (< Cwnd 5)
          (:= Cwnd (+ Cwnd 1))
          (fallthrough)
        )
    """)


def test_conditional_window_inside_a_block_goes_through_a_copy() -> None:
    class Program(FoldProgram):
        grow = on(Flow.cwnd_limited, Cwnd.set(9, when=Cwnd < 5))
        when = never

    assert Program.source == text("""
        (def
          (cwnd_next 0)
        )
        (when (&& Flow.cwnd_limited true)
          (:= cwnd_next Cwnd)
          (:= cwnd_next (if (< Cwnd 5) 9))
          (:= Cwnd cwnd_next)
          (fallthrough)
        )
    """)


def test_negated_flag_becomes_not_if() -> None:
    class Program(FoldProgram):
        x = state(0)
        set_x = x.set(1, when=~Flow.cwnd_limited)
        set_cwnd = Cwnd.set(1, when=~Flow.cwnd_limited)
        when = never

    assert "(:= x (!if Flow.cwnd_limited 1))" in Program.source
    assert "(:= cwnd_next (!if Flow.cwnd_limited 1))" in Program.source
    compile(Program.source)


def test_average_skips_acks_without_a_sample() -> None:
    class Program(FoldProgram):
        mean_us = smoothed(Flow.rtt_sample_us)
        when = never

    assert "(:= mean_us_next (if (< Flow.rtt_sample_us 4294967295) Flow.rtt_sample_us))" in Program.source
    assert "(:= Report.mean_us (ewma 8 mean_us_next))" in Program.source


def test_timer_is_restarted_only_when_the_program_uses_it() -> None:
    class Program(FoldProgram):
        when = Ack.lost_pkts_sample > 0

    assert "Micros" not in Program.source


def test_lines_used_in_a_block_run_there() -> None:
    class Program(FoldProgram):
        x = state(0)
        twice = let(2 * Cwnd)
        set_x = x.set(twice)
        block = on(Cwnd > 1, twice, set_x)
        when = never

    assert Program.source.count(":=") == 2
    assert Program.source.index("(when") < Program.source.index("(:= twice")


def test_derived_program_replaces_and_adds_lines() -> None:
    class Base(FoldProgram):
        acked = total(Ack.bytes_acked)
        limit = state(5)
        grow = Cwnd.set(limit)
        when = every(10)

    class Derived(Base):
        grow = Cwnd.set(Base.limit + 1)
        lost = total(Ack.lost_pkts_sample)

    assert "(:= Cwnd limit)" in Base.source
    assert "(:= Cwnd (+ limit 1))" in Derived.source
    assert "(:= Cwnd limit)" not in Derived.source
    assert Derived.report_fields == ("acked", "lost")
    assert Derived.source.index("Report.acked (+") < Derived.source.index("(:= Cwnd")
    compile(Derived.source)


def test_abstract_base_needs_no_report_condition() -> None:
    class Base(FoldProgram, abstract=True):
        acked = total(Ack.bytes_acked)

    class Derived(Base):
        when = every(10)

    assert Derived.report_fields == ("acked",)


@dataclasses.dataclass(frozen=True)
class Counter(Part):
    seen: Register
    add: Statement
    last: object


def counter() -> Counter:
    seen = state(0)
    return Counter(seen, seen.add(1), at_end(seen.set(seen * 2)))


def test_part_brings_its_lines_to_its_place_and_the_last_word_to_the_end() -> None:
    class Program(FoldProgram):
        part = counter()
        grow = Cwnd.set(part.seen)
        when = never

    order = [
        Program.source.index(one)
        for one in ("(:= seen (+ seen 1))", "(:= Cwnd seen)", "(:= seen (* seen 2))")
    ]
    assert order == sorted(order)
    assert Program.control_registers == ("seen",)


def test_part_can_be_shared_by_programs() -> None:
    shared = counter()

    class One(FoldProgram):
        part = shared
        when = never

    class Two(FoldProgram):
        part = shared
        when = never

    assert One.source == Two.source


def _no_report() -> None:
    class Program(FoldProgram):
        acked = total(Ack.bytes_acked)


def _two_of_a_name() -> None:
    class Program(FoldProgram):
        seen = total(Ack.bytes_acked)
        part = counter()
        when = never


def _second_name() -> None:
    class Program(FoldProgram):
        one = state(0)
        two = one
        when = never


def _unnamed() -> None:
    nameless = state(0)

    class Program(FoldProgram):
        step = nameless.add(1)
        when = never


def _not_a_statement() -> None:
    on(Cwnd > 1, Cwnd + 1)


def _instance() -> None:
    class Program(FoldProgram):
        when = never

    Program()


def _variable_initial_value() -> None:
    state(Cwnd)  # type: ignore[arg-type]


def _weight() -> None:
    smoothed(Flow.srtt_us, keep=10)


def _no_condition() -> None:
    class Program(FoldProgram):
        when = 10_000


@pytest.mark.parametrize(
    ("build", "slug"),
    [
        (_no_report, "fold.never_reports"),
        (_two_of_a_name, "fold.duplicate_name"),
        (_second_name, "fold.two_names"),
        (_unnamed, "fold.unnamed_register"),
        (_not_a_statement, "fold.not_a_statement"),
        (_instance, "fold.not_instantiable"),
        (_variable_initial_value, "fold.not_a_number"),
        (_weight, "fold.bad_weight"),
        (_no_condition, "fold.not_a_flag"),
    ],
)
def test_error_names_the_place_when_a_program_makes_no_sense(build: object, slug: str) -> None:
    with pytest.raises(FoldError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.slug == slug
    assert "test_fold.py" in caught.value.where
    assert caught.value.fix


@pytest.mark.parametrize("name", ["Rate", "true_rtt", "false_starts", "volatile_x", "source"])
def test_error_when_a_register_has_a_name_that_the_language_misreads(name: str) -> None:
    with pytest.raises(FoldError) as caught:
        type(FoldProgram)("Program", (FoldProgram,), {name: state(0), "when": never})
    assert caught.value.slug == "fold.bad_name"


def test_condition_of_an_event_cannot_be_a_bare_flag_so_it_is_wrapped() -> None:
    class Program(FoldProgram):
        flagged = let(Flow.app_limited & Flow.ecn_ok)
        block = on(flagged, Cwnd.set(max_(Cwnd, 3)))
        when = Flow.was_timeout

    assert "(when (&& flagged true)" in Program.source
    assert "(when (&& Flow.was_timeout true)" in Program.source
    compile(Program.source)

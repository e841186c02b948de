"""Verdicts on claims: a bar for each datapath, and lists of what fails, is undecided, or is not tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from experiments.papers import claims
from experiments.papers.claims import NOT_RUN, NOT_TESTED, VERDICTS, Judged
from experiments.papers.tables import Check
from experiments.plots import style
from scripts.figures.drawing import PAPERS, SIM, Figure, footnote

LOOKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "holds": {"facecolor": "#0072B2", "edgecolor": "white"},
    "fails": {"facecolor": "#D55E00", "edgecolor": "white"},
    "undecided": {"facecolor": "#F0E442", "edgecolor": "white"},
    NOT_RUN: {"facecolor": "#D9D9D9", "edgecolor": "white"},
    NOT_TESTED: {"facecolor": "white", "edgecolor": "#9A9A9A", "hatch": "////"},
}
"""Look of each verdict; told apart by lightness also."""
_INKS: Final = {"holds": "white", "fails": "white"}
_NOT_MEASURED: Final = "no experiment measures this"
_SHORTEST_LABELLED: Final = 0.018
"""Minimum length of a segment with a number, as a share of the bar."""


def judged(paper: str) -> list[Judged]:
    """Return a paper's claims with their verdicts."""
    return claims.judge(claims.paper_of(paper), claims.kept(paper, PAPERS))


def by_datapath(paper: str) -> dict[str, list[Judged]]:
    """Return a paper's claims judged by real sockets alone, and by the simulator alone.

    Checks that were computed belong to neither.
    """
    results = claims.kept(paper, PAPERS)
    found = claims.paper_of(paper)

    def judge(simulated: bool) -> list[Judged]:
        own: dict[str, Sequence[Check]] = {
            part: [one for one in checks if one.found.n]
            for part, checks in results.items()
            if part.endswith(SIM) == simulated
        }
        return claims.judge(found, own)

    return {"real sockets": judge(False), "simulator": judge(True)}


def bar(paper: str) -> Figure:
    """Draw the numbers of claims with each verdict: by real sockets, by the simulator, and with both."""
    whole = judged(paper)
    lines = {**by_datapath(paper), "verdict": whole}
    with style.styled():
        plot = style.new_plot(1.75)
        axes = plot.subplots()
        _stacked(axes, {name: claims.counted(rows) for name, rows in lines.items()})
        axes.set_xlabel("claims")
        _legend(plot)
    counted = claims.counted(whole)
    alt = "Verdicts by datapath: " + ", ".join(f"{counted[name]} {_plural(name)}" for name in VERDICTS)
    return Figure(plot, alt, "")


def scoreboard() -> Figure:
    """Draw the verdicts on all papers."""
    names = [*claims.PAPERS, *claims.OTHERS]
    found = {name: judged(name) for name in names}
    with style.styled():
        plot = style.new_plot(2.5)
        axes = plot.subplots()
        _stacked(axes, {name: claims.counted(rows) for name, rows in found.items()})
        axes.set_xlabel("claims")
        _legend(plot)
        footnote(plot, "Real sockets decide where they can; otherwise the simulator does")
    total = claims.counted(row for rows in found.values() for row in rows)
    alt = "Verdicts on six publications: " + ", ".join(f"{total[name]} {_plural(name)}" for name in VERDICTS)
    return Figure(plot, alt, "")


def _stacked(axes: Axes, lines: Mapping[str, Mapping[str, int]]) -> None:
    most = max(sum(counted.values()) for counted in lines.values())
    for place, counted in enumerate(lines.values()):
        start = 0
        for verdict in VERDICTS:
            n = counted[verdict]
            if not n:
                continue
            axes.barh(place, n, left=start, height=0.62, lw=0.8, **LOOKS[verdict])
            if n / most >= _SHORTEST_LABELLED:
                axes.text(
                    start + n / 2,
                    place,
                    str(n),
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=_INKS.get(verdict, style.INK),
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1}
                    if verdict == NOT_TESTED
                    else None,
                )
            start += n
    axes.set_yticks(range(len(lines)), list(lines))
    axes.invert_yaxis()
    axes.set_xlim(0, most)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False)


def _legend(plot: style.Plot) -> None:
    plot.legend(
        handles=[Patch(label=_plural(name), **LOOKS[name]) for name in VERDICTS],
        loc="outside upper left",
        ncols=len(VERDICTS),
        columnspacing=1.4,
    )


def _plural(verdict: str) -> str:
    return {"holds": "hold", "fails": "fail"}.get(verdict, verdict)


# --- text


def summary(paper: str) -> str:
    """Return the numbers of verdicts, and what they rest on, as text."""
    rows = judged(paper)
    decided = [row for row in rows if row.verdict in {"holds", "fails"}]
    computed = sum(not any(check.found.n for check in row.checks) for row in decided)
    simulated = sum(row.where == "simulated" for row in decided)
    rests = [
        f"{n or 'none'} on {where}"
        for n, where in (
            (len(decided) - simulated - computed, "real sockets"),
            (simulated, "the simulator"),
            (computed, "a computation"),
        )
        if n or where == "real sockets"
    ]
    return f"{claims.count_text(rows)}. Decided: {_joined(rests)}."


def failed(paper: str) -> str:
    """Return the claims that fail, with what was measured and why, as a list."""
    rows = [row for row in judged(paper) if row.verdict == "fails"]
    return "\n".join(_grouped(rows)) or "No claim fails."


def undecided(paper: str) -> str:
    """Return where the claims are that are undecided."""
    sources = [row.claim.source for row in judged(paper) if row.verdict == "undecided"]
    return f"Undecided: {'; '.join(dict.fromkeys(sources))}." if sources else "No claim is undecided."


def untested(paper: str) -> str:
    """Return the claims that are not tested or were not run, with the reason, as a list."""
    rows = judged(paper)
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict == NOT_TESTED:
            why = _NOT_MEASURED if row.why.startswith("no experiment") else row.why
            reasons.setdefault(why, []).append(row.claim.source)
        elif row.verdict == NOT_RUN:
            reasons.setdefault(f"not run (part `{row.claim.part}`)", []).append(row.claim.source)
    lines = [f"- {_joined(list(dict.fromkeys(sources)))}: {why}." for why, sources in reasons.items()]
    return "\n".join(lines) or "Every claim is tested."


def _grouped(rows: Sequence[Judged]) -> list[str]:
    """Return a line for each reason: its first claim, and where the others with that reason are."""
    lines = []
    for why in dict.fromkeys(row.claim.why for row in rows):
        own = [row for row in rows if row.claim.why == why]
        shown = own[:1] if why else own
        more = [row.claim.source for row in own[len(shown) :]]
        for row in shown:
            others = f"; {len(more)} more ({_joined(list(dict.fromkeys(more)))})" if more else ""
            reason = f": {why}" if why else ""
            lines.append(f"- **{row.claim.source}:** {row.claim.says} ({_measured(row)}){others}{reason}.")
    return lines


def _measured(row: Judged) -> str:
    """Return what decided that a claim fails, and where."""
    check = next(one for one in row.checks if one.verdict == "fails")
    low, high = check.low, check.high
    if low is not None and high is not None:
        bound = f"in {low:g} to {high:g}" if low != high else f"{low:g}"
    else:
        bound = f">= {low:g}" if low is not None else f"<= {high:g}"
    return f"{check.value}, not {bound}; {'simulated' if row.where else 'real sockets'}"


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)

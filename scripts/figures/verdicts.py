"""Verdicts on claims: a bar for each datapath, and lists of what fails, is undecided, or is not tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from experiments.papers import claims
from experiments.papers.claims import NOT_RUN, NOT_TESTED, STALE, TUNED, VERDICTS, Judged, Side
from experiments.plots import style
from scripts.figures.drawing import PAPERS, Figure, footnote

LOOKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "holds": {"facecolor": "#0072B2", "edgecolor": "white"},
    "fails": {"facecolor": "#D55E00", "edgecolor": "white"},
    "undecided": {"facecolor": "#F0E442", "edgecolor": "white"},
    TUNED: {"facecolor": "#BFA6D9", "edgecolor": "white"},
    STALE: {"facecolor": "#9A9A9A", "edgecolor": "white"},
    NOT_RUN: {"facecolor": "#D9D9D9", "edgecolor": "white"},
    NOT_TESTED: {"facecolor": "white", "edgecolor": "#9A9A9A", "hatch": "////"},
}
"""Look of each verdict; told apart by lightness also."""
_INKS: Final = {"holds": "white", "fails": "white"}
_NOT_MEASURED: Final = "no experiment measures this"
_SHORTEST_LABELLED: Final = 0.018
"""Minimum length of a segment with a number, as a share of the bar."""


def judged(paper: str) -> list[Judged]:
    """Return a paper's claims with their verdicts, those with ccplane's rules among them."""
    return claims.judge(claims.paper_of(paper), claims.kept(paper, PAPERS))


def by_datapath(paper: str) -> dict[str, list[Side]]:
    """Return a paper's claims judged by real sockets, and by the simulator."""
    rows = claims.of_paper(judged(paper))
    return {name: [row.sides[place] for row in rows] for place, name in enumerate(claims.SIDES)}


def bar(paper: str) -> Figure:
    """Draw the numbers of claims with each verdict on either side, for the paper's rules and ccplane's."""
    rows = judged(paper)
    sets = {"": claims.of_paper(rows), ", ccplane's rules": claims.with_own_rules(rows)}
    lines = {
        f"{name}{of}": claims.counted(row.sides[place] for row in own)
        for of, own in sets.items()
        if own
        for place, name in enumerate(claims.SIDES)
    }
    with style.styled():
        plot = style.new_plot(0.95 + 0.4 * len(lines))
        axes = plot.subplots()
        _stacked(axes, lines)
        axes.set_xlabel("claims")
        _legend(plot)
    return Figure(plot, f"Verdicts by datapath: {claims.summary(rows)}", "")


def scoreboard() -> Figure:
    """Draw the verdicts on all papers, on real sockets and in the simulator."""
    names = [*claims.PAPERS, *claims.OTHERS]
    found = {name: claims.of_paper(judged(name)) for name in names}
    lines = {
        f"{name}, {side}": claims.counted(row.sides[place] for row in rows)
        for name, rows in found.items()
        for place, side in enumerate(claims.SIDES)
    }
    with style.styled():
        plot = style.new_plot(4.0)
        axes = plot.subplots()
        _stacked(axes, lines)
        axes.set_xlabel("claims")
        _legend(plot)
        footnote(plot, "Real sockets decide; the simulator's verdicts are counted apart")
    total = claims.count_text([row for rows in found.values() for row in rows])
    return Figure(plot, f"Verdicts on six publications: {total}", "")


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
    """Return the numbers of verdicts as text."""
    return f"{claims.summary(judged(paper), why=False)}."


def failed(paper: str) -> str:
    """Return the claims that fail, with what was measured and why, as a list."""
    rows = [row for row in judged(paper) if row.verdict == "fails"]
    return "\n".join(_grouped(rows)) or "No claim fails."


def undecided(paper: str) -> str:
    """Return where the claims are that are undecided."""
    sources = [row.claim.source for row in judged(paper) if row.verdict == "undecided"]
    return f"Undecided: {'; '.join(dict.fromkeys(sources))}." if sources else "No claim is undecided."


def untested(paper: str) -> str:
    """Return the claims without a verdict, with the reason, as a list; of ccplane's rules the tuned ones."""
    sources: dict[str, list[str]] = {}
    numbers = Counter[str]()
    for row in judged(paper):
        if row.claim.rule and row.verdict != TUNED:
            continue
        if row.verdict == NOT_TESTED:
            why = _NOT_MEASURED if row.why.startswith("no experiment") else row.why
            sources.setdefault(why, []).append(row.claim.source)
        elif row.verdict == NOT_RUN:
            why = f" ({row.claim.why})" if row.claim.why else ""
            sources.setdefault(f"not run{why}", []).append(row.claim.source)
        elif row.verdict in {STALE, TUNED}:
            numbers[row.deciding.reported] += 1
    lines = [f"- {_joined(list(dict.fromkeys(own)))}: {why}." for why, own in sources.items()]
    lines += [f"- {n} claim{'s' if n > 1 else ''}: {why}." for why, n in numbers.items()]
    return "\n".join(lines) or "Every claim has a verdict."


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
            rule = " [ccplane's rule]" if row.claim.rule else ""
            said = f"{row.claim.says}{rule} ({_measured(row)})"
            lines.append(f"- **{row.claim.source}:** {said}{others}{reason}.")
    return lines


def _measured(row: Judged) -> str:
    """Return what decided that a claim fails, and where."""
    check = next(one for one in row.deciding.checks if one.verdict == "fails")
    low, high = check.low, check.high
    if low is not None and high is not None:
        bound = f"in {low:g} to {high:g}" if low != high else f"{low:g}"
    else:
        bound = f">= {low:g}" if low is not None else f"<= {high:g}"
    return f"{check.value}, not {bound}; {'simulated' if row.deciding.simulated else 'real sockets'}"


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)

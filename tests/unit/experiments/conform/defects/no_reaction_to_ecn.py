"""Planted defect: Reno that agrees on ECN and then ignores the marks."""

from ccp_algs.avoidance import additive_increase, credit
from ccp_algs.configured import Configured
from ccp_algs.episodes import loss_episodes, regular_reports, reports
from ccp_algs.fold import INFINITY, Ack, FoldProgram, control, total
from ccp_algs.slow_start import slow_start


class MarkedFold(FoldProgram):
    """Reno, but for its marks."""

    acked = total(Ack.bytes_acked)
    credit = credit()
    loss = loss_episodes(500, ecn_is_loss=False, also=credit.restart)
    avoidance = additive_increase(loss, credit)
    start = slow_start(loss)
    report_us = control(INFINITY)
    when = reports(loss, report_us)


class Marked(Configured):
    """Reno of this program."""

    program = MarkedFold
    report_ms = regular_reports(0.0)

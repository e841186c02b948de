"""The criteria of RFC 9743 (BCP 133), in our words; and what of them is not tested, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Criterion:
    """A criterion, or a kind of path for which the criteria are evaluated.

    Attributes:
        section: Section of RFC 9743.
        title: Short name.
        question: What is asked.
    """

    section: str
    title: str
    question: str


COLLAPSE: Final = Criterion(
    "5.1.1", "Congestion collapse", "Does it back off when most of what it sends is lost?"
)
BUFFERBLOAT: Final = Criterion("5.1.2", "Bufferbloat", "How much queue does it keep standing?")
LOSS: Final = Criterion("5.1.3", "High packet loss", "How much loss do its own flows cause?")
FAIRNESS: Final = Criterion(
    "5.1.4", "Fairness among its own flows", "How do flows of the algorithm share a bottleneck?"
)
SHORT: Final = Criterion("5.1.5", "Short flows", "How long do short flows take, alone and next to long ones?")
EXISTING: Final = Criterion(
    "5.2.1",
    "Existing congestion control",
    "What does it leave to flows of the standards, and what do they leave to it?",
)
REAL_TIME: Final = Criterion("5.2.2", "Real-time flows", "What delay and loss does it cause to media?")
SHORT_AND_LONG: Final = Criterion(
    "5.2.3", "Short and long flows", "What does a long flow do to short flows of the standards?"
)
EQUIPMENT: Final = Criterion(
    "5.3.2", "Existing equipment", "Does it work with today's limiters and ways back?"
)
TAIL_DROP: Final = Criterion("6.1", "Tail-drop queues", "How does it use a path with a small buffer?")
TUNNELS: Final = Criterion("6.2", "Tunnels", "Does it work where its packets travel in others?")
WIRELESS: Final = Criterion(
    "6.4", "Wireless paths", "How does it cope with loss without congestion and with varying rates?"
)
AQM: Final = Criterion("7.1", "Active queue management", "How does it react to early drops and to marks?")
BREAKERS: Final = Criterion(
    "7.2", "Network circuit breakers", "Does it make the circuit breakers of media trip?"
)
VARYING_DELAY: Final = Criterion(
    "7.3", "Varying delay", "Does it keep its rate where delay changes without congestion?"
)
CONSTRAINED: Final = Criterion("7.4", "Constrained paths", "How does it use a very slow path?")
HIGH_DELAY: Final = Criterion("7.5", "High delay", "Does it fill long and fat paths?")
MISBEHAVING: Final = Criterion(
    "7.6", "Misbehaving receivers", "What can a receiver gain by false acknowledgments?"
)
REORDERING: Final = Criterion(
    "7.7", "Extreme reordering", "Does it keep its rate where packets overtake each other?"
)
TRANSIENT: Final = Criterion(
    "7.8", "Transient events", "How does it recover from an outage, and make room for new flows?"
)
CHANGES: Final = Criterion("7.9", "Sudden changes", "How fast does it follow the rate of the path?")
DATA_CENTRES: Final = Criterion("7.11", "Data centres", "How long do simultaneous answers take?")

NOT_TESTED: Final = (
    ("5.3.1", "Deviations from the principles", "a matter of the specification, not of measurements"),
    ("7.1", "The low-latency queue of DualPI2", "flows send ECT(0), so they use the classic queue"),
    ("7.4", "Processor time and energy", "`ccp bench` measures processor time"),
    ("7.10", "Multipath", "connections have one path"),
)
"""Section, what is not tested, and why."""

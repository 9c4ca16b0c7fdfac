"""The Python under test: which one it is, and how payloads are run in it."""

from __future__ import annotations

from envcheck.target.answer import Answer, Interruption, merge
from envcheck.target.choice import Choice, child_environment, choose, locate
from envcheck.target.lines import MARK, START
from envcheck.target.session import PAYLOADS, Session, run_payload, start

__all__ = [
    "MARK",
    "PAYLOADS",
    "START",
    "Answer",
    "Choice",
    "Interruption",
    "Session",
    "child_environment",
    "choose",
    "locate",
    "merge",
    "run_payload",
    "start",
]

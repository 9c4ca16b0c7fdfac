"""What a payload came to: the answers of its stages, and how and during which of them it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envcheck.facts import Outcome

DONE = "done"
OLDEST = (3, 6)
"""What payloads can be read by. The interpreter answers with its own version when it is older."""


@dataclass(frozen=True)
class Answer:
    """What one run of a payload came to.

    kind: "answered" (it ran to its end), "missing", "refused" (the operating system will not run it), "not-a-python",
    "too-old", "failed" (it ended early), "crashed", "timeout". `outcome` says the same in the words of `Outcome`.
    """

    python: str
    kind: str
    outcome: Outcome
    stages: tuple[dict[str, Any], ...] = ()
    during: str | None = None
    """The stage that had begun and was not answered when the child ended; "start" before the first."""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Standard error by stage."""
    noise: str = ""
    """What else came on standard output."""
    version: str | None = None
    """Of an interpreter that is too old to run the payload."""
    interruptions: tuple[Interruption, ...] = ()
    """Stages that ended an earlier child of the same questioning (see `resume`)."""

    def stage(self, name: str) -> dict[str, Any] | None:
        """First answer of that stage, None when it did not come."""
        return next((item for item in self.stages if item.get("stage") == name), None)

    def stderr(self, *stages: str) -> str:
        """Standard error written during the named stages, in the order given; all of it without names."""
        parts = [self.sections.get(name, "") for name in stages] if stages else list(self.sections.values())
        return "\n".join(part for part in parts if part)

    def last_words(self) -> str:
        """The last line that it wrote of what went wrong, how it ended where it wrote none."""
        for text in (self.outcome.error, self.stderr(), self.noise):
            lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
            if lines:
                return lines[-1][:300]
        return self.kind

    def interruption(self, stage: str) -> Interruption | None:
        """How that stage ended its child, None when it did not."""
        for item in self.interruptions:
            if item.stage == stage:
                return item
        if self.during == stage and self.kind in ("failed", "crashed", "timeout"):
            return Interruption(stage, self.outcome, self.sections.get(stage, ""))
        return None

    def problem(self) -> str | None:
        """One line that says why this Python cannot be examined; None when it answered anything."""
        if self.stages or self.kind == "answered":
            return None
        said = [line.strip() for line in (self.outcome.error or "").splitlines() if line.strip()]
        if self.kind in ("failed", "crashed"):
            said.reverse()  # the last line of a traceback is the error; other programs begin with it
        text = {
            "missing": "does not exist or its interpreter is gone",
            "refused": "cannot be run on this machine",
            "not-a-python": "is not a Python interpreter",
            "too-old": f"is Python {self.version}; envcheck examines {OLDEST[0]}.{OLDEST[1]} and newer",
            "timeout": "did not start within the time limit",
            "crashed": f"crashed while starting ({self.outcome.signal})",
        }.get(self.kind, f"fails to start (exit code {self.outcome.exit_code})")
        return f"{self.python} {text}" + (f": {said[0]}" if said and self.kind != "too-old" else "")


@dataclass(frozen=True)
class Interruption:
    """A stage that took its child down or had to be stopped."""

    stage: str
    outcome: Outcome
    stderr: str


def merge(first: Answer, second: Answer) -> Answer:
    """The answer of a questioning that took a second child because a stage ended the first."""
    known = {item.get("stage") for item in first.stages}
    late = [item for item in second.stages if item.get("stage") not in known or item.get("stage") == DONE]
    interruptions = list(first.interruptions)
    if first.during is not None:
        interruptions.append(Interruption(first.during, first.outcome, first.sections.get(first.during, "")))
    sections = dict(first.sections)
    for name, text in second.sections.items():
        sections[name] = sections.get(name) or text
    return Answer(
        first.python,
        second.kind,
        second.outcome,
        (*first.stages, *late),
        second.during,
        sections,
        first.noise + second.noise,
        None,
        tuple(interruptions),
    )

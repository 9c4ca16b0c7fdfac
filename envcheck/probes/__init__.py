"""The live machine as facts: one module an area, all asked at once by `collect_machine`."""

from __future__ import annotations

from envcheck.probes.collect import PROBES, Probe, collect_machine, merge
from envcheck.probes.host import Host

__all__ = ["PROBES", "Host", "Probe", "collect_machine", "merge"]

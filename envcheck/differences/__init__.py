"""What differs between two machines, in the order of what can matter for torch, and which difference explains which fault."""

from __future__ import annotations

from envcheck.differences.compare import Comparison, compare, to_document
from envcheck.differences.units import Change, Group

__all__ = ["Change", "Comparison", "Group", "compare", "to_document"]

"""Which release and which build of torch a machine should get, in one command, and why.

`plan(facts, matrix, wishes)` is pure: it starts nothing and looks nothing up outside the tables.
"""

from __future__ import annotations

from envcheck.recommend.model import Blocker, Plan, Wishes, to_json
from envcheck.recommend.planner import plan

__all__ = ["Blocker", "Plan", "Wishes", "plan", "to_json"]

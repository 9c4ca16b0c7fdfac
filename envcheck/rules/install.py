"""Installation and Python: what was fetched, for which Python, and whether it goes together."""

from __future__ import annotations

from envcheck.rules import (
    install_copies,
    install_damage,
    install_network,
    install_nvidia,
    install_packages,
    install_releases,
    install_resolve,
    install_rights,
)
from envcheck.rules.base import Rule

RULES: tuple[Rule, ...] = (
    *install_network.RULES,
    *install_resolve.RULES,
    *install_copies.RULES,
    *install_damage.RULES,
    *install_nvidia.RULES,
    *install_packages.RULES,
    *install_releases.RULES,
    *install_rights.RULES,
)

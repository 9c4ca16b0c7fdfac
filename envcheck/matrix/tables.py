"""The tables of `matrices/` as objects, each parsed once and only when somebody asks for it.

What is checked here is cheap: shape, types, unique keys. What takes several tables to see is in `validate`.
"""

from __future__ import annotations

from envcheck.matrix.driver_tables import DriverTables
from envcheck.matrix.platform_tables import PlatformTables
from envcheck.matrix.torch_tables import TorchTables


class Tables(TorchTables, DriverTables, PlatformTables):
    """All tables of one directory."""

    def check_extra(self) -> None:
        """Reads what the cache adds to, so that a bad cache shows at once.

        Raises:
            MatrixError: a row of the cache does not fit.
        """
        _ = self.releases, self.variants, self.arch_lists, self.pins

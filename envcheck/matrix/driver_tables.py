"""Tables about drivers, CUDA toolkits and GPU architectures."""

from __future__ import annotations

from functools import cached_property

from envcheck.matrix.base import OSES, Base, tail
from envcheck.matrix.rows import Architecture, Branch, CudnnFloor, Floor, Toolkit
from envcheck.matrix.text import Row
from envcheck.matrix.versions import numbers

MODULES = ("unsupported", "optional", "required", "jetson")


class DriverTables(Base):
    """Drivers and architectures."""

    @cached_property
    def toolkits(self) -> tuple[Toolkit, ...]:
        """CUDA toolkit releases, ascending."""
        rows = self.read("cuda_toolkits.csv", "cuda update version driver_linux driver_windows notes")
        return tuple(self.keyed(rows, lambda r: (r["cuda"], r["update"]), _toolkit, "update").values())

    @cached_property
    def floors(self) -> dict[tuple[int, str], Floor]:
        """Driver floors by CUDA major and os."""
        rows = self.read("cuda_floors.csv", "cuda_major os driver warn_from notes")
        return self.keyed(rows, lambda r: (r.number("cuda_major") or 0, r["os"]), _floor, "os")

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Driver branches, ascending."""
        rows = self.read("driver_branches.csv", "branch cuda windows_from windows_to notes")
        found = self.keyed(rows, lambda r: r.number("branch") or 0, _branch, "branch")
        return tuple(found[number] for number in sorted(found))

    @cached_property
    def architectures(self) -> dict[str, Architecture]:
        """Architectures by compute capability."""
        rows = self.read(
            "architectures.csv",
            "compute_capability architecture first_cuda last_cuda min_driver_branch last_driver_branch"
            " open_kernel_modules notes",
        )
        return self.keyed(rows, lambda r: r["compute_capability"], _architecture, "compute_capability")

    @cached_property
    def cudnn_floors(self) -> tuple[CudnnFloor, ...]:
        """Lowest compute capability from a cuDNN version on, newest first."""
        rows = self.read("cudnn_floors.csv", "cudnn_from compute_capability_min notes")
        found = self.keyed(rows, lambda r: r["cudnn_from"], _cudnn_floor, "cudnn_from")
        return tuple(sorted(found.values(), key=lambda f: numbers(f.cudnn_from), reverse=True))


def _toolkit(row: Row) -> Toolkit:
    return Toolkit(
        cuda=row.version("cuda") or row.required("cuda"),
        update=row.required("update"),
        version=row.version("version"),
        driver_linux=row.version("driver_linux"),
        driver_windows=row.version("driver_windows"),
        notes=row["notes"],
        **tail(row),
    )


def _floor(row: Row) -> Floor:
    return Floor(
        cuda_major=row.number("cuda_major") or 0,
        os=row.choice("os", OSES),
        driver=row.version("driver") or row.required("driver"),
        warn_from=row.version("warn_from"),
        notes=row["notes"],
        **tail(row),
    )


def _branch(row: Row) -> Branch:
    return Branch(
        branch=row.number("branch") or 0,
        cuda=row.version("cuda") or row.required("cuda"),
        windows_from=row.number("windows_from"),
        windows_to=row.number("windows_to"),
        notes=row["notes"],
        **tail(row),
    )


def _architecture(row: Row) -> Architecture:
    return Architecture(
        compute_capability=row.capabilities("compute_capability")[0],
        name=row.required("architecture"),
        first_cuda=row.version("first_cuda"),
        last_cuda=row.version("last_cuda"),
        min_driver_branch=row.number("min_driver_branch"),
        last_driver_branch=row.number("last_driver_branch"),
        open_kernel_modules=row.choice("open_kernel_modules", MODULES),
        notes=row["notes"],
        **tail(row),
    )


def _cudnn_floor(row: Row) -> CudnnFloor:
    return CudnnFloor(
        cudnn_from=row.version("cudnn_from") or row.required("cudnn_from"),
        compute_capability_min=row.capabilities("compute_capability_min")[0],
        notes=row["notes"],
        **tail(row),
    )

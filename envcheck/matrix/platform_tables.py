"""Tables about conda, Jetson, ROCm and AMD GPUs, known-bad versions, and facts of single platforms."""

from __future__ import annotations

from functools import cached_property

from envcheck.matrix.base import Base, ptx, tail
from envcheck.matrix.rows import AmdArch, CondaBuild, JetPack, KnownBad, PlatformFact, RocmArchs
from envcheck.matrix.text import Row
from envcheck.matrix.versions import numbers

CHANNELS = ("pytorch", "conda-forge")
EFFECTS = ("import", "build", "solve", "install", "run")


class PlatformTables(Base):
    """Everything that is not torch's own wheels and not NVIDIA's drivers."""

    @cached_property
    def conda_builds(self) -> tuple[CondaBuild, ...]:
        """Builds of conda channels, in the order of the table."""
        rows = self.read("conda_builds.csv", "channel release cuda platforms cudnn sass ptx notes")
        return tuple(self.keyed(rows, lambda r: (r["channel"], r["release"], r["cuda"]), _conda, "cuda").values())

    @cached_property
    def jetpacks(self) -> tuple[JetPack, ...]:
        """JetPack releases by the L4T they begin with, ascending."""
        rows = self.read(
            "jetpack.csv", "jetpack l4t cuda cudnn python ubuntu devices compute_capability torch_index torch"
        )
        found = self.keyed(rows, lambda r: r["l4t"], _jetpack, "l4t")
        return tuple(sorted(found.values(), key=lambda j: numbers(j.l4t)))

    @cached_property
    def rocm_archs(self) -> tuple[RocmArchs, ...]:
        """What ROCm builds hold code for."""
        rows = self.read("rocm_archs.csv", "torch_from torch_to rocm_from rocm_to gfx notes")
        return tuple(self.keyed(rows, lambda r: (r["torch_from"], r["rocm_from"]), _rocm, "rocm_from").values())

    @cached_property
    def amd_names(self) -> dict[str, Row]:
        """Rows of amd_gpus.csv by their name in lower case."""
        rows = self.read("amd_gpus.csv", "name gfx chips kind")
        return self.keyed(rows, lambda r: r.required("name").lower(), lambda r: r, "name")

    @cached_property
    def amd_archs(self) -> dict[str, AmdArch]:
        """AMD targets by gfx name."""
        rows = self.read("amd_archs.csv", "gfx family override notes")
        return self.keyed(rows, lambda r: r["gfx"], _amd_arch, "gfx")

    @cached_property
    def known_bad(self) -> tuple[KnownBad, ...]:
        """Versions that are known not to work."""
        rows = self.read("known_bad.csv", "id package versions torch os python effect why fix")
        return tuple(self.keyed(rows, lambda r: r["id"], _known_bad, "id").values())

    @cached_property
    def disagreements(self) -> tuple[Row, ...]:
        """Where sources say different things, and which one the tables follow: for readers, nothing computes with it."""
        rows = self.read("disagreements.csv", "table topic one_says other_says we_use")
        return tuple(
            self.keyed(rows, lambda r: (r.required("table"), r.required("topic")), lambda r: r, "topic").values()
        )

    @cached_property
    def platform_facts(self) -> dict[str, PlatformFact]:
        """Facts of single platforms by id."""
        rows = self.read("platform_facts.csv", "id platform torch_from torch_to value fact")
        return self.keyed(rows, lambda r: r["id"], _platform_fact, "id")


def _conda(row: Row) -> CondaBuild:
    return CondaBuild(
        channel=row.choice("channel", CHANNELS),
        release=row.version("release") or row.required("release"),
        cuda=row.version("cuda") or "",
        platforms=tuple(row.required("platforms").split()),
        cudnn=row.version("cudnn"),
        sass=tuple(row.required("sass").split()) if row["cuda"] else (),
        ptx=ptx(row),
        notes=row["notes"],
        **tail(row),
    )


def _jetpack(row: Row) -> JetPack:
    return JetPack(
        version=row.required("jetpack"),
        l4t=row.version("l4t") or row.required("l4t"),
        cuda=row.version("cuda"),
        cudnn=row.version("cudnn"),
        python=row.version("python"),
        ubuntu=row.version("ubuntu"),
        devices=row.words("devices"),
        compute_capabilities=row.capabilities("compute_capability"),
        torch_index=row.optional("torch_index"),
        torch=row["torch"],
        **tail(row),
    )


def _rocm(row: Row) -> RocmArchs:
    return RocmArchs(
        torch_from=row.version("torch_from") or row.required("torch_from"),
        torch_to=row.version("torch_to"),
        rocm_from=row.version("rocm_from") or row.required("rocm_from"),
        rocm_to=row.version("rocm_to") or row.required("rocm_to"),
        gfx=tuple(row.required("gfx").split()),
        notes=row["notes"],
        **tail(row),
    )


def _amd_arch(row: Row) -> AmdArch:
    return AmdArch(
        gfx=row.required("gfx"),
        family=row.required("family"),
        override=row.version("override"),
        notes=row["notes"],
        **tail(row),
    )


def _known_bad(row: Row) -> KnownBad:
    return KnownBad(
        id=row.required("id"),
        package=row.required("package"),
        versions=row.required("versions"),
        torch=row["torch"],
        os=row.words("os"),
        python=row["python"],
        effect=row.choice("effect", EFFECTS),
        why=row.required("why"),
        fix=row.required("fix"),
        **tail(row),
    )


def _platform_fact(row: Row) -> PlatformFact:
    return PlatformFact(
        id=row.required("id"),
        platforms=row.words("platform"),
        torch_from=row.version("torch_from"),
        torch_to=row.version("torch_to"),
        value=row["value"],
        fact=row.required("fact"),
        **tail(row),
    )

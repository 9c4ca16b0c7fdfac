"""From a GPU's name, in whatever spelling, to its compute capability.

Four steps, the surest first: the board by name, the board without the words that do not change the chip (memory size,
laptop, MIG or vGPU profile), ordered patterns, and the chip's code name as lspci shows it.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path

from envcheck.matrix.driver_tables import MODULES
from envcheck.matrix.rates import GpuRates, gpu_rates
from envcheck.matrix.rows import Architecture, GpuModel
from envcheck.matrix.tables import Tables
from envcheck.matrix.text import Row

_TOO_MANY = 4
"""A cut name that fits boards of more capabilities than this says nothing."""

SEGMENTS = ("consumer", "laptop", "workstation", "data center", "embedded")

_OTHER_MAKER = re.compile(r"\b(amd|ati|radeon|instinct|firepro|intel|arc|iris|uhd|apple|adreno|mali|matrox|aspeed)\b")
_LSPCI = re.compile(r"(?:.*?controller(?: \[\d+\])?: )?(?:nvidia corporation )?(?:device )?(.*)")
_TRAILER = re.compile(r"\s*(\(rev [0-9a-f]+\)|\(uuid: .*\)|\[10de:[0-9a-f]{4}\]|\(prog-if .*\))")
_MIG = re.compile(r"\s+mig\s+(\d+c\.)?\d+g\.\d+gb\S*.*$")
_VGPU = re.compile(r"-(\d+-)?\d+[abcq]$")
_VIRTUAL_BOARD = re.compile(r"^(?:grid)?([apv]\d{2,3}|rtx\d{4}|m\d{1,2}|t4|l\d{1,2}s?|h\d{2,3})(dx|d|x|l|s|p|xm)?$")
_MEMORY = re.compile(r"\b\d+ ?gb( hbm\de?)?\b")
_FORM = re.compile(
    r"\b(laptop gpu|laptop|mobile|with max q design|max q|notebook|pcie|sxm\d?|hbm\de?|nvl|super pod|oem|"
    r"generation|edition|founders)\b"
)
_BRANDS = re.compile(r"\b(geforce|tesla|quadro|grid|gpu)\b")


@lru_cache(maxsize=4096)
def spelling(name: str) -> str:
    """One spelling for all: lower case, single blanks for dashes, no vendor, "16gb", laptop chips said as "mobile"."""
    text = name.lower().replace("(r)", "").replace("(tm)", "").replace("®", "").replace("™", "")
    text = re.sub(r"[\s_-]+", " ", text).strip()
    text = re.sub(r"^(nvidia corporation|nvidia) ", "", text)
    text = re.sub(r"(\d) gb\b", r"\1gb", text)
    text = re.sub(r" \(nvgpu\)$", "", text)
    return text.replace("laptop gpu", "mobile")


def squeezed(text: str) -> str:
    """A spelling without blanks and brand words: "geforce rtx 3090" and "RTX3090" -> "rtx3090"."""
    return re.sub(r"[\s()-]+", "", _BRANDS.sub("", text))


class Names:
    """The GPU tables, read when the first name is asked for."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.cache: dict[str, GpuModel | None] = {}

    @property
    def directory(self) -> Path:
        """Where the tables are."""
        return self.tables.directory

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Rows of gpus.csv by spelling."""
        rows = self.tables.read(
            "gpus.csv",
            "name compute_capability architecture segment min_driver_branch first_listed_driver last_driver_branch"
            " open_kernel_modules",
        )
        return self.tables.keyed(rows, lambda row: spelling(row.required("name")), lambda row: row, "name")

    @cached_property
    def short_rows(self) -> dict[str, list[Row]]:
        """The same rows by squeezed spelling; several boards may share one."""
        found: dict[str, list[Row]] = {}
        for name, row in self.rows.items():
            found.setdefault(squeezed(name), []).append(row)
        return found

    @cached_property
    def rules(self) -> tuple[tuple[Row, re.Pattern[str]], ...]:
        """Ordered patterns of gpu_rules.csv: the first that is found wins."""
        rows = self.tables.read("gpu_rules.csv", "order pattern compute_capability architecture")
        by_order = self.tables.keyed(rows, lambda row: row.number("order") or 0, lambda row: row, "order")
        made = []
        for order in sorted(by_order):
            row = by_order[order]
            try:
                made.append((row, re.compile(row.required("pattern"), re.IGNORECASE)))
            except re.error as error:
                raise row.error("pattern", f"is not a regular expression: {error}") from None
        return tuple(made)

    @cached_property
    def chips(self) -> dict[str, Row]:
        """Rows of gpu_chips.csv by chip code in lower case."""
        rows = self.tables.read("gpu_chips.csv", "chip compute_capability architecture")
        return self.tables.keyed(rows, lambda row: row.required("chip").lower(), lambda row: row, "chip")

    @cached_property
    def rates(self) -> dict[str, GpuRates]:
        """What boards can give at most, by spelling."""
        rows = self.tables.read(
            "gpu_rates.csv", "name sms boost_mhz fp32 tf32 fp16 bf16 fp8 memory_gbs pcie_gen pcie_lanes notes"
        )
        return self.tables.keyed(rows, lambda row: spelling(row.required("name")), gpu_rates, "name")

    def gpu(self, name: str) -> GpuModel | None:
        """What that name means, None when nothing in the tables fits."""
        if name not in self.cache:
            self.cache[name] = self._gpu(name)
        return self.cache[name]

    def rate(self, name: str) -> GpuRates | None:
        """What a board can give, by its very name, or by that without the size of its memory."""
        spelled = spelling(name)
        bare = re.sub(r"\s+", " ", _MEMORY.sub("", spelled)).strip()
        return self.rates.get(spelled) or self.rates.get(bare)

    def near(self, name: str) -> tuple[str, ...]:
        """Boards whose names are close to an unknown one, for a message."""
        import difflib  # only when a name was wrong

        spelled = difflib.get_close_matches(spelling(name), list(self.rows), n=3, cutoff=0.7)
        return tuple(self.rows[known]["name"] for known in spelled)

    def _gpu(self, name: str) -> GpuModel | None:
        text = _TRAILER.sub("", name.lower()).strip()
        text = text.removeprefix("gpu 0: ").strip()
        if _OTHER_MAKER.search(text) and "nvidia" not in text:
            return None
        outer, inner = _split(text)
        chip = self._by_chip(outer) or self._by_chip(name)
        if inner.rstrip(".") != inner:
            return self._by_beginning(inner, name, chip)
        for candidate in _spellings(inner):
            row = self.rows.get(candidate)
            if row is not None:
                return self._model(row, name, exact=True, chip=chip)
        found = self._by_short(inner, name, chip)
        if found is not None:
            return found
        if chip is not None and outer != inner:
            return self._ruled(chip, name)
        ruled = self._by_rule(inner)
        if ruled is not None:
            return self._ruled(ruled, name)
        return self._by_series(inner, name, chip) or (self._ruled(chip, name) if chip is not None else None)

    def _by_series(self, text: str, name: str, chip: Row | None) -> GpuModel | None:
        """A name without what tells the boards of a series apart: "GTX 1060" (3 GB, 6 GB), "K40" (K40c, K40m)."""
        said = " ".join(_BRANDS.sub("", spelling(text)).split())
        if not re.search(r"[a-z] ?\d{2}", said):
            return None
        spaced = re.sub(r"(?<=[a-z])(?=\d{3})", " ", said)
        series = re.compile(rf"(?:{re.escape(said)}|{re.escape(spaced)})(?![0-9.])")
        rows = [row for known, row in self.rows.items() if series.match(" ".join(_BRANDS.sub("", known).split()))]
        capabilities = sorted({cc for row in rows for cc in row.capabilities("compute_capability")}, key=float)
        if not capabilities or len(capabilities) > _TOO_MANY:
            return None
        return (
            self._ruled(rows[0], name)
            if len(capabilities) == 1
            else self._several(name, tuple(capabilities), chip, rows[0])
        )

    def _by_short(self, text: str, name: str, chip: Row | None) -> GpuModel | None:
        for candidate in _shorter(text):
            rows = self.short_rows.get(squeezed(candidate), [])
            known = sorted({cc for row in rows for cc in row.capabilities("compute_capability")}, key=float)
            if len(known) == 1:
                return self._model(rows[0], name, exact=False, chip=chip)
            if known:
                return self._several(name, tuple(known), chip, rows[0])
        return None

    def _by_beginning(self, text: str, name: str, chip: Row | None) -> GpuModel | None:
        """A name that nvidia-smi cut short: "GeForce RTX 208..."; of use when all boards that fit are alike."""
        begin = spelling(text.rstrip("."))
        rows = [row for known, row in self.rows.items() if known.startswith(begin)]
        capabilities = sorted({cc for row in rows for cc in row.capabilities("compute_capability")}, key=float)
        if not capabilities or len(capabilities) > _TOO_MANY:
            return self._ruled(chip, name) if chip is not None else None
        if len(capabilities) > 1:
            return self._several(name, tuple(capabilities), chip, rows[0])
        return self._ruled(rows[0], name)

    def _by_rule(self, text: str) -> Row | None:
        for candidate in (text, re.sub(r"(?<=[a-z])(?=\d{3,4})", " ", text)):
            for row, pattern in self.rules:
                if pattern.search(candidate):
                    return row
        return None

    def _by_chip(self, text: str) -> Row | None:
        for word in re.findall(r"[a-z]{2}\d{2,3}[a-z]*", text.lower()):
            row = self.chips.get(word) or self.chips.get(re.sub(r"[a-z]+$", "", word))
            if row is not None:
                return row
        return None

    def _several(self, name: str, known: tuple[str, ...], chip: Row | None, row: Row) -> GpuModel:
        if chip is not None and chip.capabilities("compute_capability")[0] in known:
            return self._ruled(chip, name)
        return GpuModel(
            name=name,
            compute_capability=None,
            candidates=known,
            architecture=None,
            exact=False,
            source=row["source"],
            confidence=row["confidence"],
        )

    def _model(self, row: Row, name: str, *, exact: bool, chip: Row | None) -> GpuModel:
        known = row.capabilities("compute_capability")
        if len(known) > 1:
            return self._several(row["name"], known, chip, row)
        return GpuModel(
            name=row["name"] if exact else name,
            compute_capability=known[0],
            candidates=known,
            architecture=row.optional("architecture"),
            segment=row.choice("segment", SEGMENTS),
            min_driver_branch=row.number("min_driver_branch"),
            first_listed_driver=row.version("first_listed_driver"),
            last_driver_branch=row.number("last_driver_branch"),
            open_kernel_modules=row.choice("open_kernel_modules", MODULES),
            exact=exact,
            source=row["source"],
            confidence=row["confidence"],
        )

    def _ruled(self, row: Row, name: str) -> GpuModel:
        known = row.capabilities("compute_capability")
        architecture: Architecture | None = self.tables.architectures.get(known[0]) if len(known) == 1 else None
        return GpuModel(
            name=name,
            compute_capability=known[0] if len(known) == 1 else None,
            candidates=known,
            architecture=row.optional("architecture"),
            min_driver_branch=architecture.min_driver_branch if architecture else None,
            last_driver_branch=architecture.last_driver_branch if architecture else None,
            open_kernel_modules=architecture.open_kernel_modules if architecture else None,
            exact=False,
            source=row["source"],
            confidence=row["confidence"],
        )


def _split(text: str) -> tuple[str, str]:
    """What lspci prints before the brackets (the chip) and the product name; twice the same for a plain name."""
    match = _LSPCI.fullmatch(text)
    plain = match[1].strip() if match else text
    inner = re.search(r"\[([^\]]+)\]\s*$", plain)
    return (plain[: inner.start()].strip(), inner[1].strip()) if inner else (plain, plain)


def _spellings(text: str) -> list[str]:
    """Spellings of a name that still mean the very board: lspci joins several by " / "."""
    whole = spelling(_MIG.sub("", text))
    found = [whole]
    parts = [part.strip() for part in whole.split(" / ")]
    if len(parts) > 1:
        head = parts[0]
        found += [head, re.sub(r" (max q|mobile)$", "", head)]
    return found


def _shorter(text: str) -> list[str]:
    """Spellings with ever fewer of the words that do not change the chip."""
    whole = _MIG.sub("", text).strip()
    vgpu = _VGPU.sub("", whole)
    found = []
    if vgpu != whole:
        board = _VIRTUAL_BOARD.fullmatch(spelling(vgpu).replace(" ", ""))
        found += [vgpu, board[1] if board else vgpu]
    first = spelling(whole).split(" / ")[0]
    found += [first, _MEMORY.sub("", first), _FORM.sub("", first), _FORM.sub("", _MEMORY.sub("", first))]
    bare = re.fullmatch(r"(a?)(\d{3,4})( ?ti)?( ?super)?", first)
    if bare:  # "4090", "A6000", "1080 ti": what people say
        found += [f"rtx {first}"] if bare[1] else [f"rtx {first}", f"gtx {first}"]
    return [re.sub(r"\s+", " ", item).strip() for item in dict.fromkeys(found)]

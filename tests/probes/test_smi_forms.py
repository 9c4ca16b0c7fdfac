"""The other forms of nvidia-smi: CSV, -q, -L, --version, its failures, and a paste with several of them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from envcheck import nvidia_smi
from envcheck.facts import NvidiaGpu
from envcheck.nvidia_smi import units
from tests.kit.screens import listing, report, screen
from tests.kit.smi import A100, H100, RTX_3060, RTX_4090, SMI_KINDS, V100

MIB = 1024 * 1024


# -- cells -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("235.00 W", 235.0), ("35C", 35.0), ("16x", 16.0), ("0 %", 0.0), ("N/A", None), ("[N/A]", None), ("ERR!", None), ("", None), (None, None)],
)
def test_number(cell: str | None, expected: float | None) -> None:
    assert units.number(cell) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("11439MiB", 11439 * MIB), ("11439 MiB", 11439 * MIB), ("80 GB", 80 << 30), ("24564", 24564 * MIB), ("[N/A]", None), ("Not Supported", None), (None, None)],
)
def test_size(cell: str | None, expected: int | None) -> None:
    assert units.size(cell) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("Default", "Default"), ("E. Process", "Exclusive_Process"), ("Exclusive_Process", "Exclusive_Process"), ("EXCLUSIVE_PROCESS", "Exclusive_Process"), ("E. Thread", "Exclusive_Thread"), ("Prohibited", "Prohibited"), ("N/A", None), ("ERR!", None)],
)
def test_compute_mode(cell: str, expected: str | None) -> None:
    assert units.compute_mode(cell) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("00000000:0B:00.0", "0000:0b:00.0"), ("0000:82:00.0", "0000:82:00.0"), ("01:00.0", "0000:01:00.0"), ("0000000F:01:00.0", "000f:01:00.0"), ("N/A", None), (None, None)],
)
def test_bus_id(cell: str | None, expected: str | None) -> None:
    assert units.bus_id(cell) == expected


# -- CSV ---------------------------------------------------------------------------------------------------------------

WITH_UNITS = """\
index, name, driver_version, memory.total [MiB], compute_cap, power.draw [W], pstate
0, Tesla T4, 535.104.05, 15360 MiB, 7.5, 28.12 W, P8
1, NVIDIA A100-SXM4-80GB, 535.104.05, 81920 MiB, 8.0, [N/A], P0
"""


def test_csv_with_header_and_units() -> None:
    rows = nvidia_smi.parse_query(WITH_UNITS)
    assert rows is not None
    assert [(r.gpu.index, r.gpu.name, r.gpu.compute_capability, r.gpu.memory_total, r.gpu.power_draw) for r in rows] == [
        (0, "Tesla T4", "7.5", 15360 * MIB, 28.12),
        (1, "NVIDIA A100-SXM4-80GB", "8.0", 81920 * MIB, None),
    ]
    assert rows[0].driver_version == "535.104.05"


def test_csv_without_header_needs_the_fields() -> None:
    text = "0, Tesla T4, 15360\n"
    assert nvidia_smi.parse_query(text) is None
    rows = nvidia_smi.parse_query(text, ("index", "name", "memory.total"))
    assert rows is not None
    assert rows[0].gpu == NvidiaGpu(index=0, name="Tesla T4", memory_total=15360 * MIB)


def test_fields_are_read_from_the_command_of_a_paste() -> None:
    text = "$ nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader\nNVIDIA GeForce RTX 5090, 570.86.15, 12.0\n"
    reading = nvidia_smi.parse(text)
    assert reading is not None
    assert reading.driver_version == "570.86.15"
    assert [(g.index, g.name, g.compute_capability) for g in reading.gpus or ()] == [(0, "NVIDIA GeForce RTX 5090", "12.0")]


@pytest.mark.parametrize(
    ("cells", "error"),
    [
        ("1, [Unknown Error], [Unknown Error], [Unknown Error]", "Unknown Error"),
        ("1, NVIDIA A100, [GPU is lost], [GPU is lost]", "GPU is lost"),
        ("1, NVIDIA A100, 40960 MiB, [Unknown Error]", None),
        ("1, NVIDIA A100, [N/A], [Not Supported]", None),
    ],
)
def test_csv_cells_of_a_broken_card(cells: str, error: str | None) -> None:
    rows = nvidia_smi.parse_query(f"index, name, memory.total [MiB], compute_cap\n{cells}\n")
    assert rows is not None
    assert rows[0].gpu.error == error
    assert rows[0].gpu.compute_capability is None


@pytest.mark.parametrize(
    ("header", "cells", "expected"),
    [
        ("clocks_throttle_reasons.hw_slowdown, clocks_throttle_reasons.sw_power_cap", "Active, Not Active", ("HW Slowdown",)),
        ("clocks_event_reasons.active, index", "0x0000000000000044, 0", ("SW Power Cap", "HW Thermal Slowdown")),
        ("clocks_event_reasons.active, index", "0x0000000000000001, 0", ()),
        ("clocks_event_reasons.active, index", "[N/A], 0", None),
    ],
)
def test_csv_throttle_reasons(header: str, cells: str, expected: tuple[str, ...] | None) -> None:
    rows = nvidia_smi.parse_query(f"{header}\n{cells}\n")
    assert rows is not None
    assert rows[0].gpu.throttle_reasons == expected


def test_csv_lines_of_other_things_are_left_out() -> None:
    rows = nvidia_smi.parse_query("index, name\nroot@host:~, nothing\n0, Tesla T4\nFound, unrelated\n")
    assert rows is not None
    assert [r.gpu.name for r in rows] == ["Tesla T4"]


def test_unknown_field_is_named() -> None:
    assert nvidia_smi.invalid_field('Field "compute_cap" is not a valid field to query.\n\n') == "compute_cap"
    assert nvidia_smi.invalid_field("0, Tesla T4") is None


# -- -q ----------------------------------------------------------------------------------------------------------------


def test_report_of_every_card() -> None:
    found = nvidia_smi.parse_report(report((A100, H100), driver="580.95.05", cuda="13.0"))
    assert found is not None
    assert (found.driver_version, found.driver_cuda) == ("580.95.05", "13.0")
    first, second = found.gpus or ()
    assert first.name == "NVIDIA A100-SXM4-40GB"
    assert (first.mig, first.compute_mode, first.persistence, first.addressing_mode) == (False, "Default", True, "HMM")
    assert (first.ecc_uncorrected, first.ecc_uncorrected_total, first.remapped_rows_pending, first.retired_pages_pending) == (0, 0, False, None)
    assert (first.pcie_gen, first.pcie_gen_max, first.pcie_width, first.pcie_width_max) == (4, 4, 16, 16)
    assert (first.power_draw, first.power_limit, first.power_default_limit) == (51, 400, 450)
    assert (first.clocks_sm, first.clocks_sm_max, first.temperature) == (210, 3105, 38)
    assert (first.fabric_state, second.fabric_state) == (None, "Completed")
    assert first.processes == ()
    assert first.throttle_reasons == ()


def test_report_of_an_old_driver() -> None:
    found = nvidia_smi.parse_report(report((V100,), driver="418.67", cuda=None, new=False))
    assert found is not None
    assert (found.driver_version, found.driver_cuda) == ("418.67", None)
    card = (found.gpus or ())[0]
    assert (card.ecc_uncorrected, card.retired_pages_pending, card.remapped_rows_pending, card.power_limit) == (0, False, None, 300)


def test_report_with_deprecated_names() -> None:
    found = nvidia_smi.parse_report(report((RTX_4090,), driver="610.57.04", cuda="13.3", kmd=True))
    assert found is not None
    assert (found.driver_version, found.driver_cuda) == ("610.57.04", "13.3")


@pytest.mark.parametrize("kind", ["ecc", "remap-pending", "throttled", "mig", "exclusive", "pcie-x1", "fabric-in-progress"])
def test_report_tells_the_state_of_the_card(kind: str) -> None:
    cards = SMI_KINDS[kind].cards
    found = nvidia_smi.parse_report(report(cards))
    assert found is not None
    card, told = (found.gpus or ())[0], cards[0]
    assert card.ecc_uncorrected == told.uncorrected
    assert card.ecc_uncorrected_total == told.uncorrected_total
    assert card.remapped_rows_pending == (told.remap_pending if told.uncorrected is not None else None)
    assert card.throttle_reasons == tuple(item for item in told.throttle if item != "Idle")
    assert card.compute_mode == told.mode
    assert card.pcie_width == told.pcie[2]
    assert card.memory_total == told.memory * MIB
    assert card.mig_instances == (("20096MiB", "4864MiB") if kind == "mig" else None)
    assert card.fabric_state == (told.fabric if told.fabric != "N/A" else None)


def test_report_processes() -> None:
    found = nvidia_smi.parse_report(report(SMI_KINDS["two-gpus"].cards))
    assert found is not None
    first, second = found.gpus or ()
    assert [(p.pid, p.name, p.memory) for p in first.processes or ()] == [(4242, "python", 18000 * MIB)]
    assert second.processes == ()


@pytest.mark.parametrize(
    "mangle",
    [
        pytest.param(lambda t: "\n".join("> " + line for line in t.splitlines()), id="quoted"),
        pytest.param(lambda t: "\n".join("        " + line for line in t.splitlines()), id="indented"),
        pytest.param(lambda t: t[: len(t) // 2], id="cut"),
    ],
)
def test_mangled_report(mangle) -> None:
    found = nvidia_smi.parse_report(mangle(report((A100, RTX_3060))))
    assert found is not None
    assert (found.gpus or ())[0].name == A100.name
    assert (found.gpus or ())[0].compute_mode == "Default"


@pytest.mark.parametrize("text", ["", "Driver Version : 535.54.03\nCUDA Version : 12.2\n", "GPU 00000000:01:00.0\n", "a : b\n" * 50], ids=["empty", "other", "address", "entries"])
def test_what_is_no_report(text: str) -> None:
    assert nvidia_smi.parse_report(text) is None


@pytest.mark.parametrize(("said", "meant"), [(None, None), ("None", "None"), ("Reset", "Reset"), ("Drain and Reset", "Drain and Reset"), ("N/A", None)])
def test_what_the_driver_asks_for(said: str | None, meant: str | None) -> None:
    """"None" is an answer: nothing has to be done."""
    found = nvidia_smi.parse_report(report((replace(A100, recovery=said),)))
    assert found is not None
    assert (found.gpus or ())[0].recovery_action == meant
    (row,) = nvidia_smi.parse_query(f"index, gpu_recovery_action\n0, {said}\n") or () if said else (None,)
    assert row is None or row.gpu.recovery_action == meant


def test_report_of_one_section() -> None:
    text = "==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:01:00.0\n    ECC Errors\n        Volatile\n            DRAM Uncorrectable : 7\n"
    found = nvidia_smi.parse_report(text)
    assert found is not None
    assert (found.gpus or ())[0].ecc_uncorrected == 7


# -- -L and --version --------------------------------------------------------------------------------------------------


def test_list_with_mig_profiles() -> None:
    found = nvidia_smi.parse_list(listing(SMI_KINDS["mig"].cards + (RTX_3060,)))
    assert found is not None
    assert [(g.index, g.name, g.mig, g.mig_instances) for g in found] == [
        (0, "NVIDIA A100-SXM4-40GB", True, ("3g.20gb", "1g.5gb")),
        (1, "NVIDIA GeForce RTX 3060", None, None),
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-0)", "Tesla V100-SXM2-16GB"),
        ("GPU 0: NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation"),
        ("GPU 0: Orin (nvgpu) (UUID: 0)", "Orin (nvgpu)"),
        ("> GPU 0: NVIDIA GeForce RTX 4090 (UUI", "NVIDIA GeForce RTX 4090"),
    ],
)
def test_list_lines(line: str, name: str) -> None:
    found = nvidia_smi.parse_list(line)
    assert found is not None
    assert found[0].name == name


@pytest.mark.parametrize("text", ["GPU: 0", "GPU 0 has 3 GiB", "GPU 0: 45 C, 100 %", "GPU 0: loss 0.3 (step 4)"], ids=["amd-smi", "prose", "sensors", "log"])
def test_what_is_no_list(text: str) -> None:
    assert nvidia_smi.parse_list(text) is None


def test_version() -> None:
    text = "NVIDIA-SMI version  : 580.82.07\nNVML version        : 580.95\nDRIVER version      : 581.42\nCUDA Version        : 13.0\n"
    found = nvidia_smi.parse_version(text)
    assert found is not None
    assert (found.smi_version, found.nvml_version, found.driver_version, found.driver_cuda) == ("580.82.07", "580.95", "581.42", "13.0")
    reading = nvidia_smi.parse(text)
    assert reading is not None
    assert (reading.driver_version, reading.smi_version, reading.driver_cuda) == ("581.42", "580.82.07", "13.0")
    assert nvidia_smi.parse_version("CUDA Version : 12.2\nDRIVER version : 1.2") is None


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that", "no-driver"),
        ("NVIDIA-SMI has failed because it couldn’t communicate with the NVIDIA driver.", "no-driver"),
        ("NVIDIA-SMI has failed because it couldn't communicate with NVIDIA driver.", "no-driver"),
        ("Failed to initialize NVML: Driver Not Loaded", "no-driver"),
        ("Failed to initialize NVML: Driver/library version mismatch", "library-mismatch"),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.86", "library-mismatch"),
        ("No devices were found", "no-devices"),
        ("> No devices were found", "no-devices"),
        ("Failed to initialize NVML: Unknown Error", "nvml-unknown"),
        ("Failed to initialize NVML: Insufficient Permissions", "insufficient-permissions"),
        ("NVIDIA-SMI has failed because you do not have suffient permissions. Please try running as an administrator.", "insufficient-permissions"),
        ("Failed to initialize NVML: GPU access blocked by the operating system", "wsl-blocked"),
        ("Failed to properly shut down NVML: GPU access blocked by the operating system", "wsl-blocked"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "nvml-missing"),
        ("NVIDIA-SMI couldn't find nvml.dll library in your system.", "nvml-missing"),
        ("Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system", "gpu-lost"),
        ("Unable to determine the device handle for gpu 0000:08:00.0: Unknown Error", "gpu-lost"),
        ("Failed to initialize NVML: Function Not Found", "other"),
        ("Failed to initialize NVML: Not Found", "other"),
        ("NVIDIA-SMI has failed because something new happened", "other"),
    ],
)
def test_failures(text: str, kind: str) -> None:
    found = nvidia_smi.find_error(f"$ nvidia-smi\n{text}\n$")
    assert found is not None
    assert (found.kind, found.line) == (kind, 2)
    assert nvidia_smi.smi_error(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(screen((A100, RTX_3060)), id="healthy"),
        pytest.param(report((A100,)), id="healthy-report"),
        pytest.param("we ran nvidia-smi and no devices were found to be faulty", id="prose"),
        pytest.param("nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file", id="container-cli"),
        pytest.param("", id="empty"),
    ],
)
def test_no_failure(text: str) -> None:
    assert nvidia_smi.find_error(text) is None


def test_words_and_library_version_of_a_mismatch() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.86\n"
    found = nvidia_smi.find_error(text)
    assert found is not None
    assert found.text.endswith("NVML library version: 535.86")
    reading = nvidia_smi.parse(text)
    assert reading is not None
    facts = reading.facts()
    assert (facts.driver_version, facts.smi_error, facts.gpus) == ("535.86", "library-mismatch", None)
    assert facts.smi is not None
    assert facts.smi.status == "failed"


@pytest.mark.parametrize(
    ("text", "index", "address", "reason"),
    [
        ("GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU", None, "0000:01:00.0", "GPU is lost"),
        ("GPU3: 0000:5F:00.0: Unknown Error", 3, "0000:5F:00.0", "Unknown Error"),
        ("GPU0000:25:00.0: Unknown Error", None, "0000:25:00.0", "Unknown Error"),
        ("gpu 0000:08:00.0: Not Found", None, "0000:08:00.0", "Not Found"),
        ("GPU2: Unknown Error", 2, None, "Unknown Error"),
    ],
)
def test_lost_cards(text: str, index: int | None, address: str | None, reason: str) -> None:
    (found,) = nvidia_smi.lost_gpus(f"Unable to determine the device handle for {text}\n") or ()
    assert (found.index, found.bus_id, found.error) == (index, address, reason)


@pytest.mark.parametrize(
    "text",
    [
        "bash: nvidia-smi: command not found",
        "zsh: command not found: nvidia-smi",
        "sh: 1: nvidia-smi: not found",
        "fish: Unknown command: nvidia-smi",
        "Command 'nvidia-smi' not found, but can be installed with:",
        "'nvidia-smi' is not recognized as an internal or external command,\noperable program or batch file.",
        "nvidia-smi : The term 'nvidia-smi' is not recognized as the name of a cmdlet",
        'docker: Error response from daemon: exec: "nvidia-smi": executable file not found in $PATH: unknown.',
        "Der Befehl \"nvidia-smi\" ist entweder falsch geschrieben oder\nkonnte nicht gefunden werden.",
        "bash: nvidia-smi: Kommando nicht gefunden.",
        "-bash: nvidia-smi : commande introuvable",
        "'nvidia-smi' 不是内部或外部命令，也不是可运行的程序",
        "nvidia-smi：未找到命令",
        "\"nvidia-smi\" не является внутренней или внешней",
        "'nvidia-smi' は、内部コマンドまたは外部コマンド、",
    ],
)
def test_a_shell_that_finds_no_program(text: str) -> None:
    assert nvidia_smi.missing_program(text)
    reading = nvidia_smi.parse(text)
    assert reading is not None
    assert reading.facts().smi is not None
    assert reading.facts().smi.status == "missing"


@pytest.mark.parametrize("text", ["run nvidia-smi to see the GPU", "nvidia-smi shows 1 GPU; torch not found", screen((RTX_3060,))], ids=["advice", "sentence", "screen"])
def test_a_program_that_is_not_missing(text: str) -> None:
    assert not nvidia_smi.missing_program(text)


# -- together ----------------------------------------------------------------------------------------------------------


def test_forms_of_one_paste_complete_each_other() -> None:
    cards = SMI_KINDS["mig"].cards + (RTX_3060,)
    text = screen(cards, layout="r450") + listing(cards) + report(cards)
    reading = nvidia_smi.parse(text)
    assert reading is not None
    first, second = reading.gpus or ()
    assert first.name == "NVIDIA A100-SXM4-40GB"
    assert first.mig_instances == ("3g.20gb", "1g.5gb")
    assert second.name == "NVIDIA GeForce RTX 3060"
    assert second.pcie_width_max == 16


def test_lost_card_beside_others() -> None:
    reading = nvidia_smi.parse(screen((RTX_4090,)) + "Unable to determine the device handle for GPU1: 0000:44:00.0: Unknown Error\n")
    assert reading is not None
    assert [(g.index, g.error) for g in reading.gpus or ()] == [(0, None), (1, "Unknown Error")]
    assert reading.error is not None
    assert reading.error.kind == "gpu-lost"


def test_merge_matches_by_address_before_index() -> None:
    """An answer that counts in another order must not mix up the cards."""
    one = [NvidiaGpu(index=0, bus_id="00000000:01:00.0", name="A"), NvidiaGpu(index=1, bus_id="00000000:02:00.0", name="B")]
    other = [NvidiaGpu(index=0, bus_id="0000:02:00.0", compute_capability="8.6"), NvidiaGpu(index=1, bus_id="0000:01:00.0", compute_capability="8.9")]
    merged = nvidia_smi.merge_gpus(one, other)
    assert [(g.name, g.compute_capability) for g in merged or ()] == [("A", "8.9"), ("B", "8.6")]
    assert nvidia_smi.merge_gpus(None, None) is None
    assert nvidia_smi.merge_gpus((), None) == ()


def test_no_devices_is_known_to_be_none() -> None:
    reading = nvidia_smi.parse("No devices were found\n")
    assert reading is not None
    assert reading.facts().gpus == ()


def test_unrelated_text_says_nothing() -> None:
    assert nvidia_smi.parse("Traceback (most recent call last):\n  File x, line 1\nImportError: no module\n") is None


@pytest.mark.parametrize(
    "line",
    [
        "|   0  " + "x " * 180 + "|",
        "| NVIDIA-SMI " + " " * 3000,
        "GPU 0: " + "(a" * 2000,
        "a, " * 3000,
        "Unable to determine the device handle for GPU " + ":" * 3000,
        "    key" + " " * 3000 + "x",
        "nvidia-smi" + " not" * 2000,
    ],
    ids=["row", "header", "list", "csv", "lost", "entry", "missing"],
)
def test_hostile_lines_cost_little(line: str) -> None:
    begun = time.process_time()
    nvidia_smi.parse(f"GPU 0: x\n==NVSMI LOG==\n{line}\n" * 200)
    assert time.process_time() - begun < 2.0


def test_a_long_log_costs_little() -> None:
    text = "Epoch 1, loss 0.123 | step 4 | GPU memory 3 GiB\n" * 40_000 + screen((RTX_3060,))
    begun = time.process_time()
    reading = nvidia_smi.parse(text)
    assert time.process_time() - begun < 3.0
    assert reading is not None
    assert reading.driver_version == "550.127.08"

"""The plain screen of nvidia-smi: layouts since 2017, and what pastes do to them."""

from __future__ import annotations

import pytest

from envcheck.nvidia_smi import parse, parse_screen
from tests.kit.screens import Card, screen
from tests.kit.smi import A100, RTX_3060, V100

MIB = 1024 * 1024

R375 = """\
Mon Feb 20 16:44:50 2017
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 375.26                 Driver Version: 375.26                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 1080    Off  | 0000:01:00.0      On |                  N/A |
| 27%   36C    P8    10W / 180W |    411MiB /  8105MiB |      1%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla K40m          On   | 0000:82:00.0     Off |                    2 |
| N/A   35C    P0    63W / 235W |     74MiB / 11439MiB |      0%   E. Process |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID  Type  Process name                               Usage      |
|=============================================================================|
|    0      1206    G   /usr/lib/xorg/Xorg                             235MiB |
|    0      9876    C   python                                         150MiB |
+-----------------------------------------------------------------------------+
"""

R450_CUT_NAMES = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 460.91.03    Driver Version: 460.91.03    CUDA Version: 11.2     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  GeForce RTX 208...  Off  | 00000000:65:00.0 Off |                  N/A |
| 30%   41C    P8    21W / 250W |      3MiB / 11019MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  A100-SXM4-40GB      On   | 00000000:BD:00.0 Off |                   On |
| N/A   34C    P0    69W / 400W |      0MiB / 40537MiB |     N/A      Default |
|                               |                      |            Disabled* |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0   N/A  N/A      4711    C+G   ...me/user/env/bin/python        1999MiB |
|    1   N/A  N/A       815      C   [Not Found]                           N/A |
+-----------------------------------------------------------------------------+
"""

R535_MIG = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.161.08             Driver Version: 535.161.08   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  NVIDIA A100-PCIE-40GB          On  | 00000000:21:00.0 Off |                   On |
| N/A   28C    P0              31W / 250W |     50MiB / 40960MiB |     N/A      Default |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-PCIE-40GB          On  | 00000000:81:00.0 Off |                    0 |
| N/A   28C    P0              34W / 250W |      4MiB / 40960MiB |      0%      Default |
|                                         |                      |             Disabled |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| MIG devices:                                                                          |
+------------------+--------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                |        ECC|                       |
|==================+================================+===========+=======================|
|  0    3   0   0  |              12MiB /  9856MiB  | 14      0 |  1   0    1    0    0 |
|                  |               0MiB / 16383MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+
|  0    4   0   1  |              12MiB /  4864MiB  | 14      0 |  1   0    1    0    0 |
|                  |               0MiB /  8191MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|  No running processes found                                                           |
+---------------------------------------------------------------------------------------+
"""

R610 = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce GTX 1650        Off |   00000000:01:00.0  On |                  N/A |
|  0%   51C    P0            N/A  /   75W |     580MiB /   4096MiB |     39%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""

WINDOWS = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 566.36                 Driver Version: 566.36         CUDA Version: 12.7     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4070 ...  WDDM  |   00000000:01:00.0  On |                  N/A |
| N/A   44C    P8              3W /  115W |    1013MiB /   8188MiB |      8%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA L40S                  TCC   |   00000000:61:00.0 Off |                    0 |
| N/A   17C    P8             21W /  350W |       9MiB /  46068MiB |      0%   Prohibited |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""

JETSON = """\
| NVIDIA-SMI 540.2.0                Driver Version: N/A          CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|=========================================+======================+======================|
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |
+-----------------------------------------+----------------------+----------------------+
"""

ERROR_ROWS = """\
| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
|   0  GeForce GTX 1080 Ti            On  | 00000000:01:00.0 Off |                  N/A |
|ERR!   44C    P8    18W / 250W           |      1MiB / 11178MiB |      0%      Default |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+
|   1  GeForce GTX 1080 Ti            On  | 00000000:06:00.0 Off |                  N/A |
|ERR!   54C    P0   ERR! / 250W           |      1MiB / 11178MiB |     75%      Default |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+
|   2  NVIDIA A100 80GB PCIe          On  | 00000000:CA:00.0 N/A |                  N/A |
|ERR!   46C    P0            N/A  /  N/A  |      0MiB /  81920MiB|     N/A      Default |
|                                         |                      |                 ERR! |
+-----------------------------------------+----------------------+----------------------+
"""

WRAPPED = """\
  +-----------------------------------------------------------------------------
  ------------+
  | NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA
  Version: 12.8     |
  |-----------------------------------------+------------------------+---------
  -------------+
  | GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile
  Uncorr. ECC |
  |
  =========================================+========================+==========
  ============|
  |   0  NVIDIA H100 80GB HBM3          On  |   00000000:03:00.0 Off |
  0 |
  | N/A   31C    P0             68W /  700W |    1024MiB /  81559MiB |    100%
  Default |
  |                                         |                        |
  Disabled |
  +-----------------------------------------+------------------------+---------
  -------------+
"""


def gpu(text: str, index: int = 0):
    found = parse_screen(text)
    assert found is not None
    assert found.gpus is not None
    return found.gpus[index]


@pytest.mark.parametrize(
    ("text", "driver", "cuda", "smi"),
    [
        pytest.param(R375, "375.26", None, None, id="r375-no-cuda"),
        pytest.param(R450_CUT_NAMES, "460.91.03", "11.2", None, id="r450"),
        pytest.param(R535_MIG, "535.161.08", "12.2", None, id="r530"),
        pytest.param(R610, "610.57.04", "13.3", None, id="r610"),
        pytest.param(WINDOWS, "566.36", "12.7", None, id="windows"),
        pytest.param(JETSON, None, "12.2", "540.2.0", id="jetson-driver-na"),
        pytest.param(WRAPPED, "570.86.15", "12.8", None, id="wrapped"),
        pytest.param("| NVIDIA-SMI 510.60.02    Driver Version: 512.15    CUDA Version: 11.6 |", "512.15", "11.6", "510.60.02", id="wsl"),
        pytest.param("| NVIDIA-SMI 610.43.02   KMD Version: 610.74   CUDA UMD Version: 13.3 |", "610.74", "13.3", "610.43.02", id="wsl-r610"),
        pytest.param("| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14   CUDA Version: N/A |", "550.54.14", None, None, id="cuda-na"),
        pytest.param("| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14   CUDA Version: ERR! |", "550.54.14", None, None, id="cuda-err"),
        pytest.param("NVIDIA-SMI 470.86   Driver Version: 470.86   CUDA Version: 11.4", "470.86", "11.4", None, id="no-bars"),
        pytest.param("> | NVIDIA-SMI 470.86  Driver Version: 470.86  CUDA Version: 11.4     |", "470.86", "11.4", None, id="quoted"),
        pytest.param("&gt; │ NVIDIA-SMI 470.86  Driver Version: 470.86  CUDA Version: 11.4  │", "470.86", "11.4", None, id="html-and-box"),
        pytest.param("\x1b[1m| NVIDIA-SMI 470.86\x1b[0m  Driver Version: 470.86  CUDA Version: 11.4 |", "470.86", "11.4", None, id="colour"),
        pytest.param("# | NVIDIA-SMI 375.66      Driver Version: 375.66      |", "375.66", None, None, id="comment"),
        pytest.param("| NVIDIA-SMI 535.183.01    Driver Vers", None, None, "535.183.01", id="cut-behind-smi"),
        pytest.param("| NVIDIA-SMI 535.183.01    Driver Version: 535.183.01   CUDA Ver", "535.183.01", None, None, id="cut-before-cuda"),
    ],
)
def test_header(text: str, driver: str | None, cuda: str | None, smi: str | None) -> None:
    found = parse_screen(text)
    assert found is not None
    assert (found.driver_version, found.driver_cuda, found.smi_version) == (driver, cuda, smi)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", id="failure"),
        pytest.param("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", id="no-library"),
        pytest.param("I ran nvidia-smi and it shows my GPU", id="prose"),
        pytest.param("| 0 | a markdown | table |\n|---|---|---|\n| 1 | On | Off |", id="markdown"),
        pytest.param("Driver Version: 470.86\nCUDA Version: 11.4", id="other-report"),
        pytest.param("\x00\xff garbage \ufffd | NVIDIA", id="bytes"),
        pytest.param("|" * 5000, id="bars"),
        pytest.param(" " * 20000 + "|", id="blanks"),
        pytest.param("|   0  A" + " a" * 5000, id="long-line"),
    ],
)
def test_what_is_no_screen(text: str) -> None:
    assert parse_screen(text) is None


def test_old_two_line_rows() -> None:
    first, second = gpu(R375), gpu(R375, 1)
    assert first.name == "GeForce GTX 1080"
    assert (first.memory_used, first.memory_total) == (411 * MIB, 8105 * MIB)
    assert (first.power_draw, first.power_limit, first.temperature, first.utilization) == (10, 180, 36, 1)
    assert (first.persistence, first.compute_mode, first.bus_id) == (False, "Default", "0000:01:00.0")
    assert first.ecc_uncorrected is None
    assert first.mig is None
    assert [(p.pid, p.name, p.memory) for p in first.processes or ()] == [(1206, "/usr/lib/xorg/Xorg", 235 * MIB), (9876, "python", 150 * MIB)]
    assert (second.persistence, second.compute_mode, second.ecc_uncorrected) == (True, "Exclusive_Process", 2)
    assert second.processes == ()


def test_three_line_rows_with_cut_names_and_pending_mig() -> None:
    first, second = gpu(R450_CUT_NAMES), gpu(R450_CUT_NAMES, 1)
    assert first.name == "GeForce RTX 208..."
    assert [(p.pid, p.memory) for p in first.processes or ()] == [(4711, 1999 * MIB)]
    assert second.mig is False
    assert second.ecc_uncorrected is None
    assert [(p.name, p.memory) for p in second.processes or ()] == [("[Not Found]", None)]


def test_mig_devices() -> None:
    first, second = gpu(R535_MIG), gpu(R535_MIG, 1)
    assert (first.mig, first.mig_instances) == (True, ("9856MiB", "4864MiB"))
    assert (second.mig, second.mig_instances) == (False, None)
    assert first.utilization is None


def test_mig_without_devices() -> None:
    from tests.kit.smi import SMI_KINDS

    kind = SMI_KINDS["mig-empty"]
    assert gpu(screen(kind.cards, layout=kind.layout)).mig_instances == ()


def test_windows_driver_models_and_modes() -> None:
    first, second = gpu(WINDOWS), gpu(WINDOWS, 1)
    assert (first.driver_model, first.persistence, first.name) == ("WDDM", None, "NVIDIA GeForce RTX 4070 ...")
    assert (second.driver_model, second.compute_mode, second.ecc_uncorrected) == ("TCC", "Prohibited", 0)


def test_power_that_cannot_be_read_is_unknown() -> None:
    assert (gpu(R610).power_draw, gpu(R610).power_limit) == (None, 75)
    assert gpu(R610).error is None


def test_jetson_row_without_address_or_memory() -> None:
    found = gpu(JETSON)
    assert (found.name, found.bus_id, found.memory_total, found.compute_mode, found.error) == ("Orin (nvgpu)", None, None, None, None)


@pytest.mark.parametrize(("index", "error"), [(0, None), (1, "ERR!"), (2, "ERR!")], ids=["fan-only", "power", "mig"])
def test_errors_of_single_cards(index: int, error: str | None) -> None:
    """A fan that cannot be read is no broken card: boards with passive or failed fans print ERR! there for years."""
    assert gpu(ERROR_ROWS, index).error == error


def test_rows_wrapped_by_a_narrow_terminal() -> None:
    found = gpu(WRAPPED)
    assert (found.memory_used, found.utilization, found.compute_mode, found.mig, found.ecc_uncorrected) == (1024 * MIB, 100, "Default", False, 0)


LAYOUTS = ["r375", "r410", "r450", "r530", "r550", "r610"]
CARDS = (
    A100,
    Card(name="NVIDIA GeForce RTX 4090 Laptop GPU with a very long name", used=23000, processes=((12, "C", "python", 22000),)),
    RTX_3060,
    V100,
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_tells_the_same(layout: str) -> None:
    cuda = None if layout == "r375" else "12.4"
    found = parse_screen(screen(CARDS, layout=layout, driver="550.54.14", cuda=cuda))
    assert found is not None
    assert (found.driver_version, found.driver_cuda) == ("550.54.14", cuda)
    assert found.gpus is not None
    for card, read in zip(CARDS, found.gpus, strict=True):
        assert card.name.startswith((read.name or "").removesuffix("..."))
        assert (read.memory_total, read.memory_used) == (card.memory * MIB, card.used * MIB)
        assert read.compute_mode == card.mode
        assert [(p.pid, p.name) for p in read.processes or ()] == [(p[0], p[2]) for p in card.processes]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "mangle",
    [
        pytest.param(lambda t: "\n".join("> " + line for line in t.splitlines()), id="quoted"),
        pytest.param(lambda t: "\n".join("    " + line for line in t.splitlines()), id="indented"),
        pytest.param(lambda t: t.replace("\n", "\n\n"), id="blank-lines-between"),
        pytest.param(lambda t: t.replace("\n", "\r\n"), id="crlf"),
        pytest.param(lambda t: t.replace("|", "│"), id="box-drawing"),
        pytest.param(lambda t: "\n".join(line.rstrip(" |") for line in t.splitlines()), id="right-border-lost"),
        pytest.param(lambda t: "$ nvidia-smi\n" + t + "$ echo done\n", id="among-commands"),
    ],
)
def test_mangled_screens_still_tell_driver_and_cards(layout: str, mangle) -> None:
    found = parse_screen(mangle(screen((A100, RTX_3060), layout=layout)))
    assert found is not None
    assert found.driver_version == "550.127.08"
    assert [g.name for g in found.gpus or ()] == ["NVIDIA A100-SXM...", "NVIDIA GeForce ..."] or [g.name for g in found.gpus or ()] == [A100.name, RTX_3060.name]
    assert [g.memory_total for g in found.gpus or ()] == [40960 * MIB, 12288 * MIB]


def test_a_screen_cut_at_any_line_or_column_never_lies() -> None:
    """What is cut off is unknown; what is read is what the whole screen says."""
    whole_text = screen(CARDS, layout="r550")
    whole = parse_screen(whole_text)
    assert whole is not None
    names = [g.name for g in whole.gpus or ()]
    lines = whole_text.splitlines()
    cuts = ["\n".join(lines[:n]) for n in range(len(lines))] + ["\n".join(line[:width] for line in lines) for width in range(5, 95, 3)]
    for text in cuts:
        found = parse_screen(text)
        if found is None:
            continue
        assert found.driver_version in (None, whole.driver_version) or whole.driver_version.startswith(found.driver_version or "")
        for read in found.gpus or ():
            full = (whole.gpus or ())[read.index or 0]
            assert read.name in names or full.name.startswith(read.name or "")
            assert read.memory_total in (None, full.memory_total)
            assert read.error is None
            assert read.mig in (None, full.mig)


def test_a_cut_process_table_proves_nothing() -> None:
    text = screen((RTX_3060,))
    cut = text[: text.index("  No running")]
    assert gpu(cut.rsplit("\n", 3)[0]).processes is None
    assert gpu(text).processes == ()


def test_the_first_of_two_screens_is_read() -> None:
    before, after = screen((RTX_3060,), driver="535.54.03"), screen((RTX_3060,), driver="550.54.14")
    reading = parse(before + after)
    assert reading is not None
    assert reading.driver_version == "535.54.03"
    assert len(reading.gpus or ()) == 1


def test_lines_are_told() -> None:
    reading = parse("intro\n" + R535_MIG)
    assert reading is not None
    assert (reading.lines["driver_version"], reading.lines["gpu 1"]) == (3, 13)

"""Start-up lines of well-known programs: ComfyUI, Web UI, kohya, Ultralytics, detectron2, mmcv, fastai, deviceQuery, torch itself."""

from __future__ import annotations

import re

from envcheck.captured import gpu_names, keys, readers, systems, values
from envcheck.captured.document import IMPLIED, LISTED, NOTED, SAID, Document
from envcheck.facts import Distribution, NvidiaGpu, TorchDevice
from envcheck.lazy import Regex

_ULTRALYTICS = Regex(
    r"(?:YOLO|Ultralytics)\S{0,40}.{0,80}?Python-(?P<python>\d\.\d{1,2}\.\d{1,2}) torch-(?P<torch>\d\S{1,40}) (?P<rest>CPU.{0,80}|CUDA:\d.{0,300}|MPS.{0,80})$"
)
_ULTRALYTICS_OLD = Regex(
    r"(?:YOLO|Ultralytics)\S{0,40}.{0,80}?\btorch (?P<torch>\d\S{1,40}) (?P<rest>CPU|CUDA:\d.{0,200})$"
)
_CUDA_DEVICE = Regex(r"CUDA:(\d{1,2}) \(([^,()]{2,80}), ?(\d{1,7})(?:\.\d)?(?:MiB|MB)\)")
_VRAM = Regex(r"Total VRAM (\d{1,8}) MB, total RAM (\d{1,9}) MB")
_COMFY_DEVICE = Regex(
    r"^\s{0,8}(?:\S{0,12}\s)?Device: (cuda|xpu|mps|cpu|privateuseone)(?::(\d))?\s?(.{0,100}?)(?: : \w+)?\s*$"
)
_TORCH_GPU = Regex(r"Torch detected GPU: (\S.{1,80}?) VRAM (\d{1,7}) Arch \((\d{1,2}), (\d)\)")
_TORCH_LINE = Regex(r"\bTorch(?: version)?:? (?:torch==)?(\d\.\d{1,2}\.\S{1,40})")
_BACKEND = Regex(
    r"Torch backend: nVidia CUDA (\d{1,2}\.\d) cuDNN (\d{4,6}|N/A)|Torch backend: AMD ROCm HIP (\d\.[\d.]+)"
)
_SDNEXT = Regex(
    r"Device: device=(.{2,80}?) n=\d{1,2} arch=(\S{2,12}) (?:cap(?:ability)?=\((\d{1,2}), (\d)\) )?cuda=(\S{2,8}) cudnn=(\S{2,8}) driver=(\S{2,20})"
)
_VENV = Regex(r"^\s{0,8}venv \"(.{3,300}?[Pp]ython(?:\.exe)?)\"")
_PYTEST = Regex(r"platform (linux2?|darwin|win32) -- Python (\d\.\d{1,2}\.\d{1,2})")
_CONFIG_NVCC = "nvcc architecture flags"
_DETECTRON = Regex(
    r"^\s{0,4}(PyTorch|torchvision|Python|GPU \d{1,2}(?:,\d{1,2}){0,15}|GPU available|CUDA_HOME|CUDA compiler|Driver version|sys\.platform|PyTorch debug build|torch|numpy|detectron2|Compiler|CUDA available|NVCC)\s{2,60}(\S.{0,300})$"
)
_DEVICE_QUERY = Regex(r"CUDA Driver Version / Runtime Version\s{1,20}(\d{1,2}\.\d{1,2}) / (\d{1,2}\.\d{1,2})")
_QUERY_DEVICE = Regex(r"^\s{0,4}Device (\d{1,2}): \"([^\"]{2,80})\"")
_QUERY_CAPABILITY = Regex(r"CUDA Capability Major/Minor version number:\s{1,20}(\d{1,2}\.\d)")
_FASTAI_GPU = Regex(r"^\s{0,4}- gpu(\d{1,2})\s{1,8}: (\d{1,7})MB \| (\S.{2,80})$")
_FASTAI_CUDA = Regex(r"^\s{0,4}torch cuda\s{1,12}: (\S{1,20}) / (is|not|is not) available")
_MEMORY_SIZE = Regex(r"Found device (\d{1,2}) with properties|pciBusID|major: (\d{1,2}) minor: (\d)")
_SYSTEM_LINE = Regex(r"(?:System|platform)[:=]\s?(Windows|Linux|Darwin)", re.IGNORECASE)
_SDNEXT_PLATFORM = Regex(
    r"Platform: arch=(\w{3,10}) cpu=.{0,80}? system=(Windows|Linux|Darwin) release=(\S{2,80}) python=(\d\.\d{1,2}\.\d{1,2})(?: docker=(True|False))?"
)


def parse(doc: Document) -> None:
    """Reads the lines; each is known by its own words."""
    for index in doc.find("torch-", "ultralytics", "yolov"):
        _ultralytics(doc, doc.lines[index], index)
    for index in doc.find("total vram", "device: "):
        _comfy(doc, doc.lines[index], index)
    for index in doc.find(
        "torch detected gpu", "torch backend", "torch ", "torch: ", "device: device=", "platform: arch="
    ):
        _kohya(doc, doc.lines[index], index)
    for index in doc.find('venv "'):
        match = _VENV.match(doc.lines[index])
        if match:
            doc.put("python.executable", match[1], index, SAID)
            doc.put("python.kind", "venv", index, LISTED)
            doc.claim(index)
    for index in doc.find("platform linux --", "platform win32 --", "platform darwin --"):
        match = _PYTEST.search(doc.lines[index])
        if match:
            doc.put("system.os", {"lin": "linux", "dar": "macos", "win": "windows"}[match[1][:3]], index, SAID)
            doc.put("python.version", match[2], index, SAID)
    if doc.has("sys.platform", "pytorch debug build", "detectron2", "cuda_home  "):
        _detectron(doc)
    if doc.has("pytorch built with"):
        _config(doc)
    if doc.has("cuda driver version / runtime", "cuda device query"):
        _device_query(doc)
    for index in doc.find("torch cuda", "- gpu0", "- gpu1"):
        _fastai(doc, doc.lines[index], index)
    if doc.has("gpu:") and doc.has("available:", "* packages", "* cuda"):
        _lightning(doc)


def _ultralytics(doc: Document, line: str, index: int) -> None:
    match = _ULTRALYTICS.search(line) or _ULTRALYTICS_OLD.search(line)
    if not match:
        return
    doc.put("torch.version", values.torch_version(match["torch"]), index, SAID)
    if "python" in match.groupdict():
        doc.put("python.version", match["python"], index, SAID)
    doc.put(
        "torch.cuda_available",
        match["rest"].startswith("CUDA"),
        index,
        IMPLIED if match["rest"].startswith("CPU") else SAID,
    )
    for device in list(_CUDA_DEVICE.finditer(match["rest"]))[:16]:
        doc.add(
            "nvidia.gpus",
            NvidiaGpu(index=int(device[1]), name=device[2], memory_total=int(device[3]) * 1024**2),
            index,
            LISTED,
        )
    doc.claim(index)


def _comfy(doc: Document, line: str, index: int) -> None:
    match = _VRAM.search(line)
    if match:
        doc.put("gpu.memory", int(match[1]) * 1024**2, index, SAID)
        doc.put("system.ram", int(match[2]) * 1024**2, index, LISTED)
        doc.claim(index)
        return
    match = _COMFY_DEVICE.match(line)
    if match and match[3] and match[1] in ("cuda", "xpu"):
        readers.put_device(doc, match[1], int(match[2] or 0), match[3].strip(), index)
        vendors = {g.vendor for g in gpu_names.gpus_of(match[3], expected=True)}
        if "nvidia" in vendors:
            doc.add("nvidia.gpus", NvidiaGpu(index=int(match[2] or 0), name=match[3].strip()), index, NOTED)
        doc.claim(index)


def _kohya(doc: Document, line: str, index: int) -> None:
    match = _TORCH_GPU.search(line)
    if match:
        capability = f"{match[3]}.{match[4]}"
        memory = int(match[2]) * 1024**2
        doc.add(
            "nvidia.gpus", NvidiaGpu(name=match[1], compute_capability=capability, memory_total=memory), index, LISTED
        )
        doc.add(
            "torch.devices",
            TorchDevice(kind="cuda", name=match[1], compute_capability=capability, memory_total=memory),
            index,
            SAID,
        )
        doc.claim(index)
        return
    match = _BACKEND.search(line)
    if match:
        doc.put("torch.cuda" if match[1] else "torch.hip", match[1] or match[3], index, SAID)
        if match[2] and match[2] != "N/A":
            doc.put("torch.cudnn", values.dotted_cudnn(match[2]), index, SAID)
        doc.claim(index)
        return
    match = _SDNEXT.search(line)
    if match:
        said = f"{match[3]}.{match[4]}" if match[3] else None
        doc.add("nvidia.gpus", NvidiaGpu(name=match[1], compute_capability=said), index, LISTED)
        doc.put("torch.cuda", values.cuda_version(match[5]), index, SAID)
        doc.put("nvidia.driver_version", values.driver_version(match[7]), index, LISTED)
        doc.claim(index)
        return
    match = _SDNEXT_PLATFORM.search(line)
    if match:
        doc.put("system.os", {"W": "windows", "L": "linux", "D": "macos"}[match[2][0]], index, SAID)
        doc.put("python.version", match[4], index, SAID)
        found = systems.os_of(match[3])
        if found:
            systems.put_os(doc, found, index, SAID)
        doc.claim(index)
        return
    if "INFO" in line or re.match(r"^\s{0,8}Torch(?: version)?:? ", line):
        match = _TORCH_LINE.search(line)
        if match and doc.free(index) and len(line) < 200:
            doc.put("torch.version", values.torch_version(match[1]), index, LISTED)
            if match.end() >= len(line.rstrip()) - 1:
                doc.claim(index)


def _detectron(doc: Document) -> None:
    """Two columns without a colon; the keys are those of the table."""
    for index in doc.find(
        "pytorch",
        "torchvision",
        "python",
        "gpu ",
        "cuda_home",
        "cuda compiler",
        "driver version",
        "sys.platform",
        "torch ",
        "cuda available",
        "nvcc",
    ):
        match = _DETECTRON.match(doc.lines[index])
        if not match or not doc.free(index):
            continue
        key, value = keys.clean_key(match[1]), match[2]
        if key == "torchvision":
            doc.add(
                "distributions", Distribution(name="torchvision", version=values.version(value), line=index + 1), index
            )
        else:
            keys.read(doc, key, value, index)
        doc.claim(index)


def _config(doc: Document) -> None:
    """`torch.__config__.show()`: what the build contains. Its lines follow "PyTorch built with:"."""
    for start in doc.find("pytorch built with"):
        runtime = complete = False
        for index in range(start + 1, min(start + 30, len(doc.lines))):
            line = doc.lines[index].strip()
            if not line.startswith("- "):
                if line:
                    break
                continue
            runtime = _config_line(doc, line[2:], index) or runtime
            complete = complete or line.startswith(("- Build settings", "- CPU capability"))
            doc.claim(index)
        if complete and not runtime:
            doc.put("torch.cuda?", "", start, SAID)
        doc.claim(start)


def _config_line(doc: Document, line: str, index: int) -> bool:
    match = re.match(r"CUDA Runtime (\d{1,2}\.\d{1,2})", line)
    if match:
        doc.put("torch.cuda", match[1], index, SAID)
        return True
    if line.lower().startswith(_CONFIG_NVCC):
        archs = re.findall(r"code=((?:sm|compute)_\d{2,3}[af]?)", line)
        if archs:
            doc.put("torch.arch_list", tuple(dict.fromkeys(archs)), index, SAID)
        return True
    match = re.match(r"CuDNN (\d[\d.]*)", line, re.IGNORECASE)
    if match:
        doc.put("torch.cudnn", match[1], index, SAID)
        return True
    match = re.match(r"HIP Runtime (\d[\d.]*)", line)
    if match:
        doc.put("torch.hip", match[1], index, SAID)
        return True
    match = re.search(r"TORCH_VERSION=(\d[\w.+]{2,40})", line)
    if match:
        doc.put("torch.version", match[1], index, NOTED)
    return False


def _device_query(doc: Document) -> None:
    """The CUDA sample."""
    for index in doc.find("cuda driver version / runtime"):
        match = _DEVICE_QUERY.search(doc.lines[index])
        if match:
            doc.put("nvidia.driver_cuda", match[1], index, SAID)
            doc.claim(index)
    names = [(i, m) for i in doc.find("device ") if (m := _QUERY_DEVICE.match(doc.lines[i]))]
    for position, (index, match) in enumerate(names):
        end = names[position + 1][0] if position + 1 < len(names) else min(index + 45, len(doc.lines))
        capability = next((m[1] for i in range(index, end) if (m := _QUERY_CAPABILITY.search(doc.lines[i]))), None)
        doc.add(
            "nvidia.gpus", NvidiaGpu(index=int(match[1]), name=match[2], compute_capability=capability), index, SAID
        )
        doc.claim(index)


def _fastai(doc: Document, line: str, index: int) -> None:
    match = _FASTAI_CUDA.match(line)
    if match:
        keys.read(doc, "torch cuda", match[1], index)
        doc.put("torch.cuda_available", match[2] == "is", index, SAID)
        doc.claim(index)
        return
    match = _FASTAI_GPU.match(line)
    if match:
        doc.add(
            "nvidia.gpus",
            NvidiaGpu(index=int(match[1]), name=match[3], memory_total=int(match[2]) * 1024**2),
            index,
            LISTED,
        )
        doc.claim(index)


def _lightning(doc: Document) -> None:
    """Lightning's block nests: "* CUDA:" / "- GPU:" / "- NVIDIA A100" / "- available: True" / "- version: 11.8"."""
    section = ""
    for index in doc.find("* ", "- "):
        line = doc.lines[index]
        match = re.match(r"^\s{0,8}\* ?([A-Za-z]{2,12}):\s*$", line)
        if match:
            section = match[1].lower()
            doc.claim(index)
            continue
        item = re.match(r"^\s{1,12}- (\S.{0,120})$", line)
        if not item or not section:
            continue
        key, _, value = item[1].partition(":")
        key, value = key.strip().lower(), value.strip()
        if section == "cuda":
            if key == "available":
                doc.put("torch.cuda_available", values.boolean(value), index, SAID)
            elif key == "version":
                keys.read(doc, "torch.version.cuda", value, index)
            elif key != "gpu" and not value:
                readers.put_gpus(doc, item[1], index, LISTED, expected=True)
            doc.claim(index)
        elif section == "system" and key in ("os", "python", "architecture", "processor", "release"):
            if key == "os":
                doc.put(
                    "system.os",
                    {"linux": "linux", "darwin": "macos", "windows": "windows"}.get(value.lower()),
                    index,
                    LISTED,
                )
            elif key == "python":
                values.put_python(doc, value, index, LISTED)
            doc.claim(index)
        elif section == "packages" and value[:1].isdigit() and re.fullmatch(r"[\w.-]{1,60}", key):
            doc.add(
                "distributions",
                Distribution(name=re.sub(r"[-_.]+", "-", key), version=value.split()[0], line=index + 1),
                index,
            )
            doc.claim(index)

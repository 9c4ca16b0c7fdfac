"""Everything that is known about one machine and one Python environment.

Three values, never two: a field that is `None` is unknown. An empty tuple is known to be empty. Nothing here
judges: words such as "too old" belong to `rules/`. The same structs hold a live machine, a recording and what
somebody pasted, so every field must make sense without a machine at hand.

Units: bytes, seconds, MHz, watts, degrees Celsius, unless a name says otherwise.
"""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = 1


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base: immutable, keyword-only, unknown fields of newer snapshots are ignored."""


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one attempt: a program run, or a stage of a payload.

    status: "ok" | "failed" (it answered with an error) | "missing" (not there) | "timeout" | "crashed" (a signal or
    an exit code of a native crash) | "skipped" (not tried, `detail` says why).
    """

    status: str
    error_type: str | None = None
    """Exception class, e.g. "ImportError"."""
    error: str | None = None
    """The message as the program gave it, several lines allowed."""
    exit_code: int | None = None
    signal: str | None = None
    """E.g. "SIGILL"; on Windows the NTSTATUS name, e.g. "STATUS_ACCESS_VIOLATION"."""
    seconds: float | None = None
    detail: str | None = None

    @property
    def ok(self) -> bool:
        """True only when the attempt was made and worked."""
        return self.status == "ok"

    @property
    def bad(self) -> bool:
        """True when it was made and did not work; "skipped" and "missing" are neither."""
        return self.status in ("failed", "timeout", "crashed")


class ProbeRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one probe went: told in -v and never hidden."""

    name: str
    outcome: Outcome


class System(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The operating system and the machine below it."""

    os: str | None = None
    """"linux" | "windows" | "macos" (also for WSL: "linux")."""
    name: str | None = None
    """As a person reads it: "Ubuntu 22.04.5 LTS", "Windows 11", "macOS 15.1"."""
    distro: str | None = None
    """os-release ID: "ubuntu", "rhel", "alpine"."""
    version: str | None = None
    """"22.04", "15.1", "10.0.22631"."""
    kernel: str | None = None
    machine: str | None = None
    """Normalised: "x86_64" | "aarch64" | "arm64" (macOS) | "i686" | ... (of the OS, not of the interpreter)."""
    libc: str | None = None
    """"glibc" | "musl"."""
    libc_version: str | None = None
    glibcxx_max: str | None = None
    """Newest GLIBCXX_x.y.z of the system's libstdc++, e.g. "3.4.30"."""
    cpu_model: str | None = None
    cpu_flags: tuple[str, ...] | None = None
    """Only those that matter: avx avx2 avx512f amx_tile f16c fma sse4_2 asimd sve ..."""
    cores_physical: int | None = None
    cores_logical: int | None = None
    cores_usable: int | None = None
    """After affinity and cgroup limits."""
    ram: int | None = None
    ram_available: int | None = None
    disk_free: int | None = None
    """On the file system of the Python under test."""
    tmp_free: int | None = None
    shm_size: int | None = None
    shm_free: int | None = None
    open_files_soft: int | None = None
    open_files_hard: int | None = None
    container: str | None = None
    """"docker" | "podman" | "kubernetes" | "lxc" | "apptainer" | "enroot" | "unknown" | "none"."""
    wsl: int | None = None
    """0 = not WSL, else 1 or 2."""
    virtual_machine: str | None = None
    """Hypervisor name, or "none"."""
    cloud: str | None = None
    """Hosted notebook or cloud where it changes the advice: "colab", "kaggle", "sagemaker"."""
    rosetta: bool | None = None
    """The interpreter is x86_64 on Apple silicon."""
    jetson_model: str | None = None
    l4t: str | None = None
    """"36.4.3" from /etc/nv_tegra_release or the nvidia-l4t-core package."""
    jetpack: str | None = None
    selinux: str | None = None
    """"enforcing" | "permissive" | "disabled"."""
    seccomp: int | None = None
    """/proc/self/status Seccomp: 0 off, 1 strict, 2 filter."""
    secure_boot: bool | None = None
    c_compiler: str | None = None
    """First of cc/gcc/clang (cl on Windows) on PATH, with its version: "gcc 12.2.0". "" = known to be absent."""
    cxx_compiler: str | None = None
    windows_long_paths: bool | None = None
    vc_runtime: str | None = None
    """Version of msvcp140.dll / vcruntime140_1.dll: "14.40.33810"; "" = known to be absent."""


class DeviceNode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device file and whether this process may use it."""

    path: str
    readable: bool | None = None
    writable: bool | None = None
    mode: str | None = None
    """E.g. "crw-rw----"."""
    owner: str | None = None
    group: str | None = None


class PciDevice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A display or 3D controller on the PCI bus (it is there even without any driver)."""

    address: str | None = None
    vendor_id: str | None = None
    """"10de" NVIDIA, "1002" AMD, "8086" Intel."""
    device_id: str | None = None
    name: str | None = None
    """From the PCI ID database or the pasted lspci line."""
    driver: str | None = None
    """Kernel driver bound to it; "" = known to have none."""


class GpuProcess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that nvidia-smi lists on a GPU."""

    pid: int | None = None
    name: str | None = None
    memory: int | None = None


class NvidiaGpu(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU as the driver (nvidia-smi) or a pasted report shows it."""

    index: int | None = None
    name: str | None = None
    compute_capability: str | None = None
    """As the driver or torch said it, e.g. "8.9". Not looked up from the name: the matrix does that."""
    memory_total: int | None = None
    memory_used: int | None = None
    bus_id: str | None = None
    mig: bool | None = None
    mig_instances: tuple[str, ...] | None = None
    """Profile names, e.g. "1g.10gb"; () = MIG on and none made."""
    compute_mode: str | None = None
    """"Default" | "Exclusive_Process" | "Exclusive_Thread" | "Prohibited"."""
    ecc_uncorrected: int | None = None
    """Uncorrected ECC errors since driver load (volatile)."""
    ecc_uncorrected_total: int | None = None
    remapped_rows_pending: bool | None = None
    retired_pages_pending: bool | None = None
    recovery_action: str | None = None
    """What the driver asks for before the GPU can be used again: "None" (nothing), "Reset", "Reboot" (R565 and newer)."""
    license: str | None = None
    """A vGPU's licence in nvidia-smi's words: "Licensed (Expiry: ...)", "Unlicensed (Restricted)"; None without vGPU software."""
    virtualization: str | None = None
    """"VGPU" | "Pass-Through" | "None" | "Host VGPU", as nvidia-smi -q says it."""
    persistence: bool | None = None
    power_draw: float | None = None
    power_limit: float | None = None
    power_default_limit: float | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    temperature: float | None = None
    utilization: float | None = None
    clocks_sm: int | None = None
    clocks_sm_max: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    driver_model: str | None = None
    """Windows: "WDDM" | "TCC" | "MCDM"."""
    fabric_state: str | None = None
    """nvidia-smi -q Fabric State: "Completed", "In Progress", "Not Started", "N/A"."""
    addressing_mode: str | None = None
    error: str | None = None
    """E.g. "Unknown Error", "GPU is lost", "ERR!": this GPU alone could not be read."""
    processes: tuple[GpuProcess, ...] | None = None


class LibCuda(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One copy of the driver's user-space library that the loader or a person could find."""

    path: str
    version: str | None = None
    """From the real file name: libcuda.so.535.183.01."""
    kind: str | None = None
    """"driver" | "stub" (toolkit link stub) | "compat" (cuda-compat) | "wsl" | "windows" | "jetson"."""
    loaded: bool | None = None
    """True for the one that the dynamic loader really picks."""


class CudaDevice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One device as the driver API counts it: after CUDA_VISIBLE_DEVICES, in the order that CUDA programs see."""

    index: int | None = None
    name: str | None = None
    compute_capability: str | None = None
    bus_id: str | None = None
    memory_total: int | None = None


class CudaInit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The driver API's own answer, asked for in a child process."""

    outcome: Outcome
    code: int | None = None
    """CUresult of cuInit, e.g. 0, 100, 802, 803, 804, 999."""
    name: str | None = None
    """"CUDA_ERROR_NO_DEVICE"."""
    driver_version: str | None = None
    """cuDriverGetVersion as "12.4"."""
    device_count: int | None = None
    devices: tuple[CudaDevice, ...] | None = None
    device_count_unmasked: int | None = None
    """How many it counts without CUDA_VISIBLE_DEVICES; asked only when that is set and there was no device with it."""


class FabricManager(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The service that NVSwitch machines need."""

    needed: bool | None = None
    """NVSwitch devices are there."""
    state: str | None = None
    """"active" | "inactive" | "failed" | "missing"."""
    version: str | None = None


class KernelEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the kernel log about a GPU."""

    kind: str
    """"xid" | "rm-init-adapter" | "nvrm" | "amdgpu" | "oom-killer" | "pcie" | "segfault" ..."""
    code: int | None = None
    text: str | None = None
    line: int | None = None
    age: float | None = None
    """Seconds from the line to the reading of the log, without those of suspend; only on a live machine."""


class Nvidia(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The NVIDIA side of the machine."""

    smi: Outcome | None = None
    """How nvidia-smi itself went; "missing" = not on PATH."""
    smi_path: str | None = None
    """The nvidia-smi that was run."""
    smi_error: str | None = None
    """Normalised kind of its failure: "no-driver" (couldn't communicate), "library-mismatch", "no-devices",
    "nvml-missing", "nvml-unknown" (Unknown Error), "gpu-lost", "insufficient-permissions", "wsl-blocked", "other"."""
    driver_version: str | None = None
    """Of the user-space side (nvidia-smi, NVML): "535.183.01", Windows "546.12"."""
    kernel_driver_version: str | None = None
    """Of the loaded kernel module."""
    kernel_module_open: bool | None = None
    kernel_module_loaded: bool | None = None
    nouveau_loaded: bool | None = None
    uvm_loaded: bool | None = None
    driver_cuda: str | None = None
    """Highest CUDA of the driver, from the nvidia-smi header: "12.2"."""
    smi_version: str | None = None
    """Version of the nvidia-smi program / NVML when the header shows it apart from the driver's."""
    gpus: tuple[NvidiaGpu, ...] | None = None
    """None = nobody could say; () = the driver says there is none."""
    device_nodes: tuple[DeviceNode, ...] | None = None
    libcuda: tuple[LibCuda, ...] | None = None
    cuda_init: CudaInit | None = None
    fabric: FabricManager | None = None
    driver_packages: tuple[str, ...] | None = None
    """Installed driver packages, "nvidia-driver-535 535.183.01-0ubuntu1"."""
    container_toolkit: str | None = None
    """Version of nvidia-container-toolkit; "" = known to be absent."""
    visible_in_torch_order: str | None = None


class AmdGpu(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One AMD GPU."""

    name: str | None = None
    gfx: str | None = None
    """"gfx1100"; None when only the marketing name is known."""
    memory_total: int | None = None


class Amd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The AMD side: ROCm and the kernel's kfd."""

    gpus: tuple[AmdGpu, ...] | None = None
    rocm_version: str | None = None
    amdgpu_version: str | None = None
    kfd: DeviceNode | None = None
    render_nodes: tuple[DeviceNode, ...] | None = None
    user_groups: tuple[str, ...] | None = None
    hsa_override: str | None = None
    kfd_error: str | None = None
    """Why /dev/kfd cannot be used, in the system's words: "Permission denied", "No such file or directory"."""
    smi: Outcome | None = None


class Intel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The Intel GPU side."""

    gpus: tuple[str, ...] | None = None
    render_nodes: tuple[DeviceNode, ...] | None = None
    user_groups: tuple[str, ...] | None = None
    level_zero: str | None = None
    """Version or path of the level-zero loader; "" = known to be absent."""
    driver_version: str | None = None


class Apple(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The Apple side."""

    chip: str | None = None
    """"Apple M2 Max" or the Intel brand string."""
    macos: str | None = None
    metal: bool | None = None
    """A Metal device can be made by this process."""
    gpu_cores: int | None = None


class CudaToolkit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A CUDA toolkit on disk (needed to build extensions, not to run torch)."""

    path: str | None = None
    version: str | None = None
    """"12.4" or "12.4.131"."""
    has_nvcc: bool | None = None
    on_path: bool | None = None
    """Its nvcc is the first on PATH."""


class Toolchain(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What building extensions would use."""

    cuda_toolkits: tuple[CudaToolkit, ...] | None = None
    nvcc_version: str | None = None
    """Of the nvcc first on PATH or in CUDA_HOME; "" = known to be absent."""
    cuda_home: str | None = None
    cudnn_system: tuple[str, ...] | None = None
    """Versions of cuDNN outside the Python environment."""
    gcc_version: str | None = None
    cmake_version: str | None = None
    ninja: bool | None = None


class Distribution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One installed distribution, as metadata (dist-info, conda-meta) or a pasted list shows it."""

    name: str
    """Normalised (PEP 503); conda's `pytorch` stays "pytorch"."""
    version: str | None = None
    """With the local label: "2.8.0+cu128"."""
    build: str | None = None
    """conda build string, e.g. "py3.9_cuda11.8_cudnn8.7.0_0"."""
    channel: str | None = None
    """conda channel."""
    manager: str | None = None
    """"pip" | "conda" | "uv" | "poetry" | "pdm" | "system" ... (INSTALLER, conda-meta)."""
    location: str | None = None
    """Directory it lies in."""
    site: str | None = None
    """"env" | "user" | "system" | "pythonpath"."""
    editable: bool | None = None
    origin: str | None = None
    """"index" | "vcs" | "file" | "url" (direct_url.json), credentials removed."""
    requires: tuple[str, ...] | None = None
    """Requires-Dist lines, of torch and its kin only."""
    files_missing: tuple[str, ...] | None = None
    """Of RECORD; () = all there that were to be looked at (a quick look leaves out headers). At most 20 named, native
    libraries first, then Python sources, then the rest."""
    files_changed: tuple[str, ...] | None = None
    """Of RECORD: the size differs."""
    line: int | None = None
    """Line of the paste it was read from."""


class Shadow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file or directory of the user's that hides a module."""

    module: str
    path: str
    hides: str | None = None
    by: str | None = None
    """Why it is found first: "cwd" (the current directory), "pythonpath", or "path" (another entry of sys.path)."""


class PythonEnv(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The Python under test and what is installed in it."""

    executable: str | None = None
    version: str | None = None
    """"3.11.7"."""
    implementation: str | None = None
    bits: int | None = None
    machine: str | None = None
    """Of the interpreter: x86_64 under Rosetta."""
    free_threaded: bool | None = None
    debug: bool | None = None
    soabi: str | None = None
    libc: str | None = None
    macos_target: str | None = None
    """macOS deployment target of the interpreter's platform tag, e.g. "11.0"."""
    prefix: str | None = None
    base_prefix: str | None = None
    kind: str | None = None
    """"venv" | "conda" | "uv" | "pyenv" | "system" | "store" (Microsoft Store) | "framework" | "other"."""
    manager: str | None = None
    """Who made the environment, where it is known: "uv" | "conda" | "mamba" | "pixi" | "poetry" | "pip" ..."""
    externally_managed: bool | None = None
    conda_prefix: str | None = None
    conda_env: str | None = None
    conda_version: str | None = None
    pip_version: str | None = None
    """"" = known to have no pip."""
    user_site: str | None = None
    user_site_enabled: bool | None = None
    sys_path: tuple[str, ...] | None = None
    distributions: tuple[Distribution, ...] | None = None
    """None = not asked or unreadable. A paste usually shows a part: see `distributions_partial`."""
    distributions_partial: bool | None = None
    """True: absence of a name proves nothing."""
    shadows: tuple[Shadow, ...] | None = None
    site_writable: bool | None = None
    other_pythons: tuple[str, ...] | None = None
    """Interpreters that a report shows besides the one under test ("pip of python 3.11, run by 3.9")."""
    pip_python: str | None = None
    """The Python version that the `pip` command belongs to."""
    torch_elsewhere: tuple[str, ...] | None = None
    """Interpreters or environments where torch is, when it is not in this one."""
    leftovers: tuple[str, ...] | None = None
    """Directories named "~..." beside the packages: what an interrupted pip left behind."""
    chosen: str | None = None
    """Why this interpreter is the one under test: "--python", "active virtual environment", ..."""


class LoadedLibrary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A native library that was really mapped into the process after `import torch`."""

    name: str
    """Family: "cudnn" "cublas" "cublasLt" "nccl" "cudart" "nvJitLink" "libomp" "libiomp5" "libgomp" "libstdc++"
    "cuda" "torch" ..."""
    path: str
    version: str | None = None
    origin: str | None = None
    """"wheel" (torch/lib or site-packages/nvidia) | "conda" | "system" | "ld_library_path" | "other"."""


class TorchDevice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device as torch sees it."""

    kind: str
    """"cuda" | "xpu" | "mps"."""
    index: int | None = None
    name: str | None = None
    compute_capability: str | None = None
    gfx: str | None = None
    memory_total: int | None = None


class Companion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """torchvision, torchaudio or triton beside torch: what it is and whether it loads."""

    name: str
    version: str | None = None
    imports: Outcome | None = None
    cuda: str | None = None
    """CUDA it says it was compiled with (torchvision.version.cuda)."""
    operators: bool | None = None
    """Its C++ operators are registered (torchvision.ops.nms)."""


class Torch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The torch that is imported (or would be): the build, then what it did."""

    version: str | None = None
    """torch.__version__ with the local label."""
    location: str | None = None
    """Directory of the imported package."""
    found: bool | None = None
    """Some torch package is on the path."""
    copies: tuple[str, ...] | None = None
    """Every torch directory on the path, the one that is imported first."""
    problems: tuple[str, ...] | None = None
    """What is wrong with its files: "namespace-leftover" (a directory without `__init__.py`), "not-torch" (a file of
    another kind has the name), "no-version-file", "extension-missing", "extension-other-python" (`_C` was built for
    another Python), "libraries-missing"."""
    cuda: str | None = None
    """CUDA of the build: "12.8"; "" = known to be built without CUDA."""
    hip: str | None = None
    """"" = known to be built without ROCm."""
    xpu: str | None = None
    """"" = known to be built without XPU; else its SYCL/oneAPI version or "yes"."""
    debug: bool | None = None
    git_version: str | None = None
    cxx11_abi: bool | None = None
    arch_list: tuple[str, ...] | None = None
    """"sm_80" ... "compute_90" as torch.cuda.get_arch_list() or the binary shows; () = none (a CPU build)."""
    cudnn: str | None = None
    """cuDNN found at run time, "9.10.2"."""
    nccl: str | None = None
    derived: tuple[str, ...] | None = None
    """Fields of this struct that were filled in from tables, not read."""
    imports: Outcome | None = None
    cuda_init: Outcome | None = None
    """torch.cuda.init(): its exact error."""
    cuda_available: bool | None = None
    cuda_warnings: tuple[str, ...] | None = None
    device_count: int | None = None
    devices: tuple[TorchDevice, ...] | None = None
    mps_built: bool | None = None
    mps_available: bool | None = None
    xpu_available: bool | None = None
    numpy_bridge: Outcome | None = None
    companions: tuple[Companion, ...] | None = None
    loaded_libraries: tuple[LoadedLibrary, ...] | None = None
    threads: int | None = None
    settings: dict[str, str] | None = None
    """Numeric and determinism switches as they stand, by name."""


class EnvVar(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An environment variable that can matter; values that may hold secrets are never read."""

    name: str
    value: str


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of one smoke test (contract: docs of `--json`)."""

    name: str
    device: str
    status: str
    """"passed" | "failed" | "skipped" | "crashed" | "timeout"."""
    seconds: float | None = None
    detail: str | None = None


class Measurement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured rate (contract: docs of `--json`); the median of several samples, after a warm-up."""

    name: str
    """What was measured: "matmul-bf16", "copy-to-device-pinned", "dataloader"."""
    device: str
    value: float
    unit: str
    """"TFLOP/s" | "GB/s" | "images/s" | "us" | "ratio"; more is better, but for "us"."""
    case: str | None = None
    """The setting that was tried, where several are: "workers=4", "threads=8"."""
    samples: int | None = None
    low: float | None = None
    """The lowest and the highest sample."""
    high: float | None = None
    details: dict[str, float] = {}
    """Numbers that the measurement depends on: "size", "threads", "cpu_share" (of the time of the threads, what the
    process got of the CPU)."""


class UnderLoad(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU as nvidia-smi showed it again and again while it was kept busy, and just before."""

    device: str
    """As torch names it: "cuda:0"."""
    name: str | None = None
    bus_id: str | None = None
    mig: bool | None = None
    multiprocessors: int | None = None
    """Of what torch sees: fewer than the board has, where it is a slice."""
    samples: int = 0
    """How many readings found it busy; the following are over these."""
    temperature_max: float | None = None
    power_draw_max: float | None = None
    power_limit: float | None = None
    power_default_limit: float | None = None
    clocks_sm: int | None = None
    """Median."""
    clocks_sm_max: int | None = None
    pcie_gen: int | None = None
    """The highest that was seen: an idle link goes slower on purpose."""
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    throttle: dict[str, float] | None = None
    """Reason -> share of the readings that showed it."""
    utilization_before: float | None = None
    """Percent, the lowest of several readings before this program began."""
    processes_before: tuple[GpuProcess, ...] | None = None
    ecc_uncorrected_new: int | None = None
    """Uncorrected ECC errors that came while it was watched."""


class Symptom(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A known error signature, found in a text or in the answer of a payload stage."""

    kind: str
    """Kebab-case id of the signature that matched: vocabulary of `envcheck.symptoms`."""
    text: str
    """The line, redacted and shortened to 300 characters."""
    source: str | None = None
    """File name of the paste, or the stage: "import torch", "nvidia-smi", "dmesg"."""
    line: int | None = None
    details: dict[str, str] = {}
    """Named groups of the signature."""
    echo: bool = False
    """Known to follow from an earlier symptom in the same text."""
    count: int = 1


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a value was read in a paste."""

    field: str
    """Dotted path: "nvidia.driver_version"."""
    source: str
    line: int | None = None
    text: str | None = None


class Conflict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two places of the same report that disagree about one value."""

    field: str
    values: tuple[str, ...]
    lines: tuple[int, ...] = ()


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine, one Python environment, one moment."""

    schema: int = SCHEMA
    origin: str = "live"
    """"live" | "captured" (pasted text) | "described" (options of `recommend`)."""
    collected: str | None = None
    """ISO date."""
    envcheck: str | None = None
    system: System = System()
    pci: tuple[PciDevice, ...] | None = None
    nvidia: Nvidia = Nvidia()
    amd: Amd = Amd()
    intel: Intel = Intel()
    apple: Apple = Apple()
    toolchain: Toolchain = Toolchain()
    python: PythonEnv = PythonEnv()
    torch: Torch = Torch()
    env: tuple[EnvVar, ...] | None = None
    """None = unknown; a paste shows single variables, then absence proves nothing."""
    kernel_events: tuple[KernelEvent, ...] | None = None
    checks: tuple[Check, ...] | None = None
    speed: tuple[Measurement, ...] | None = None
    """What `smoke --speed` measured; None = not measured."""
    under_load: tuple[UnderLoad, ...] | None = None
    symptoms: tuple[Symptom, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    probes: tuple[ProbeRun, ...] = ()
    requested: tuple[str, ...] = ()
    """Packages that a pasted install command asked for, as requirement strings ("torch==1.13.1")."""
    commands: tuple[str, ...] = ()
    """Command lines seen in a paste, in order ("docker run ...", "pip install ...")."""

    def variable(self, name: str) -> str | None:
        """Value of an environment variable that was seen set; None = unset or unknown."""
        for item in self.env or ():
            if item.name == name:
                return item.value
        return None

    def distribution(self, name: str) -> Distribution | None:
        """First distribution of that normalised name, in import order."""
        found = self.distributions(name)
        return found[0] if found else None

    def distributions(self, name: str) -> tuple[Distribution, ...]:
        """All copies of that distribution."""
        return tuple(d for d in self.python.distributions or () if d.name == name)

    def symptom(self, *kinds: str) -> Symptom | None:
        """First symptom of one of the kinds."""
        for item in self.symptoms:
            if item.kind in kinds:
                return item
        return None

    def where(self, field: str) -> Evidence | None:
        """Where a field was read in the paste."""
        for item in self.evidence:
            if item.field == field:
                return item
        return None


def document(facts: Facts) -> dict[str, Any]:
    """Facts as a JSON-ready dict: the schema number and the origin always, unknown fields left out."""
    return {"schema": facts.schema, "origin": facts.origin, **msgspec.to_builtins(facts)}


def to_json(facts: Facts) -> bytes:
    """Facts as JSON bytes, unknown fields left out."""
    return msgspec.json.encode(document(facts))


def from_json(data: bytes) -> Facts:
    """Facts from JSON bytes.

    Raises:
        msgspec.DecodeError: not JSON, or a field of the wrong type (the message has the path).
        ValueError: written by a newer schema.
    """
    facts = msgspec.json.decode(data, type=Facts)
    if facts.schema > SCHEMA:
        raise ValueError(f"snapshot has schema {facts.schema}, this envcheck knows up to {SCHEMA}: update envcheck")
    return facts

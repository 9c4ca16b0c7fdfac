"""What identifies a person or a machine goes; versions, packages, addresses of devices and prose stay."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from envcheck.captured import read
from envcheck.captured.normalise import decode
from envcheck.facts import EnvVar, Facts, PythonEnv, Symptom
from envcheck.redact import redact, redact_facts

GOES = {
    "linux-home": ("/home/alice/miniconda3/envs/x/lib/python3.9/site-packages/torch", ["alice"], ["miniconda3/envs/x", "python3.9"]),
    "second-home": ("/home2/alice/x and /export/home/bob/y", ["alice", "bob"], []),
    "mac-home": ("/Users/jsmith/opt/anaconda3/lib", ["jsmith"], ["opt/anaconda3"]),
    "windows-home": (r"C:\Users\jsmith\AppData\Local\Programs\Python\Python312", ["jsmith"], [r"AppData\Local\Programs\Python\Python312"]),
    "windows-home-with-blank": (r"C:\Users\John Smith\venv\Scripts", ["John", "Smith"], [r"venv\Scripts"]),
    "windows-doubled": (r'"C:\\Users\\jsmith\\x"', ["jsmith"], []),
    "windows-slashes": ("c:/users/jsmith/x", ["jsmith"], []),
    "wsl-home": ("/mnt/c/Users/jsmith/x", ["jsmith"], []),
    "msys-home": ("/c/Users/jsmith/x", ["jsmith"], []),
    "name-found-elsewhere": ("/home/alice/x\n/data/alice/set", ["alice"], ["/data/", "/set"]),
    "tilde": ("ls ~alice/x", ["alice"], []),
    "inductor-cache": ("/tmp/torchinductor_alice/ab/x.py", ["alice"], ["/tmp/torchinductor_"]),
    "media": ("/media/alice/disk/x and /run/media/bob/y", ["alice", "bob"], []),
    "prompt": ("alice@gpu-box:~/x$ pip list", ["alice", "gpu-box"], ["pip list"]),
    "prompt-in-brackets": ("[alice@gpu-box x]$ ls", ["alice", "gpu-box"], ["ls"]),
    "prompt-with-env": ("(base) alice@gpu-box:~$ ls", ["alice", "gpu-box"], ["(base)"]),
    "prompt-zsh-mac": ("Alices-MacBook-Pro:~ alice$ python", ["Alice", "alice"], ["python"]),
    "uname": ("Linux gpu-box 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux", ["gpu-box"], ["5.15.0-91-generic", "x86_64"]),
    "uname-mac": ("Darwin Alices-iMac.local 22.6.0 Darwin Kernel Version 22.6.0", ["Alices"], ["22.6.0"]),
    "syslog": ("Mar  3 10:11:12 gpu-box kernel: NVRM: Xid (PCI:0000:65:00): 79", ["gpu-box"], ["PCI:0000:65:00", "79"]),
    "journal-iso": ("2024-03-03T10:11:12+0000 gpu-box kernel: NVRM", ["gpu-box"], ["NVRM"]),
    "journal-monotonic": ("[ 4000.120001] gpu-box kernel: NVRM: Xid (PCI:0000:65:00): 79", ["gpu-box"], ["4000.12", "NVRM: Xid (PCI:0000:65:00)"]),
    "nccl": ("gpu-box:1234:1299 [0] NCCL INFO Bootstrap : Using eth0:10.1.1.7<0>", ["gpu-box", "10.1.1.7"], ["eth0", "NCCL INFO"]),
    "elastic": ("  host      : node-17.cluster.example\n", ["node-17"], []),
    "c10d": ("The client socket has failed to connect to [node-17.cluster]:29500", ["node-17"], ["29500"]),
    "hostname": ("Host Name:                 WORKSTATION7", ["WORKSTATION7"], []),
    "windows-names": ("DESKTOP-AB12CD3\\jsmith", ["AB12CD3", "jsmith"], []),
    "slurm": ("srun: error: node042: task 3: Killed", ["node042"], ["task 3"]),
    "id": ("uid=1000(alice) gid=1000(alice) groups=1000(alice),27(sudo),44(video)", ["uid=1000(alice", "gid=1000(alice"], ["video"]),
    "listing": ("-rw-r--r-- 1 alice staff 120 Jan  1 torch.py", ["alice"], ["torch.py", "staff"]),
    "user-variable": ("USER=alice", ["alice"], []),
    "login-line": ("wandb: Currently logged in as: alice-w. Use `wandb login`", ["alice-w"], ["wandb login"]),
    "ipv4": ("MASTER_ADDR=192.168.1.17 and 10.0.0.3:29500", ["192.168.1.17", "10.0.0.3"], ["29500"]),
    "ipv4-public": ("connect to 93.184.216.34 failed", ["93.184.216.34"], []),
    "ipv4-in-brackets": ("[::ffff:10.0.0.1]:29500", ["10.0.0.1"], []),
    "ipv6": ("fe80::1ff:fe23:4567:890a and 2001:db8:85a3::8a2e:370:7334", ["fe80::1", "2001:db8"], []),
    "mac-address": ("link/ether 0a:1b:2c:3d:4e:5f brd", ["0a:1b:2c"], ["link/ether"]),
    "mac-address-windows": ("Physical Address: 0A-1B-2C-3D-4E-5F", ["0A-1B-2C"], []),
    "email": ("report to Alice.Smith+x@mail.example.org please", ["Alice", "mail.example"], ["report to", "please"]),
    "hf-token": ("export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUv1234", ["hf_AbCd"], []),
    "github-token": ("https://ghp_0123456789abcdefABCDEF0123456789abcd@github.com/x", ["ghp_0123"], ["github.com/x"]),
    "openai-key": ("OPENAI_API_KEY=sk-proj-abc123DEF456ghi789", ["sk-proj"], []),
    "aws-key": ("AKIAIOSFODNN7EXAMPLE", ["AKIAIOSF"], []),
    "jwt": ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc123_-x", ["eyJhbGci"], []),
    "index-url": ("pip install --extra-index-url https://bob:s3cret@pypi.example.com/simple torch", ["bob", "s3cret"], ["pypi.example.com/simple", "torch"]),
    "password": ("password: hunter2hunter", ["hunter2"], []),
    "api-key-hex": ("Paste an API key from your profile and hit enter: 0123456789abcdef0123456789abcdef01234567", ["0123456789abcdef"], []),
    "option": ("vllm serve --api-key abc123def456", ["abc123def456"], ["vllm serve"]),
    "private-key": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----", ["MIIEabc"], []),
    "gpu-uuid": ("GPU 0: A100 (UUID: GPU-1a2b3c4d-1111-2222-3333-444455556666)", ["1a2b3c4d"], ["GPU-<uuid>", "A100"]),
    "mig-uuid": ("MIG-1a2b3c4d-1111-2222-3333-444455556666", ["1a2b3c4d"], ["MIG-"]),
    "uuid-prefix": ("CUDA_VISIBLE_DEVICES=GPU-1a2b3c4d", ["1a2b3c4d"], []),
    "lower-case-users": ("/users/alice/x and HOME=/users/bob", ["alice", "bob"], ["/users/", "/x and HOME="]),
    "home-by-letter": ("/home/a/alice/x.py, /home/b/bo/bob/y", ["alice", "bob"], ["/x.py", "/y"]),
    "home-by-number": ("/storage/home/pool1/0/alice/env/bin", ["alice"], ["/storage/home/", "/env/bin"]),
    "open-mpi-crash": ("[node01:12345] *** Process received signal ***\n[node01:12345] Signal: Aborted (6)\n[node01:12345] [ 0] /lib64/libc.so.6", ["node01"], ["12345", "Signal: Aborted (6)", "[ 0] /lib64/libc.so.6"]),
    "open-mpi-exit": ("mpirun noticed that process rank 0 with PID 77 on node gpu01 exited on signal 11", ["gpu01"], ["PID 77 on node", "exited on signal 11"]),
    "git-author": ("commit 9ddd3dfa1b2c\nAuthor: Alice B. Smith <alice@mail.example.org>\nDate:   Mon\n", ["Alice", "Smith"], ["Author: ", "Date:   Mon"]),
    "serial": ("    Serial Number                         : 1322720000987", ["1322720000987"], []),
}  # fmt: skip

STAYS = (
    "Driver Version: 535.183.01   CUDA Version: 12.2",
    "Nvidia driver version: 31.0.15.4601",
    "[pip3] nvidia-cudnn-cu12==9.1.0.70",
    "nvidia-cublas-cu12        12.1.3.1",
    "nvidia-curand-cu12 10.3.2.106",
    "libcurand                 10.3.5.147                    0    nvidia",
    "opencv-python             4.8.1.78",
    "WSL version: 2.0.9.0, Windows 10.0.22631.2715",
    "cuDNN version: 8.9.2.26; NCCL version 2.21.5",
    "/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7.29",
    "127.0.0.1:8188 and 0.0.0.0:7860",
    "0000:65:00.0 VGA compatible controller [10de:2204]",
    "00000000:01:00.0 Off",
    "at::Tensor c10::cuda::CUDACachingAllocator::alloc a::b x[1::2] d[::2]",
    "12:34:56 elapsed, step 10:20:30",
    "torch @ file:///tmp/x/torch-2.3.0+cu121-cp310-cp310-linux_x86_64.whl",
    "memcpy@GLIBC_2.14 and __nvJitLinkCreate@libnvJitLink.so.12",
    "spack install py-torch@2.1.0%gcc",
    "git@github.com:pytorch/pytorch.git at main",
    "max_tokens=4096 eos_token='</s>' pad_token: [PAD] tokenizer=LlamaTokenizerFast num_tokens: 123456",
    "--hash=sha256:bcb17e2de6ca634d326203694d0bfb552587335e536c1917be3f28c5664b5506",
    "2.6.0a0+git9ddd3df and commit 9ddd3dfa1b2c",
    "_ZN2at4_ops6narrow4callERKNS_6TensorExN3c106SymIntES6_",
    "crw-rw---- 1 root render 226, 128 Jan  1 10:00 /dev/dri/renderD128",
    "the password of the host is not needed; a token is a word of the text",
    "/usr/local/lib/python3.10/dist-packages/torch/lib/libtorch_cuda.so",
    "/opt/conda/lib and /root/.cache and /home/<user>/x",
    "mail the log to the list, at noon: user error",
    "Python 3.10.6 (tags/v3.10.6:9c7b4bd, Aug  1 2022, 21:38:17) [MSC v.1932 64 bit (AMD64)]",
    "KeyError: 'token'  signature: (Tensor self, int dim) -> Tensor",
    "VBIOS Version : 94.02.42.00.1E",
    "NVIDIA-SMI 610.43.02  KMD Version: 610.43.02",
    "compute_80,code=sm_80;-gencode",
    "Uncertain: 1.2 % of 10.5 GiB at 3:45",
    "https://api.example.org/users/models and docs/users/guide.md",
    "[cuda:0] ready\n[config.py:123] Signal handlers are set\n[rank0:12] *** loss",
    "the job on node 3 exited",
    "Author: PyTorch Team\nAuthor-email: <email>",
)


@pytest.mark.parametrize("name", GOES)
def test_what_identifies_goes(name: str) -> None:
    text, secrets, kept = GOES[name]
    result = redact(text)
    assert [secret for secret in secrets if secret in result] == [], result
    assert [word for word in kept if word not in result] == [], result


@pytest.mark.parametrize("text", STAYS, ids=lambda t: t[:30])
def test_what_is_harmless_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", [t for t, _, _ in GOES.values()] + list(STAYS), ids=lambda t: t[:30])
def test_twice_is_once(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


def test_real_reports_twice_is_once(shared: Path) -> None:
    for path in sorted((shared / "reports").glob("*.input.txt")):
        once = redact(decode(path.read_bytes()))
        assert redact(once) == once, path.name


@pytest.mark.parametrize(
    "unit",
    [
        "a@",
        "/home/a",
        "1.",
        "1.2.3.4 ",
        "a:",
        "token=",
        "C:\\Users\\a b ",
        "0a:",
        "ab-",
        "https://a",
        "eyJ.",
        "x" * 50,
        " ",
        "~a",
        "/users/a",
        "/home/a/a",
        "[a:12",
        "Author: a ",
        "/storage/home/a/1/",
    ],
)
def test_time_is_linear(unit: str) -> None:
    def spent(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        redact(text)
        return time.process_time() - started

    small, large = spent(40_000), spent(320_000)
    assert large < 24 * max(small, 0.01), f"{small:.3f} s, then {large:.3f} s for eight times the text"


def test_facts_are_redacted_and_stay_facts() -> None:
    facts = Facts(
        python=PythonEnv(
            executable="/home/alice/venv/bin/python",
            version="3.11.7",
            prefix="/srv/alice/venv",
            sys_path=("/home/alice/x",),
        ),
        env=(EnvVar(name="MASTER_ADDR", value="10.1.2.3"), EnvVar(name="LD_LIBRARY_PATH", value="/home/alice/lib")),
        symptoms=(
            Symptom(kind="x", text="see /home/alice/x", details={"version": "12.1.3.1", "path": "/data/alice/y"}),
        ),
    )
    shared_facts = redact_facts(facts)
    assert "alice" not in msgspec.json.encode(shared_facts).decode()
    assert shared_facts.python.version == "3.11.7"
    assert shared_facts.variable("MASTER_ADDR") == "<ip>"
    assert shared_facts.symptoms[0].details["version"] == "12.1.3.1"
    assert redact_facts(shared_facts) == shared_facts


def test_versions_of_facts_survive(shared: Path) -> None:
    for path in sorted((shared / "reports").glob("*.input.txt"))[:40]:
        facts = read([("x", path.read_bytes())])
        shown = redact_facts(facts)
        assert [d.version for d in shown.python.distributions or ()] == [
            d.version for d in facts.python.distributions or ()
        ]
        assert shown.nvidia.driver_version == facts.nvidia.driver_version
        assert shown.torch.version == facts.torch.version

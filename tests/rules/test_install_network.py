"""Servers that cannot be reached: the words of pip, uv, conda, mamba, urllib and the hub, and what only looks like it."""

from __future__ import annotations

import pytest

from envcheck.captured import read
from envcheck.cli.diagnose import examine
from envcheck.findings import Report
from envcheck.matrix import load
from envcheck.rules import RULES, evaluate

BLOCKED = {
    "pip, a company's certificate": """$ pip3 install torch torchvision
Looking in indexes: https://pypi.org/simple
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)'))': /simple/torch/
Could not fetch URL https://pypi.org/simple/torch/: There was a problem confirming the ssl certificate: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: /simple/torch/ (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)'))) - skipping
ERROR: Could not find a version that satisfies the requirement torch (from versions: none)
ERROR: No matching distribution found for torch
""",
    "pip, a proxy that refuses": """(venv) C:\\work> pip install torch==2.7.1 --index-url https://download.pytorch.org/whl/cu128
Looking in indexes: https://download.pytorch.org/whl/cu128
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 407 Proxy Authentication Required'))': /whl/cu128/torch/
ERROR: Could not find a version that satisfies the requirement torch==2.7.1 (from versions: none)
ERROR: No matching distribution found for torch==2.7.1
""",
    "pip, no names on a compute node": """WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f2a>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/torchaudio/
ERROR: Could not find a version that satisfies the requirement torchaudio (from versions: none)
""",
    "pip without ssl": """WARNING: pip is configured with locations that require TLS/SSL, however the ssl module in Python is not available.
Could not fetch URL https://pypi.org/simple/torch/: There was a problem confirming the ssl certificate: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: /simple/torch/ (Caused by SSLError("Can't connect to HTTPS URL because the SSL module is not available.")) - skipping
ERROR: No matching distribution found for torch
""",
    "uv": """  x Failed to fetch: `https://download.pytorch.org/whl/cu126/torch/`
  |-> Request failed after 3 retries
  |-> error sending request for url (https://download.pytorch.org/whl/cu126/torch/)
  |-> client error (Connect)
  `-> invalid peer certificate: UnknownIssuer
""",
    "conda": """Collecting package metadata (current_repodata.json): failed

CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://conda.anaconda.org/pytorch/linux-64/current_repodata.json>
Elapsed: -
""",
    "mamba": """critical libmamba Multiple errors occured:
    Download error (60) SSL peer certificate or SSH remote key was not OK [https://conda.anaconda.org/conda-forge/linux-64/repodata.json.zst]
    SSL certificate problem: self-signed certificate in certificate chain
""",
    "torch.hub, a certificate": """  File "/opt/py/lib/python3.11/site-packages/torch/hub.py", line 765, in download_url_to_file
    u = urlopen(req)
urllib.error.URLError: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1000)>
""",
}

MODELS = {
    "torch.hub": """  File "/opt/py/lib/python3.11/site-packages/torch/hub.py", line 765, in download_url_to_file
    u = urlopen(req)
urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>
""",
    "transformers": """OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.
Check your internet connection or see how to run the library in offline mode.
""",
}

ELSEWHERE = {
    "a retry that went well": """Collecting torch
WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x1>: Failed to establish a new connection: [Errno 110] Connection timed out')': /simple/torch/
  Downloading torch-2.8.0-cp312-cp312-manylinux_2_28_x86_64.whl (887.9 MB)
Successfully installed torch-2.8.0
""",
    "a logger's server": """wandb: Network error (ConnectionError), entering retry loop.
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries exceeded with url: /graphql (Caused by NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))
""",
    "a data set of another library": """[nltk_data] Error loading punkt: <urlopen error [Errno 11001] getaddrinfo failed>
""",
    "prose": "Our proxy signs certificates itself, so pip needs global.cert there; with that torch installs and runs.\n",
}  # fmt: skip


def judged(text: str) -> Report:
    return evaluate(read([("paste.txt", text)]), load(), RULES)


@pytest.mark.parametrize("name", BLOCKED)
def test_a_server_that_cannot_be_reached_is_the_first_cause(name: str) -> None:
    report = examine([("paste.txt", BLOCKED[name])])
    assert report.primary is not None
    assert report.primary.rule == "download-blocked"
    assert not {"python-no-wheel", "wheel-index-missing", "macos-intel-no-wheel"} & {f.rule for f in report.findings}
    assert not any("trusted-host" in command for command in report.primary.remedy.commands)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_only_looks_like_it_is_left_alone(name: str) -> None:
    assert "download-blocked" not in {finding.rule for finding in judged(ELSEWHERE[name]).findings}


@pytest.mark.parametrize("name", MODELS)
def test_a_server_of_models_is_a_note_and_no_fault_of_the_environment(name: str) -> None:
    report = examine([("paste.txt", MODELS[name])])
    assert [(f.rule, f.severity) for f in report.findings] == [("download-blocked", "note")]
    assert report.primary is None


def test_the_reason_is_told_apart() -> None:
    titles = {name: judged(text).findings[0].title for name, text in (BLOCKED | MODELS).items()}
    assert "proxy" in titles["pip, a proxy that refuses"]
    assert "resolved" in titles["pip, no names on a compute node"]
    assert "ssl module" in titles["pip without ssl"]
    assert all(
        "certificate" in titles[name]
        for name in ("pip, a company's certificate", "uv", "mamba", "torch.hub, a certificate")
    )


def test_an_index_that_was_read_still_says_that_there_is_no_wheel() -> None:
    report = judged(
        "Python 3.14.0\nERROR: Could not find a version that satisfies the requirement torch==2.5.1 (from versions: none)\n"
    )
    assert report.findings[0].rule == "python-no-wheel"

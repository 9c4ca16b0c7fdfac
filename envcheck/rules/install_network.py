"""The network between this machine and the servers that packages and models come from: certificates, proxies, names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule

_PACKAGES = re.compile(
    r"pypi|pip is configured|CondaSSLError|proxy configuration|pythonhosted|pytorch\.org|anaconda|conda|continuum\.io|mirrors?\.|tuna|aliyun|douban|nvidia|astral\.sh|/simple/|/whl/|\.whl|/packages/",
    re.IGNORECASE,
)
_MODELS = re.compile(r"huggingface|\bhf-mirror|\bhf\.co|modelscope|torch[\\/]hub|torchvision", re.IGNORECASE)

_REASONS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("proxy-http", re.compile(r"proxy appears to only use HTTP", re.IGNORECASE)),
    ("no-ssl", re.compile(r"ssl module (?:in Python )?is not available", re.IGNORECASE)),
    ("expired", re.compile(r"certificate has expired|certificate is not yet valid|certificate: Expired", re.IGNORECASE)),
    (
        "certificate",
        re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|peer certificate|SSL certificate problem|SSL peer cert"
                   r"|CondaSSLError|confirming the ssl certificate|SSLError", re.IGNORECASE),
    ),
    ("proxy", re.compile(r"ProxyError|proxy configuration|tunnel (?:error|connection failed)|proxy\.'", re.IGNORECASE)),
    (
        "name",
        re.compile(r"name resolution|Name or service not known|getaddrinfo|nodename nor servname|dns error|resolve host"
                   r"|NameResolutionError|No such host is known", re.IGNORECASE),
    ),
)  # fmt: skip


def unreachable(facts: Facts) -> Symptom | None:
    """The words of an installer, or of what loads models, that a server could not be reached."""
    return facts.symptom("server-unreachable")


def _host(item: Symptom) -> str:
    """What was asked for, in the words of the text: a host, an address, or the library that asked."""
    named = derive.detail(item, "host", "pool", "uv", "conda", "mamba", "hub", "path", "place")
    if named is None and (item.details.get("open") or item.details.get("entry")):
        return "torch/hub"  # urllib and huggingface_hub do not say the host; in these texts they load models
    return named or item.text


def _reason(item: Symptom) -> str:
    """Which of the causes the text names; "connection" when it names none."""
    said = (item.details.get(k, "") for k in ("cause", "caused", "last", "tried", "chain", "curl", "open", "nossl"))
    text = " ".join((item.text, *said))
    return next((name for name, pattern in _REASONS if pattern.search(text)), "connection")


_TITLES = {
    "no-ssl": "This Python has no ssl module, so pip cannot fetch anything over https",
    "expired": "The certificate of the server is refused: by this machine's clock, or by an old list of authorities, it is not valid",
    "certificate": "The certificate of the server is refused: something between here and there signs with a certificate of its own",
    "proxy": "The proxy that is set does not let the download through",
    "proxy-http": "The proxy is set with https:// and speaks http only",
    "name": "The name of the server cannot be resolved from here",
    "connection": "The server cannot be reached from here",
}
_WHYS = {
    "no-ssl": "It was built without OpenSSL, or its library is not found. Every https address fails, and pip then says that no version exists.",
    "expired": "The clock of this machine is wrong, or its list of authorities (certifi, the system's store) is old.",
    "certificate": "A company's proxy, a virus scanner or a firewall opens https connections and signs them itself; pip, uv, conda and "
    "Python do not know that authority. What follows (no matching distribution, from versions: none) says nothing about the wheels.",
    "proxy-http": "https_proxy (or the system's setting, as Windows hands it on) begins with https://, so TLS is spoken to the proxy itself; "
    "nearly all proxies expect http:// there, also for https addresses.",
    "proxy": "http_proxy, https_proxy or the system's setting names a proxy that is not there, refuses this host, or wants a password.",
    "name": "There is no network, or no DNS for outside names (a compute node, a container, a company network).",
    "connection": "The address is blocked, or slow beyond the time limit, or there is no route: a firewall, a compute node without internet, a region.",
}
_REMEDIES = {
    "no-ssl": ("Use another Python (the distribution's, python.org's, conda's, uv's), or build this one anew with OpenSSL's headers installed.", ()),
    "expired": ("Set the clock, then bring the list of authorities up to date.", ("python -m pip install --upgrade certifi",)),
    "certificate": (
        ("Give the tools the authority's certificate (ask the network's administrators for the file): pip config set global.cert, "
        "SSL_CERT_FILE for uv, REQUESTS_CA_BUNDLE for Python programs, ssl_verify for conda; uv takes the system's store with "
        "--system-certs (older: --native-tls), and pip from 24.2 on does so by itself."),
        ("python -m pip config set global.cert /path/to/company-ca.pem",),
    ),
    "proxy": (
        "Set the right proxy, or none, and try again; what is set shows the first command.",
        ('python -c "import urllib.request; print(urllib.request.getproxies())"',),
    ),
    "proxy-http": (
        "Write the proxy with http:// in both variables, or switch the proxy off for the installation.",
        ("set HTTPS_PROXY=http://HOST:PORT", 'python -c "import urllib.request; print(urllib.request.getproxies())"'),
    ),
    "name": ("See whether the name resolves where the command runs; on a compute node, install on the login node or from a local mirror.", ()),
    "connection": ("Try the address from the same place; behind a firewall set https_proxy, or take a mirror that is reachable.", ()),
}  # fmt: skip


@rule(
    "download-blocked",
    "install",
    "A server that packages or models come from cannot be reached.",
    explains=(
        "python-no-wheel",
        "wheel-index-missing",
        "no-such-release",
        "conda-channel-ended",
        "macos-intel-no-wheel",
        "corrupted-download",
        "torch-not-installed",
    ),
)
def download_blocked(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Certificates, proxies, names: the installer says so, and then that there is no version at all."""
    item = unreachable(facts)
    if item is None:
        return
    where = _host(item)
    if not (_PACKAGES.search(where) or _MODELS.search(where)):
        return
    reason = _reason(item)
    text, commands = _REMEDIES[reason]
    packages = _PACKAGES.search(where) is not None
    offline = (
        ""
        if packages
        else " A model that is in the cache already loads with HF_HUB_OFFLINE=1; else copy its directory here."
    )
    if reason == "certificate" and derive.wheel_os(facts) == "macos":
        text += " python.org's Python has authorities of its own: run Install Certificates.command in its folder below Applications."
    yield rule.finding(
        # Without a model's files a program stops, and the environment is none the worse for it; certificates are part of it.
        "error" if packages or reason in ("certificate", "expired", "no-ssl") else "note",
        title=_TITLES[reason],
        seen=derive.quote(item),
        why=_WHYS[reason],
        remedy=Remedy(text=text + offline, commands=commands),
        confidence="likely",
        otherwise="`curl -sSI https://pypi.org/simple/` and `curl -sSI https://download.pytorch.org/whl/` in the same place (same shell, "
        "same container) show whether it is the network or the one server.",
        line=item.line,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (download_blocked,)

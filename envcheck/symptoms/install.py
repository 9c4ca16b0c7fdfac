"""Error texts about installing, about which Python and which copy is used, and about damaged files.

Sources of the wordings: pip's resolver, cache and network code from 9 to 26; uv's resolver hints (uv-resolver, uv-python);
poetry's chooser and executor; conda's and libmamba's solvers; CPython's import system from 2.7 to 3.14; NumPy's import
guard; the loaders of glibc and musl, dyld and Windows for damaged files.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature
from envcheck.symptoms.fragments import FRAME, WORD_START

_BREAK = r"\s{1,12}(?:[\d.]{1,9}\s{1,12})?"
"""Between two words of a message that was broken into lines."""
_FAMILY = r"(?:torch(?:vision|audio|text|data)?|pytorch(?:-cuda|-gpu|-triton)?|triton|functorch|libtorch)"

_RESOLVE = (
    Signature(
        "no-matching-distribution",
        ("could not find a version that satisfies the requirement", "no matching distribution found for"),
        r"Could not find a version that satisfies the requirement (?P<requirement>"
        + _FAMILY
        + r"\b[^\s(;]{0,80}(?: ?[<>=!~]{1,2} ?[\w.+*]{1,40})?)"
        r"(?:[^\n]{0,200}?\(from versions: ?(?P<versions>[^)\n]{0,1200})\)?)?"
        r"|No matching distribution found for (?P<wanted>" + _FAMILY + r"\b[^\s;)]{0,80})",
    ),
    Signature(
        "wheel-not-supported",
        ("is not a supported wheel on this platform", "is not supported by the current environment"),
        r"(?P<wheel>"
        + _FAMILY
        + r"-\d[\w.+%\-]{3,160}\.whl)\S? (?:as this )?is not (?:a supported wheel on this platform|supported by the)",
    ),
    Signature(
        "uv-no-wheel",
        (
            "with a matching python",
            "matching platform tag",
            "doesn't have a source distribution or wheel",
            "we only found wheels for",
            "only has wheels for the following",
            "no wheels with a matching",
            "no wheels are available with a matching",
        ),
        r"Because (?:only )?(?P<package>"
        + _FAMILY
        + r")\s?(?P<version>[<>=!~]{0,2}[\w.+*]{0,40})[^\n]{0,160}?has no wheels (?:with|are available with) "
        r"a\s+matching\s+(?P<what>Python implementation|Python version|Python ABI|platform)"
        r"|distribution `(?P<dist>"
        + _FAMILY
        + r"[^`@ ]{0,60})[^`]{0,120}`\s+can't be installed because it doesn't have a\s+source distribution or wheel"
        r"|[Yy]ou(?:'re on| require) (?P<have>[^\n]{1,80}?),\s+but\s+(?:we only found wheels for )?`(?P<hint>"
        + _FAMILY
        + r")`\s+\(v(?P<hint_version>[\w.+]{1,30})\)[^\n]{0,60}?(?:with the following|for the following)[^\n:]{0,40}:"
        r"\s+(?P<found>[^\n]{0,300})",
        after=2,
    ),
    Signature(
        "uv-no-version",
        ("because there is no version of", "because there are no versions of", "was not found in the package registry"),
        r"there (?:is no version|are no versions) of (?P<requirement>"
        + _FAMILY
        + r"[=<>!~]{0,2}[\w.+]{0,40})|Because (?P<missing>"
        + _FAMILY
        + r") was not found in the package registry",
    ),
    Signature(
        "poetry-no-candidate",
        ("unable to find installation candidates for",),
        r"Unable to find installation candidates for (?P<package>"
        + _FAMILY
        + r") \((?P<version>[\w.+]{1,40})\)"
        + r"(?:(?:\n[^\n]{0,200}){1,6}?\n[^\n]{0,20}?\d+ wheel\(s\) were skipped as your project's environment does not support the "
        r"identified (?P<tags>abi|platform|python) tags)?",
        after=7,
    ),
    Signature(
        "requires-python",
        ("requires a different python", "requires python", "require a different python version"),
        r"Package '?(?P<package>"
        + _FAMILY
        + r")'? requires a different Python: (?P<have>\d[\d.]{1,8}) not in '(?P<needs>[^'\n]{1,40})'"
        r"|(?P<named>" + _FAMILY + r")\s{1,3}requires Python (?P<range>[<>=!~\d., *]{3,40})",
    ),
    Signature(
        "conda-not-available",
        (
            "packagesnotfounderror",
            "resolvepackagenotfound",
            "nothing provides requested",
            "does not exist (perhaps a typo",
            "not available from current channels",
        ),
        r"(?:PackagesNotFoundError|ResolvePackageNotFound|not available from current channels)[\s\S]{0,200}?- (?P<package>"
        + _FAMILY
        + r"[^\s,]{0,60})|nothing provides requested (?P<requested>"
        + _FAMILY
        + r"[^\n]{0,60})|(?P<tree>"
        + _FAMILY
        + r"[=<> \d.*]{0,30}) (?:\S{1,20} )?does not exist",
        after=6,
    ),
    Signature(
        "conda-no-cuda-package",
        ("packagesnotfounderror", "resolvepackagenotfound", "not available from current channels"),
        r"(?:NotFoundError|PackageNotFound|current channels)[\s\S]{0,400}?\s- (?P<package>(?:cudatoolkit|pytorch-cuda|cuda\d{2,3})\b[^\s,]{0,40}"
        r"|(?:pytorch|torchvision)={1,2}\d[\w.]{0,20}=[\w.*]{0,20}(?:cuda|cu\d)[\w.*]{0,40})",
        after=8,
    ),
    # libmamba: problems_to_str and the tree of problems_explainer. pytorch-cuda of the channel pytorch needs CUDA's parts.
    Signature(
        "conda-cuda-parts-missing",
        ("needed by pytorch-cuda", "perhaps a missing channel", "perhaps a typo or a missing channel"),
        r"nothing provides (?:requested )?(?P<needed>(?:cuda|libcu|libnv|libnpp)[\w\-]{0,30}[^\n]{0,40}?) needed by (?P<by>pytorch-cuda[^\s,]{0,60})"
        r"|(?P<parent>pytorch-cuda)\b[^\n]{0,200}\n(?:[^\n]{0,200}\n){0,3}?[^\n]{0,60}?(?P<tree>(?:cuda|libcu|libnv|libnpp)[\w\-]{0,30} [^\n,]{0,40}(?:,<[\d.]{1,8})?)"
        r" ?,? which does not exist \(perhaps a (?:typo or a )?missing channel\)",
        before=4,
    ),
    Signature(
        "conda-unsatisfiable",
        ("unsatisfiableerror",),
        r"\b(?:LibMamba)?UnsatisfiableError:",
    ),
    Signature(
        "conda-driver-constraint",
        ("__cuda",),
        r"(?:package )?(?P<package>[\w\-]{2,40}-\d[\w.\-]{2,60}) has constraint __cuda ?(?P<needs>[<>=\d.,]{2,24})\S{0,12} conflicting with "
        r"__cuda[-=](?P<have>\d{1,2}\.\d{1,2})",
    ),
    Signature(
        "conda-conflict",
        ("none of the providers can be installed", "conflicts for:"),
        r"package (?P<package>"
        + _FAMILY
        + r"-\d[\w.\-]{2,80}) requires (?P<needed>(?:"
        + _FAMILY
        + r"|cudatoolkit|cuda-version|cuda|cudnn) [^\n]{2,40}?), but none of the providers can be installed"
        r"|Package (?P<name>"
        + _FAMILY
        + r"|cudatoolkit|cuda-version) conflicts for:[^\n]{0,4}\n(?:[^\n]{0,160}\n){0,6}?"
        r" {0,4}(?:(?P<by>[^\n>]{2,60}) -> (?P=name)\[version='(?P<range>[<>=!\d.,a-z]{2,60})'[^\n]{0,80}\n(?:[^\n]{0,160}\n){0,6}?"
        r" {0,4}(?P=name)={1,2}(?P<asked>\d[\w.]{0,12})"
        r"|(?P=name)={1,2}(?P<first>\d[\w.]{0,12})[^\n]{0,80}\n(?:[^\n]{0,160}\n){0,6}?"
        r" {0,4}(?P<then>[^\n>]{2,60}) -> (?P=name)\[version='(?P<span>[<>=!\d.,a-z]{2,60})')",
        after=14,
    ),
    Signature(
        "conda-python-conflict",
        (
            "none of the providers can be installed",
            "would require",
            "incompatible with the existing python installation",
            "-> python[version=",
        ),
        r"package (?P<package>"
        + _FAMILY
        + r"-\d[\w.\-]{3,80}) requires python (?P<needs>[^\n,]{2,40}(?:,<[^\n,]{2,20})?), but none of the providers"
        r"|(?P<spec>"
        + _FAMILY
        + r"[^\n]{0,60}?) -> python\[version='(?P<range>[^'\n]{2,200})'|(?P<tree>"
        + _FAMILY
        + r"[^\n]{1,120}) would require\s+[│├└─ ]{0,20}python (?P<wants>[^\n]{2,60}?)(?:,? which|$)",
        after=1,
    ),
)

_TRANSFER = (
    # pip: _internal/index/collector.py and urllib3's Retry; uv: reqwest's and rustls' chain of causes; conda's gateways and
    # libmamba's curl; transformers and huggingface_hub; urllib. A retry alone may still succeed: only the last one counts.
    Signature(
        "server-unreachable",
        (
            "could not fetch url",
            "max retries exceeded with url",
            "retry(total=0",
            "peer certificate",
            "client error (connect)",
            "dns error",
            "tunnel error",
            "http 000 connection failed",
            "condasslerror",
            "error in your proxy configuration",
            "download error (",
            "urlerror: <urlopen error",
            "the ssl module in python is not available",
            "your proxy appears to only use http",
            "certificate_verify_failed",
            "we couldn't connect to 'http",
            "localentrynotfounderror",
        ),
        r"Could not fetch URL (?P<host>\S{8,200}?): (?P<cause>There was a problem confirming the ssl certificate: [^\n]{0,300}"
        r"|connection error: [^\n]{0,300})"
        r"|HTTPS?ConnectionPool\(host='(?P<pool>[^'\n]{3,80})', port=\d{2,5}\): Max retries exceeded with url[^\n]{0,300}?\(Caused by "
        r"(?P<caused>(?!ReadTimeoutError)[^\n]{3,300})"
        r"|Retry\(total=0,[^\n]{0,120}\) after connection broken by '(?P<last>(?:SSLError|ProxyError|NewConnectionError|NameResolutionError"
        r"|ConnectTimeoutError)[^\n]{0,300})': (?P<path>/[^\s]{2,200})"
        r"|after connection broken by '(?P<tried>SSLError\(SSLCertVerificationError[^\n]{0,300}|ProxyError\('Your proxy appears to only use HTTP[^\n]{0,300})"
        r"': (?P<place>/[^\s]{2,200})"
        r"|(?:https?://(?P<uv>[^\s/`)]{3,80})[^\n]{0,200}\n(?:[^\n]{0,200}\n){0,3}?)?[^\n]{0,40}(?P<chain>invalid peer certificate: \w{3,40}|dns error"
        r"[^\n]{0,80}|tunnel error[^\n]{0,80}|client error \(Connect\)(?:[^\n]{0,20}\n[^\n]{0,120})?)"
        r"|HTTP 000 CONNECTION FAILED for url <(?P<conda>[^>\n]{8,200})>|CondaSSLError|an error in your proxy configuration"
        r"|Download error \((?:6|7|28|35|60)\) (?P<curl>[^\[\n]{3,80})\[(?P<mamba>[^\]\n]{8,200})"
        r"|URLError: <urlopen error (?P<open>\[SSL: CERTIFICATE_VERIFY_FAILED\][^\n>]{0,120}|\[Errno (?:-2|-3|8|101|110|111|113|11001|11002)\][^\n>]{0,80}"
        r"|\[WinError 100\d\d\][^\n>]{0,120}|Tunnel connection failed[^\n>]{0,60}|timed out)"
        r"|(?P<nossl>the ssl module in Python is not available)"
        r"|We couldn't connect to '(?P<hub>https?://[^'\n]{3,80})' to load|LocalEntryNotFoundError: (?P<entry>Connection error|An error happened)",
        before=4,
        after=1,
    ),
    # curl by itself, as people try an address with it; -v says the host.
    Signature(
        "server-unreachable",
        ("curl: (6)", "curl: (7)", "curl: (28)", "curl: (35)", "curl: (60)"),
        r"(?:(?:Connected to |Host |curl [^\n]{0,80}?https?://)(?P<host>[\w.\-]{4,80})[^\n]{0,200}\n(?:[^\n]{0,200}\n){0,24}?)?"
        r"curl: \((?:6|7|28|35|60)\) (?P<curl>[^\n]{3,160})",
        before=24,
    ),
    Signature(
        "hash-mismatch",
        (
            "do not match the hashes from the requirements file",
            "hash mismatch for",
            "invalid hashes",
            "not found in known hashes",
            "checksummismatcherror",
            "hashes from the requirements file",
            "mismatch between the expected content and downloaded content",
        ),
        r"DO NOT MATCH THE HASHES(?:[\s\S]{0,400}?\s(?P<package>[\w.\-]{2,60})(?:==\S{1,40})? from )?"
        r"|Hash mismatch for `(?P<uv>[^`\n]{2,80})|Invalid hashes|not found in known hashes|ChecksumMismatchError"
        r"|mismatch between the expected content and downloaded content",
        after=3,
    ),
    Signature(
        "download-broken",
        (
            "incompleteread(",
            "incomplete-download",
            "not enough bytes were received",
            "read timed out",
            "connection broken:",
            "error decoding response body",
            "connectionreseterror",
            "failed to download distribution due to network timeout",
            "request or response body error",
            "chunkedencodingerror",
        ),
        r"(?:(?P<tool>pip[\\/]_(?:vendor|internal)|pip\._vendor|poetry|pypoetry|conda)[\s\S]{0,400}?)?"
        r"IncompleteRead\((?P<got>\d+) bytes read(?:, (?P<more>\d+) more expected)?|incomplete-download"
        r"|not enough bytes were received(?:[^\n]{0,20}\((?P<have>[\d.]+ [kMG]?B) ?/ ?(?P<size>[\d.]+ [kMG]?B))?"
        r"|ReadTimeoutError[^\n]{0,200}(?:pytorch|pythonhosted|pypi)|Connection broken: \S{0,80}"
        r"|(?:Failed to (?:download|fetch|extract)[^\n]{0,200}"
        + _FAMILY
        + r"[\s\S]{0,400}?)(?:error decoding response body|request or response body error|timeout|timed out|unexpected EOF)",
        before=4,
        after=3,
    ),
    Signature(
        "archive-damaged",
        (
            "badzipfile",
            "bad crc-32",
            "file is not a zip file",
            "appears to be corrupted",
            "invalidarchiveerror",
            "is invalid.",
            "failed to extract archive",
            "unexpected end of file",
            "error -3 while decompressing",
            "not enough image data",
        ),
        r"(?:BadZipFile|BadZipfile): (?P<what>[^\n]{3,120})|Bad CRC-32 for file '(?P<file>[^'\n]{3,160})'"
        r"|Wheel '(?P<wheel>"
        + _FAMILY
        + r")' located at [^\n]{0,200} is invalid|The package for (?P<conda>"
        + _FAMILY
        + r") located at [^\n]{0,200}(?:\n[^\n]{0,60})?appears to be corrupted|InvalidArchiveError"
        r"|Failed to extract archive: (?P<archive>" + _FAMILY + r"[^\n]{0,100})|Error -3 while decompressing data",
        after=1,
    ),
    Signature(
        "pip-killed",
        ("killed", "memoryerror"),
        r"(?:Downloading|Installing collected packages|Collecting|Using cached|Saved)[^\n]{0,80}"
        + _FAMILY
        + r"[\s\S]{0,400}?\n[^\n]{0,12}Killed[ \t]*$"
        r"|pip[\\/]_(?:vendor|internal)[\\/][^\n]{0,200}\n(?:[^\n]{0,300}\n){0,4}?[ \t]{0,12}(?P<python>MemoryError)\b",
        before=6,
    ),
    Signature(
        "index-file-gone",
        ("http error 404 while getting", "http error 403 while getting"),
        r"HTTP error (?P<code>404|403) while getting (?P<url>https?://\S{8,300})",
    ),
    # pip: commands/install.py, create_os_error_message.
    Signature(
        "long-path",
        ("windows long path support",),
        r"does not have Windows Long Path support enabled",
    ),
    Signature(
        "install-denied",
        ("could not install packages due to",),
        r"Could not install packages due to an? (?:OSError|EnvironmentError|PermissionError): \[(?P<code>WinError (?:5|32)|Errno 13)\] "
        r"[^\n]{3,120}?['\"](?P<file>[^'\"\n]{3,300})",
    ),
    Signature(
        "record-missing",
        ("record file not found", "no record file was found", "uninstall-no-record-file"),
        r"Cannot uninstall (?P<package>[\w.\-]{2,60})[ ,][^\n]{0,60}RECORD file (?:was )?not found"
        r"|no RECORD file was found for (?P<named>[\w.\-]{2,60}?)\.?(?:$|\s)|uninstall-no-record-file",
        after=2,
    ),
    Signature(
        "invalid-distribution",
        ("ignoring invalid distribution",),
        r"Ignoring invalid distribution [~\-](?P<name>(?:orch|ytorch|riton|umpy|vidia)[\w\-]{0,30})",
    ),
    Signature(
        "externally-managed",
        ("externally-managed-environment", "this environment is externally managed"),
        r"externally-managed-environment|This environment is externally managed",
    ),
    Signature(
        "pip-replaced-torch",
        ("successfully uninstalled torch-", "successfully uninstalled pytorch-"),
        r"Successfully uninstalled (?:py)?torch-(?P<version>\d[\w.+]{0,40})",
    ),
    Signature(
        "pip-installed-torch",
        ("successfully installed", " torch-"),
        r"Successfully installed [^\n]{0,1200}?\btorch-(?P<version>\d[\w.+]{0,40})",
    ),
    Signature(
        "pip-satisfied-torch",
        ("requirement already satisfied: torch",),
        r"Requirement already satisfied: torch(?:[^\w\n][^\n]{0,60}?)? in (?P<path>[^\n(]{2,200}?)(?: \(|$)(?P<version>\d[\w.+]{0,40})?",
    ),
)

_IMPORTS = (
    Signature(
        "python-32bit",
        ("32 bit (intel)", "(32-bit runtime)", "32 bit (arm)"),
        r"\[MSC v\.\d{4} 32 bit \((?:Intel|ARM)\)\]|\(32-bit runtime\)",
    ),
    Signature(
        "torch-not-found",
        ("no module named 'torch'", "no module named torch", 'no module named "torch"', "no module named pytorch",
         "no module named 'pytorch'", "requires the pytorch library but it was not found"),
        r"No module named ['\"]?(?P<name>torch|pytorch)['\"]?(?![\w.'])"
        r"|requires the (?P<library>PyTorch) library but it was not found in your environment",
    ),
    Signature(
        "build-context",
        (
            "subprocess-exited-with-error",
            "did not run successfully",
            "get_requires_for_build",
            "build_meta",
            "the build backend returned an error",
            "metadata-generation-failed",
            "failed to build",
            "but doesn't declare it as a build dependency",
            "this error likely indicates that",
            "getting requirements to build",
            "pip-build-env",
        ),
        r"subprocess-exited-with-error|Getting requirements to build (?:wheel|editable) did not run|get_requires_for_build_\w{3,10}"
        r"|build_meta(?:\.py|:__legacy__)|The build backend returned an error|metadata-generation-failed|Failed to build `?[\w.\-]{2,60}"
        # uv breaks its hints at the width of the terminal, and docker numbers the lines of a build.
        rf"|depends{_BREAK}on{_BREAK}`?torch`?,{_BREAK}but{_BREAK}doesn't{_BREAK}declare"
        r"|Getting requirements to build (?:wheel|editable)[ .]{1,6}error|(?P<place>pip-build-env)-",
        after=2,
    ),
    Signature(
        "build-requirement",
        ("no module named 'packaging'", "no module named 'wheel'", "no module named 'psutil'", "no module named 'cython'",
         "no module named 'pybind11'", "no module named 'cmake'", "no module named 'skbuild'", "no module named 'setuptools_scm'",
         "no module named 'scikit_build_core'", "no module named 'ninja'"),
        r"No module named '(?P<module>packaging|wheel|psutil|Cython|pybind11|cmake|skbuild|setuptools_scm|scikit_build_core|ninja)(?:\.[\w.]{1,60})?'",
    ),
    Signature(
        "torch-c-missing",
        ("no module named 'torch._c'", "no module named torch._c", "failed to load pytorch c extensions",
         "cannot import name '_c' from 'torch'"),
        r"No module named '?torch\._C'?(?![\w.])|Failed to load PyTorch C extensions|cannot import name '_C' from 'torch'",
    ),
    Signature(
        "torch-part-missing",
        ("cannot import name '_c' from partially", "no module named 'torch.", "torch.nn", "torch.utils", "from 'torch' (unknown location)", "module 'torch' has no attribute",
         "has no attribute '__version__'"),
        r"No module named 'torch\.(?P<module>nn|utils|cuda|autograd|jit|optim|distributed|fx|storage|serialization|types|torch_version"
        r"|_utils|_utils_internal|_tensor|version|multiprocessing|random|functional|backends|library)(?:\.[\w.]{1,60})?'"
        r"(?P<package>; 'torch' is not a package)?"
        r"|cannot import name '(?P<name>\w{1,40})' from 'torch' \(unknown location\)"
        r"|cannot import name '(?P<compiled>_C)' from partially initialized module 'torch' [^\n]{0,300}(?:site|dist)-packages"
        r"|module 'torch' has no attribute '(?P<attribute>__version__|Tensor|nn|cuda|device|tensor|float32|zeros|load|save|from_numpy|manual_seed)'",
    ),
    Signature(
        "module-shadowed",
        ("most likely due to a circular import", "cannot import name", "consider renaming", "is not a package"),
        r"partially initialized module '(?P<module>[\w.]{1,60})'[^\n]{0,100}\(most likely due to a circular import\)"
        r"(?:\s{1,2}\((?P<path>[^)\n]{3,260})\))?"
        r"|cannot import name '\w{1,60}' from '(?P<source>[\w.]{1,60})' \((?P<source_path>(?!unknown location)[^)\n]{3,260})\)"
        r"|\(consider renaming '(?P<renaming>[^'\n]{3,260})'"
        r"|No module named '[\w.]{3,80}'; '(?P<not_package>\w{1,40})' is not a package",
    ),
    Signature(
        "torch-name-missing",
        ("module 'torch", "no module named 'torch", "from 'torch", 'no module named "torch'),
        FRAME
        + r"(?:(?<!initialized )module '(?P<owner>torch(?:vision|audio)?(?:\.[\w.]{1,60})?)' has no attribute '(?P<attribute>\w{1,60})'"
        r"|No module named ['\"](?P<submodule>torch(?:vision|audio)?\.[\w.]{1,80})['\"]"
        r"|cannot import name '(?P<imported>\w{1,60})' from '(?P<source>torch(?:vision|audio)?(?:\.[\w.]{1,80})?)')",
        before=9,
    ),
    # transformers: utils/import_utils.py (check_torch_load_is_safe, the minimum of is_torch_available).
    Signature(
        "torch-release-wanted",
        ("require users to upgrade torch to at least", "disabling pytorch because pytorch", "unsupported autocast device_type 'mps'"),
        r"require users to upgrade torch to at least v?(?P<least>\d+\.\d+)"
        r"|unsupported autocast device_type '(?P<autocast>mps)'"
        r"|Disabling PyTorch because PyTorch ?>= ?(?P<minimum>\d+\.\d+) is required but found (?P<have>[\w.+]{1,30})",
    ),
    # Headers and macros that C++ and CUDA sources of older days include. pytorch release notes 1.5, 1.11, 2.1.
    Signature(
        "source-for-older-torch",
        ("thc/thc", "at_check", "you need c++17 to compile pytorch", "deprecatedtypeproperties"),
        r"(?P<thc>THC/THC\w{0,40}\.(?:cuh|h))['>:\"]?(?:: No such file| file not found)|[Cc]annot open (?:include|source) file:? [\"']?(?P<thc2>THC/THC\w{0,40}\.(?:cuh|h))"
        r"|(?:identifier \"|[\u2018'`])(?P<check>AT_CHECK)[\"\u2019'`]? (?:is undefined|was not declared|: identifier not found)"
        r"|(?P<standard>You need C\+\+17 to compile PyTorch)"
        r"|(?:no suitable conversion function from|cannot convert) [^\n]{0,40}(?P<type>DeprecatedTypeProperties)[^\n]{0,30}ScalarType",
    ),
    # The source package of 2017 on PyPI: what pip falls back to where no wheel fits. Its setup.py refuses, or lacks a tool.
    Signature(
        "torch-source-of-2017",
        ("does not currently provide packages for pypi", "no module named 'tools.nnwrap'", "no module named tools.nnwrap"),
        r"PyTorch does not currently provide packages for PyPI|No module named '?tools\.nnwrap'?",
    ),
    Signature(
        "pytorch-name",
        ('you tried to install "pytorch"',),
        r"You tried to install \"pytorch\"",
    ),
    Signature(
        "torchcodec-missing",
        ("torchcodec is required for",),
        r"TorchCodec is required for \w{3,30}",
    ),
    Signature(
        "torchcodec-load",
        ("could not load libtorchcodec",),
        r"Could not load libtorchcodec[\s\S]{0,600}?The PyTorch version \((?P<torch>\d[\w.+]{1,30})\)|Could not load libtorchcodec",
        after=6,
    ),
    # The compiled part of torch looks names up in the Python part beside it: torch/csrc/Module.cpp, THPModule_initExtension.
    Signature(
        "torch-parts-differ",
        ("_c._initextension(", "module 'torch._c' has no attribute"),
        r"_C\._initExtension\([^\n]{0,60}\n(?:[^\n]{0,200}\n){0,4}?[^\n]{0,60}AttributeError: (?:partially initialized )?"
        r"module 'torch' has no attribute '(?P<attribute>\w{1,60})'"
        r"|packages[\\/]torch[\\/](?:\w{1,40}[\\/]){0,3}\w{1,40}\.py\", line \d{1,5}, in <module>\n[^\n]{0,300}\n(?:[ \t~^]{1,200}\n)?"
        r"[^\n]{0,40}AttributeError: module 'torch\._C' has no attribute '(?P<compiled>\w{1,60})'",
        before=4,
        after=5,
    ),
    Signature(
        "torch-half-imported",
        ("partially initialized module 'torch'",),
        FRAME + r"AttributeError: partially initialized module 'torch' has no attribute '(?P<attribute>\w{1,60})'"
        r"(?! \(most likely due to a circular import\)\s{1,2}\()",
        before=9,
    ),
    Signature(
        "script-shadows-module",
        ("importlib/__init__.py", "importlib\\__init__.py", "<frozen importlib"),
        r"^[^\n\"]{0,80}?File \"(?P<path>(?![^\"\n]{0,240}(?:site-packages|dist-packages|[\\/]lib[\\/]python|[\\/]Lib[\\/]|importlib|<frozen))"
        r"(?:[^\"\n]{0,240}[\\/])?(?P<module>torch|torchvision|torchaudio|numpy|onnx|triton|typing|types|random|queue|enum|logging"
        r"|inspect|copy|io|operator|signal|socket|select|json|string|struct|statistics|tempfile|threading|token|tokenize|traceback"
        r"|profile|code|calendar|email|numbers|platform|abc|ast|bisect|cmd|csv|ctypes|datetime|decimal|dis|functools|glob|gzip|hashlib"
        r"|heapq|importlib|itertools|keyword|pickle|pathlib|secrets|selectors|site|ssl|subprocess|symtable|time|uuid|warnings|weakref"
        r"|zipfile|yaml|transformers|tokenizers|accelerate|diffusers|scipy|sklearn|matplotlib|pandas|requests|packaging|networkx"
        r"|sympy|jinja2|filelock|fsspec|mpmath|setuptools|tensorboard|wandb|lightning|timm|einops|xformers|bitsandbytes|deepspeed"
        r"|sentencepiece|tqdm|cv2|PIL|cuda)\.py)\", line \d{1,6}, in <module>\n"
        r"(?:[^\n]{0,300}\n){0,9}?[^\n]{0,80}?(?:File \"[^\"\n]{0,240}(?:importlib[\\/]__init__\.py|<frozen importlib)"
        r"|<frozen importlib)",
        before=10,
    ),
)  # fmt: skip

_NUMPY = (
    Signature(
        "numpy-abi",
        (
            "compiled using numpy 1.x",
            "_array_api not found",
            "numpy.dtype size changed",
            "but this version of numpy is",
            "numpy.core.multiarray failed to import",
            "numpy._core.multiarray failed to import",
        ),
        r"compiled using NumPy 1\.x cannot be run in(?:[^\n]{0,10}\n[^\n]{0,10}?| )NumPy (?P<numpy>\d[\w.]{1,12})"
        r"|(?P<array_api>_ARRAY_API not found)|numpy\.dtype size changed, may indicate binary incompatibility"
        r"|compiled against (?:API|ABI) version (?P<api>0x\w{1,8}) but this version of numpy is (?P<has>0x\w{1,8})"
        r"|numpy\.(?:_)?core\.multiarray failed to import",
        after=1,
    ),
    Signature(
        "numpy-unavailable",
        ("numpy is not available", "could not infer dtype of numpy"),
        r"Numpy is not available|Could not infer dtype of numpy\.\w{3,12}",
    ),
    Signature(
        "numpy-missing",
        ("no module named 'numpy'", "failed to initialize numpy: no module named"),
        r"Failed to initialize NumPy: No module named '?numpy|No module named '?numpy'?(?![\w.])",
    ),
    Signature(
        "numpy-name-removed",
        ("module 'numpy' has no attribute", "was removed in the numpy 2.0 release", "module 'numpy.core"),
        r"module 'numpy' has no attribute '(?P<name>float|int|bool|object|str|complex|long|unicode|typeDict|float_|complex_|NaN|Inf|product"
        r"|cumproduct|in1d|trapz|row_stack|string_|unicode_)'|`np\.(?P<removed>\w{2,20})` was removed in the NumPy 2\.0 release",
    ),
    Signature(
        "setuptools-missing-part",
        ("no module named 'pkg_resources'", "no module named pkg_resources", "from 'pkg_resources'", "no module named 'setuptools'",
         "no module named 'distutils", "module 'distutils' has no attribute 'version'"),
        FRAME + r"(?:No module named '?(?P<module>pkg_resources|setuptools|distutils)[\w.]{0,30}'?"
        r"|cannot import name '(?P<name>packaging)' from 'pkg_resources|module '(?P<attribute>distutils)' has no attribute 'version')",
        before=9,
    ),
    Signature(
        "setuptools-cap",
        ("requires setuptools<",),
        r"torch (?P<torch>\d[\w.+]{1,30}) requires setuptools(?P<cap><\d+)[^\n]{0,60}(?:have setuptools (?P<have>\d[\w.]{0,12}))?",
    ),
    # pip: resolution/resolvelib/factory.py; uv: PubGrub's derivation; poetry: mixology/failure.py.
    Signature(
        "resolver-refuses",
        ("these package versions have conflicting dependencies", "version solving failed", "your requirements are unsatisfiable",
         "are incompatible."),
        r"these package versions have conflicting dependencies|version solving failed|your requirements are unsatisfiable"
        r"|we can conclude that [^\n]{3,200} are incompatible\.",
    ),
    Signature(
        "resolver-conflict",
        ("these package versions have conflicting dependencies", " depends on torch"),
        r"(?:The user requested (?P<user>torch[^\s,;]{0,40})\n(?:[^\n]{0,200}\n){0,6}?)?"
        r"[ \t]{0,12}(?P<package>[a-z][\w.\-]{1,40})(?:\[[\w,]{1,40}\])? (?P<version>\d[\w.+]{0,30}) depends on (?P<needs>torch(?:vision|audio)?[<>=!~][^\n;]{1,40})"
        r"|Because (?P<uv>[a-z][\w.\-]{1,40})(?:==|\s)(?P<uv_version>\d[\w.+]{0,30}) depends on (?P<uv_needs>torch(?:vision|audio)?[<>=!~][\w.+,<>=!~]{1,40}) and "
        r"(?:you|your project) (?:require|depends on) (?P<uv_asked>torch(?:vision|audio)?[<>=!~][\w.+<>=!~]{1,40})"
        r"|Because (?P<poetry>[a-z][\w.\-]{1,40}) \((?P<poetry_version>\d[^)\n]{0,30})\) depends on (?P<poetry_needs>torch(?:vision|audio)? \([^)\n]{1,40}\))"
        r"\s+and [\w .\-]{1,60}? depends on (?P<poetry_asked>torch(?:vision|audio)? \([^)\n]{1,40}\))",
        before=6,
        after=1,
    ),
    Signature(
        "pip-requirement-conflict",
        (" requires torch==", "which is incompatible", "requires torch<", "requires torch>"),
        r"(?P<package>[\w.\-]{2,40}) (?P<version>\d[\w.+]{0,30}) requires torch(?P<needs>[<>=!~]{1,2}[\w.+,<>=!~]{1,40}), "
        r"but you have torch (?P<have>\d[\w.+]{0,30})",
    ),
)  # fmt: skip

_DAMAGE = (
    Signature(
        "file-damaged",
        (
            "file too short",
            "invalid elf header",
            "load command past end of file",
            "elf file's phentsize",
            "elf load command",
            "file is truncated",
            "cannot read file data",
            "not a mach-o file",
            "truncated mach-o",
            "no loadable segments",
            "mach-o file, but is an",
        ),
        FRAME
        + WORD_START
        + r"(?P<file>[^\s'\"`:(,]{3,300}): (?P<what>file too short|invalid ELF header|ELF load command past end of file"
        r"|ELF load command[^\n]{0,60}|ELF file's phentsize[^\n]{0,60}|cannot read file data[^\n]{0,40}|file is truncated"
        r"|object file has no loadable segments)|'?(?P<macho>/[^\s'\"]{3,300})'? ?\((?P<macho_what>not a mach-o file|slice is not valid mach-o file"
        r"|file is truncated|[^)\n]{0,40}truncated[^)\n]{0,40})\)",
        before=9,
    ),
    Signature(
        "wrong-architecture",
        (
            "incompatible architecture",
            "wrong elf class",
            "not a valid win32 application",
            "winerror 193",
            "wrong architecture",
            "cannot open shared object file: exec format",
            "exec format error",
        ),
        r"(?P<file>[^\s'\"(]{3,300})'? ?\((?:mach-o file, but is an incompatible architecture \()?"
        r"have ?\(?'?(?P<have>[\w,]{3,20})'?\)?, need ?\(?'?(?P<need>[\w]{3,20})[^)\n]{0,30}\)?"
        r"|incompatible architecture[^\n]{0,40}have ?\(?'(?P<have2>[\w,]{3,20})'\)?,[^\n]{0,20}need ?\(?'(?P<need2>\w{3,20})"
        r"|wrong ELF class: (?P<elf>ELFCLASS(?:32|64))|not a valid Win32 application|\[WinError 193\]|wrong architecture"
        r"|(?<!': )Exec format error",
    ),
    Signature(
        "package-file-missing",
        ("no such file or directory", "filenotfounderror"),
        r"FileNotFoundError: [^\n]{0,40}No such file or directory: '(?P<file>[^'\n]{0,200}(?:site|dist)-packages[\\/](?:torch|triton|"
        r"torchvision|torchaudio|nvidia)[\\/][^'\n]{2,160})'",
    ),
)

SIGNATURES: tuple[Signature, ...] = (*_RESOLVE, *_TRANSFER, *_IMPORTS, *_NUMPY, *_DAMAGE)

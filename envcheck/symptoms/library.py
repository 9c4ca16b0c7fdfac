"""Error texts of the dynamic loaders (glibc, musl, dyld, Windows) and of the CUDA libraries about each other.

One signature per thing that a loader can say; which cause it is follows from the file and the symbol, see
`envcheck/rules/library_loader.py`. Sources of the wordings: glibc elf/dl-*.c, musl ldso/dynlink.c, dyld, Windows system
messages in the languages met in public reports, ctypes and torch/__init__.py (`_load_dll_libraries`,
`_preload_cuda_deps`), aten/src/ATen/cudnn/Exceptions.h and torch/backends/cudnn/__init__.py, cuDNN 8 and 9, LLVM's and
Intel's OpenMP runtime, mkl-service.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature
from envcheck.symptoms.fragments import FRAME, WORD_START

_LOADER = (
    Signature(
        "undefined-symbol",
        ("undefined symbol", "symbol not found", "symbol lookup error", "with link time reference"),
        FRAME + r"(?:" + WORD_START + r"(?P<file>[^\s'\"`:(,]{3,300}): undefined symbol: "
        r"(?P<symbol>[\w.@$?]{2,600})(?:, version (?P<version>[\w.+\-]{2,80}))?(?: \((?:fatal|\w{3,30})\))?"
        r"|"
        + WORD_START
        + r"(?P<linked_file>[^\s'\"`:(,]{3,300}): symbol (?P<linked>[\w.@$?]{2,600}),? version (?P<linked_version>[\w.+\-]{2,80}) not defined in"
        r"|Error relocating (?P<musl_file>[^\s:]{3,300}): (?P<musl_symbol>[\w.@$?]{2,600}): symbol not found"
        r"|(?:dlopen\((?P<dlopen_file>[^\s,()]{3,300}), 0x\w{1,8}\): )?Symbol not found: \(?(?P<dyld_symbol>[\w.$]{2,600})\)?(?:[\s\S]{0,80}?Referenced from: (?:<[0-9A-F\-]{36}> )?"
        r"(?P<dyld_file>[^\n'\"]{3,300}?)(?: \(built for [^)\n]{1,40}\)[^\n]{0,20})?(?:\n|$))?"
        r"(?:\s{0,8}Expected in: (?:<[0-9A-F\-]{36}> )?(?P<expected>[^\n]{3,300}))?"
        r"|symbol '(?P<quoted>[\w.@$?]{2,600})' not found"
        # Without the file ahead of it: a C++ name of torch alone is enough to say whose it is.
        r"|(?:^|[\s`'\"(:])undefined symbol:? {0,2}(?P<bare>_Z[\w.@$?]{6,600}))",
        before=9,
        after=3,
    ),
    Signature(
        "missing-library",
        (
            "cannot open shared object file",
            "error loading shared library",
            "library not loaded",
            "could not load dynamic library",
        ),
        FRAME
        + r"(?:(?:Could not load library (?P<asked>lib[\w.+\-]{2,80}?)\. Error: )?"
        + WORD_START
        + r"(?P<library>[^\s'\"`:(,]{0,200}?lib[\w.+\-]{2,80}(?<!\.)): cannot open shared object file"
        r"|Error loading shared library (?P<musl>[^\s:]{3,200}): [^\n(]{0,80}(?:\(needed by (?P<needed_by>[^)\n]{3,300})\))?"
        r"|Library not loaded: (?P<dyld>[^\s'\"]{3,300})(?:\s{1,8}Referenced from: (?:<[0-9A-F\-]{36}> )?(?P<dyld_file>[^\n'\"]{3,300}))?"
        r"|Could not load dynamic library '(?P<tf>[^'\n]{3,100})')",
        before=9,
        after=2,
    ),
    Signature(
        "missing-symbol-version",
        (
            "not found (required by",
            "version `glibc",
            "version 'glibc",
            "version ‘glibc",
            "version `cxxabi",
            "version 'cxxabi",
        ),
        WORD_START
        + r"(?P<provider>[^\s'\"`:(,]{3,300}): version [`'\"‘](?P<need>(?:GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP|OPENSSL|CUDNN|NCCL|lib[\w.\-]{2,40})"
        r"[\w.\-]{0,40})['\"’] not found(?: \(required by (?P<file>[^)\n]{3,400})\))?",
    ),
    Signature(
        "executable-stack",
        ("executable stack",),
        r"(?:(?P<file>[^\s:'\"]{3,300}): )?cannot enable executable stack(?: as shared object requires)?",
    ),
    Signature(
        "static-tls",
        ("static tls",),
        FRAME
        + r"(?:(?P<file>[^\s:'\"]{3,300}): )?cannot (?:allocate memory in|load any more object with) static TLS(?: block)?",
        before=9,
    ),
    Signature(
        "preload-not-found",
        ("not found in the system path",),
        r"ValueError: (?P<library>lib[\w.*\[\]0-9\-]{2,60}) not found in the system path",
    ),
    Signature(
        "ld-debug-init",
        ("calling init:",),
        r"calling init: (?P<path>/(?:lib|lib64|usr|opt)[^\s]{0,200}/(?P<library>lib(?:cudnn|cublas|nccl|cudart|nvJitLink|cusparse)\w{0,60})"
        r"\.so[\w.]{0,20})",
    ),
    Signature(
        "library-variable",
        ("ld_library_path",),
        r"(?:^|[\s$\"'{;])(?P<name>(?:DY)?LD_LIBRARY_PATH)(?:[}\"']{0,2}[ \t]{0,2}[=:][ \t]{0,2}[\"']?|[}\"']{0,2}[ \t]*\n[ \t>]{0,4})"
        r"(?P<value>/[^\s'\"]{1,600})",
        after=1,
    ),
)

_STUBS = (
    Signature(
        "cuda-stub",
        ("/stubs/libcuda", "stub library", "cudaerrorstublibrary", "cuda_error_stub_library", "stubs\\"),
        r"(?P<path>/[^\s'\":,]{0,240}/stubs/libcuda\.so[\w.]{0,20})|CUDA driver is a stub library|cudaErrorStubLibrary"
        r"|CUDA_ERROR_STUB_LIBRARY|libnvidia-ml\.so in GDK package is a stub library",
    ),
)

_CUDNN = (
    Signature(
        "cudnn-version-incompatible",
        (
            "cudnn version incompatibility",
            "compiled against cudnn",
            "loaded runtime cudnn library",
            "cudnn version mismatch",
        ),
        r"cuDNN version (?:incompatibility|mismatch): PyTorch was compiled\s+against \(?(?P<built>[\d, .]{3,20}?)\)?\s+but (?:is )?"
        r"(?:found runtime version|linked against) \(?(?P<found>[\d, .]{3,20}\d)"
        r"|Loaded runtime CuDNN library: (?P<runtime>[\d.]{3,12})\d? [^\n]{0,120}?(?:source was compiled with|compiled with): "
        r"(?P<source>[\d.]{3,12}\d)",
        after=2,
    ),
    Signature(
        "cudnn-sublibrary",
        (
            "cudnn_status_sublibrary_version_mismatch",
            "cudnn_status_sublibrary_loading_failed",
            "cudnn_status_version_mismatch",
            "unable to load any of {libcudnn",
            "invalid handle. cannot load symbol cudnn",
            "could not load symbol cudnn",
        ),
        r"CUDNN_STATUS_(?P<status>SUBLIBRARY_VERSION_MISMATCH|SUBLIBRARY_LOADING_FAILED|VERSION_MISMATCH)"
        r"|Unable to load any of \{(?P<library>libcudnn\w{0,40})|Cannot load symbol (?P<symbol>cudnn\w{3,40})"
        r"|Could not load symbol (?P<symbol2>cudnn\w{3,40})(?:\. Error: (?P<error>[^\n]{3,200}))?",
    ),
    Signature(
        "cudnn-load-failed",
        ("could not load library libcudnn", "could not load library cudnn", "could not locate cudnn", "cudnn64_"),
        r"Could not load library (?P<library>libcudnn[\w.\-]{0,60}?)\. Error: (?P<error>[^\n]{3,500})"
        r"|Could not lo(?:ad library|cate) (?P<dll>cudnn\w{0,60}64_\d{1,2}\.dll)(?:\. Error code (?P<code>\d{1,5}))?",
    ),
    Signature(
        "cudnn-arch-mismatch",
        (
            "cudnn_status_arch_mismatch",
            "cudnn_status_not_supported_arch_mismatch",
            "cudnn_status_not_supported_architecture",
        ),
        r"CUDNN_STATUS_(?:NOT_SUPPORTED_)?ARCH\w{0,24}",
    ),
    Signature(
        "cudnn-no-engine",
        ("unable to find an engine to execute this computation", "unable to find a valid cudnn algorithm"),
        r"unable to find an engine to execute this computation|Unable to find a valid cuDNN algorithm",
    ),
)

_OPENMP = (
    Signature(
        "omp-duplicate",
        ("omp: error #15", "but found libiomp5", "but found libomp", "already initialized."),
        r"OMP: Error #15(?:: Initializing (?P<second>[\w.\-]{3,40}), but found (?P<first>[\w.\-]{3,40}) already initialized)?"
        r"|Initializing (?P<new>lib[\w.\-]{2,40}), but found (?P<old>[\w.\-]{3,40}) already initialized",
    ),
    Signature(
        "openmp-header-missing",
        ("omp.h",),
        r"fatal error: '?omp\.h'?(?:: No such file or directory| file not found)",
    ),
    Signature(
        "sndfile-missing",
        ("sndfile library not found",),
        r"sndfile library not found",
    ),
    Signature(
        "macos-older-than-built",
        ("which is newer than running os", "expected in: "),
        r"built for macOS (?P<built>\d{2}(?:\.\d{1,2})?) which is newer than running OS"
        r"|Symbol not found: \(?(?P<symbol>[\w$]{3,200})\)?[\s\S]{0,700}?Expected in:? {1,3}(?:<[0-9A-F\-]{36}> )?(?P<system>/(?:usr/lib|System/Library)/[^\s']{3,200})",
        before=4,
    ),
    Signature(
        "mkl-threading-layer",
        ("is incompatible with libgomp", "mkl_threading_layer"),
        r"MKL_THREADING_LAYER=INTEL is incompatible with (?P<library>libgomp[\w.\-]{0,40})",
    ),
    Signature(
        "omp-two-families",
        ("loaded at the same time",),
        r"Found Intel OpenMP \('?libiomp'?\) and LLVM OpenMP \('?libomp'?\) loaded at\s+the same time",
        after=1,
    ),
)

# Windows says the same in the language of the system; the number stands only in the WinError form. Texts by number.
# A dot stands for a letter with an accent, which some programs print as an escape ("biblioth\\xe8que").
_126 = (
    r"The specified module could not be found|找不到指定的模块|找不到指定的模組|指定されたモジュールが見つかりません|Das angegebene Modul wurde nicht gefunden"
    r"|Le module sp.cifi. est introuvable|No se puede encontrar el m.dulo especificado|Не найден указанный модуль"
    r"|N.o foi poss.vel encontrar o m.dulo especificado|지정된 모듈을 찾을 수 없습니다|Impossibile trovare il modulo specificato"
    r"|Nie można odnaleźć określonego modułu|Belirtilen modül bulunamadı"
)
_127 = (
    r"The specified procedure could not be found|找不到指定的程序|找不到指定的程序|指定されたプロシージャが見つかりません|Die angegebene Prozedur wurde nicht gefunden"
    r"|La proc.dure sp.cifi.e est introuvable|No se encontr. el proceso especificado|Не найдена указанная процедура"
    r"|N.o foi poss.vel encontrar o procedimento especificado|지정된 프로시저를 찾을 수 없습니다|Impossibile trovare la procedura specificata"
    r"|Nie można odnaleźć określonej procedury"
)
_1114 = (
    r"A dynamic link library \(DLL\) initialization routine failed|动态链接库\(DLL\)初始化例程失败|動態連結程式庫 ?\(DLL\) 初始化例行程序失敗"
    r"|ダイナミック ?リンク ?ライブラリ ?\(DLL\) ?初期化ルーチンの実行に失敗しました|Eine DLL-Initialisierungsroutine ist fehlgeschlagen"
    r"|Une routine d.initialisation d.une biblioth.que de liens dynamiques|Error en una rutina de inicializaci.n de biblioteca"
    r"|Произошел сбой в программе инициализации библиотеки|Uma rotina de inicializa..o da biblioteca de v.nculo din.mico"
    r"|DLL\(동적 연결 라이브러리\) 초기화 루틴을 실행할 수 없습니다|Routine di inizializzazione della libreria a collegamento dinamico"
)
_182 = (
    r"The operating system cannot run %1|Операционная система не может запустить %1|操作系统无法运行 %1"
    r"|Das Betriebssystem kann %1 nicht ausf.hren|Le syst.me d.exploitation ne peut pas ex.cuter %1|O sistema operacional n.o pode executar %1"
    r"|El sistema operativo no puede ejecutar %1|Il sistema operativo non . in grado di eseguire %1|作業系統無法執行 %1"
)


def _accents(texts: str) -> str:
    """The dots of a list of texts as any character or the escape of one."""
    return texts.replace(".", r"(?:.|\\x[0-9a-f]{2}|\\u[0-9a-f]{4})")


_LOADING = (
    r"(?:[^\n]{0,300}?(?:Error loading|Fehler beim Laden|加载)? ?[\"'](?P<file>[^\"'\n]{3,260}\.(?:dll|pyd))[\"'])?"
)

_WINDOWS = (
    Signature(
        "windows-dll-not-found",
        (
            "winerror 126",
            "dll load failed",
            "error code 126",
            "could not find module '",
            ".dll or one of its dependencies",
        ),
        FRAME
        + r"(?:\[WinError 126\]"
        + _LOADING
        + r"|DLL load failed(?: while importing (?P<module>[\w.]{1,60}))?: (?:"
        + _accents(_126)
        + r")|Could not find module '(?P<asked>[^'\n]{3,260})' \(or one of its dependencies\)"
        r"|Could not load library (?P<library>[\w.\-]{3,60}\.dll)\. Error code 126"
        # Told in a sentence, without the number: with another number the message has another cause.
        r"|(?m:^)(?![^\n]{0,600}(?:WinError|Errno))[^\n]{0,600}?\berror loading {1,3}(?P<told>(?:fbgemm|shm|c10|c10_cuda|torch_\w{2,12}|asmjit|caffe2_\w{3,14}"
        r"|uv|libiomp5md)\.dll) or one of its dependencies)",
        before=9,
    ),
    Signature(
        "windows-dll-init-failed",
        ("winerror 1114", "dll load failed"),
        FRAME
        + r"(?:\[WinError 1114\]"
        + _LOADING
        + r"|DLL load failed(?: while importing (?P<module>[\w.]{1,60}))?: (?:"
        + _accents(_1114)
        + r"))",
        before=9,
    ),
    Signature(
        "windows-procedure-not-found",
        ("winerror 127", "dll load failed", "could not be located in the dynamic link library"),
        FRAME
        + r"(?:\[WinError 127\]"
        + _LOADING
        + r"|DLL load failed(?: while importing (?P<module>[\w.]{1,60}))?: (?:"
        + _accents(_127)
        + r")|procedure entry point (?P<symbol>\S{2,300}) could not be located in the dynamic link library (?P<library>[^\n]{3,260}))",
        before=9,
    ),
    Signature(
        "windows-cannot-run",
        ("winerror 182", "dll load failed"),
        FRAME
        + r"(?:\[WinError 182\]"
        + _LOADING
        + r"|DLL load failed(?: while importing (?P<module>[\w.]{1,60}))?: (?:"
        + _accents(_182)
        + r"))",
        before=9,
    ),
    Signature(
        "vc-runtime-missing",
        ("visual c++ redistributable is not installed", "vcruntime140", "msvcp140.dll", "aka.ms/vs/"),
        r"Visual C\+\+ Redistributable is not installed|(?P<file>(?:vcruntime140(?:_1)?|msvcp140(?:_\w{1,20})?|concrt140)\.dll)"
        r"[^\n]{0,40}(?:was not found|is missing|not found|could not be found)"
        r"|(?:Could not find|missing|cannot find)[^\n]{0,60}(?P<named>(?:vcruntime140(?:_1)?|msvcp140)\.dll)",
    ),
    Signature(
        "windows-module-crashed",
        ("faulting module name",),
        r"Faulting module name: (?P<file>(?:msvcp140|vcruntime140(?:_1)?|c10|torch_cpu|torch_python)\.dll)",
    ),
    Signature(
        "zlibwapi-missing",
        ("zlibwapi.dll",),
        r"Could not (?:locate|load library) (?P<file>zlibwapi\.dll)",
    ),
)

_DYLD = (
    Signature(
        "torch-c-attribute-missing",
        ("module 'torch._c' has no attribute", "cannot import name", "'torch._c' has no attribute"),
        r"module 'torch\._C' has no attribute '(?P<attribute>(?!_cuda)\w{2,60})'"
        r"|cannot import name '(?P<name>\w{2,60})' from 'torch\._C(?:\.[\w.]{1,40})?' \((?P<file>[^)\n]{3,300})\)",
    ),
    Signature(
        "torch-registered-twice",
        (
            "only a single torch_library",
            "already registered",
            "duplicate flag",
            "registering a kernel",
            "flag 'caffe2",
            "was defined more than once",
        ),
        r"Only a single TORCH_LIBRARY can be used to register the namespace (?P<namespace>\w{1,30})"
        r"|ERROR: (?:something wrong with )?flag 'caffe2\w{0,40}'[^\n]{0,60}(?:defined more than once|linked in)"
        r"|Key already registered(?: with the same priority)?: (?P<key>\w{2,40})",
    ),
)

SIGNATURES: tuple[Signature, ...] = (*_LOADER, *_STUBS, *_CUDNN, *_OPENMP, *_WINDOWS, *_DYLD)

"""Asks the CUDA driver API itself: which libcuda is loaded, what cuInit answers, which devices it counts.

Run as a file, by any CPython from 3.6 on; standard library only. One line per stage, each flushed, so that a crash or a
hang in the driver keeps what came before:

    @envcheck@ {"stage": "load", "path": "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01"}
    @envcheck@ {"stage": "init", "code": 0, "name": "CUDA_SUCCESS"}
    @envcheck@ {"stage": "version", "version": 12020}
    @envcheck@ {"stage": "count", "code": 0, "count": 1}
    @envcheck@ {"stage": "device", "index": 0, "name": "...", "capability": "8.9", "bus_id": "0000:01:00.0", "memory": 1}

cuInit and the questions after it make no context, so they neither take memory on a GPU nor block an exclusive one.
"""

import json
import sys

MARK = "@envcheck@ "

# For libraries too old to have cuGetErrorName (cuda.h, CUresult).
NAMES = {
    0: "CUDA_SUCCESS",
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    35: "CUDA_ERROR_INSUFFICIENT_DRIVER",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    500: "CUDA_ERROR_NOT_FOUND",
    800: "CUDA_ERROR_NOT_PERMITTED",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    805: "CUDA_ERROR_MPS_CONNECTION_FAILED",
    999: "CUDA_ERROR_UNKNOWN",
}
CAPABILITY_MAJOR = 75
CAPABILITY_MINOR = 76


def say(stage, **values):
    values["stage"] = stage
    sys.stdout.write(MARK + json.dumps(values, sort_keys=True) + "\n")
    sys.stdout.flush()


def loaded_path(library):
    """The file that the dynamic loader really took, from this process's map."""
    if sys.platform == "win32":
        import ctypes

        buffer = ctypes.create_unicode_buffer(1024)
        kernel = ctypes.windll.kernel32
        kernel.GetModuleFileNameW.argtypes = [ctypes.c_void_p, ctypes.c_wchar_p, ctypes.c_uint32]
        return buffer.value if kernel.GetModuleFileNameW(library._handle, buffer, 1024) else None
    try:
        with open("/proc/self/maps", "rb") as maps:
            for line in maps:
                name = line.rstrip(b"\n").split(None, 5)[-1]
                if name.rsplit(b"/", 1)[-1].startswith(b"libcuda.so"):
                    return name.decode("utf-8", "backslashreplace")
    except OSError:
        pass
    return None


def error_name(library, code):
    import ctypes

    try:
        text = ctypes.c_char_p()
        if library.cuGetErrorName(code, ctypes.byref(text)) == 0 and text.value:
            return text.value.decode("ascii", "backslashreplace")
    except AttributeError:
        pass
    return NAMES.get(code)


def describe(library, index):
    """What the driver says of one device; an answer that it refuses is left out."""
    import ctypes

    found = {"index": index}
    device = ctypes.c_int()
    if library.cuDeviceGet(ctypes.byref(device), index) != 0:
        return found
    text = ctypes.create_string_buffer(256)
    if library.cuDeviceGetName(text, 256, device) == 0:
        found["name"] = text.value.decode("utf-8", "backslashreplace")
    numbers = []
    for attribute in (CAPABILITY_MAJOR, CAPABILITY_MINOR):
        value = ctypes.c_int()
        if library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0:
            numbers.append(value.value)
    if len(numbers) == 2:
        found["capability"] = "%d.%d" % tuple(numbers)
    try:
        if library.cuDeviceGetPCIBusId(text, 256, device) == 0:
            found["bus_id"] = text.value.decode("ascii", "backslashreplace")
        memory = ctypes.c_size_t()
        if library.cuDeviceTotalMem_v2(ctypes.byref(memory), device) == 0:
            found["memory"] = memory.value
    except AttributeError:
        pass  # a stub or a very old library
    return found


def main():
    try:
        import ctypes
    except ImportError as error:  # a Python built without libffi
        say("load", error="this Python has no ctypes: " + str(error))
        return
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.WinDLL(name) if sys.platform == "win32" else ctypes.CDLL(name)
    except OSError as error:
        say("load", error=str(error))
        return
    say("load", path=loaded_path(library))
    say("calling", function="cuInit")
    code = library.cuInit(0)
    say("init", code=code, name=error_name(library, code))
    version = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)) == 0:
        say("version", version=version.value)
    if code != 0:
        return
    count = ctypes.c_int()
    code = library.cuDeviceGetCount(ctypes.byref(count))
    say("count", code=code, count=count.value if code == 0 else None)
    for index in range(count.value if code == 0 else 0):
        say("device", **describe(library, index))
    say("end")


if __name__ == "__main__":
    main()

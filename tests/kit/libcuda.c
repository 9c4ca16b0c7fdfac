/* A libcuda that answers as it is told: by `libcuda.conf` beside it, lines of "key value".
 *
 *   init     what cuInit returns (0)           version  cuDriverGetVersion (13000)
 *   count    devices (1)                       name     of every device
 *   major, minor  compute capability (8, 9)    hang     seconds that cuInit sleeps
 *   crash    signal that cuInit raises         mask     0: CUDA_VISIBLE_DEVICES is not obeyed
 *
 * CUDA_VISIBLE_DEVICES is obeyed as the real one does: the list ends at the first entry that names no device, and
 * without any device cuInit itself says CUDA_ERROR_NO_DEVICE. All that needs a context fails with CUDA_ERROR_UNKNOWN.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
enum { NO_DEVICE = 100, INVALID_VALUE = 1, UNKNOWN = 999, NOT_FOUND = 500, SUCCESS = 0, NOT_INITIALIZED = 3 };

static int initialised = -1;

static int setting(const char *key, int fallback, char *text, size_t size)
{
    Dl_info info;
    char path[4096], line[512], *slash;
    int value = fallback;
    FILE *file;
    if (!dladdr((void *)setting, &info) || !info.dli_fname)
        return fallback;
    snprintf(path, sizeof path, "%s", info.dli_fname);
    slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, 64, "libcuda.conf");
    if (!(file = fopen(path, "r")))
        return fallback;
    while (fgets(line, sizeof line, file)) {
        char *space = strchr(line, ' ');
        if (!space)
            continue;
        *space = 0;
        space[1 + strcspn(space + 1, "\n")] = 0;
        if (!strcmp(line, key)) {
            value = atoi(space + 1);
            if (text)
                snprintf(text, size, "%s", space + 1);
        }
    }
    fclose(file);
    return value;
}

static int devices(void)
{
    int count = setting("count", 1, 0, 0), seen = 0;
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    char copy[512], *item, *rest;
    if (!mask || !setting("mask", 1, 0, 0))
        return count;
    snprintf(copy, sizeof copy, "%s", mask);
    for (item = strtok_r(copy, ",", &rest); item; item = strtok_r(0, ",", &rest)) {
        char *end;
        long index = strtol(item, &end, 10);
        if (end == item || index < 0 || index >= count)
            break;
        seen++;
    }
    return seen;
}

CUresult cuInit(unsigned flags)
{
    int sig = setting("crash", 0, 0, 0), sleeps = setting("hang", 0, 0, 0);
    if (sleeps)
        sleep((unsigned)sleeps);
    if (sig) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    initialised = setting("init", 0, 0, 0);
    if (initialised == SUCCESS && devices() == 0)
        initialised = NO_DEVICE;
    return initialised;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = setting("version", 13000, 0, 0);
    return SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    if (initialised != SUCCESS)
        return NOT_INITIALIZED;
    *count = devices();
    return SUCCESS;
}

CUresult cuDeviceGet(int *device, int index)
{
    if (index < 0 || index >= devices())
        return 101;
    *device = index;
    return SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, int device)
{
    char text[256] = "NVIDIA GeForce RTX 4090";
    setting("name", 0, text, sizeof text);
    snprintf(name, (size_t)size, "%s", text);
    return SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 75 ? setting("major", 8, 0, 0) : attribute == 76 ? setting("minor", 9, 0, 0) : 1;
    return SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, (size_t)size, "0000:%02x:00.0", device + 1);
    return SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = (size_t)24 << 30;
    return SUCCESS;
}

CUresult cuDeviceGetUuid(void *uuid, int device)
{
    memset(uuid, device, 16);
    return SUCCESS;
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult describe(int code, const char **out, int name)
{
    size_t i;
    for (i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *out = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    *out = 0;
    return INVALID_VALUE;
}

CUresult cuGetErrorName(int code, const char **name) { return describe(code, name, 1); }
CUresult cuGetErrorString(int code, const char **text) { return describe(code, text, 0); }

CUresult cuGetExportTable(const void **table, const void *id)
{
    *table = 0;
    return NOT_FOUND;
}

static CUresult refuse(void) { return initialised > 0 ? initialised : UNKNOWN; }

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long flags, int *status);
CUresult cuGetProcAddress(const char *name, void **function, int version, unsigned long flags);

/* The runtime library asks for several hundred functions; those that are not here refuse. */
static void *find(const char *name)
{
    char versioned[256];
    void *found;
    Dl_info info;
    static void *self;
    if (!self && dladdr((void *)find, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (!self)
        return (void *)refuse;
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    if ((found = dlsym(self, versioned)) || (found = dlsym(self, name)))
        return found;
    return (void *)refuse;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long flags, int *status)
{
    *function = find(name);
    if (status)
        *status = 0;
    return SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, unsigned long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}

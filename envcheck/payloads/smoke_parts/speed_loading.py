"""What feeds the device: DataLoader workers and the disk."""

import os
import sys
import tempfile
import time

import torch

import speed_dataset
from smoke_loading import PATIENCE, _Importable
from smoke_support import Skip, first_line
from speed_rates import usable_cores

BATCH = 16
MOST_WORKERS = 16
SECONDS = 1.0
FLAT = 1.05
"""A setting that is not better than the best before it by this factor brings nothing any more."""
NEAR = 0.95
"""The fewest workers that come this near to the fastest are the advice."""


# --- DataLoader -------------------------------------------------------------------------------------------------------


def loader(ctx):
    """Images a second with 0, 1, 2, 4 ... workers, counted from the first batch on (starting them is told apart)."""
    cores = usable_cores()
    side, crop = ctx.image_sides or (speed_dataset.SIDE, speed_dataset.CROP)
    room = _workers_in_shared_memory(BATCH * 3 * crop * crop * 4)
    rates, flat, best = [], 0, 0.0
    with _Importable():
        for workers in _counts(min(cores, MOST_WORKERS, room)):
            ctx.beat(workers / float(cores + 1), "%d workers" % workers)
            try:
                rate, start, batches = _rate(workers, side, crop, SECONDS)
            except RuntimeError as error:
                if not rates:
                    raise
                return _told(ctx, rates, "with %d: %s" % (workers, first_line(error, 80)))
            ctx.measured("dataloader", float("%.4g" % rate), "images/s", case="workers=%d" % workers, samples=batches,
                         details={"workers": workers, "start_seconds": round(start, 2), "cores": cores})
            rates.append((workers, rate))
            flat = flat + 1 if workers and rate < best * FLAT else 0
            best = max(best, rate)
            if flat == 2:
                break
    limited = "" if room >= min(cores, MOST_WORKERS) else "/dev/shm has room for %d workers only" % room
    return _told(ctx, rates, limited)


def _told(ctx, rates, more):
    fastest = max(rate for _, rate in rates)
    advice = min(workers for workers, rate in rates if rate >= NEAR * fastest)
    ctx.measured("dataloader-best", float(advice), "workers")
    text = "num_workers=%d: %.4g images/s (0: %.4g)" % (advice, dict(rates)[advice], rates[0][1])
    return text + ("; " + more if more else "")


def _counts(most):
    counts, step = [0], 1
    while step <= most:
        counts.append(step)
        step *= 2
    if counts[-1] != most and most > 1:
        counts.append(most)
    return counts


def _workers_in_shared_memory(batch):
    """How many workers (two batches in advance each) half of /dev/shm holds: too many die of a bus error."""
    try:
        status = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return MOST_WORKERS
    return max(0, int(status.f_bavail * status.f_frsize / 2 // (2 * batch)))


def _rate(workers, side, crop, seconds):
    data = speed_dataset.Photographs(1 << 20, side, crop)
    # The batches that wait when the clock starts were made before it: let them pass first.
    waiting = 1 + 2 * workers
    made = torch.utils.data.DataLoader(
        data, batch_size=BATCH, shuffle=False, num_workers=workers, timeout=PATIENCE if workers else 0
    )
    begun = time.time()
    batches = iter(made)
    try:
        next(batches)
        start = time.time() - begun
        for _ in range(waiting):
            next(batches)
        first, count = time.time(), 0
        while count < 4 or time.time() - first < seconds:
            next(batches)
            count += 1
        return count * BATCH / (time.time() - first), start, count
    finally:
        del batches  # ends the workers


# --- disk -------------------------------------------------------------------------------------------------------------

FILE = 128 << 20
BLOCK = 1 << 20


def disk(ctx):
    """Writes a file of random bytes to the temporary directory, takes it out of the system's memory, and reads it."""
    directory = tempfile.gettempdir()
    kind = _filesystem(directory)
    if kind in ("tmpfs", "ramfs"):
        raise Skip("the temporary directory %s is memory; TMPDIR=DIRECTORY measures another disk" % directory)
    if not hasattr(os, "posix_fadvise") and sys.platform != "darwin":
        raise Skip("this system's memory of files cannot be passed by")
    size = ctx.memory_bytes or FILE
    status = os.statvfs(directory)
    if status.f_bavail * status.f_frsize < 4 * size:
        raise Skip("too little space in %s" % directory)
    handle, path = tempfile.mkstemp(prefix="envcheck-")
    try:
        for _ in range(max(1, size // BLOCK)):
            os.write(handle, os.urandom(BLOCK))
        os.fsync(handle)
        rates = [_read(handle) for _ in range(3)]
    finally:
        os.close(handle)
        os.unlink(path)
    rates.sort()
    ctx.measured("disk-read", float("%.4g" % rates[1]), "GB/s", samples=3, low=float("%.4g" % rates[0]),
                 high=float("%.4g" % rates[2]))
    return "%.3g GB/s from %s%s" % (rates[1], directory, " (%s)" % kind if kind else "")


def _read(handle):
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(handle, 48, 1)  # F_NOCACHE
    else:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.lseek(handle, 0, os.SEEK_SET)
    start, total = time.time(), 0
    while True:
        data = os.read(handle, BLOCK)
        if not data:
            break
        total += len(data)
    return total / 1e9 / max(time.time() - start, 1e-9)


def _filesystem(directory):
    """Type of the file system of a directory, as Linux names it; "" = unknown."""
    best, kind = "", ""
    try:
        with open("/proc/mounts") as lines:
            for line in lines:
                words = line.split()
                place = words[1].rstrip("/") + "/"
                if (os.path.realpath(directory) + "/").startswith(place) and len(place) >= len(best):
                    best, kind = place, words[2]
    except (OSError, IndexError):
        return ""
    return kind

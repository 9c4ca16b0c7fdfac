"""Smoke tests of what lies around the tensors: DataLoader workers, torchvision's compiled operators."""

import glob
import importlib.util
import os
import sys

import torch

import smoke_dataset
from smoke_support import UNIT, Skip, Wrong, compare, exact, expect, share

WORKERS = 2
BATCH = 4
PATIENCE = 45
"""Seconds that a batch may take: a spawned worker imports torch first, from a cold disk perhaps."""


class _Importable(object):
    """Puts this directory on sys.path for a block: spawned workers get the parent's path and import the data set by it."""

    def __enter__(self):
        self.path = os.path.dirname(os.path.abspath(smoke_dataset.__file__))
        sys.path.insert(0, self.path)

    def __exit__(self, *unused):
        if self.path in sys.path:
            sys.path.remove(self.path)


def dataloader(ctx):
    """Every sample once, in order, from two processes that are not this one; shuffled, every sample once again."""
    with _Importable():
        data = smoke_dataset.Numbers()
        pinned = ctx.kind == "cuda"
        loader = torch.utils.data.DataLoader(
            data, batch_size=BATCH, num_workers=WORKERS, timeout=PATIENCE, pin_memory=pinned
        )
        indices, workers, processes = _epoch(ctx, loader, pinned)
    expect(indices == list(range(len(data))), "samples came as %s" % (indices,))
    expect(workers == set(range(WORKERS)), "workers %s did the work, not %d" % (sorted(workers), WORKERS))
    expect(len(processes) == WORKERS and os.getpid() not in processes, "the work was not done in %d processes" % WORKERS)
    shuffled = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True)
    order = [int(i) for batch in shuffled for i in batch[0]]
    expect(sorted(order) == list(range(len(data))), "a shuffled epoch gave %s" % (order,))
    method = torch.multiprocessing.get_start_method(allow_none=True) or "default"
    return "%d samples, %d workers (%s)" % (len(indices), WORKERS, method)


def _epoch(ctx, loader, pinned):
    indices, workers, processes = [], set(), set()
    for index, worker, process, values in loader:
        if pinned:
            expect(values.is_pinned(), "pin_memory=True gave memory that is not pinned")
        device = values.float().to(ctx.device, non_blocking=pinned)
        want = torch.stack([smoke_dataset.sample(int(i)) for i in index]).double()
        exact("samples %s" % index.tolist(), device, want)
        indices.extend(int(i) for i in index)
        workers.update(int(w) for w in worker)
        processes.update(int(p) for p in process)
    return indices, workers, processes


# --- torchvision ------------------------------------------------------------------------------------------------


def _installed():
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        raise Skip("torchvision is not installed")
    return list(spec.submodule_search_locations)[0]


def _operators():
    """torch.ops.torchvision, from the compiled library alone: importing torchvision costs seconds and adds nothing to it."""
    place = _installed()
    if "torchvision" not in sys.modules:
        libraries = sorted(glob.glob(os.path.join(place, "_C*.so")) + glob.glob(os.path.join(place, "_C*.pyd")))
        if not libraries:
            raise Wrong("torchvision in %s has no compiled operators (_C)" % place)
        if hasattr(os, "add_dll_directory"):
            os.add_dll_directory(place)
        for library in libraries:
            torch.ops.load_library(library)
    return torch.ops.torchvision


def torchvision_nms(ctx):
    """Non-maximum suppression against the plain algorithm in Python.

    Boxes have whole coordinates, so that areas are exact, and the threshold is put where no pair of boxes is near.
    """
    operators = _operators()
    n = 50
    low = ctx.integers(0, 40, n, 2)
    boxes64 = torch.cat([low, low + ctx.integers(5, 30, n, 2)], 1)
    order = torch.randperm(n, generator=ctx.random)
    scores64 = torch.empty(n, dtype=torch.float64)
    scores64[order] = torch.arange(n, dtype=torch.float64) / n
    overlap = _overlaps(boxes64.tolist())
    pairs = [overlap[i][j] for i in range(n) for j in range(i)]
    margin, threshold = max((min(abs(o - t / 1000.0) for o in pairs), t / 1000.0) for t in range(300, 601, 3))
    expect(margin > 1e-5, "no threshold is far from all overlaps")
    kept = operators.nms(boxes64.float().to(ctx.device), scores64.float().to(ctx.device), threshold)
    want = _suppress(overlap, scores64.tolist(), threshold)
    expect(kept.cpu().tolist() == want, "nms kept %s, expected %s" % (kept.cpu().tolist(), want))
    return "%d of %d boxes kept" % (len(want), n)


def _overlaps(boxes):
    def overlap(a, b):
        width = min(a[2], b[2]) - max(a[0], b[0])
        height = min(a[3], b[3]) - max(a[1], b[1])
        common = max(width, 0.0) * max(height, 0.0)
        return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)

    return [[overlap(a, b) for b in boxes] for a in boxes]


def _suppress(overlap, scores, threshold):
    kept = []
    for candidate in sorted(range(len(scores)), key=lambda i: -scores[i]):
        if all(overlap[candidate][other] <= threshold for other in kept):
            kept.append(candidate)
    return kept


def torchvision_roi_align(ctx):
    """Averages of bilinear samples against the plain formula in Python.

    Coordinates (up to 16) are computed in fp32 with about 8 roundings; a step d in both directions changes a bilinear
    value by at most 4 d max|x|.
    """
    operators = _operators()
    size, out, ratio, scale = 14, 3, 2, 0.5
    x, x64 = ctx.put(ctx.normal(2, 3, size, size))
    corners = ctx.uniform(1.0, 10.0, 4, 2)
    rois64 = torch.cat([ctx.integers(0, 1, 4, 1), corners, corners + ctx.uniform(3.0, 14.0, 4, 2)], 1)
    rois, rois64 = ctx.put(rois64)
    ctx.poison_pool((4, 3, out, out))
    got = operators.roi_align(x, rois, scale, out, out, ratio, True)
    want = [_pool(x64[int(roi[0])].tolist(), [scale * c - 0.5 for c in roi[1:]], out, ratio) for roi in rois64.tolist()]
    bound = 4 * 8 * 16 * 2 * UNIT["fp32"] * float(x64.abs().max())
    return share(compare("roi_align", got, torch.tensor(want, dtype=torch.float64), bound, torch.float32))


def _pool(image, roi, out, ratio):
    left, top, right, bottom = roi
    step_x, step_y = (right - left) / out, (bottom - top) / out
    offsets = [(k + 0.5) / ratio for k in range(ratio)]
    return [
        [
            [
                sum(
                    _bilinear(channel, top + step_y * (row + dy), left + step_x * (column + dx))
                    for dy in offsets
                    for dx in offsets
                )
                / ratio ** 2
                for column in range(out)
            ]
            for row in range(out)
        ]
        for channel in image
    ]


def _bilinear(channel, y, x):
    last = len(channel) - 1
    y, x = min(max(y, 0.0), last), min(max(x, 0.0), last)
    row, column = min(int(y), last - 1), min(int(x), last - 1)
    dy, dx = y - row, x - column
    above = channel[row][column] * (1 - dx) + channel[row][column + 1] * dx
    below = channel[row + 1][column] * (1 - dx) + channel[row + 1][column + 1] * dx
    return above * (1 - dy) + below * dy


def torchvision_import(ctx):
    """The whole package, as a user's program imports it."""
    _installed()
    import torchvision

    expect(callable(torchvision.ops.nms), "torchvision.ops.nms is missing")
    return "torchvision %s" % torchvision.__version__

"""The payload with small sizes: every measurement is made, in a moment."""

import os
import sys
from pathlib import Path

PAYLOAD = Path(__file__).resolve().parents[2] / "envcheck" / "payloads" / "smoke_device.py"
sys.path.insert(0, str(PAYLOAD.parent))
import smoke_device

sys.path.remove(str(PAYLOAD.parent))


def shrink():
    import torch

    torch.set_num_threads(1)
    context = smoke_device.part("smoke_support").Context
    context.memory_bytes, context.product_size, context.batch_size, context.image_sides = 1 << 20, 96, 2, (24, 16)
    timing = smoke_device.part("speed_timing")
    timing.WARM, timing.SAMPLE = 0.0, 0.001
    loading = smoke_device.part("speed_loading")
    loading.SECONDS = 0.05
    loading.usable_cores = lambda: int(os.environ.get("CORES", "1"))


if __name__ == "__main__":
    shrink()
    sys.exit(smoke_device.main(sys.argv[1:]))

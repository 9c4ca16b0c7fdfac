"""A device whose memory holds small tensors only: what fits is measured, and how large it was is printed as JSON."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "smoke"))
import fault_kit as kit
import torch
from small_payload import shrink

shrink()
randn = torch.randn


def little(*shape, **options):
    if shape[0] > int(sys.argv[1]):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    return randn(*shape, **options)


torch.randn = little
context = kit.support.Context("cpu", 1, "training")
context.batch_size, context.product_size = 1024, None
found = {}
for name, part, call in (
    ("batch", "speed_training", lambda m: m._fitting(context).size),
    ("product", "speed_rates", lambda m: m._fastest(context, "fp32")[2]),
):
    try:
        found[name] = call(kit.smoke_device.part(part))
    except RuntimeError as error:
        found[name] = str(error)[:18]
print(json.dumps(found))

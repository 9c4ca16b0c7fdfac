"""The measurements on a pretended GPU whose tensors lie on the CPU, by compute capability: one JSON line for each event."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "smoke"))
import fault_kit as kit
from small_payload import shrink

shrink()
device = kit.smoke_device
major, minor = int(sys.argv[1]), int(sys.argv[2])
kit.PretendedGpu.get_device_capability = lambda self, device=None: (major, minor)
device.emit = lambda stage, **values: print(json.dumps(dict(values, stage=stage)), flush=True)
options = device.arguments(["--speed", "--seed", "3", *(w for n in sys.argv[3:] for w in ("--only", n))])
with kit.pretend_pinning():
    device.Runner(options, device.wanted(options), [kit.GPU], kit.pretended).run()

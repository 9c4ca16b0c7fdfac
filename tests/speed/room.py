"""How much memory the endurance test takes, by what is free: JSON lines."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "smoke"))
import fault_kit as kit

endurance = kit.smoke_device.part("smoke_endurance")
GIB = 1 << 30


def allowed(free, integrated=0):
    context = kit.pretended(kit.GPU, 1, "memory")
    context.backend.free = free
    plain = context.backend.get_device_properties()
    plain.is_integrated = integrated
    context.backend.get_device_properties = lambda device=None: plain
    return endurance._allowed(context)


endurance.available_ram = lambda: 4 * GIB
context = kit.pretended(kit.GPU, 1, "memory")
context.backend.free = 600 << 20
try:
    full = endurance.memory(context)
except kit.support.Skip as skip:
    full = "skipped: %s" % skip
endurance_cpu = kit.support.Context(kit.CPU, 1, "memory")
print(
    json.dumps(
        {
            "gpu": allowed(80 * GIB) / GIB,
            "small": allowed(4 * GIB) / GIB,
            "none": allowed(100 << 20),
            "integrated": allowed(80 * GIB, 1) / GIB,
            "cpu": endurance._allowed(endurance_cpu) / GIB,
            "full": full,
            "given_back": context.backend.emptied,
        }
    )
)

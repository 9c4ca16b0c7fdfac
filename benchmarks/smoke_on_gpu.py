"""Everything that `smoke` can do on the machine at hand, as JSON files: for a machine with a GPU that is lent for minutes.

python benchmarks/smoke_on_gpu.py FOLDER [PYTHON] [MINUTES]

Writes level-1.json, level-2.json, speed.json and level-3.json (MINUTES of endurance, default 1) to FOLDER, each as soon
as it is there, and says in a line each how it went. `envcheck doctor --facts FOLDER/speed.json` judges the measurements
again later.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from envcheck.process import run

STEPS = (
    ("level-1", ("--level", "1"), 180.0),
    ("speed", ("--speed",), 240.0),
    ("level-2", ("--level", "2"), 240.0),
)


def main(folder: str, python: str = sys.executable, minutes: str = "1") -> int:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    endurance = ("--level", "3", "--only", "memory", "--only", "products", "--minutes", minutes)
    bad = 0
    for name, words, limit in (*STEPS, ("level-3", endurance, 300.0 + 120 * float(minutes))):
        begun = time.monotonic()
        done = run([sys.executable, "-m", "envcheck", "smoke", "--json", "--python", python, *words], timeout=limit, cwd=ROOT)
        (target / f"{name}.json").write_text(done.stdout, encoding="utf-8")
        try:
            document = json.loads(done.stdout)
        except ValueError:
            document = {}
        wrong = [c for c in document.get("checks", ()) if c["status"] not in ("passed", "skipped")]
        bad += bool(wrong) or not document
        print(f"{name}: {done.status}, {time.monotonic() - begun:.0f} s, {len(document.get('checks', ()))} checks")
        for check in wrong:
            print(f"  {check['name']} on {check['device']}: {check['status']}: {check.get('detail')}")
        for item in document.get("measurements", ()):
            print(f"  {item['device']} {item['name']} {item.get('case', '')} {item['value']} {item['unit']}")
        for finding in document.get("findings", ()):
            print(f"  {finding['severity']} {finding['rule']}: {finding['seen']}")
        if not document:
            print(done.stderr[-2000:])
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Lists every distribution of the Python that runs this file: what it is, who installed it, from where, on whose wish.

Run as a file by the interpreter under test (CPython 3.6 or newer), standard library only; no package is imported.
Answers one stage, `installed`, in the marked lines of `probe_env.py`, then `done`:

    distributions: in import order, one entry a name: what would be imported
    conda: all records of conda-meta, None outside a conda environment
    torch: what torch/version.py says about the build, without running it
"""

import os
import re
import sys

MAX_ENTRIES = 5000
RECORD_LIMIT = 16000000


def installed(probe: "object", packages: "object") -> "dict":
    """The whole answer; `probe` and `packages` are the modules probe_env and probe_packages beside this file."""
    conda, owned = _conda(packages)
    found = []  # type: list
    seen = {}  # type: dict
    for entry in [item or "." for item in sys.path if isinstance(item, str)]:
        for name in packages._listing(entry):
            stem, kind = os.path.splitext(name)
            if kind not in (".dist-info", ".egg-info", ".egg-link") or name.startswith("~") or len(found) >= MAX_ENTRIES:
                continue
            item = _describe(packages, entry, name, stem)
            if item["name"] in seen:
                continue  # a second copy is never imported
            seen[item["name"]] = True
            item["conda"] = owned.get(_place(entry, name))
            found.append(item)
    return {"distributions": found, "conda": conda, "torch": _torch(), "prefix": sys.prefix, "platform": sys.platform}


def _describe(packages: "object", entry: str, name: str, stem: str) -> "dict":
    path = os.path.join(entry, name)
    project, version = packages._from_stem(stem)
    head = packages._metadata(path)
    values = {
        "name": packages.normalise(packages._field(head, "Name") or project),
        "version": packages._field(head, "Version") or version,
        "requires": packages._fields(head, "Requires-Dist"),
        "requires_python": packages._field(head, "Requires-Python"),
        "installer": packages._installer(path),
        "requested": os.path.exists(os.path.join(path, "REQUESTED")),
        "site": packages.site_of(entry),
        "location": entry,
        "tags": _tags(packages, path),
    }
    values.update(_direct(packages, path))
    if name.endswith(".egg-link"):
        values["editable"] = True
        values["url"] = packages._read(path, 4000).split("\n")[0].strip()
    return values


def _tags(packages: "object", path: str) -> "list":
    """Tags of the wheel: "cp312-cp312-manylinux_2_28_x86_64"."""
    text = packages._read(os.path.join(path, "WHEEL"), 20000)
    return re.findall(r"^Tag: *(\S+)", text, re.MULTILINE)[:20]


def _direct(packages: "object", path: str) -> "dict":
    """direct_url.json (PEP 610): the address without user and password, commit, hash, editable."""
    text = packages._read(os.path.join(path, "direct_url.json"), 20000)
    if not text:
        return {}
    try:
        import json

        data = json.loads(text)
        address = re.sub(r"//(?!git@)[^/@]*@", "//", str(data.get("url", "")))
        vcs = data.get("vcs_info") or {}
        archive = data.get("archive_info") or {}
        hashes = dict(archive.get("hashes") or {})
        if not hashes and "=" in str(archive.get("hash") or ""):
            kind, _, value = str(archive["hash"]).partition("=")
            hashes[kind] = value
        return {
            "url": address.partition("?")[0].partition("#")[0],
            "vcs": vcs.get("vcs"),
            "commit": vcs.get("commit_id"),
            "revision": vcs.get("requested_revision"),
            "subdirectory": data.get("subdirectory"),
            "editable": bool((data.get("dir_info") or {}).get("editable")),
            "directory": "dir_info" in data,
            "hashes": {str(k): str(v) for k, v in hashes.items()},
        }
    except Exception:
        return {}


def _conda(packages: "object") -> "tuple":
    """Records of conda-meta, and which metadata directory belongs to which of them."""
    meta = os.path.join(sys.prefix, "conda-meta")
    if not os.path.isdir(meta):
        return None, {}
    import json

    records = []  # type: list
    owned = {}  # type: dict
    for name in packages._listing(meta):
        if not name.endswith(".json") or len(records) >= MAX_ENTRIES:
            continue
        try:
            data = json.loads(packages._read(os.path.join(meta, name), RECORD_LIMIT))
        except ValueError:
            continue
        if not isinstance(data, dict) or not data.get("name"):
            continue
        wishes = data.get("requested_specs") or ([data["requested_spec"]] if data.get("requested_spec") else [])
        records.append(
            {
                "name": str(data["name"]),
                "version": str(data.get("version") or ""),
                "build": str(data.get("build") or ""),
                "channel": packages._channel(os.path.join(meta, name)),
                "subdir": data.get("subdir"),
                "depends": [str(item) for item in data.get("depends") or ()][:400],
                "requested": [str(item) for item in wishes if str(item) not in ("", "None")],
                "md5": data.get("md5"),
                "sha256": data.get("sha256"),
            }
        )
        for file in data.get("files") or ():
            match = re.match(r"(.*/)?([^/]+\.(?:dist-info|egg-info))(?:/|$)", str(file))
            if match:
                owned[_place(os.path.join(sys.prefix, match.group(1) or ""), match.group(2))] = str(data["name"])
    return records, owned


def _place(directory: str, name: str) -> str:
    return os.path.normcase(os.path.join(os.path.realpath(directory), name))


def _torch() -> "dict | None":
    """Literals of the torch/version.py that would be imported."""
    for entry in [item or "." for item in sys.path if isinstance(item, str)]:
        path = os.path.join(entry, "torch", "version.py")
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(20000)
        found = {}  # type: dict
        for key in ("__version__", "cuda", "hip", "xpu"):
            match = re.search(r"^%s\s*(?::[^=\n]*)?=\s*(?:'([^']*)'|\"([^\"]*)\"|(None))" % key, text, re.MULTILINE)
            if match:
                found[key.strip("_")] = "" if match.group(3) else match.group(1) or match.group(2) or ""
        return found
    return None


def main() -> int:
    """Entry point; returns the exit code."""
    here = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == here:
        del sys.path[0]
    modules = []
    parts = [here, os.path.join(here, "probe_parts")]
    sys.path[:0] = parts
    try:
        for name in ("probe_env", "probe_packages"):
            modules.append(__import__(name))
    finally:
        del sys.path[: len(parts)]
    reporter = modules[0].Reporter({})
    reporter.begin("installed")
    try:
        values = installed(*modules)
        values["result"] = "ok"
    except Exception as error:
        values = {"result": "error", "kind": "internal", "error_type": type(error).__name__, "error": str(error)[:2000]}
    reporter.answer("installed", **values)
    reporter.answer("done")
    return 0 if values["result"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())

"""What Penstock depends on at run time: which packages, under which licences, doing what when imported.

These checks need no network. Known holes are asked for with pip-audit where its service can be reached;
where it cannot, that is said, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = {"google-re2": "re2", "msgspec": "msgspec", "pyyaml": "yaml"}
"""The run-time dependencies, each with the module that it brings. One more is a decision, not a slip."""
LICENCES = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF)\b", re.IGNORECASE)

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)")
_PROBE = """
import sys
WATCHED = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "urllib.", "http.")
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(WATCHED) else None)
sys.path[:0] = sys.argv[2:]
__import__(sys.argv[1])
print(*dict.fromkeys(seen))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, default=ROOT / "pyproject.toml", help="the file to check")
    parser.add_argument("--module", nargs="*", default=list(KNOWN.values()), help="modules to import")
    parser.add_argument("--path", nargs="*", default=[], help="where else modules may be")
    parser.add_argument("--offline", action="store_true", help="do not even try to reach a service")
    options = parser.parse_args()
    faults = [
        *bound_faults(tomllib.loads(options.project.read_text())["project"]),
        *closure_faults(),
        *licence_faults(),
        *(fault for module in options.module for fault in import_faults(module, options.path)),
    ]
    if options.offline:
        print("Known holes: not asked for (--offline).")
    else:
        faults += known_holes()
    for fault in faults:
        print(f"Fault: {fault}")
    if not faults:
        versions = ", ".join(f"{name} {metadata.version(name)} ({_licence(name)})" for name in KNOWN)
        print(f"Run-time dependencies are as known: {versions}. Importing them touches no network.")
    return 1 if faults else 0


def bound_faults(project: dict[str, object]) -> list[str]:
    """Dependencies that are not the known ones, and any, extras too, without a lower bound."""
    needed = project.get("dependencies", [])
    extras = project.get("optional-dependencies", {})
    assert isinstance(needed, list)
    assert isinstance(extras, dict)
    names = {_name(requirement) for requirement in needed}
    faults = [f"{name} is a run-time dependency that is not known" for name in sorted(names - set(KNOWN))]
    faults += [f"{name} is no longer a run-time dependency" for name in sorted(set(KNOWN) - names)]
    for requirement in [*needed, *(one for extra in extras.values() for one in extra)]:
        found = _REQUIREMENT.match(requirement)
        if found is None or not re.search(r">=|==|~=", found[2]):
            faults.append(f"{requirement} has no lower bound")
    return faults


def closure_faults() -> list[str]:
    """What the known dependencies need in their turn."""
    faults = []
    for name in KNOWN:
        for requirement in metadata.requires(name) or []:
            if "extra ==" not in requirement and _name(requirement) not in KNOWN:
                faults.append(f"{name} brings {requirement}, which is not known")
    return faults


def licence_faults() -> list[str]:
    """Licences that would ask something of people who pass Penstock on."""
    return [
        f"{name} has the licence {_licence(name)}, which nobody has looked at"
        for name in KNOWN
        if not LICENCES.search(_licence(name))
    ]


def import_faults(module: str, path: list[str]) -> list[str]:
    """What importing `module` does besides reading files."""
    command = [sys.executable, "-I", "-c", _PROBE, module, *path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return [f"{module} cannot be imported: {done.stderr.strip().splitlines()[-1]}"]
    return [f"importing {module} does {event}" for event in done.stdout.split()]


def known_holes() -> list[str]:
    """Published vulnerabilities of the installed run-time dependencies; says so when it cannot be known."""
    pins = "\n".join(f"{name}=={metadata.version(name)}" for name in KNOWN)
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    command += ["--timeout", "5", "--disable-pip", "--no-deps", "-r", "/dev/stdin"]
    try:
        done = subprocess.run(command, input=pins, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return _skipped("the service did not answer within a minute")
    try:
        report = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return _skipped((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return read_report(report)


def read_report(report: list[dict[str, object]]) -> list[str]:
    """The holes that pip-audit names. It passes what it could not look up, so that is looked for here."""
    skipped = [f"{entry['name']}: {entry['skip_reason']}" for entry in report if "skip_reason" in entry]
    if report and len(skipped) == len(report):
        return _skipped("the service knows none of these packages, so it is not the service: " + skipped[0])
    faults = [f"not looked up: {reason}" for reason in skipped]
    for entry in report:
        vulns = entry.get("vulns", [])
        assert isinstance(vulns, list)
        faults += [f"{entry['name']} {entry['version']}: {vuln['id']}" for vuln in vulns]
    if not faults:
        print("Known holes: none, says pip-audit.")
    return faults


def _skipped(why: str) -> list[str]:
    print(f"Known holes: SKIPPED, pip-audit could not reach its service ({why}).")
    return []


def _name(requirement: str) -> str:
    found = _REQUIREMENT.match(requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else requirement


def _licence(name: str) -> str:
    fields = metadata.metadata(name)
    classifiers = [line for line in fields.get_all("Classifier") or [] if line.startswith("License ::")]
    shown = fields.get("License-Expression") or fields.get("License") or (classifiers or ["unknown"])[0]
    return shown.strip().splitlines()[0].rpartition(" :: ")[2]


if __name__ == "__main__":
    sys.exit(main())

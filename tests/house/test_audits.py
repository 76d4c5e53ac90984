"""The checks on secrets and dependencies fail when there is something to find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts_by_name import load_script

ROOT = Path(__file__).resolve().parents[2]


def _run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def _repository(work: Path, **files: str) -> Path:
    for name, text in files.items():
        (work / name.replace("_", ".")).write_text(text)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=work, check=True)
    return work


# Put together here, so that the check does not find this file.
KEY = "AKIA" + "Q3EGRWJ7ZXOTPLMN"
TOKEN = "ghp_" + "aB3dE6gH9jK2" + "mN5pQ8sT1vW4" + "yZ7bC0eF3hJ6"
PRIVATE = "-----BEGIN RSA " + "PRIVATE KEY-----"


@pytest.mark.parametrize("secret", [KEY, TOKEN, PRIVATE, "http://user:" + "hunter22@host/"])
def test_a_planted_secret_is_found(tmp_path: Path, secret: str) -> None:
    root = _repository(tmp_path, clean_py="x = 1\n", planted_py=f'\n\nvalue = "{secret}"\n')
    done = _run("find_secrets", "--root", str(root))
    assert done.returncode == 1
    assert "planted.py:3: " in done.stdout
    assert "clean.py" not in done.stdout
    assert secret not in done.stdout


def test_a_sample_that_was_looked_at_may_move_but_not_change(tmp_path: Path) -> None:
    root = _repository(tmp_path, sample_py=f'value = "{KEY}"\n')
    assert _run("find_secrets", "--root", str(root), "--update").returncode == 0
    assert KEY not in (root / ".secrets.baseline").read_text()
    (root / "sample.py").write_text(f'# moved\nvalue = "{KEY}"\n')
    assert _run("find_secrets", "--root", str(root)).returncode == 0
    (root / "sample.py").write_text(f'value = "{KEY[:-1]}Z"\n')
    assert _run("find_secrets", "--root", str(root)).returncode == 1


def test_files_that_are_not_tracked_are_nobodys_business(tmp_path: Path) -> None:
    root = _repository(tmp_path, clean_py="x = 1\n")
    (root / "private.py").write_text(f'value = "{KEY}"\n')
    assert _run("find_secrets", "--root", str(root)).returncode == 0


def test_our_dependencies_are_as_known() -> None:
    done = _run("audit_dependencies", "--offline")
    assert done.returncode == 0, done.stdout
    assert "Importing them touches no network" in done.stdout


@pytest.mark.parametrize(
    ("dependencies", "fault"),
    [
        ('["google-re2>=1", "msgspec>=0.19", "PyYAML>=6", "httpx>=1"]', "httpx is a run-time dependency"),
        ('["google-re2>=1", "msgspec>=0.19"]', "pyyaml is no longer"),
        ('["google-re2>=1", "msgspec", "PyYAML>=6"]', "msgspec has no lower bound"),
        ('["google-re2>=1", "msgspec<1", "PyYAML>=6"]', "msgspec<1 has no lower bound"),
    ],
)
def test_another_dependency_or_one_without_a_bound_is_a_fault(
    tmp_path: Path, dependencies: str, fault: str
) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(f'[project]\nname = "x"\ndependencies = {dependencies}\n')
    done = _run("audit_dependencies", "--offline", "--project", str(project))
    assert done.returncode == 1
    assert fault in done.stdout


@pytest.mark.parametrize(
    ("source", "event"),
    [
        ("import socket\nsocket.socket().connect_ex(('127.0.0.1', 9))", "socket.connect"),
        ("import subprocess\nsubprocess.run(['true'])", "subprocess.Popen"),
        ("import socket\nsocket.getaddrinfo('127.0.0.1', 80)", "socket.getaddrinfo"),
    ],
)
def test_a_module_that_does_something_when_imported_is_a_fault(
    tmp_path: Path, source: str, event: str
) -> None:
    (tmp_path / "chatty.py").write_text(source)
    done = _run("audit_dependencies", "--offline", "--module", "chatty", "--path", str(tmp_path))
    assert done.returncode == 1
    assert f"importing chatty does {event}" in done.stdout


@pytest.mark.parametrize(
    ("report", "faults", "said"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "none, says pip-audit"),
        ([{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1"}]}], 1, ""),
        ([{"name": "a", "skip_reason": "not found"}], 0, "SKIPPED"),
        ([{"name": "a", "skip_reason": "x"}, {"name": "b", "version": "1", "vulns": []}], 1, ""),
    ],
)
def test_a_report_that_looked_nothing_up_does_not_pass_for_a_good_one(
    report: list[dict[str, object]], faults: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(load_script("audit_dependencies").read_report(report)) == faults
    assert said in capsys.readouterr().out

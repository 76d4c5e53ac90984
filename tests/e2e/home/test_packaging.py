"""What is shipped: the same bytes every time, with everything beside the code, and one version everywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml

from gate import ROOT
from penstock import __version__
from scripts_by_name import load_script

SHARED = {
    "share/man/man1/penstock.1",
    "share/bash-completion/completions/penstock",
    "share/zsh/site-functions/_penstock",
    "share/fish/vendor_completions.d/penstock.fish",
}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist; the script itself compares two builds, and the wheel that is built from the sdist."""
    target = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_dist.py"), str(target)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_the_wheel_brings_script_man_page_completions_and_bill_of_materials(
    dist: Path, tmp_path: Path
) -> None:
    wheel = next(dist.glob("*.whl"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    # What it needs at run time comes from our own environment; that it can be had is the index's business.
    site = next((tmp_path / "env" / "lib").glob("python3*")) / "site-packages"
    needed = tmp_path / "needed"
    needed.mkdir()
    for path in Path(sysconfig.get_path("platlib")).iterdir():
        if re.match(r"(msgspec|re2|_re2|google_re2|yaml|_yaml|PyYAML|pyyaml)", path.name, re.I):
            (needed / path.name).symlink_to(path)
    (site / "needed.pth").write_text(f"{needed}\n")
    script = tmp_path / "env" / "bin" / "penstock"
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"penstock {__version__}\n"
    for name in SHARED:
        assert (tmp_path / "env" / name).stat().st_size > 1000, name
    bash = subprocess.run([script, "completion", "bash"], capture_output=True, text=True, check=True)
    assert bash.stdout == (tmp_path / "env/share/bash-completion/completions/penstock").read_text()
    sbom = json.loads(next(site.glob("penstock-*.dist-info/sboms/*.json")).read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    assert sbom["metadata"]["component"]["version"] == __version__
    assert {part["name"] for part in sbom["components"]} == {"google-re2", "msgspec", "PyYAML"}


def test_nothing_in_the_wheel_is_of_one_machine_or_of_the_tests(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        names = archive.namelist()
        assert not [name for name in names if name.rpartition("/")[2].startswith("test_")]
        assert str(ROOT).encode() not in b"".join(archive.read(name) for name in names)


def test_the_formula_names_the_wheel_by_its_digest(dist: Path) -> None:
    text = (dist / "penstock.rb").read_text()
    assert re.search(r'sha256 "[0-9a-f]{64}"', text)
    assert f"penstock-{__version__}-py3-none-any.whl" in text
    assert text.count("do\n") + text.count("def ") + text.count("class ") == len(
        re.findall(r"^ *end$", text, re.M)
    )


def test_the_shells_take_their_completions() -> None:
    for shell, words in {"bash": ["-n"], "zsh": ["-n"], "fish": ["--no-execute"]}.items():
        if shutil.which(shell):
            path = ROOT / "src" / "penstock" / "completions" / f"penstock.{shell}"
            subprocess.run([shell, *words, str(path)], check=True)
    assert _completed("wr") == ["wrap"]
    assert _completed("help", "wr") == ["wrap"]


@pytest.mark.parametrize(
    "words",
    [["show"], ["check"], ["lock"], ["stats", "--compare"], ["audit", "verify", "--key-file"], ["--config"]],
    ids=" ".join,
)
def test_the_shells_offer_files_where_one_is_meant(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").touch()
    assert _completed(*words, "so", folder=tmp_path) == ["some.jsonl"]


def _completed(*words: str, folder: Path = ROOT) -> list[str]:
    """What bash would offer in the place of the last of the words."""
    line = " ".join(["penstock", *words])
    before = ["penstock", *words][-2]
    probe = (
        f"source {ROOT}/src/penstock/completions/penstock.bash; COMP_WORDS=({line}); "
        f"COMP_CWORD={len(words)}; _shtab_penstock penstock {words[-1]} {before}; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.split()


def test_no_shell_is_told_of_a_file_without_offering_files() -> None:
    completions = ROOT / "src" / "penstock" / "completions"
    for line in (completions / "penstock.zsh").read_text().splitlines():
        assert not line.endswith((':FILE:"', ':DIR:"', ':OUT:"')), line
    fish = (completions / "penstock.fish").read_text().splitlines()
    assert all("__fish_complete_path" in line for line in fish if " -l config " in line)


def test_one_version_is_everywhere_and_another_is_noticed(tmp_path: Path) -> None:
    faults = load_script("release_check").faults
    left = [fault for fault in faults(__version__) if not fault.startswith("CHANGELOG.md")]
    assert left == []  # the changelog gets its section with the release
    for name in ("src/penstock/__init__.py", "packaging/server.json", "packaging/penstock.rb", "Dockerfile"):
        copy = tmp_path / name.replace("/", "_")
        for part in (
            "src/penstock/__init__.py",
            "CHANGELOG.md",
            "README.md",
            "Dockerfile",
            "Dockerfile.node",
        ):
            (copy / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, copy / part)
        shutil.copytree(ROOT / "packaging", copy / "packaging", dirs_exist_ok=True)
        (copy / "CHANGELOG.md").write_text(f"## {__version__}\n")
        assert list(faults(__version__, copy)) == []
        (copy / name).write_text((copy / name).read_text().replace(__version__, "9.9.9"))
        assert len(list(faults(__version__, copy))) == 1, name
    assert list(faults("9.9.9"))


def test_the_registry_entry_is_what_the_registry_takes() -> None:
    tree = json.loads((ROOT / "packaging" / "server.json").read_text())
    assert len(tree["description"]) <= 100
    assert f"mcp-name: {tree['name']}" in (ROOT / "README.md").read_text()
    upstream = tree["packages"][0]["packageArguments"][0]
    assert (upstream["name"], upstream["isRequired"]) == ("--upstream", True)


def test_images_run_as_nobody_in_particular_and_say_whether_they_are_well() -> None:
    for name in ("Dockerfile", "Dockerfile.node"):
        text = (ROOT / name).read_text()
        assert "USER 10001" in text
        assert "/healthz" in text
        assert text.rstrip().endswith('ENTRYPOINT ["penstock"]')
        kept = {
            line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
        }
        for line in re.findall(r"^COPY (?!--from)(.*)", text, re.M):
            for source in line.split()[:-1]:
                assert source in kept
                assert (ROOT / source).exists()
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert compose["networks"]["inside"]["internal"] is True
    assert "ports" not in compose["services"]["upstream"]
    if (
        shutil.which("docker")
        and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    ):
        subprocess.run(["docker", "compose", "config", "--quiet"], cwd=ROOT, check=True)


def test_workflows_are_yaml_and_run_what_ci_runs() -> None:
    ci = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    matrix = ci["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos"}
    assert any(step.get("run") == ".ci/run" for step in ci["jobs"]["test"]["steps"])
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets.PYPI" not in (ROOT / ".github/workflows/release.yml").read_text()

"""What the documents say is what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from penstock import limits
from penstock.arguments import proxy_parser
from penstock.commands.verbs import VERBS, load

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "penstock"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_the_page_about_the_command_line_is_what_help_says() -> None:
    assert run(sys.executable, "scripts/cli_docs.py", "--check").returncode == 0


def test_the_page_about_clients_is_what_the_table_says() -> None:
    assert run(sys.executable, "scripts/client_docs.py", "--check").returncode == 0


def test_every_option_is_explained() -> None:
    for parser in [proxy_parser(), *(load(name).parser() for name in VERBS)]:
        for action in parser._actions:
            assert action.help, f"{parser.prog} {action.option_strings} has no help"


def test_the_table_in_the_readme_is_what_the_command_prints() -> None:
    found = re.search(r"```console\n\$ penstock (.*)\n((?:.*\n)+?)```", (ROOT / "README.md").read_text())
    assert found is not None
    words = found[1].replace("'", "").split()
    words[words.index("python3")] = sys.executable
    shown = run(sys.executable, "-m", "penstock", *words)
    assert shown.stdout == found[2]


def test_the_demo_shows_tools_before_and_after() -> None:
    shown = run(sys.executable, "examples/demo.py")
    assert shown.returncode == 0
    before, after = re.findall(r"^    (read_file, .*)$", shown.stdout, re.MULTILINE)
    assert "delete_file" in before
    assert "delete_file" not in after
    assert "identical, byte for byte" in shown.stdout


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        words = re.sub(r"(`+).*?\1", "", page.read_text())  # what is quoted as code links nowhere
        for target in re.findall(r"\]\(([^)#]+)", words):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_links_into_pages_lead_to_a_heading() -> None:
    def anchor(heading: str) -> str:
        return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")

    found = 0
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        words = re.sub(r"(`+).*?\1", "", page.read_text())
        for target, place in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", words):
            if "://" not in target:
                text = (page.parent / target if target else page).read_text()
                known = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
                known |= set(re.findall(r'(?:id|name)="([^"]+)"', text))
                assert place in known, f"{page.name} points to {target}#{place}"
                found += 1
    assert found > 3


def test_the_life_of_a_message_leads_through_files_that_are_there() -> None:
    text = (ROOT / "docs" / "life-of-a-message.md").read_text()
    rooms = [path.name for path in SOURCE.iterdir() if path.is_dir()]
    named = set(re.findall(rf"`((?:{'|'.join(rooms)})/[a-z_/]+)[.`]", text))
    assert len(named) > 12
    assert [name for name in sorted(named) if not (SOURCE / f"{name}.py").exists()] == []


def test_the_map_of_the_house_names_every_room_and_every_module_at_its_door() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    words = text[text.index("## A map of the house") : text.index("## Adding an observer")]
    there = [f"{path.name}/" for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"]
    there += [path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")]
    assert [name for name in sorted(there) if f"`{name}`" not in words] == []


def test_every_extra_is_on_the_page_about_installing() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"`penstock\[(\w+)\]`", (ROOT / "docs" / "install.md").read_text())
    assert set(named) == set(extras) - {"dev", "fuzz"}


def test_every_number_has_its_reason() -> None:
    source = Path(limits.__file__).read_text()
    names = re.findall(r"^([A-Z_]+) = ", source, re.MULTILINE)
    assert len(names) > 20
    for name in names:
        assert re.search(rf'^{name} = .*\n"""\S', source, re.MULTILINE), f"{name} has no reason"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in index]
    assert missing == ["index.md"]


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^- \[(\d{4})\]\((.+?)\): (.+)$", (folder / "README.md").read_text(), re.MULTILINE)
    pages = sorted(page for page in folder.glob("*.md") if page.name != "README.md")
    assert [(name, title) for _, name, title in listed] == [
        (page.name, page.read_text().partition("\n")[0].removeprefix(f"# {page.name[:4]}: "))
        for page in pages
    ]


def test_nothing_points_to_a_document_that_is_not_here() -> None:
    for page in [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md")]:
        named = re.search(r"\b(THREATS|PRODUCT|DESIGN|HOUSE|PROTOCOL|FOUND)(\.md| \d)", page.read_text())
        assert named is None, f"{page.name} points to {named and named[0]}"

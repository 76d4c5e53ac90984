"""`unwrap` gives back what was there before, and `wrap --all` goes on past what it cannot wrap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from home_folder import ROWS, Home

ENTRIES = (
    '{\n\t"mcpServers": {\n\t\t"bare": {\n\t\t\t"command": "mcp-fetch"\n\t\t},\n'
    '\t\t"empty": {"command": "x", "args": [ ]},\n'
    '\t\t"page": {\n\t\t\t"url": "http://127.0.0.1:9/mcp",\n'
    '\t\t\t"headers": { "X-Key": "abcdefgh" }\n\t\t}\n\t}\n}'
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_unwrap_all_gives_every_byte_back(home: Home) -> None:
    files = {client: home.write(scope, name, text) for client, (scope, name, text) in ROWS.items()}
    files["odd"] = home.write("user", ".cursor/mcp.json", ENTRIES)
    before = {client: path.read_bytes() for client, path in files.items()}
    wrapped = home.run("wrap", "--all", "--read-only", "--yes")
    assert wrapped.returncode == 0, wrapped.stderr
    assert all(path.read_bytes() != before[client] for client, path in files.items())
    unwrapped = home.run("unwrap", "--all", "--yes")
    assert unwrapped.returncode == 0, unwrapped.stderr
    assert {client: path.read_bytes() for client, path in files.items()} == before


def test_the_way_back_leads_past_several_changes_of_ours(home: Home) -> None:
    path = home.write("user", ".cursor/mcp.json", ENTRIES)
    assert home.run("wrap", "--all", "--deny", "x", "--yes").returncode == 0
    assert home.run("wrap", "bare", "page", "--deny", "y", "--yes").returncode == 0
    assert home.run("unwrap", "--all", "--yes").returncode == 0
    assert path.read_text() == ENTRIES


def test_what_somebody_edited_meanwhile_stays(home: Home) -> None:
    path = home.write("user", ".cursor/mcp.json", ENTRIES)
    assert home.run("wrap", "--all", "--deny", "x", "--yes").returncode == 0
    path.write_text(path.read_text().replace("\t\t", "    "))  # the same values, laid out otherwise
    laid_out = path.read_text()
    assert home.run("unwrap", "--all", "--yes").returncode == 0
    after = path.read_text()
    assert json.loads(after) == json.loads(ENTRIES)
    assert after != ENTRIES
    assert after.splitlines()[:3] == laid_out.splitlines()[:3]


def test_one_of_several_is_unwrapped_alone(home: Home) -> None:
    path = home.write("user", ".cursor/mcp.json", ENTRIES)
    assert home.run("wrap", "--all", "--deny", "x", "--yes").returncode == 0
    assert home.run("unwrap", "bare", "--yes").returncode == 0
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers["bare"] == {"command": "mcp-fetch"}
    assert servers["empty"]["args"][:2] == ["--deny", "x"]


def test_a_backup_that_was_tampered_with_is_not_written_back(home: Home) -> None:
    path = home.write("user", ".cursor/mcp.json", ENTRIES)
    assert home.run("wrap", "--all", "--deny", "x", "--yes").returncode == 0
    (backup,) = (home.state / "changes").glob("*.before")
    backup.write_text(ENTRIES.replace("mcp-fetch", "evil"))
    assert home.run("unwrap", "--all", "--yes").returncode == 0
    assert json.loads(path.read_text()) == json.loads(ENTRIES)


def test_a_server_that_cannot_be_wrapped_does_not_leave_the_others_bare(home: Home) -> None:
    odd = {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "abcdefgh"}, "env": {"A": "1"}}
    servers = {"odd": odd, "good": {"command": "server"}}
    path = home.write("user", ".cursor/mcp.json", json.dumps({"mcpServers": servers}))
    done = home.run("wrap", "--all", "--read-only", "--yes")
    assert done.returncode == 3, done.stderr
    assert "odd stays without Penstock: it has headers and variables" in done.stderr
    after = json.loads(path.read_text())["mcpServers"]
    assert after["odd"] == odd
    assert "--read-only" in after["good"]["args"]
    assert home.run("wrap", "odd", "--read-only", "--yes").returncode == 1


def test_a_built_in_of_a_client_is_named_and_no_reason_to_worry(home: Home) -> None:
    scope, name, text = ROWS["goose"]
    home.write(scope, name, text)
    done = home.run("wrap", "--all", "--read-only", "--yes")
    assert done.returncode == 0, done.stderr
    assert "memory stays without Penstock: built in." in done.stderr


def test_wrapping_all_again_says_how_to_change_options(home: Home) -> None:
    path = home.write("user", ".cursor/mcp.json", '{"mcpServers": {"a": {"command": "server"}}}')
    assert home.run("wrap", "--all", "--read-only", "--yes").returncode == 0
    before = path.read_bytes()
    again = home.run("wrap", "--all", "--deny", "x", "--yes")
    assert (again.returncode, path.read_bytes()) == (0, before)
    assert "To give a wrapped server other options, name it." in again.stderr

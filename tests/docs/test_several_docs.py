"""docs/several.md and its example are true."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from doors import StdioDoor
from penstock.config.file import parse_file
from penstock.config.model import SeveralUpstreams
from several import PENSTOCK, names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "several.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_what_the_page_shows_is_good(block: str) -> None:
    assert isinstance(parse_file("page.yaml", block.encode(), {}).upstream, SeveralUpstreams)


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    with (tmp_path / "errors").open("wb") as errors:
        client = StdioDoor([*PENSTOCK, "--config", "examples/several.yaml", "--stdio"], "legacy", errors)
    try:
        client.begin()
        found = [
            "read_file",
            "list_directory",
            "search_files",
            "write_file",
            "echo",
            "notes__read_file",
            "save_note",
        ]
        assert names(client) == found
        answer = client.call("save_note", b'{"path":"a","text":"b"}')
        assert "write_file was called" in answer["result"]["content"][0]["text"]
        assert client.call("delete_file")["error"]["code"] == -32601
    finally:
        client.close()

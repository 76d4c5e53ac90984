"""Takes the pictures of docs/watch.md and the README from the real page, with the demo's traffic.

python scripts/watch_pictures.py FOLDER [--all]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]

from demo_live import agents  # noqa: E402

from chromium import Chromium  # noqa: E402
from penstock.watch import runtime  # noqa: E402
from penstock.watch.hub import ask_desk  # noqa: E402

PAGES = ("traffic", "held", "sessions", "tools", "rules", "upstreams", "history", "log", "alerts", "patterns")


ROWS = "[...document.querySelectorAll('.grow:not([hidden])')].toSorted((a, b) => a.rank - b.rank)"
IS_SEEN = "e.getBoundingClientRect().bottom < innerHeight"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    is_all = "--all" in sys.argv
    os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="pens-", dir="/tmp")
    clients = agents()
    for client in clients:
        for _ in range(60):
            client.step(writes=False)
            time.sleep(0.01)
    hub = subprocess.Popen([sys.executable, "-m", "penstock", "watch", "--web", "0", "--no-browser"])
    try:
        until = time.monotonic() + 20
        while not runtime.hubs() and time.monotonic() < until:
            time.sleep(0.05)
        found = ask_desk(runtime.hubs()[0], True)
        assert found is not None
        with Chromium(1280, 800) as page:
            page.open(f"{found['url']}#code={found['code']}")
            page.wait("document.querySelectorAll('.grow').length > 10")
            clients[0].write_file()
            page.wait("!document.querySelector('nav .count').hidden")
            shots = [(320, 640), (1280, 800), (1920, 1080)] if is_all else [(1200, 560)]
            for width, height in shots:
                page.size(width, height)
                for is_dark in (False, True):
                    page.theme(is_dark)
                    name = f"{width}-" if is_all else ""
                    take(page, folder, name, "dark" if is_dark else "light", is_all)
    finally:
        hub.terminate()
        for client in clients:
            client.close()


def filter_by(page: Chromium, words: str) -> None:
    entry = "document.getElementById('filter')"
    page.run(f"{entry}.value = {json.dumps(words)}; {entry}.dispatchEvent(new Event('input'))")
    time.sleep(0.5)


def take(page: Chromium, folder: Path, name: str, theme: str, is_all: bool) -> None:
    page.key("1")
    page.run("document.querySelector('.scroller').focus()")
    page.key("G")
    time.sleep(0.3)
    if is_all:
        page.picture(folder / f"{name}list-{theme}.png")
    page.run(f"{ROWS}.findLast(e => /echo/.test(e.textContent) && {IS_SEEN}).click()")
    page.wait("!document.querySelector('.detail').hidden")
    time.sleep(0.3)
    page.picture(folder / f"{name}watch-traffic-{theme}.png")
    if is_all:
        for tab in ("diff", "why", "timing"):
            page.click(".detail .tabs button", tab)
            page.picture(folder / f"{name}{tab}-{theme}.png")
        page.click(".detail .tabs button", "pretty")
    page.run("document.querySelector('.detail .close').click()")
    if is_all:
        for kind, words in (("nothing", "tool:none-such ms>5"), ("fault", "tool:echo nope:1")):
            filter_by(page, words)
            page.picture(folder / f"{name}{kind}-{theme}.png")
        filter_by(page, "")
    for number, kind in enumerate(PAGES[1:], 2):
        if is_all or kind == "held":
            page.key(str(number % 10))
            time.sleep(0.5)
            page.picture(folder / f"{name}watch-{kind}-{theme}.png")


if __name__ == "__main__":
    main()

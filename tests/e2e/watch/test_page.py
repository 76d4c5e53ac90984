"""The page in a real Chromium (acceptance 1, 7, 8, 10, 13, 14, 23, 24)."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from chromium import CHROMIUM, Chromium
from gate import SAMPLE, Gate
from live import Hub, until

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; scripts/system_setup installs one"
)

NAUGHTY = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "javascript:window.hit=1",
    '"><svg onload=window.hit=1>',
    "';window.hit=1;//",
    "</textarea><script>window.hit=1</script>",
    "{{constructor.constructor('window.hit=1')()}}",
    "${window.hit=1}",
    "\u202eevil\u202c\u200b\ufeff",
    "\x1b[31mred\x07",
    "‹U+0041›",
    "<a href=//evil.example>x</a>",
]
PAGES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 0)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as found:
        yield found


@pytest.fixture(scope="module")
def gate(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    work = tmp_path_factory.mktemp("gate")
    with Gate(work, "--dashboard", "auto", command=["python3", str(SAMPLE)]) as found:
        found.handshake()
        found.ask("tools/list")
        hub.instances()
        yield found


@pytest.fixture(scope="module")
def page(hub: Hub, gate: Gate) -> Iterator[Chromium]:
    with Chromium() as found:
        found.open(f"http://{hub.host}/#code={hub.code()}")
        found.wait("document.querySelectorAll('.grow').length > 2")
        yield found


def test_10_the_code_is_gone_and_the_page_cannot_be_framed(hub: Hub, page: Chromium) -> None:
    assert page.run("location.hash") == ""
    assert "code" not in page.run("location.href")
    assert page.run("document.cookie") == ""
    status, _ = hub.raw("GET", "/")
    assert status == 200


def test_1_a_row_is_there_soon_after_its_call(page: Chromium, gate: Gate) -> None:
    gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"first"}}')
    began = time.monotonic()
    page.wait("[...document.querySelectorAll('.grow')].some(e => e.textContent.includes('echo'))", 5)
    assert time.monotonic() - began < 5


def test_7_and_8_no_script_of_others_runs_and_nothing_leaves_the_origin(
    hub: Hub, page: Chromium, gate: Gate
) -> None:
    for text in NAUGHTY:
        params = {"name": text, "arguments": {text: text, "list": [text]}}
        gate.ask("tools/call", json.dumps(params).encode())
    seqs = [row["seq"] for row in hub.rows("method:tools/call kind:request")][-len(NAUGHTY) :]
    for number in PAGES:
        page.key(str(number))
        page.wait("document.querySelector('main').children.length > 0")
        time.sleep(0.1)
        assert page.run("window.hit") is None
    page.key("1")
    for _ in seqs:
        page.key("k")
    page.key("Enter")
    page.wait("!document.querySelector('.detail').hidden")
    for _ in seqs:
        page.key("j")
        for tab in ("bytes", "hex", "diff", "why", "pretty"):
            page.click(".tabs button", tab)
    assert page.run("window.hit") is None
    assert page.run("document.querySelectorAll('main script, main a, main img, main iframe').length") == 0
    shown = page.run("document.body.innerText")
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    page.key("Escape")
    origin = f"http://{hub.host}/"
    assert [url for url in page.requests if not url.startswith((origin, "about:", "data:"))] == []


def test_7_what_an_upstream_says_on_stderr_runs_nothing_either(
    hub: Hub, page: Chromium, tmp_path: Path
) -> None:
    script = (
        "import os,sys; sys.stderr.write(sys.argv[2]); sys.stderr.flush();"
        "os.execv(sys.executable, ['x', sys.argv[1]])"
    )
    said = "".join(f"naughty {text}\n" for text in NAUGHTY)
    with Gate(
        tmp_path, "--dashboard", "auto", command=[sys.executable, "-c", script, str(SAMPLE), said]
    ) as own:
        own.handshake()
        pid = str(own.process.pid)
        until(lambda: any(str(one["pid"]) == pid for one in hub.instances()))
        for number in PAGES:
            page.key(str(number))
            page.wait("document.querySelector('main').children.length > 0")
            time.sleep(0.1)
            assert page.run("window.hit") is None
            assert page.run("document.querySelectorAll('main script, main a, main img').length") == 0
            assert not {"\u202e", "\x1b"} & set(page.run("document.body.innerText"))
    page.key("1")


def test_24_held_is_decided_by_keyboard_alone(hub: Hub, page: Chromium, gate: Gate) -> None:
    hub.breaks("method:tools/call tool:write_file from:client")
    params = b'{"name":"write_file","arguments":{"path":"a"}}'
    call = b'{"jsonrpc":"2.0","id":71,"method":"tools/call","params":%b}' % params
    gate.say(call)
    page.wait("!document.querySelector('nav .count').hidden")
    assert "Held" in page.run("document.getElementById('live').textContent")
    page.key("2")
    page.wait("!!document.querySelector('.card')")
    page.key("a")
    page.wait("!!document.querySelector('.card .sure')")
    page.key("a")
    assert b'"result"' in gate.answer(b"71")
    page.wait("document.querySelector('nav .count').hidden")
    gate.say(call.replace(b"71", b"72"))
    page.wait("!!document.querySelector('.card')")
    page.click(".card button", "edit")
    page.wait("!!document.querySelector('textarea')")
    value = "document.querySelector('textarea').value"
    page.run(f"{value} = {value}.replace('\"a\"', '\"edited\"')")
    page.click(".card button", "send the edit")
    page.click(".card button", "send the edit")
    assert b"edited" in gate.answer(b"72")
    hub.call("DELETE", "breakpoints/t")


def test_13_a_secret_is_masked_until_it_is_revealed(page: Chromium, gate: Gate) -> None:
    secret = "hunter2-in-the-page"
    gate.ask("tools/call", b'{"name":"echo","arguments":{"password":"%b"}}' % secret.encode())
    page.wait("!document.querySelector('textarea')")
    page.key("1")
    page.wait("!!document.querySelector('.scroller')")

    def is_masked() -> bool:
        page.key("Escape")
        page.key("G")  # the newest that the page has heard of by now
        page.key("Enter")
        page.wait("!!document.querySelector('.detail pre, .detail .pretty, .detail [class]')")
        return bool(page.run("!!document.querySelector('.detail .mask')"))

    until(is_masked)
    assert secret not in page.run("document.documentElement.outerHTML")
    page.key("v")
    page.wait(f"document.querySelector('.detail').innerText.includes('{secret}')")
    page.key("Escape")
    page.wait(f"!document.documentElement.outerHTML.includes('{secret}')")  # closed, it is gone from the page


def test_a_filter_finds_and_its_fault_points_at_the_column(page: Chromium) -> None:
    page.key("/")
    page.type("tool:echo")
    page.wait("/of/.test(document.getElementById('count').textContent)")
    page.wait(
        "[...document.querySelectorAll('.grow:not([hidden])')].every(e => e.textContent.includes('echo'))"
    )
    page.type(" nope:1")
    page.wait("document.getElementById('fault').textContent.includes('unknown field')")
    assert page.run("document.getElementById('fault').textContent").endswith("Still shown: tool:echo")
    page.run("document.getElementById('filter').select()")
    page.type("tool:no-such-tool")
    page.wait("document.body.innerText.includes('No message matches tool:no-such-tool')")
    page.run("document.getElementById('filter').select()")
    page.type(" ")
    page.wait("document.querySelectorAll('.grow:not([hidden])').length > 3")
    page.key("Escape")


@pytest.mark.parametrize("width", [320, 1280])
def test_every_page_fits_and_has_names_for_what_can_be_pressed(page: Chromium, width: int) -> None:
    page.size(width, 700)
    for number in PAGES:
        page.key(str(number))
        time.sleep(0.15)
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), number
        beyond = "e => e.getBoundingClientRect().right > window.innerWidth"
        assert page.run(f"[...document.querySelectorAll('nav button')].filter({beyond}).length") == 0, number
        name = "e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length"
        pressed = "[...document.querySelectorAll('button, input, textarea')]"
        nameless = f"{pressed}.filter(e => !({name})).length"
        assert page.run(nameless) == 0, number
        assert page.run("document.querySelectorAll('h1').length") == 1
    page.size(1280, 800)
    page.key("1")


NODE = Path(__file__).resolve().parents[3] / ".peers" / "node" / "node_modules"
AXE = Path(os.environ.get("PENSTOCK_AXE", NODE / "axe-core" / "axe.min.js"))


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not here; scripts/node_setup installs it")
@pytest.mark.parametrize("is_dark", [False, True])
def test_24_axe_finds_nothing_serious(page: Chromium, is_dark: bool) -> None:
    page.theme(is_dark)
    page.do("Runtime.evaluate", expression=AXE.read_text())
    for number in PAGES:
        page.key(str(number))
        time.sleep(0.2)
        bad = "v => /serious|critical/.test(v.impact)"
        shown = "v => v.id + ': ' + v.nodes[0].html"
        found = page.run(f"axe.run().then(r => r.violations.filter({bad}).map({shown}))")
        assert found == [], (number, found)
    page.theme(False)
    page.key("1")


ACTIONS = "[...document.querySelectorAll('.card .actions button')]"


def test_23_a_hub_that_is_killed_is_said_and_the_page_goes_on_where_it_was(gate: Gate) -> None:
    before = os.environ["XDG_RUNTIME_DIR"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    first = Hub(folder=before, port=port)
    second: Hub | None = None
    try:
        with Chromium() as page:
            first.instances()
            page.open(f"http://{first.host}/#code={first.code()}")
            page.wait("document.querySelectorAll('.grow:not([hidden])').length > 2")
            first.breaks("method:tools/call tool:write_file from:client")
            params = b'{"name":"write_file","arguments":{"path":"a"}}'
            gate.say(b'{"jsonrpc":"2.0","id":231,"method":"tools/call","params":%b}' % params)
            page.key("2")
            page.wait(f"{ACTIONS}.length > 0 && {ACTIONS}.every(e => !e.disabled)")
            first.process.kill()
            first.process.wait()
            page.wait("document.getElementById('banner').textContent.includes('Disconnected')", 10)
            page.wait(f"{ACTIONS}.length > 0 && {ACTIONS}.every(e => e.disabled)", 10)
            gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"while it was away"}}')
            second = Hub(folder=before, port=port)
            page.wait(f"{ACTIONS}.length > 0 && {ACTIONS}.every(e => !e.disabled)")  # without a login
            assert "Disconnected" not in page.run("document.getElementById('banner').textContent")
            page.click(".card button", "release")
            page.click(".card button", "sure")
            assert b'"result"' in gate.answer(b"231")
            gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"after it came back"}}')
            rows = second.get("rows?limit=500&rank=-500")["rows"]
            page.key("1")
            page.wait(f"document.querySelector('.scroller').getAttribute('aria-rowcount') >= {len(rows)}")
            ids = [(row["at"], row["t"], row["from"], row["kind"], row["id"], row["method"]) for row in rows]
            assert len(set(ids)) == len(ids)
            for text in ("while it was away", "after it came back"):
                asked = quote(f'from:client arg.text:"{text}"')
                assert until(lambda asked=asked: second.get(f"rows?filter={asked}")["matched"]) == 1, text
                page.run(
                    f"(e => {{ e.value = {json.dumps(unquote(asked))}; "
                    "e.dispatchEvent(new Event('input')); })(document.getElementById('filter'))"
                )
                page.wait("document.querySelectorAll('.grow:not([hidden])').length === 1")
    finally:
        (second or first).close()


def test_23_a_hub_that_hangs_is_said_too(gate: Gate) -> None:
    with Hub(folder=os.environ["XDG_RUNTIME_DIR"]) as own, Chromium() as page:
        own.instances()
        page.open(f"http://{own.host}/#code={own.code()}")
        page.wait("document.querySelectorAll('.grow:not([hidden])').length > 2")
        os.kill(own.process.pid, signal.SIGSTOP)
        page.wait("document.getElementById('banner').textContent.includes('Disconnected')", 30)
        assert gate.ask("ping")["result"] == {}
        os.kill(own.process.pid, signal.SIGCONT)
        page.wait("document.getElementById('banner').textContent === ''", 30)


def test_the_history_draws_a_single_minute_and_its_bars_stand_over_their_times(page: Chromium) -> None:
    page.key("7")
    page.wait("document.querySelectorAll('.chart path.p50').length > 0")
    drawn = page.run("[...document.querySelectorAll('.chart svg path.p50')].at(-1).getAttribute('d')")
    assert any(mark in drawn for mark in "hL"), drawn  # a move alone draws nothing
    edges = page.run(
        "[...document.querySelectorAll('.chart rect.bars')].filter(e => e.ownerSVGElement.role === 'img')"
        ".map(e => [+e.getAttribute('x'), +e.getAttribute('x') + +e.getAttribute('width')])"
    )
    assert edges[0][0] == 0
    assert len(edges) == 1 or round(edges[-1][1]) == 1000
    page.key("1")

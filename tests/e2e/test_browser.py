"""Pages in a real Chromium, headless: names that are rebound, images of other sites, links to us."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_http import Line, Request, ScriptedHttp

from gate import children_of
from pairs import DENY, Proxy, Upstream

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; scripts/system_setup installs one"
)

HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    '"capabilities":{},"clientInfo":{"name":"page","version":"1"}}}'
)
SAY = """
const said = [];
async function attempt(name, path, options) {
  try {
    const answer = await fetch(path, options);
    said.push(name + "=" + answer.status + "/" + answer.type + "/" + (await answer.text()).slice(0, 120));
  } catch (error) { said.push(name + "=failed"); }
}
"""
END = "document.body.textContent = said.join('; ');"


def look(url: str, work: Path) -> str:
    """What a browser shows after it has gone to `url` and all scripts have run."""
    assert CHROMIUM is not None
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += [
        "--no-first-run",
        "--disable-background-networking",
        "--disable-extensions",
        "--no-proxy-server",
    ]
    words += [f"--user-data-dir={work / 'profile'}", "--host-resolver-rules=MAP *.example 127.0.0.1"]
    # Newer ones ask the user before a page may reach loopback at all; older ones, and other browsers, do not.
    words += ["--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"]
    words += ["--virtual-time-budget=8000", "--timeout=20000", "--dump-dom", url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    return done.stdout


class Rebound:
    """A name that belongs to an attacker: the first answer is the page, then everything goes to Penstock."""

    def __init__(self, page: str, port: int) -> None:
        self._page = page
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.passed = bytearray()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        head = line.recv(65536)
        if head.startswith(b"GET /page"):
            body = self._page.encode()
            lines = (b"HTTP/1.1 200 X", b"Content-Type: text/html", b"Connection: close", b"", body)
            line.sendall(b"\r\n".join(lines))
            line.close()
            return
        self.passed += head
        with socket.create_connection(("127.0.0.1", self._to)) as there:
            there.sendall(head)
            back = threading.Thread(target=_pump, args=(there, line), daemon=True)
            back.start()
            _pump(line, there)
            back.join(5)

    def close(self) -> None:
        self._listener.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Births:
    """The processes that another starts while nobody looks."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = set(children_of(pid))
        self._born: set[int] = set()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def _look(self) -> None:
        while not self._over.wait(0.005):
            self._born |= set(children_of(self._pid)) - self._before

    def end(self) -> set[int]:
        """Those that were started."""
        self._over.set()
        self._watch.join()
        return self._born


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with Upstream("stdio", tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        yield proxy


def test_a_rebound_name_gets_nothing(proxy: Proxy, tmp_path: Path):
    page = f"""<body><script type="module">{SAY}
    const json = {{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}};
    await attempt("post", "/mcp", {{method: "POST", headers: json, body: {HELLO!r}}});
    await attempt("stream", "/sse", {{headers: {{"Accept": "text/event-stream"}}}});
    await attempt("health", "/healthz");
    {END}</script>"""
    watch = Births(proxy.process.pid)
    evil = Rebound(page, proxy.port)
    shown = look(f"http://evil.example:{evil.port}/page", tmp_path)
    evil.close()
    assert f"Host: evil.example:{evil.port}".encode() in evil.passed, "nothing went to Penstock"
    assert shown.count("=403/") == 3, shown
    assert "unknown Host" in shown
    assert not watch.end()


def test_a_page_of_another_site_starts_nothing(proxy: Proxy, tmp_path: Path):
    to = f"http://127.0.0.1:{proxy.port}"
    page = f"""<body><img src="{to}/sse"><img src="{to}/mcp"><script type="module">{SAY}
    new EventSource("{to}/sse");
    await attempt("simple", "{to}/sse", {{mode: "no-cors"}});
    await attempt("cors", "{to}/sse", {{headers: {{"Accept": "text/event-stream"}}}});
    await attempt("post", "{to}/mcp", {{method: "POST", mode: "no-cors", body: {HELLO!r}}});
    const json = {{"Content-Type": "application/json"}};
    await attempt("json", "{to}/mcp", {{method: "POST", headers: json, body: {HELLO!r}}});
    {END}</script>"""
    watch = Births(proxy.process.pid)
    site = Rebound(page, proxy.port)
    shown = look(f"http://page.example:{site.port}/page", tmp_path)
    site.close()
    assert "simple=0/opaque/" in shown, shown  # sent, and nobody may read the refusal
    assert "cors=failed" in shown
    assert "json=failed" in shown
    assert not watch.end()


def answer(request: Request, line: Line) -> None:
    if request.method == "GET":
        body = b"<body>before<script>document.body.textContent = 'it ran in ' + origin</script>"
        line.reply(200, body, "Content-Type: text/html")
    elif request.rpc == "initialize":
        line.json(request.result(b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}'))
    elif "id" not in request.message:
        line.accepted()
    else:
        line.json(request.result(b'{"tools":[]}'))


def test_a_link_to_us_brings_no_cookies_and_runs_no_script(tmp_path: Path):
    with ScriptedHttp(answer) as upstream, Proxy(tmp_path, ["--upstream", upstream.url]) as proxy:
        to = f"http://127.0.0.1:{proxy.port}/.well-known/page"
        # Another program on this machine has set a cookie: to a browser its port is the same site.
        page = f"<body><script>document.cookie = 'secret=1; max-age=600'; location = '{to}'</script>"
        asked = len(upstream.requests)
        other = Rebound(page, proxy.port)
        shown = look(f"http://127.0.0.1:{other.port}/page", tmp_path)
        assert "from a page of another site" in shown, shown
        shown = look(f"http://page.example:{other.port}/page", tmp_path)
        other.close()
        assert "from a page of another site" in shown, shown
        assert len(upstream.requests) == asked
        # Typed into the address bar: answered, without cookies, as nothing that runs.
        shown = look(to, tmp_path)
        assert "before" in shown, shown
        assert "it ran in http" not in shown
        assert "it ran in null" not in shown
        assert upstream.requests[-1].header("cookie") is None

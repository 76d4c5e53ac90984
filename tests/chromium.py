"""A real Chromium, driven over its debugging pipe: no package, no port, no profile that anybody shares."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DEADLINE = 20.0


class Chromium:
    """One browser with one page. `requests` has every address that the page asked for."""

    def __init__(self, width: int = 1280, height: int = 800, is_dark: bool = False) -> None:
        assert CHROMIUM is not None
        self._folder = tempfile.mkdtemp(prefix="penstock-chromium-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        words = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        words += [
            "--no-first-run",
            "--disable-background-networking",
            "--disable-extensions",
            "--no-proxy-server",
        ]
        words += [f"--user-data-dir={self._folder}", f"--window-size={width},{height}", "--hide-scrollbars"]
        words += ["--disable-features=LocalNetworkAccessChecks", "--remote-debugging-pipe", "about:blank"]

        def place() -> None:  # the browser reads commands at 3 and answers at 4
            low, high = os.dup(to_read), os.dup(to_write)
            os.dup2(low, 3)
            os.dup2(high, 4)

        self._process = subprocess.Popen(
            words,
            preexec_fn=place,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        self.requests: list[str] = []
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        found = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.do(f"{domain}.enable")
        self.size(width, height)
        self.theme(is_dark)

    _session: str | None = None

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers to a command."""
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + DEADLINE * 2
        while time.monotonic() < until:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message)
        raise AssertionError(f"the browser does not answer {method}")

    do = send

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._in, 1 << 20)
            assert data, "the browser is gone"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, message: dict[str, Any]) -> None:
        self.events.append(message)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])

    def size(self, width: int, height: int) -> None:
        """Makes the page this large."""
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def theme(self, is_dark: bool) -> None:
        """Says which theme the user likes."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.do("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Goes there."""
        self.do("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = DEADLINE) -> Any:
        """The value of an expression, once it is true."""
        until = time.monotonic() + seconds
        value = None
        while time.monotonic() < until:
            with contextlib.suppress(AssertionError):
                value = self.run(script)
                if value:
                    return value
            time.sleep(0.03)
        raise AssertionError(
            f"never true: {script}; the page says {self.run('document.body.innerText')[:1500]}"
        )

    def click(self, selector: str, text: str = "") -> None:
        """Clicks the element that has this text."""
        has_text = f"e => e.textContent.includes({json.dumps(text)})"
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find({has_text})"
        self.wait(f"!!{found}")
        self.run(f"{found}.click()")

    def key(self, key: str) -> None:
        """Presses a key."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        for kind in ("keyDown", "keyUp"):
            self.do(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode=code,
            )

    def type(self, text: str) -> None:
        """Writes into what has the focus."""
        self.do("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """What the page looks like."""
        found = self.do("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """Ends the browser."""
        with contextlib.suppress(Exception):
            self._session = None
            self.send("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

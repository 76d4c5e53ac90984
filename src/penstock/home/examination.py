"""Examining one server as its client would run it: a list of findings, from the file to the gate."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from penstock.clients.table import Client
from penstock.clients.wrapped_words import Wrapped, maybe_wrapped
from penstock.home.own_path import is_in_cache
from penstock.home.ports import is_taken, maybe_owner
from penstock.home.programs import maybe_elsewhere, maybe_program, missing_part
from penstock.home.trial import Trial, TrialFailed
from penstock.home.url_probe import BLOCKED, MISCONFIGURED, READY, TRANSIENT, probe_url
from penstock.policy.tools.token_estimate import estimate_tokens
from penstock.wire.http.url import parse_listen
from penstock.wire.mcp.replies import one_line

WORDS = {READY: "ready", TRANSIENT: "transient", BLOCKED: "blocked", MISCONFIGURED: "misconfigured"}
_POOR_PATH = {"darwin": "/usr/bin:/bin:/usr/sbin:/sbin", "linux": "/usr/local/bin:/usr/bin:/bin"}
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ASKED = re.compile(r"\$\{(?:input|command|prompt):[^}]*\}")
_KNOWN_BY_CLIENTS = frozenset({"workspaceFolder", "workspaceRoot", "userHome", "pathSeparator"})
_FILTERS = frozenset({"--deny", "--allow", "--read-only", "--lock", "--max-tokens"})
_START_SECONDS = 60.0
_COLD = ("npx", "uvx", "bunx", "pnpx", "pipx")


class Finding(Struct, frozen=True):
    """What one check found."""

    check: str
    code: int
    text: str
    hint: str = ""

    @property
    def result(self) -> str:
        """The code as a word."""
        return WORDS[self.code]


class Subject(Struct, frozen=True):
    """What is examined: the words to run, or a URL; and under which circumstances."""

    name: str
    words: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    cwd: str | None = None
    client: Client | None = None
    seconds: float | None = None
    is_as_shell: bool = False


class Examination:
    """One server's examination; `findings` grows while it runs."""

    def __init__(self, subject: Subject, environ: Mapping[str, str]) -> None:
        self._subject = subject
        self._environ = environ
        self._wrapped = maybe_wrapped(subject.words)
        self.findings: list[Finding] = []

    @property
    def code(self) -> int:
        """The worst that was found."""
        return max((finding.code for finding in self.findings), default=READY)

    def run(self) -> None:
        """Makes every check that makes sense after those before it."""
        env = self._environment()
        if env is None:
            return
        words = self._subject.words
        if words:
            self._check_programs(env)
        url = self._subject.url or (self._wrapped.url if self._wrapped is not None else None)
        if url is not None and self.code < MISCONFIGURED:
            self._check_url(url, env)
        self._check_port()
        serves_http = any(finding.check == "ports" for finding in self.findings)
        if self.code == READY and not serves_http:
            self._try(list(words) or bridge(url or "", self._subject.headers, env), env)

    # --- before it runs ----------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str] | None:
        """The variables that the client would give it; None when that cannot be known here."""
        subject, client = self._subject, self._subject.client
        env = dict(self._environ)
        if client is not None and not subject.is_as_shell:
            if client.passes is not None:
                env = {name: value for name, value in env.items() if name in client.passes}
            if client.has_poor_path:
                env["PATH"] = _POOR_PATH.get(sys.platform, env.get("PATH", ""))
        texts = [*subject.words, *subject.env.values(), *subject.headers.values(), subject.url or ""]
        if any(_ASKED.search(text) for text in texts):
            self._add("env", READY, "the client would ask somebody for a value; it cannot be tried here")
            return None
        for text in texts:
            for name, default in _VARIABLE.findall(text):
                if name not in self._environ and not default and name not in _KNOWN_BY_CLIENTS:
                    self._add("env", MISCONFIGURED, f"the variable {name} is not set", f"Set {name}")
        if self.code == READY:
            self._add("env", READY, "every variable is set")
        env.update({name: self._expanded(value) for name, value in subject.env.items()})
        return env

    def _expanded(self, text: str) -> str:
        return _VARIABLE.sub(lambda found: self._environ.get(found[1]) or found[2] or found[0], text)

    def _check_programs(self, env: dict[str, str]) -> None:
        path = env.get("PATH", os.defpath)
        first = self._subject.words[0]
        if self._wrapped is not None:
            self._check_penstock(first, path)
        heads = [first] if self._wrapped is None else [*self._wrapped.upstream[:1]]
        for word in heads:
            missing = missing_part(word, path, self._subject.cwd)
            if missing is None:
                self._add("PATH", READY, f"{word} is {maybe_program(word, path, self._subject.cwd)}")
                continue
            culprit = missing.rpartition(" by ")[2].partition(",")[0] if " is run by " in missing else word
            found = maybe_elsewhere(culprit)
            hint = (
                f'Write its whole path, "{found}"' if found else f"Install {culprit}, or write its whole path"
            )
            if found and culprit != word:
                hint = f'Give the entry "PATH": "{os.path.dirname(found)}:{path}"'
            self._add("PATH", MISCONFIGURED, f"{missing} ({path})", hint)

    def _check_penstock(self, word: str, path: str) -> None:
        wrapped = self._wrapped
        assert wrapped is not None
        program = maybe_program(word, path)
        if program is None:
            text = "is gone, or cannot be run" if "/" in word else "is not on the client's PATH"
            self._add("penstock", MISCONFIGURED, f"{word} {text}", "Wrap the server again: penstock wrap")
        elif is_in_cache(program, self._environ):
            self._add("penstock", MISCONFIGURED, f"{program} lies in a cache", "uv tool install penstock")
        else:
            self._add("penstock", READY, f"{program}: {wrapped.shown or 'nothing hidden'}")

    def _check_port(self) -> None:
        options = self._wrapped.options if self._wrapped is not None else ()
        if "--listen" not in options[:-1]:
            return
        host, port = parse_listen(options[options.index("--listen") + 1])
        if port and is_taken(host, port):
            owner = maybe_owner(port)
            by = f" by {owner}" if owner else ""
            self._add("ports", TRANSIENT, f"{host}:{port} is taken{by}", "Choose another port")
        else:
            self._add("ports", READY, f"{host}:{port} is free; served over HTTP, so not tried further")

    def _check_url(self, url: str, env: dict[str, str]) -> None:
        headers = {name: self._expanded(value) for name, value in self._subject.headers.items()}
        if self._wrapped is not None:
            headers |= {name: env.get(variable, "") for name, variable in self._wrapped.headers}
        code, text = probe_url(self._expanded(url), headers, min(self._limit(), 30.0))
        hint = "Run penstock --listen and let the client log in there" if code == BLOCKED else ""
        self._add("auth", code, text, hint)

    # --- while it runs -----------------------------------------------------------------------------------

    def _limit(self) -> float:
        if self._subject.seconds is not None:
            return self._subject.seconds
        client = self._subject.client
        return float(client.start_seconds) if client and client.start_seconds else _START_SECONDS

    def _try(self, words: list[str], env: dict[str, str]) -> None:
        try:
            trial = Trial(words, env, self._subject.cwd, self._limit())
        except TrialFailed as why:
            self._add("start", MISCONFIGURED, why.text)
            return
        has_failed = True
        try:
            self._talk(trial)
            has_failed = False
        except TrialFailed as why:
            self._say_failure(trial, why)
        finally:
            trial.close(*([0.2] if has_failed else []))  # who does not answer will not leave when asked

    def _talk(self, trial: Trial) -> None:
        era, greeting, seconds = trial.handshake()
        self._add("start", READY, "it starts" + (", with noise on stdout" if trial.noise else ""))
        info = greeting.get("serverInfo") if isinstance(greeting.get("serverInfo"), dict) else {}
        named = " ".join(
            str(info[key]) for key in ("name", "version") if isinstance(info, dict) and key in info
        )
        version = greeting.get("protocolVersion", "2026-07-28")
        text = f"{named or 'it'} speaks {version} ({era}) after {seconds:.1f} s of {self._limit():g} s"
        self._add("handshake", READY, text)
        tools = trial.tools()
        self._check_tools(tools)
        if self._wrapped is not None:
            self._check_gate(trial, tools, self._wrapped)

    def _check_tools(self, tools: list[dict[str, object]]) -> None:
        names = [str(tool.get("name")) for tool in tools]
        client = self._subject.client
        bad = [
            tool for tool in tools if not isinstance(tool.get("inputSchema"), dict) or not tool.get("name")
        ]
        if bad:
            self._add("tools", BLOCKED, f"{len(bad)} entries are no tools")
        if client is not None and client.most_tools is not None and len(names) > client.most_tools:
            text = f"{len(names)} tools; {client.title} takes {client.most_tools}"
            self._add("tools", BLOCKED, text, "Hide some: penstock wrap --pick")
        if client is not None and client.name_length is not None:
            extra = len(self._subject.name) if client.name_counts_server else 0
            long = [name for name in names if len(name) + extra > client.name_length]
            if long:
                self._add("tools", BLOCKED, f"names too long for {client.title}: {', '.join(long[:5])}")
        tokens = sum(estimate_tokens(_shown(tool)) for tool in tools)
        self._add("tools", READY, f"{len(names)} tools, about {tokens:,} tokens")

    def _check_gate(self, trial: Trial, tools: list[dict[str, object]], wrapped: Wrapped) -> None:
        said = trial.all_errors()
        told = [
            line
            for line in said.splitlines()
            if re.search(r"The (tool|prompt) \S+ (has changed|is new|is gone)", line)
        ]
        if "--lock" in wrapped.options and told:
            self._add(
                "lock",
                BLOCKED,
                one_line(told[0].partition("warning: ")[2] or told[0]),
                "penstock lock --update",
            )
        if not any(word.partition("=")[0] in _FILTERS for word in wrapped.options):
            return  # nothing is hidden: such a call would go to the upstream
        if trial.code_for_nobody() != -32601:
            self._add("gate", MISCONFIGURED, "a tool that nobody has was not refused by the gate")
            return
        leaked = _denied_names(said) & {str(tool.get("name")) for tool in tools}
        if leaked:
            self._add("gate", MISCONFIGURED, f"denied and listed all the same: {', '.join(sorted(leaked))}")
        else:
            self._add("gate", READY, "denied tools are absent, unknown ones refused")
        hidden = _denied_names(said)
        if hidden and not tools:
            hint = f"Choose by hand: penstock wrap {shlex.quote(self._subject.name)} --pick"
            self._add("gate", READY, f"every tool is hidden, all {len(hidden)} of them", hint)

    def _say_failure(self, trial: Trial, why: TrialFailed) -> None:
        lines = trial.last_errors()
        said = trial.all_errors()
        shown = f"{why.text}; it said: {' | '.join(map(one_line, lines))}" if lines else why.text
        if re.search(r"^Error: .*(--max-tokens|[Ll]ock\b)", said, re.M):
            self._add("lock" if "lock" in said.lower() else "tokens", BLOCKED, shown)
        elif why.kind == "silence":
            hint = ""
            if any(os.path.basename(word) in _COLD for word in self._subject.words):
                hint = "The first start downloads; run it once by hand"
            self._add("start", TRANSIENT, shown, hint)
        elif "Failed to connect to upstream MCP at http" in said:
            self._add("start", TRANSIENT, shown)
        else:
            self._add("start", MISCONFIGURED, shown)

    def _add(self, check: str, code: int, text: str, hint: str = "") -> None:
        self.findings.append(Finding(check, code, text, hint))


def _shown(tool: dict[str, object]) -> str:
    shown = {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "input_schema": tool.get("inputSchema"),
    }
    return msgspec.json.encode({name: value for name, value in shown.items() if value is not None}).decode()


def _denied_names(said: str) -> set[str]:
    """The names that Penstock said it denied."""
    return {
        name.strip()
        for found in re.finditer(r"Denied \(.*\): (.*)\.$", said, re.M)
        for name in found[1].split(", ")
    }


def tools_of(words: tuple[str, ...], env: dict[str, str], seconds: float) -> list[dict[str, Any]]:
    """The tools of a server, asked once. Raises TrialFailed."""
    trial = Trial(list(words), {**os.environ, **env}, None, seconds)
    try:
        trial.handshake()
        return trial.tools()
    finally:
        trial.close(0.5)


def bridge(url: str, headers: dict[str, str], env: dict[str, str]) -> list[str]:
    """Words that speak stdio for a URL; header values go by variables."""
    words = [sys.executable, "-m", "penstock", "--stdio"]
    for number, (name, value) in enumerate(headers.items()):
        env[f"PENSTOCK_DOCTOR_{number}"] = value
        words += ["--header-from", f"{name}=PENSTOCK_DOCTOR_{number}"]
    return [*words, "--upstream", url]

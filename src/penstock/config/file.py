"""A configuration file, from bytes to what it asks for: every fault with its line, before anything starts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from penstock import limits
from penstock.config.anomalies import Anomalies, read_anomalies
from penstock.config.check import Findings, Section, check_section, finds_tools
from penstock.config.formats.document import Document, Path, Unreadable
from penstock.config.formats.reading import read_document
from penstock.config.keys import ACCESS, INTERCEPTOR, OBSERVED, SERVER_TABLES, SEVERAL
from penstock.config.model import (
    CommandUpstream,
    FileConfig,
    ListTerms,
    SeveralUpstreams,
    UrlUpstream,
    expand,
    make_command,
    make_header,
    patterns_in,
    with_terms,
)
from penstock.config.variants import read_variants
from penstock.digests import sha256
from penstock.errors import ConfigError, FaultyFile, PenstockError
from penstock.policy.patterns.patterns import Pattern, compile_pattern
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.wire.http.url import parse_url
from penstock.wire.mcp.replies import TOOL_NOT_FOUND, one_line

if TYPE_CHECKING:
    from penstock.auth.terms import AccessTerms
    from penstock.config.members import MembersReading
    from penstock.config.shared import PeerSettings, SharedSettings
    from penstock.policy.rules.interceptor_config import InterceptorConfig

Servers = dict[str, tuple[Path, Section]]
Upstream = CommandUpstream | UrlUpstream | SeveralUpstreams | None


def load_file(
    path: str, environ: Mapping[str, str] = os.environ, picked: tuple[str, ...] | None = None
) -> FileConfig:
    """What the file at `path` asks for. Raises FaultyFile with all its faults."""
    return parse_file(path, read_bytes(path), environ, picked)


def read_bytes(path: str) -> bytes:
    """The bytes of a file, or ConfigError."""
    try:
        with open(path, "rb") as file:
            return file.read(limits.CONFIG_BYTES + 1)  # one more than is taken
    except OSError as why:
        raise ConfigError(f"Cannot read the configuration: {path}", str(why.strerror or why)) from None


def digest_of(data: bytes) -> bytes:
    """A short name for what is in a file."""
    return sha256(data)


def parse_file(
    path: str,
    data: bytes,
    environ: Mapping[str, str] = os.environ,
    picked: tuple[str, ...] | None = None,
) -> FileConfig:
    """What the bytes of a file called `path` ask for. Raises FaultyFile. `picked`: the only servers of it
    that count, whatever else it says of them."""
    reading = ConfigReading(path, data, environ, picked)
    if reading.findings.all:
        reading = maybe_of_client(path, data, environ, picked) or reading
    reading.raise_faults()
    return reading.config


def maybe_of_client(
    path: str, data: bytes, environ: Mapping[str, str], picked: tuple[str, ...] | None
) -> ConfigReading | None:
    """The servers of an AI client's own file, which has keys that mean nothing here; None when it is none."""
    from penstock.clients.as_config import maybe_config

    servers = maybe_config(path, data)
    return None if servers is None else ConfigReading(path, servers, environ, picked, digest_of(data))


class ConfigReading:
    """One file, read: what it asks for, what is wrong with it, and its values and lines for those who ask.

    `config` counts only once `raise_faults` has found nothing.
    """

    def __init__(
        self,
        path: str,
        data: bytes,
        environ: Mapping[str, str] = os.environ,
        picked: tuple[str, ...] | None = None,
        digest: bytes | None = None,
    ) -> None:
        """`digest`: of the client's file that `data`, then JSON, was taken from."""
        self.path = path
        self._picked = picked
        self._members: MembersReading | None = None  # where several servers may be
        self._digest = digest_of(data) if digest is None else digest
        self.document = read_document_or_fail(path if digest is None else f"{path}.json", data)
        self.findings = Findings()
        self._environ = environ
        tree = self.document.tree
        self.root: Section = check_section(tree, "", (), self.findings)
        self.tree: dict[str, object] = tree if isinstance(tree, dict) else {}
        self.config = self._build()

    def raise_faults(self) -> None:
        """Raises FaultyFile if anything is wrong with the file."""
        say_faults(self.path, self.document, self.findings)

    def _build(self) -> FileConfig:
        root = self.root
        tools, timeouts, log = (cast(Section, root.get(name) or {}) for name in ("tools", "timeouts", "log"))
        upstream, server = self._upstream()
        own, own_times = (cast(Section, server.get(name) or {}) for name in ("tools", "timeouts"))
        if "list" in own_times:
            own_times["tools"] = own_times.pop("list")
        timeouts = timeouts | own_times
        if "listen" in root and root.get("stdio"):
            self.findings.add(("stdio",), "stdio and listen are both here; Penstock serves one of them")
        anomalies = read_anomalies(cast("Section | None", root.get("anomalies")), self.findings)
        return FileConfig(
            path=self.path,
            digest=self._digest,
            upstream=upstream,
            several=self._members.terms_of_one() if self._members is not None else None,
            choice=self._with_terms(
                ToolFilter(
                    deny=self._patterns(tools, "deny") + self._own_patterns(server, "deny"),
                    allow=self._patterns(tools, "allow") + self._own_patterns(server, "allow"),
                    read_only=bool(tools.get("read_only") or own.get("read_only")),
                    strict_arguments=tools.get("arguments") == "strict",
                    deny_code=cast("int", tools.get("deny_code", TOOL_NOT_FOUND)),
                ),
                tools,
            ),
            connect_seconds=cast("float | None", timeouts.get("connect")),
            start_seconds=cast("float | None", timeouts.get("start")),
            tools_seconds=cast("float | None", timeouts.get("tools")),
            call_seconds=cast("float | None", timeouts.get("call")),
            session_idle_seconds=cast("float | None", timeouts.get("session_idle")),
            message_bytes=cast("int | None", cast(Section, root.get("limits") or {}).get("message")),
            refreshes_tools=tools.get("refresh") == "on-change",
            era=cast("str | None", root.get("era")),
            batch=cast("str | None", root.get("batch")),
            on_crash=cast("str | None", root.get("on_crash")),
            input_seconds=cast("float | None", timeouts.get("input")),
            validate=cast("str | None", root.get("validate")),
            log_level=cast("str | None", log.get("level")),
            log_format=cast("str | None", log.get("format")),
            is_stdio=bool(root.get("stdio")),
            listen=cast("tuple[str, int] | None", root.get("listen")),
            allowed_hosts=tuple(cast("list[str]", root.get("allow_hosts", []))),
            allowed_origins=tuple(cast("list[str]", root.get("allow_origins", []))),
            interceptor=self._interceptor(anomalies),
            observe=self._observe(),
            anomalies=anomalies,
            variants=read_variants(cast("Section | None", root.get("variants")), self.path, self.findings),
            workers=cast("int", root.get("workers", 1)),
            divides_limits=root.get("worker_limits") == "divide",
            shared=self._shared(),
            peer=self._peer(),
            access=self._access(),
            dashboard=self._dashboard(),
        )

    def _shared(self) -> SharedSettings | None:
        section = cast("Section | None", self.root.get("shared"))
        if section is None:
            return None
        from penstock.config.shared import make_shared

        before = len(self.findings.all)
        try:
            return make_shared(section, self._expanded)
        except ConfigError as error:
            if len(self.findings.all) == before:  # else a variable is missing, which was said
                self.findings.add_error(("shared",), error)
            return None

    def _peer(self) -> PeerSettings | None:
        section = cast("Section | None", self.root.get("peer"))
        if section is None:
            return None
        from penstock.config.shared import make_peer

        try:
            return make_peer(section, self._expanded)
        except ConfigError as error:
            self.findings.add_error(("peer",), error)
            return None

    def _access(self) -> AccessTerms | None:
        if not any(name in self.root for name in ACCESS):
            return None
        from penstock.config.access_file import AccessReading

        search = self._members.search if self._members is not None else None
        return AccessReading(self.root, self.findings, os.path.dirname(self.path), search).read()

    def _dashboard(self) -> str | None:
        section = cast(Section, self.root.get("dashboard") or {})
        words = section.get("listen")
        if words is None:
            return None
        from penstock.watch.settings import dashboard_settings

        try:
            dashboard_settings(str(words))
        except ConfigError as error:
            self.findings.add_error(("dashboard", "listen"), error)
        return str(words)

    def _observe(self) -> tuple[tuple[str, Section], ...]:
        sections = {name: self.root[name] for name in OBSERVED if name in self.root}
        if not sections:
            return ()
        from penstock.observe.settings import make_settings

        found = cast("dict[str, Section]", sections)
        headers = cast("dict[str, str]", found.get("telemetry", {}).get("headers", {}))
        for name, value in headers.items():
            headers[name] = self._expanded(value, ("telemetry", "headers", name))
        try:
            make_settings(None, found)
        except ConfigError as error:
            self.findings.add_error((next(iter(found)),), error)
        return tuple(found.items())

    def _interceptor(self, anomalies: Anomalies | None) -> InterceptorConfig | None:
        tree = self.tree.get(INTERCEPTOR)
        if tree is None:
            return None
        from penstock.config.modules import modules_beside
        from penstock.policy.rules.interceptor_config import build

        with modules_beside(self.path):
            config, faults = build(tree, os.path.realpath, None if anomalies is None else anomalies.known)
        self.findings.take(faults, (INTERCEPTOR,))
        return config

    # --- tools -------------------------------------------------------------------------------------------

    def _with_terms(self, choice: ToolFilter, tools: Section) -> ToolFilter:
        terms = ListTerms(
            lock=cast("str | None", tools.get("lock")),
            is_strict=bool(tools.get("lock_strict")),
            order=cast("str | None", tools.get("order")),
            max_tokens=cast("int | None", tools.get("max_tokens")),
            warn_tokens=cast("int | None", tools.get("warn_tokens")),
            keep=self._patterns(tools, "keep"),
        )
        if terms == ListTerms():
            return choice
        try:
            return with_terms(choice, terms)
        except ConfigError as error:
            self.findings.add_error(("tools", "lock"), error)
            return choice

    def _patterns(self, tools: Section, name: str) -> tuple[Pattern, ...]:
        out = []
        is_list = isinstance(cast(Section, self.tree["tools"]).get(name), list) if tools else False
        for position, text in enumerate(cast("list[str]", tools.get(name, []))):
            for piece in patterns_in(text, is_needed=name == "allow"):
                try:
                    out.append(compile_pattern(piece, f"tools.{name}"))
                except ConfigError as error:
                    path: Path = ("tools", name, position) if is_list else ("tools", name)
                    self.findings.add_error(path, error)
        return tuple(out)

    def _own_patterns(self, server: Section, name: str) -> tuple[Pattern, ...]:
        """What an entry of an AI client's file says of its tools."""
        return () if self._members is None or not server else self._members.patterns(server, name)

    # --- the upstream ------------------------------------------------------------------------------------

    def _upstream(self) -> tuple[Upstream, Section]:
        """The upstream, and the entry of an AI client's file that it came from, if it did."""
        upstream = cast(Section, self.root.get("upstream") or {})
        servers: Servers = {}
        for table in SERVER_TABLES:
            for name, server in cast("dict[str, Section]", self.root.get(table) or {}).items():
                servers[name] = (table, name), server
        is_asked = self.root.keys() & set(SEVERAL) or finds_tools(self.root)
        if servers or self._picked is not None or "server" in upstream or is_asked:
            from penstock.config.members import MembersReading

            self._members = MembersReading(self)
        own = [name for name in upstream if name != "server"]
        if self._picked is not None and self._members is not None:
            return self._members.only(servers, self._picked)
        if own:
            if servers or "server" in upstream:
                where: Path = (
                    ("upstream", "server") if "server" in upstream else (next(iter(servers.values()))[0][0],)
                )
                self.findings.add(where, f"the upstream is here twice: upstream.{own[0]} names another")
            return self.reach(upstream, ("upstream",)), {}
        if self._members is None:
            return None, {}
        picked = (str(upstream["server"]),) if "server" in upstream else None
        return self._members.only(servers, picked, ("upstream", "server"))

    def reach(self, section: Section, path: Path) -> CommandUpstream | UrlUpstream | None:
        """How the upstream that a section names is reached; None when it has faults."""
        before = len(self.findings.all)
        if "url" in section:
            found = self._at_url(section, path)
        elif "command" in section:
            found = self._to_spawn(section, path)
        else:
            written = self._written(path)  # where it has been told already, this is not
            if isinstance(written, dict) and not {"command", "url"} & written.keys():
                self.findings.add(path, f"{'.'.join(map(str, path))} needs a command or a url")
            return None
        return found if len(self.findings.all) == before else None

    def _at_url(self, section: Section, path: Path) -> CommandUpstream | UrlUpstream | None:
        self._refuse(section, path, ("command", "args", "env", "cwd"), "a url")
        url = self._expanded(str(section["url"]), (*path, "url"))
        headers = []
        for name in ("headers", "http_headers"):
            for header, value in cast("dict[str, str]", section.get(name, {})).items():
                self._note_asked(value, (*path, name, header))
                try:
                    headers.append(make_header(header, _own_spelling(value), name, self._environ))
                except ConfigError as error:
                    self.findings.add_error((*path, name, header), error)
        seen: dict[str, Any] = {}
        if "auth" in section:
            from penstock.config.outbound import read_outbound

            seen = structs.asdict(read_outbound(section, (*path, "auth"), self.findings, self._expanded))
        try:
            return UrlUpstream(
                parse_url(url),
                tuple(headers),
                section.get("on_loss") in ("reconnect", "retry"),
                bool(section.get("cookies")),
                **seen,
            )
        except ConfigError as error:
            if url:
                self.findings.add_error((*path, "url"), error)
            return None

    def _to_spawn(self, section: Section, path: Path) -> CommandUpstream | UrlUpstream | None:
        self._refuse(section, path, ("headers", "http_headers", "cookies", "auth"), "a command")
        words = section["command"]
        try:
            if isinstance(words, list):
                written = cast(Section, self._written(path)).get("command")
                is_text = isinstance(written, str)
                words = make_command(None, words[0]) if is_text else make_command(words, None)
            else:
                words = (str(words),)
        except PenstockError as error:
            self.findings.add((*path, "command"), error.headline)
            return None
        words = [*words, *cast("list[str]", section.get("args", []))]
        env = cast("dict[str, str]", section.get("env", {}))
        for name in env:
            if not name or "=" in name or "\0" in name:
                self.findings.add((*path, "env", name), f'no variable can be called "{name}"')
        if not words[0]:
            self.findings.add((*path, "command"), "the upstream command is empty")
        return CommandUpstream(
            command=tuple(self._expanded(word, (*path, "command")) for word in words),
            env=tuple((name, self._expanded(value, (*path, "env", name))) for name, value in env.items()),
            cwd=self._expanded(str(section["cwd"]), (*path, "cwd")) if "cwd" in section else None,
            reconnect=section.get("on_loss") in ("reconnect", "retry"),
        )

    def _written(self, path: Path) -> object:
        """What stands in the file, which may be no section."""
        value: object = self.tree
        for step in path:
            value = cast(Section, value)[cast(str, step)]
        return value

    def _refuse(self, section: Section, path: Path, names: tuple[str, ...], what: str) -> None:
        for name in names:
            if section.get(name):
                self.findings.add((*path, name), f"{name} is not for an upstream that is {what}")

    def _expanded(self, text: str, path: Path) -> str:
        where = ".".join(map(str, path))
        self._note_asked(text, path)
        try:
            return expand(_own_spelling(text), where, self._environ)
        except ConfigError as error:
            self.findings.add_error(path, error)
            return ""

    def _note_asked(self, text: str, path: Path) -> None:
        asked = _ASKED.search(text)
        if asked is not None:
            self.findings.add(path, f"{asked[0]} would have to be asked of somebody; use ${{VAR}}")


_ASKED = re.compile(r"\$\{(?:input|command|prompt):[^}]*\}")
_OTHER_SPELLING = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def _own_spelling(text: str) -> str:
    """`text` with ${env:VAR}, as some clients write it, turned into ${VAR}."""
    return _OTHER_SPELLING.sub(r"${\1}", text)


def read_document_or_fail(path: str, data: bytes) -> Document:
    """The values and lines of a file. Raises FaultyFile."""
    try:
        return read_document(path, data)
    except Unreadable as why:
        raise FaultyFile(path, [(why.line, one_line(why.reason))]) from None


def say_faults(path: str, document: Document, findings: Findings) -> None:
    """Raises FaultyFile if anything is wrong with the file at `path`, with all that is."""
    faults = [(slip.line, slip.message) for slip in document.slips]
    for finding in findings.all:
        text = f"{finding.message}; {finding.hint}" if finding.hint else finding.message
        faults.append((document.line_of(finding.path), text))
    if faults:
        # A sentence may repeat what the file says, and a file may say anything.
        raise FaultyFile(path, [(line, one_line(text)) for line, text in sorted(faults)])

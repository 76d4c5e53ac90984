"""`penstock doctor`: does it work, as the client would run it? Exit codes that scripts can act on."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import msgspec

from penstock import __version__
from penstock.arguments import Parser, add_upstream_options
from penstock.clients.entry import Entry
from penstock.clients.places import Machine
from penstock.commands.results import json_text
from penstock.commands.selectors import add_selectors, choice_of, short_path
from penstock.config.model import seconds
from penstock.errors import ConfigError
from penstock.home.examination import WORDS, Examination, Finding, Subject
from penstock.home.inventory import FoundFile, survey, this_machine
from penstock.home.state_folder import state_folder
from penstock.home.url_probe import MISCONFIGURED, READY
from penstock.platforms import refuse_unfit_system
from penstock.wire.mcp.replies import one_line

USAGE = "penstock doctor [SERVER...] [--client C] [OPTIONS] | (--upstream URL | -- COMMAND [ARGS...])"


def parser() -> Parser:
    """The parser of `penstock doctor`."""
    made = Parser(
        prog="penstock doctor",
        usage=USAGE,
        description="Try servers as their client would run them, and say what is wrong: 0 ready, 10 not now "
        "(try again), 11 blocked (credentials, budget or lock), 12 misconfigured. No tool is called.",
    )
    made.add_argument("servers", nargs="*", metavar="SERVER", help="the servers to try; default all")
    add_selectors(made)
    made.add_argument(
        "--env-as",
        choices=("client", "shell"),
        default="client",
        help="with the variables that the client would pass on, or with this shell's",
    )
    made.add_format("how to print the findings")
    add_upstream_options(made)
    return made


class Report(msgspec.Struct):
    """What was found about one server, or about Penstock itself."""

    name: str
    client: str
    file: str
    findings: list[Finding]

    @property
    def code(self) -> int:
        """The worst of it."""
        return max((finding.code for finding in self.findings), default=READY)


def run(options: argparse.Namespace) -> int:
    """Examines and prints; the exit code is the worst finding."""
    refuse_unfit_system()
    machine = this_machine(options.dir)
    reports = []
    for report in _reports(machine, options):
        reports.append(report)
        if options.format == "table":  # each takes seconds: nobody should wait for the last one
            sys.stdout.write("".join(one_line(line) + "\n" for line in _lines(report)))
            sys.stdout.flush()
    code = max(report.code for report in reports)
    last = f"{WORDS[code][:1].upper()}{WORDS[code][1:]}.\n"
    sys.stdout.write(_as_json(reports, code) if options.format == "json" else last)
    return code


def _reports(machine: Machine, options: argparse.Namespace) -> Iterator[Report]:
    """One after another; what makes no sense is told before the first."""
    own = Report("penstock", "", "", _own_findings(machine))
    if options.command or options.upstream or options.upstream_cmd or options.config:
        yield from [own, _examine_upstream(options)]
        return
    found = survey(machine, choice_of(options, tuple(options.servers)))
    names = {entry.name for file in found for entry in file.entries}
    missing = [name for name in options.servers if name not in names]
    if missing and not any(file.fault for file in found):
        raise ConfigError(f"No server is called {missing[0]} there", "penstock clients lists them")
    yield own
    for file in found:
        yield from _examine_file(file, found, options)


def _own_findings(machine: Machine) -> list[Finding]:
    parts = []
    for package in ("msgspec", "google-re2", "PyYAML"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            parts.append(f"{package} is missing")
    python = ".".join(map(str, sys.version_info[:3]))
    out = [Finding("python", READY, f"Python {python}, Penstock {__version__}, {', '.join(parts)}")]
    folder = state_folder(machine.home, machine.environ)
    if folder.exists() and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        hint = f"chmod 700 {folder}"
        out.append(Finding("files", MISCONFIGURED, f"others may look into {folder}", hint))
    return out


def _examine_upstream(options: argparse.Namespace) -> Report:
    from penstock import cli

    words = [sys.executable, "-m", "penstock", "--stdio", *_option_words(options)]
    cli.make_config(options, cli.load_config(options))  # says what is wrong with the options
    limit = None if options.start_timeout is None else seconds(options.start_timeout, "--start-timeout")
    subject = Subject("upstream", tuple(words), cwd=None, seconds=limit)
    examination = Examination(subject, os.environ)
    examination.run()
    return Report("upstream", "", "", examination.findings)


def _option_words(options: argparse.Namespace) -> list[str]:
    """The options that say which upstream is meant and what of it, as words again."""
    words: list[str] = []
    for name in ("deny", "allow", "header", "header_from", "env", "keep"):
        for value in getattr(options, name):
            words += [f"--{name.replace('_', '-')}", value]
    for name in ("config", "lock", "order", "max_tokens", "warn_tokens", "cwd", "upstream", "upstream_cmd"):
        if getattr(options, name) is not None:
            words += [f"--{name.replace('_', '-')}", getattr(options, name)]
    words += [
        f"--{name.replace('_', '-')}" for name in ("read_only", "lock_strict") if getattr(options, name)
    ]
    return [*words, "--", *options.command] if options.command else words


def _examine_file(file: FoundFile, files: list[FoundFile], options: argparse.Namespace) -> Iterator[Report]:
    place = file.place
    shown = short_path(place.path)
    if file.fault is not None:
        line, text = file.fault.faults[0]
        finding = Finding("file", MISCONFIGURED, f"line {line}: {text}", "Mend it; nothing was changed")
        yield Report("", place.client.name, shown, [finding])
        return
    for entry in file.entries:
        examination = Examination(_subject(file, entry, options), os.environ)
        examination.findings += _file_findings(file, entry, files)
        if entry.refusal is None or entry.wrapped is not None:
            examination.run()
        else:
            examination.findings.append(Finding("file", READY, f"not tried: {entry.refusal}"))
        yield Report(entry.name, place.client.name, shown, examination.findings)


def _subject(file: FoundFile, entry: Entry, options: argparse.Namespace) -> Subject:
    headers = entry.fields.get(entry.shape.headers[0])
    limit = None if options.start_timeout is None else seconds(options.start_timeout, "--start-timeout")
    cwd = entry.fields.get("cwd")
    return Subject(
        name=entry.name,
        words=entry.words,
        env={**_passed_on(entry), **entry.environment},
        url=str(entry.fields[entry.url_key]) if entry.url_key is not None else None,
        headers={str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {},
        cwd=cwd if isinstance(cwd, str) and os.path.isdir(cwd) else None,
        client=file.place.client,
        seconds=limit,
        is_as_shell=options.env_as == "shell",
    )


def _passed_on(entry: Entry) -> dict[str, str]:
    """Variables of ours that the entry names to be passed on, as Codex has it."""
    names = entry.fields.get("env_vars")
    return {name: os.environ[name] for name in names if name in os.environ} if isinstance(names, list) else {}


def _file_findings(file: FoundFile, entry: Entry, files: list[FoundFile]) -> list[Finding]:
    out = [Finding("file", READY, "it can be read")]
    mode = stat.S_IMODE(os.stat(file.target.path).st_mode)
    if mode & 0o044 and any(_looks_secret(name) for name in entry.environment):
        out.append(
            Finding("file", READY, "others may read the secrets in it", f"chmod 600 {file.place.path}")
        )
    others = [
        other.scope
        for found in files
        if found.place.client == file.place.client
        for other in found.entries
        if other.name == entry.name and other.scope != entry.scope
    ]
    if others:
        out.append(Finding("file", READY, f"there is another {entry.name} in the {others[0]} scope"))
    return out


def _looks_secret(name: str) -> bool:
    return any(word in name.upper() for word in ("TOKEN", "KEY", "SECRET", "PASSWORD", "AUTH"))


def _as_json(reports: list[Report], code: int) -> str:
    out = {
        "code": code,
        "result": WORDS[code],
        "servers": [
            {
                "server": report.name,
                "client": report.client,
                "file": report.file,
                "code": report.code,
                "result": WORDS[report.code],
                "checks": [
                    {"check": f.check, "code": f.code, "result": f.result, "text": f.text, "hint": f.hint}
                    for f in report.findings
                ],
            }
            for report in reports
        ],
    }
    return json_text(out)


def _lines(report: Report) -> Iterator[str]:
    where = f" ({report.client}, {report.file})" if report.client else ""
    yield f"{report.name or 'the file'}{where}: {WORDS[report.code]}"
    for finding in report.findings:
        mark = "ok" if finding.code == READY else finding.result
        yield f"  {finding.check:<10} {mark:<14} {finding.text}"
        if finding.hint:
            yield f"  {'':<10} {'':<14} -> {finding.hint}"

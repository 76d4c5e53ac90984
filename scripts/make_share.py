"""Makes what is shipped beside the code: completions, the man page, the bill of materials, the formula.

    python scripts/make_share.py            writes them
    python scripts/make_share.py --check    fails when one is out of date

They follow the parsers and pyproject.toml, and hold no time and no path: the same source, the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
import uuid
from pathlib import Path

from penstock import __version__
from penstock.arguments import Parser, proxy_parser
from penstock.commands.verbs import VERBS, load

ROOT = Path(__file__).resolve().parent.parent
COMPLETIONS = ROOT / "src" / "penstock" / "completions"
MAN = ROOT / "packaging" / "penstock.1"
SBOM = ROOT / "packaging" / "penstock.cdx.json"
SERVER = ROOT / "packaging" / "server.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FORMULA = ROOT / "packaging" / "penstock.rb"
HOME = "https://github.com/penstock-mcp/penstock"
REGISTRY_NAME = "io.github.penstock-mcp/penstock"


def whole_parser() -> argparse.ArgumentParser:
    """One parser with every verb below it, as completions and the man page want it."""
    root = proxy_parser()
    root._actions[:] = [action for action in root._actions if action.dest != "command"]
    for group in root._action_groups:
        group._group_actions[:] = [action for action in group._group_actions if action.dest != "command"]
    _complete_files(root)
    verbs = root.add_subparsers(metavar="VERB", parser_class=Parser)
    for name, verb in VERBS.items():
        made = load(name).parser()
        made.prog = f"penstock {name}"
        if verb.takes_file:  # it is taken off before the parser sees the rest
            made._actions.insert(0, made.add_argument("file", metavar="FILE", help="the file"))
            made._actions.pop()
        _complete_files(made)
        verbs._name_parser_map[name] = made
        verbs._choices_actions.append(verbs._ChoicesPseudoAction(name, [], verb.summary))
    asked = verbs.add_parser("help", prog="penstock help", help="this page, or help VERB for one command")
    asked.add_argument("verb", nargs="?", choices=tuple(VERBS), metavar="VERB", help="the command")
    return root


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Has shells offer files where a file is meant: zsh and fish offer none unless they are told to."""
    import shtab

    for action in parser._actions:
        words = set(str(action.metavar).split("|"))
        if words & {"FILE", "RECORDING", "OUT"} or action.dest in ("record", "audit"):
            action.complete = shtab.FILE
        elif "DIR" in words:
            action.complete = shtab.DIRECTORY


def completions() -> dict[Path, str]:
    """The completions of each shell."""
    import shtab

    return {
        COMPLETIONS / f"penstock.{shell}": shtab.complete(whole_parser(), shell).rstrip("\n") + "\n"
        for shell in ("bash", "zsh", "fish")
    }


def man_page() -> str:
    """The man page."""
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    os.environ["COLUMNS"] = "80"
    from argparse_manpage.manpage import Manpage

    page = Manpage(whole_parser(), format="single-commands-section")
    page.source, page.manual, page.date = f"penstock {__version__}", "Penstock", ""
    page.description = PROJECT["description"].rstrip(".")
    return str(page).rstrip("\n") + "\n"


def sbom() -> str:
    """The bill of materials in CycloneDX: the package and what it needs at run time."""
    from cyclonedx.model import XsUri
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{HOME}/{__version__}"))
    own = Component(
        name="penstock",
        version=__version__,
        type=ComponentType.APPLICATION,
        bom_ref="penstock",
        purl=PackageURL("pypi", None, "penstock", __version__),
        licenses=[LicenseExpression(PROJECT["license"])],
        description=PROJECT["description"],
    )
    bom.metadata.component = own
    parts = []
    for text in PROJECT["dependencies"]:
        name, bound = re.fullmatch(r"([A-Za-z0-9_.-]+)>=(.+)", text).groups()
        purl = PackageURL("pypi", None, name.lower())
        part = Component(
            name=name, type=ComponentType.LIBRARY, bom_ref=name, purl=purl, description=f">={bound}"
        )
        parts.append(part)
        bom.components.add(part)
    bom.register_dependency(own, parts)
    assert XsUri
    tree = json.loads(JsonV1Dot6(bom).output_as_string())
    tree["metadata"].pop("timestamp", None)
    tree["metadata"].pop("tools", None)
    return json.dumps(tree, indent=2, sort_keys=True) + "\n"


def server_json() -> str:
    """What the MCP registry is told."""
    tree = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "description": "An MCP proxy: chosen tools vanish, every other byte passes untouched.",
        "version": __version__,
        "repository": {"url": HOME, "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "penstock",
                "version": __version__,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {
                        "type": "named",
                        "name": "--upstream",
                        "description": "The MCP server to stand in front of",
                        "format": "string",
                        "valueHint": "https://example.com/mcp",
                        "isRequired": True,
                    },
                    {
                        "type": "named",
                        "name": "--deny",
                        "description": "Tools to hide: a regular expression",
                        "format": "string",
                        "valueHint": "^(write|delete)_",
                        "isRequired": False,
                    },
                ],
            }
        ],
    }
    return json.dumps(tree, indent=2) + "\n"


def formula() -> str:
    """The formula for a tap of our own: the wheel of the release and wheels of what it needs."""
    return f'''# Made by scripts/make_share.py. The release fills in the digest of its wheel.
class Penstock < Formula
  include Language::Python::Virtualenv

  desc "{PROJECT["description"].rstrip(".").removeprefix("An ")}"
  homepage "{HOME}"
  url "{HOME}/releases/download/v{__version__}/penstock-{__version__}-py3-none-any.whl", using: :nounzip
  sha256 "SHA256_OF_THE_WHEEL"
  license "{PROJECT["license"]}"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    wheel = buildpath/"penstock-#{{version}}-py3-none-any.whl"
    # google-re2 from source needs abseil and a compiler: only wheels.
    system "python3.13", "-m", "pip", "--python=#{{libexec}}/bin/python", "install",
           "--only-binary=:all:", wheel
    bin.install_symlink libexec/"bin/penstock"
    man1.install_symlink libexec/"share/man/man1/penstock.1"
    bash_completion.install_symlink libexec/"share/bash-completion/completions/penstock"
    zsh_completion.install_symlink libexec/"share/zsh/site-functions/_penstock"
    fish_completion.install_symlink libexec/"share/fish/vendor_completions.d/penstock.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/penstock --version")
  end
end
'''


def files() -> dict[Path, str]:
    """Every file with what it should hold."""
    return {**completions(), MAN: man_page(), SBOM: sbom(), SERVER: server_json(), FORMULA: formula()}


def main() -> int:
    """Writes or checks."""
    stale = [path for path, text in files().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run make share")
        return 1 if stale else 0
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

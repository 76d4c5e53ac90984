"""`penstock mask`: a copy of a recording without its secrets, to give to somebody."""

from __future__ import annotations

import argparse
import logging

from penstock.arguments import Parser
from penstock.errors import UsageError
from penstock.observe.masking import Masker
from penstock.observe.rewriting import rewrite
from penstock.observe.settings import MaskSettings

log = logging.getLogger("penstock")

USAGE = "penstock mask FILE OUT [--config FILE]"


def parser() -> Parser:
    """The parser of `penstock mask`."""
    made = Parser(
        prog="penstock mask",
        usage=USAGE,
        description="Copy a recording with its secrets masked: by the names of members, by what keys and "
        "tokens look like, and by what the mask section of a configuration says.",
    )
    add = made.add_argument
    add("file", metavar="FILE", help="the recording")
    add("out", metavar="OUT", help="the copy; it must not be there yet")
    add("--config", metavar="FILE", help="a configuration with a mask section")
    return made


def run(options: argparse.Namespace) -> int:
    """Does what was asked for; gives back the exit code."""
    if options.file == options.out:
        raise UsageError("FILE and OUT are one file")
    masker = Masker(_settings(options.config), _held(options.config))
    left_out = rewrite(options.file, options.out, lambda line: masker.message(line.raw), is_masked=True)
    if left_out:
        log.warning("%d lines could not be read and were left out.", left_out)
    return 0


def _settings(config: str | None) -> MaskSettings:
    if config is None:
        return MaskSettings()
    from penstock.config.file import load_file
    from penstock.observe.settings import make_settings

    sections = {name: section for name, section in load_file(config).observe if name == "mask"}
    return make_settings(None, sections).mask


def _held(config: str | None) -> list[str]:
    import os

    return [os.environ.get(name, "") for name in _settings(config).values_of]

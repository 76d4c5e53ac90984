"""`penstock tools`: which tools the filter keeps and which it hides, and what each costs."""

from __future__ import annotations

import argparse

from penstock.arguments import Parser, tools_parser


def parser() -> Parser:
    """The parser of `penstock tools`."""
    return tools_parser()


def run(options: argparse.Namespace) -> int:
    """Asks the upstream and prints."""
    from penstock import app, cli

    return app.show_tools(cli.prepare(options)[0], options.format, options.tokenizer)

"""Counting tokens exactly, with the one vocabulary that is public and usual: an extra, never at run time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import structs

from penstock.policy.tools.catalog import DeniedTool, ToolCatalog
from penstock.policy.tools.token_estimate import shown_text
from penstock.policy.tools.upstream_tools import Tool
from penstock.wire.json.ambiguity import members

log = logging.getLogger("penstock")

HOW_COUNTED = "counted with o200k"


def maybe_counter() -> Callable[[str], int] | None:
    """What counts o200k tokens; None, with a remark, where that cannot be had."""
    try:
        import tiktoken  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        log.warning("o200k needs the package tiktoken: pip install 'penstock[tokens]'. Estimated instead.")
        return None
    log.info("tiktoken downloads its vocabulary once, and keeps it where TIKTOKEN_CACHE_DIR says.")
    try:
        encoding = tiktoken.get_encoding("o200k_base")
    except Exception as why:  # whatever its downloading may raise
        log.warning("The vocabulary cannot be had (%s). Estimated instead.", type(why).__name__)
        return None
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def counted(catalog: ToolCatalog, count: Callable[[str], int]) -> ToolCatalog:
    """The catalog with the exact count of each tool."""

    def recount(tool: Tool) -> Tool:
        return structs.replace(tool, counted=count(shown_text(members(tool.raw))))

    return structs.replace(
        catalog,
        allowed=tuple(map(recount, catalog.allowed)),
        denied=tuple(DeniedTool(recount(denied.tool), denied.why) for denied in catalog.denied),
    )

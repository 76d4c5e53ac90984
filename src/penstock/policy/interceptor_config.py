"""The `interceptor:` section of a configuration file: read, checked, described."""

from __future__ import annotations

from msgspec import Struct


class Fault(Struct, frozen=True):
    """One thing that is wrong, and where: names and numbers from the top of the section."""

    path: tuple[str | int, ...]
    message: str
    hint: str | None = None


class InterceptorConfig(Struct, frozen=True):
    """Everything the interceptor needs."""


def build(tree: object) -> tuple[InterceptorConfig | None, list[Fault]]:
    """The configuration in `tree`, plain data out of a file; None, and all faults, when there are any."""
    raise NotImplementedError


def describe(config: InterceptorConfig) -> list[str]:
    """What the configuration does, in plain words, rule by rule in the order in which they run."""
    raise NotImplementedError


def json_schema() -> dict[str, object]:
    """The JSON Schema of the section, made from the same tables as the reader."""
    raise NotImplementedError

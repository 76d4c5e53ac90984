"""What the rows share: a gate in front of a scripted upstream."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gate import Gate


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A plain filter over stdio whose client has begun."""
    with Gate(tmp_path_factory.mktemp("gate"), "--deny", "^(write|delete)_") as made:
        made.handshake()
        yield made

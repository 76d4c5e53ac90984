"""The shared halls: started when first needed, kept for the whole run of one worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pairs import Halls


@pytest.fixture(scope="session")
def halls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halls]:
    shared = Halls(tmp_path_factory.mktemp("halls"))
    yield shared
    shared.close()


@pytest.fixture
def connect(halls: Halls) -> Iterator[Callable[..., Any]]:
    """Connects clients, and closes them after the test."""
    clients: list[Any] = []

    def new(client: str, upstream: str, era: str, **more: Any) -> Any:
        clients.append(halls.connect(client, upstream, era, **more))
        return clients[-1]

    yield new
    for client in clients:
        halls.release(client)

"""What is remembered stays bounded, in number and in time."""

from __future__ import annotations

from penstock.state.memory import MemoryTable


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_nobody_touches_is_forgotten() -> None:
    clock = _Clock()
    table: MemoryTable[str, int] = MemoryTable(10, 5.0, clock)
    table.put("a", 1)
    clock.now = 4.0
    assert table.get("a") == 1
    clock.now = 8.0
    assert table.get("a") == 1  # it was touched at 4
    clock.now = 14.0
    assert table.get("a") is None
    assert len(table) == 0


def test_too_much_makes_the_oldest_go() -> None:
    table: MemoryTable[int, int] = MemoryTable(3, 5.0, _Clock())
    for number in range(4):
        table.put(number, number)
        table.get(0)
    assert [table.get(number) for number in range(4)] == [0, None, 2, 3]


def test_cleaning_forgets_all_that_is_old_and_putting_does_so_by_the_way() -> None:
    clock = _Clock()
    table: MemoryTable[int, int] = MemoryTable(100, 5.0, clock)
    for number in range(10):
        table.put(number, number)
    clock.now = 6.0
    table.put(99, 99)
    assert len(table) == 9
    assert table.clean() == 8
    assert len(table) == 1


def test_what_is_taken_out_is_gone_and_what_is_old_is_not_given_back() -> None:
    clock = _Clock()
    table: MemoryTable[str, int] = MemoryTable(10, 5.0, clock)
    table.put("a", 1)
    table.put("b", 2)
    assert (table.pop("a"), table.pop("a")) == (1, None)
    clock.now = 6.0
    assert table.pop("b") is None


def test_what_is_forgotten_is_handed_over_and_what_is_taken_is_not() -> None:
    now = [0.0]
    dropped: list[str] = []
    table: MemoryTable[str, str] = MemoryTable(2, 10.0, lambda: now[0], dropped.append)
    table.put("a", "first")
    table.put("b", "second")
    table.put("c", "third")
    assert dropped == ["first"]
    assert table.values() == ["second", "third"]
    assert table.pop("b") == "second"
    assert dropped == ["first"]
    now[0] = 11.0
    assert table.get("c") is None
    assert dropped == ["first", "third"]

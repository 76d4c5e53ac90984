"""Where `penstock` and `python -m penstock` begin."""

from __future__ import annotations

from penstock.lean import import_msgspec


def main() -> int:
    """Runs the command line; gives back the exit code."""
    import_msgspec()  # before anything that imports it
    from penstock.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())

"""Where `penstock` and `python -m penstock` begin."""

from __future__ import annotations

import signal

from penstock.lean import import_msgspec


def main() -> int:
    """Runs Penstock; gives back the exit code."""
    # Until somebody can act on it, Ctrl-C ends us as SIGTERM does. As an exception in the middle of an import
    # it would leave a traceback, or crash a module that is half there.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_msgspec()  # before anything that imports it
    from penstock.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())

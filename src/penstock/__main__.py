"""Where `penstock` and `python -m penstock` begin."""

from __future__ import annotations

# What the module `signal` is made of. That one takes a while to load, and until the line below has run a
# Ctrl-C shows a traceback.
import _signal as signal  # type: ignore[import-not-found]


def main() -> int:
    """Runs Penstock; gives back the exit code."""
    # Until somebody can act on it, Ctrl-C ends us as SIGTERM does. As an exception in the middle of an import
    # it would leave a traceback, or crash a module that is half there.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import gc

    gc.set_threshold(20_000)  # what is loaded stays: looking through it again and again takes milliseconds
    from penstock.lazy_imports import import_msgspec

    import_msgspec()  # before anything that imports it
    from penstock.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())

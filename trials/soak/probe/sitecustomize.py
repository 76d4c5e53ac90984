"""Loaded by the interpreter of a Penstock under load, if its PYTHONPATH says so: on SIGUSR1 it writes down
how many objects and unfinished asyncio tasks there are. Where asked it switches the collector off, so that
what is tied in a cycle stays and shows. Nothing of it is in the product."""

import os
import signal

_PLACE = os.environ.get("PENSTOCK_PROBE")


def _tell(*_: object) -> None:
    import gc

    gc.collect()
    objects = gc.get_objects()
    tasks = sum(type(one).__name__ == "Task" and not one.done() for one in objects)
    # Up to a hundred cancelled timers wait to be thrown out together: the handle, its context, its place.
    cancelled = sum(type(one).__name__ == "TimerHandle" and one.cancelled() for one in objects)
    with open(_PLACE, "a") as file:
        file.write(f"{len(objects) - 3 * cancelled} {tasks}\n")


if os.environ.get("PENSTOCK_UNCOLLECTED"):
    import gc

    gc.disable()

if _PLACE:
    signal.signal(signal.SIGUSR1, _tell)

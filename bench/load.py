"""The load client: a closed loop that keeps a number of requests in flight and looks at every answer."""

from __future__ import annotations

import gc
import select
import time
from dataclasses import dataclass
from itertools import islice

from bench.lines import ANSWER_SECONDS, Line, PipeLine, SseLine
from bench.messages import FIRST_ID
from bench.processes import Unfit
from bench.workloads import Checker, Workload


@dataclass
class Sample:
    """What one run of requests measured; times in microseconds."""

    p50: float
    p99: float
    rate: float  # answers a second
    seconds: float
    client_cpu: float  # seconds of processor time that the load client itself used
    first: float | None = None  # until the first byte of an answer, where one request is in flight


def run(lines: list[Line], workload: Workload, checker: Checker, count: int, in_flight: int) -> Sample:
    """Asks `count` times. Raises Unfit when an answer is wrong or does not come."""
    poll = select.epoll()
    by_fd: dict[int, Line] = {}
    for line in lines:
        line.progress = 0
        for fd in line.fds:
            by_fd[fd] = line
            poll.register(fd, select.EPOLLIN)
    requests = ((number, workload.request(number)) for number in range(FIRST_ID, FIRST_ID + count))
    share = in_flight if isinstance(lines[0], PipeLine) else 1
    started: dict[int, float] = {}
    latencies: list[float] = []
    # On the legacy transport the receipt of a request comes before its answer.
    is_alone = in_flight == 1 and not isinstance(lines[0], SseLine)
    first = 0.0
    firsts: list[float] = []
    wrong = 0
    clock = time.perf_counter
    gc.collect()
    gc.disable()
    try:
        cpu = time.process_time()
        begun = clock()
        for line in lines:
            batch = list(islice(requests, share))
            now = clock()
            for number, _ in batch:
                started[number] = now
            line.ask(batch)
        while started:
            ready = poll.poll(ANSWER_SECONDS)
            if not ready:
                raise Unfit(f"{len(started)} requests were not answered within {ANSWER_SECONDS} s")
            for fd, _ in ready:
                line = by_fd[fd]
                if is_alone and not first:
                    first = clock()
                answers = line.read()
                if not answers:
                    continue
                now = clock()
                if is_alone:
                    firsts += [first - started[number] for number, _ in answers if number in started]
                    first = 0.0
                for number, _ in answers:
                    if number not in started:
                        raise Unfit(f"an answer to {number}, which nobody waits for")
                    latencies.append(now - started.pop(number))
                for number, answer in answers:
                    if not checker.is_right(number, answer):
                        wrong += 1
                batch = list(islice(requests, len(answers)))
                if batch:
                    now = clock()
                    for number, _ in batch:
                        started[number] = now
                    line.ask(batch)
        seconds = clock() - begun
        cpu = time.process_time() - cpu
    finally:
        gc.enable()
        poll.close()
    if wrong:
        raise Unfit(f"{wrong} of {count} answers were wrong: {checker.why}")
    progress = sum(line.progress for line in lines)
    if workload.steps and progress != count * workload.steps:
        raise Unfit(f"{progress} progress notifications where {count * workload.steps} were expected")
    latencies.sort()
    return Sample(
        p50=latencies[len(latencies) // 2] * 1e6,
        p99=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1e6,
        rate=count / seconds,
        seconds=seconds,
        client_cpu=cpu,
        first=sorted(firsts)[len(firsts) // 2] * 1e6 if firsts else None,
    )

"""The numbers that recording, audit, metrics and traces hold themselves to, each with its reason.

They stand here and not in `penstock.limits` because a run that watches nothing does not load them.
"""

SINK_RECORDS = 10_000
"""Records that wait to be written: a second of the most that we pass. A short stall loses nothing."""

SINK_BYTES = 64 * 1024 * 1024
"""Bytes that wait to be written: six of the largest messages. They are references, not copies."""

SINK_HURRY_BYTES = 256 * 1024
"""So much is written at once, without waiting for more: a large write costs no more calls."""

SINK_SECONDS = 0.05
"""Records are collected so long before they are written; this is what `kill -9` can lose."""

LEARN_SECONDS = 0.5
"""What learns collects so long: waking a thread costs more than looking at a call, and people are told."""

SINK_IDLE_SECONDS = 1.0
"""How often an idle writer looks whether its file was moved away or an hour is over."""

SINK_RETRY_SECONDS = 0.25
"""How soon writing is tried again after it failed: a disk that was freed is used again almost at once."""

SINK_BATCH = 1_000
"""Records in one write; the memory of what was written is given back after each."""

SINK_WARN_SECONDS = 60.0
"""A disk that stays full is told once a minute, not with every message."""

SINK_WAIT_SECONDS = 10.0
"""How long traffic waits for a disk that must have it first, before requests are refused."""

SINK_CLOSE_SECONDS = 2.0
"""How long the end of a run waits for a disk that stalls."""

RECORD_ROTATE_BYTES = 256 * 1024 * 1024
"""A recording is rotated at this size unless the file says another."""

RECORD_KEEP = 4
"""Rotated recordings that are kept beside the one that is written."""

AUDIT_ROTATE_BYTES = 50 * 1024 * 1024
"""An audit file is rotated at this size: small enough to be sent somewhere whole."""

AUDIT_KEEP = 20
"""Rotated audit files that are kept."""

AUDIT_ARGUMENT_BYTES = 4096
"""Of a call's arguments, so much is kept in the audit: enough to see what was asked, whatever was sent."""

AUDIT_CHECKPOINT_SECONDS = 3600.0
"""How often the audit says where it stands, so that a cut tail shows."""

AUDIT_OPEN_CALLS = 10_000
"""Requests whose outcome the audit waits for; past it the oldest is forgotten."""

MASK_OVERLAP_BYTES = 1024
"""Beyond what is kept, so much is looked at, so that a secret that touches the cut is found."""

MASK_VALUE_CHARACTERS = 8
"""A value of ours shorter than this is not looked for: masking every `1` or `true` would hide everything."""

METRIC_SERIES = 1_000
"""Series of one metric: what is named after that counts under (other). Prometheus pays for each of them."""

METRICS_CONNECTIONS = 8
"""Clients of the metrics listener at one time: scrapers are few."""

EXPORTER_BYTES = 8 * 1024 * 1024
"""What waits for the exporter child; past it spans are dropped and counted, and traffic goes on."""

EXPORTER_CLOSE_SECONDS = 1.2
"""How long the exporter may take for its last spans: less than the end of a run waits for its writer."""

EXPORTER_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
"""How long to wait before the exporter child is started again, each time it ended."""

OPEN_REQUESTS = 100_000
"""Requests that a reader of recordings remembers while it waits for their answers."""

ESTIMATED_BYTES = 65_536
"""Of a message, so much is looked at to say about how many tokens it is; the rest is taken to be like it."""

STAT_NAMES = 1_000
"""Different names that `penstock stats` keeps apart; the others count together."""

STAT_SAMPLES = 2_048
"""Latencies kept for each name: a random sample of this size gives p99 within half a percentile."""

"""Seeing and keeping: recording, audit, metrics, traces, and what reads them. Loaded only when named."""

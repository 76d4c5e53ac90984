"""Upstream links around upstream links: what stands behind them never learns of it."""

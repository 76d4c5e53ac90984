"""Deciding what may pass. Pure: nothing in here waits or opens anything."""

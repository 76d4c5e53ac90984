"""Penstock on the user's own machine: clients' files, backups, where Penstock itself lies."""

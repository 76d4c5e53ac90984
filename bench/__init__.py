"""The benchmark: what Penstock adds, measured beside going direct, a plain proxy and its peers.

python -m bench --help
"""

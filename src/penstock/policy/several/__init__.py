"""Several upstreams as one: names, owners of URIs, the merged list, search. Pure and lazy."""

"""Who talks to whom: sessions, pending requests, the catalog on its way."""

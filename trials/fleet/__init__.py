"""Five instances, one Redis, a relay that spoils, and kill -9 of each party: does the limit hold?"""

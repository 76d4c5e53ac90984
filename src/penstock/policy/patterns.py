import re2


class Pattern:
    def __init__(s, source):
        s.source = source
        s._p = re2.compile(source)

    def found_in(s, t):
        return s._p.search(t) is not None


def compile_pattern(s, o):
    return Pattern(s)


def split_patterns(t):
    return t.split(",")

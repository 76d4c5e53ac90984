"""The texts of numbered traffic: whoever knows the number and the part knows every byte that must arrive."""

import hashlib


def text_of(number: int, part: str, size: int) -> str:
    """The text of one part (`ask`, `step-0`, `answer`) of exchange `number`; no two are alike."""
    seed = hashlib.sha256(f"{number}/{part}".encode()).hexdigest()
    return (seed * (size // len(seed) + 1))[:size]

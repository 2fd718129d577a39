"""What the exercises of static batches and of seats share: how long the answers are."""
from __future__ import annotations

import random


def lengths_case(rng: random.Random) -> dict:
    """Up to 7 answers of 1 to 9 tokens, and 1 to 4 seats."""
    return {"lengths": [rng.randint(1, 9) for _ in range(rng.randint(0, 7))], "seats": rng.randint(1, 4)}

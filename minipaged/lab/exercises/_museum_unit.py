"""Lab of chapter 15: in which unit a printed number is right."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

UNIT = '''\
def unit_of(num_bytes, claimed):
    digits = len(claimed.partition(".")[2])
    def fits(unit):
        return round(num_bytes / unit, digits) == float(claimed)
    if fits(10 ** 9) and fits(2 ** 30):
        return "both"
    return "GB" if fits(10 ** 9) else "GiB" if fits(2 ** 30) else "neither"
'''


def _unit_case(rng: random.Random) -> dict:
    """A number that somebody may have got from these bytes; never one that stands between two roundings."""
    digits, unit = rng.randint(0, 2), rng.choice([10 ** 9, 2 ** 30, 2 ** 20 * 1000, 10 ** 6 * 1024])
    num_bytes = rng.randint(1, 90_000) * 1_000_003
    return {"num_bytes": num_bytes, "claimed": f"{num_bytes / unit:.{digits}f}"}


def _drive_unit(trace: Trace, case: dict) -> None:
    trace.call("unit_of", case["num_bytes"], case["claimed"])


def _wrong_unit(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(UNIT, *pairs))


UNIT_EXERCISE = Exercise(
    id="museum.claimed-unit",
    title="57.3 of what?",
    chapter="15_errata",
    minutes=12,
    level="easy",
    goal="Say in which unit a number that somebody printed is right, if in any.",
    interface=("unit_of(num_bytes, claimed)",),
    hints=("80 GB and 80 GiB: which one is more, and by how many percent?",
           "A GB is 10^9 bytes, a GiB 2^30. Count the digits behind the point of the claimed number, round the bytes "
           "in each unit to as many digits, and compare.",
           "digits = len(claimed.partition(\".\")[2]); fits = round(num_bytes / unit, digits) == float(claimed), for "
           "10 ** 9 and for 2 ** 30; then four cases."),
    rule="1 GB is 10^9 bytes, 1 GiB is 2^30. A claim is right in a unit if the bytes in this unit, rounded to as many "
         "digits as the claim has, are the claimed number.",
    examples=({"num_bytes": 59_554_432_000, "claimed": "57.3"}, {"num_bytes": 33_554_432_000, "claimed": "31.25"},
              {"num_bytes": 819_200_000, "claimed": "0.78"}, {"num_bytes": 26_000_000_000, "claimed": "26"},
              {"num_bytes": 1_040_000_000, "claimed": "1"}),
    case=_unit_case,
    drive=_drive_unit,
    reference=lambda: from_source(UNIT),
    misconceptions=(
        Misconception("gib-only", "you test GiB only. Makers of disks, and many papers, count in powers of ten.",
                      'def unit_of(num_bytes, claimed):\n    digits = len(claimed.partition(".")[2])\n'
                      '    fits = round(num_bytes / 2 ** 30, digits) == float(claimed)\n'
                      '    return "GiB" if fits else "neither"\n'),
        Misconception("gb-only", "you test GB only. Whoever divides by 1024 three times gets GiB, and often writes GB.",
                      'def unit_of(num_bytes, claimed):\n    digits = len(claimed.partition(".")[2])\n'
                      '    fits = round(num_bytes / 10 ** 9, digits) == float(claimed)\n'
                      '    return "GB" if fits else "neither"\n'),
        _wrong_unit("units-swapped", "you have the two units the wrong way round: the i stands for binary, 2^30.",
                    'return "GB" if fits(10 ** 9) else "GiB" if fits(2 ** 30)',
                    'return "GiB" if fits(10 ** 9) else "GB" if fits(2 ** 30)'),
        _wrong_unit("no-both", "a number with few digits can be right in both units; you take the first that fits.",
                    "if fits(10 ** 9) and fits(2 ** 30):", "if False:"),
        _wrong_unit("exact", "you compare all digits. Somebody who writes 31.3 has rounded.",
                    "round(num_bytes / unit, digits) == float(claimed)", "num_bytes / unit == float(claimed)"),
        _wrong_unit("one-digit", "you always round to one digit; look how many the claim has.",
                    'digits = len(claimed.partition(".")[2])', "digits = 1"),
        _wrong_unit("cuts-off", "you cut the further digits off; numbers are rounded to the nearest.",
                    "round(num_bytes / unit, digits) == float(claimed)",
                    "int(num_bytes / unit * 10 ** digits) / 10 ** digits == float(claimed)"),
        _wrong_unit("nearest", "you name the nearer unit even where the number is right in neither. Such numbers "
                    "exist: GB and GiB were added, or 1000 and 1024 mixed.",
                    'return "GB" if fits(10 ** 9) else "GiB" if fits(2 ** 30) else "neither"',
                    'return min(("GB", 10 ** 9), ("GiB", 2 ** 30), key=lambda pair: abs(num_bytes / pair[1] - '
                    'float(claimed)))[0]'),
    ),
)

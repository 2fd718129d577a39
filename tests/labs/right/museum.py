"""Right answers of different structure for the lab of chapter 15. Each cell is a whole answer."""

# %% museum.claimed-unit: text against text
def unit_of(num_bytes, claimed):
    digits = len(claimed.split(".")[1]) if "." in claimed else 0
    units = [name for name, size in (("GB", 10 ** 9), ("GiB", 1024 ** 3))
             if format(num_bytes / size, f".{digits}f") == claimed]
    return {0: "neither", 1: units[0] if units else "", 2: "both"}[len(units)]


# %% museum.claimed-unit: half of the last digit either way
def unit_of(num_bytes, claimed):
    half = 0.5
    for _ in claimed.partition(".")[2]:
        half /= 10
    decimal = abs(num_bytes / 1e9 - float(claimed)) <= half
    binary = abs(num_bytes / 2 ** 30 - float(claimed)) <= half
    if decimal:
        return "both" if binary else "GB"
    return "GiB" if binary else "neither"


# %% museum.claimed-unit: with decimals
from decimal import ROUND_HALF_EVEN, Decimal


def unit_of(num_bytes, claimed):
    number = Decimal(claimed)

    def shown(size):
        return (Decimal(num_bytes) / size).quantize(number, rounding=ROUND_HALF_EVEN) == number

    return ["neither", "GB", "GiB", "both"][shown(10 ** 9) + 2 * shown(2 ** 30)]


# %% museum.name-it: one by one
def diagnosis():
    found = {}
    found[2169] = "victim-to-the-back"
    found[7893] = "no-copy-on-write"
    found[9884] = "key-without-parent"
    return found


# %% museum.name-it: from pairs
def diagnosis():
    return dict([(9884, "key-without-parent"), (7893, "no-copy-on-write"), (2169, "victim-to-the-back")])


# %% museum.name-it: two lists
def diagnosis():
    numbers = (7893, 2169, 9884)
    return dict(zip(numbers, ("no-copy-on-write", "victim-to-the-back", "key-without-parent")))


# %% museum.write-a-test: a life of three blocks
def my_test():
    return [["take", "x", "y", "z"], ["ref_count", "x", 1], ["ref_count", "z", 1], ["take_fails", 2],
            ["free_count", 1], ["free", "x", "y", "z"], ["free_count", 4], ["free_fails", "y"],
            ["free_fails", "nobody"], ["found", "y"], ["free_count", 3], ["ref_count", "y", 1], ["next", "z"],
            ["free", "y", "y"], ["free_count", 3]]


# %% museum.write-a-test: one part for each bug
def my_test():
    counts = [["take", "a"], ["share", "a"], ["ref_count", "a", 2], ["free", "a"], ["free", "a"], ["free_count", 4]]
    errors = [["free_fails", "a"], ["free_fails", "nobody"], ["take_fails", 5], ["free_count", 4]]
    twice = [["take", "a", "b"], ["free", "b", "b", "a"], ["free_count", 4]]
    order = [["take", "a", "b"], ["free", "a", "b"], ["next", "b"]]
    hit = [["found", "a"], ["free_count", 2]]
    return counts + errors + twice + order + hit


# %% museum.write-a-test: a full pool
def my_test():
    names = ["p0", "p1", "p2", "p3"]
    rows = [["take", *names], ["free_count", 0], *(["ref_count", name, 1] for name in names)]
    rows += [["free", "p0", "p0"], ["free_count", 1], ["take_fails", 2], ["free_count", 1], ["free_fails", "p0"]]
    rows += [["found", "p0"], ["free_count", 0], ["free_fails", "nobody"]]
    rows += [["free", *names], ["next", "p3"], ["next", "p2"], ["next", "p1"], ["next", "p0"], ["take_fails", 1]]
    return rows

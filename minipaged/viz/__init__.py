"""Pictures drawn from the event log. Nothing here reads private state; every figure carries a sentence."""
from minipaged.viz.film import Film, first_difference

__all__ = ["Film", "first_difference"]

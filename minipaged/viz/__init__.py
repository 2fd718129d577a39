"""Pictures drawn from the event log. Nothing here reads private state; every figure carries a sentence."""
from minipaged.viz.film import Film
from minipaged.viz.film_words import first_difference

__all__ = ["Film", "first_difference"]

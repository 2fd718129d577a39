"""The engine's memory and schedule in pure Python: no torch, no numpy, one concept a file."""

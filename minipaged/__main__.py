"""``python -m minipaged``: the same as the ``minipaged`` command."""

from minipaged.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

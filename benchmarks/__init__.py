"""Measurements, each run as `python -m benchmarks.NAME`; with `--json` one JSON object a line.

`python -m` puts the current folder on the module path, where our folder `kernels` would answer for another
package of that name (see tests/house). So the root leaves the path here; minipaged itself is installed.
"""
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _ROOT]

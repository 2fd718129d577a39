"""For `pytest --nbval notebooks`: the learner's own predictions must not show in the outputs that are compared."""
import os
import tempfile

os.environ["MINIPAGED_PROGRESS"] = os.path.join(tempfile.gettempdir(), "minipaged-no-progress", "")

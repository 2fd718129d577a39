"""``minipaged calc``: the formulas of :mod:`minipaged.formulas` for a model known by name or config. Chapter 01."""

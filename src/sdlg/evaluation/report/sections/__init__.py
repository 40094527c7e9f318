"""The report's sections, one module each: from runs to tables, charts and words."""

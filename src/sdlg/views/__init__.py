"""Results for people to look at: in a terminal, in a notebook, as a page."""

"""What a run is made with where nothing is named. Standard library only: the command line's help tells it."""

DEFAULT_METHODS = ("sdlg", "multinomial:temperature=0.5", "diverse_beam:diversity_penalty=0.5")
DEFAULT_METRICS = ("rouge_l", "rouge_1", "exact_match")

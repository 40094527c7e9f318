"""What a run is made with where nothing is named. Standard library only: the command line's help tells it."""

DEFAULT_METHODS = ("sdlg", "multinomial:temperature=0.5", "diverse_beam:diversity_penalty=0.5")
# The one that agrees best with people comes first; ROUGE and exact match are what others report.
HEADLINE_METRICS = ("same_answer", "rouge_l")  # the first that a run was judged by
HEADLINE_THRESHOLD = 0.5
DEFAULT_METRICS = ("same_answer", "contains", "rouge_l", "rouge_1", "exact_match")


def headline_metric(judged_by: tuple[str, ...]) -> str:
    """By which answers count as right where nothing else is said: the best of the usual ones, or the first there is."""
    usual = [metric for metric in HEADLINE_METRICS if metric in judged_by]
    return (*usual, *judged_by, HEADLINE_METRICS[0])[0]

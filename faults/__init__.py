"""Breaking it on purpose: faults × commands, each followed by going on, and compared with what was never disturbed.

    make test-faults                                # all of it
    python -m faults --only eval/kill --seed 3      # one case again, as its line says

`commands` says what is run and what must come out of it, `process_faults` what is done to a process while it runs,
`table` which fault is done to which command and what is right afterwards; `fuzzing` feeds every reader damaged
documents.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # its fakes and its server that misbehaves

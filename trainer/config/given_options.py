"""`python -m trainer.config.given_options CACHE ...`: what a command line gives, for programs that choose the rest.

Standard output gets a JSON object: `given` has the options that decide what is learnt and that were given, on the
command line or in --config, by name, and `values` all of these with their defaults. No torch here.
"""

from __future__ import annotations

import json
import sys

from trainer.base.child_process import end_with_parent
from trainer.base.errors import TrainerError
from trainer.base.printable import printable
from trainer.config.command_line import given, parse


def main() -> int:
    """Print them; returns the exit status."""
    try:
        values, named = parse().of_the_result(), given()
    except TrainerError as error:
        print(printable(str(error)), file=sys.stderr)
        return error.exit_status
    print(json.dumps({"given": {name: values[name] for name in values if name in named}, "values": values}))
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())

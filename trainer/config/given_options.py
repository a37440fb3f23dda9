"""`python -m trainer.config.given_options CACHE ...`: what a command line gives, for programs that choose the rest.

Standard output gets a JSON object: `given` has the options that decide what is learnt and that were given, on the
command line or in --config, by name, `values` all of these with their defaults, and `output` and `checkpoint` the
folders of these options, or null. No torch here.
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
        options, named = parse(), given()
    except TrainerError as error:
        print(printable(str(error)), file=sys.stderr)
        return error.exit_status
    values = options.of_the_result()
    folders = {"output": options.output, "checkpoint": options.checkpoint}
    print(json.dumps({"given": {name: values[name] for name in values if name in named}, "values": values, **folders}))
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main())

"""A process that answers one request: JSON on standard input, and an answer on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from trainer.base.child_process import end_with_parent, forget_current_folder
from trainer.base.errors import OptionError, TrainerError
from trainer.base.printable import printable


def answer_standard_input(answer: Callable[[dict[str, Any]], Any]) -> int:
    """Print the answer to the request on standard input, or one sentence on standard error; returns the exit status."""
    end_with_parent()
    forget_current_folder()
    try:
        found = answer(json.load(sys.stdin))
    except TrainerError as error:
        print(printable(str(error)), file=sys.stderr)
        return error.exit_status
    except (ValueError, KeyError, TypeError) as error:
        print(f"standard input has no request ({type(error).__name__}: {error})", file=sys.stderr)
        return OptionError.exit_status
    print(json.dumps(found))
    return 0

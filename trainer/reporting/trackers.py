"""Curves for Weights & Biases and for MLflow, where their packages are installed; nothing else needs them.

An error of theirs is said once, and training goes on without them. They never ask for anything: W&B keeps the run on
this machine unless it has an API key. A server of MLflow that does not answer is given up after SECONDS.
"""

from __future__ import annotations

import logging
import netrc
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainer.base.errors import OptionError
from trainer.reporting.epoch_line import EpochLine

SECONDS = 30
"""For a server to answer, and for what is left to be sent at the end."""
_WANDB_SERVER = "https://api.wandb.ai"
_KEYS = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")

log = logging.getLogger("trainer")


class Tracker(ABC):
    """Gives options, epochs and result of a run to another program's package."""

    flag: str
    package: str

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        """Begin a run there.

        Args:
            name: of the project or experiment.
            options: of the run; None is left out.

        Raises:
            OptionError: the package is not installed.
        """
        self._has_failed = False
        try:
            self._module: Any = import_module(self.package)
        except ImportError as error:
            raise OptionError(
                f"{self.flag} needs the package {self.package}, which is not installed here; "
                f"install it with pip install {self.package}, or leave the option out"
            ) from error
        except Exception as error:  # noqa: BLE001 - an installation that is broken in whatever way
            self._fail("be imported", error)
        given = {key: value for key, value in options.items() if value is not None}
        self._do("begin a run", lambda: self._begin(name, given))

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Give one line; `metric` names its `val`."""
        numbers = {name: value for name, value in line.numbers(metric).items() if value is not None and name != "epoch"}
        self._do("take an epoch", lambda: self._log(numbers, line.epoch))

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Give the result, and end the run there; None if training failed."""

        def finish() -> None:
            if result is not None:
                names = (f"test_{result['metric']}", f"val_{result['metric']}", "best_epoch", "parameters")
                best = {f"best_{name.removeprefix('best_')}": result[name] for name in names}
                self._log({name: value for name, value in best.items() if value is not None}, result["epochs"])
            self._end(is_whole=result is not None)

        def work() -> None:
            self._do("end the run", finish)

        ending = threading.Thread(target=work, name=self.package, daemon=True)
        ending.start()
        ending.join(SECONDS)
        if ending.is_alive():
            self._fail("end the run", TimeoutError(f"it takes more than {SECONDS} s"))

    @abstractmethod
    def _begin(self, name: str, options: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def _log(self, numbers: Mapping[str, float], epoch: int) -> None: ...

    @abstractmethod
    def _end(self, *, is_whole: bool) -> None: ...

    def _do(self, what: str, call: Callable[[], None]) -> None:
        if self._has_failed:
            return
        try:
            call()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever theirs raises
            self._fail(what, error)

    def _fail(self, what: str, error: BaseException) -> None:
        self._has_failed = True
        log.warning(
            "%s gets no more of this run, and training goes on: %s could not %s (%s: %s)",
            self.flag,
            self.package,
            what,
            type(error).__name__,
            error,
        )


class WandbTracker(Tracker):
    """A run of Weights & Biases."""

    flag, package = "--wandb", "wandb"

    def _begin(self, name: str, options: Mapping[str, Any]) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")
        os.environ.setdefault("WANDB_INIT_TIMEOUT", str(SECONDS))
        mode = wandb_mode(os.environ)
        self._module.init(project=name, config=dict(options), mode=mode)
        if mode == "offline":
            log.info("--wandb: the run is kept offline, in the folder wandb; `wandb sync` uploads it")

    def _log(self, numbers: Mapping[str, float], epoch: int) -> None:
        self._module.log(dict(numbers), step=epoch)

    def _end(self, *, is_whole: bool) -> None:
        self._module.finish(exit_code=0 if is_whole else 1)


class MlflowTracker(Tracker):
    """A run of MLflow."""

    flag, package = "--mlflow", "mlflow"

    def _begin(self, name: str, options: Mapping[str, Any]) -> None:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(SECONDS))
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        self._module.set_experiment(name)
        self._module.start_run()
        self._module.log_params(dict(options))

    def _log(self, numbers: Mapping[str, float], epoch: int) -> None:
        self._module.log_metrics({key: float(value) for key, value in numbers.items()}, step=epoch)

    def _end(self, *, is_whole: bool) -> None:
        self._module.end_run(status="FINISHED" if is_whole else "FAILED")


def wandb_mode(environment: Mapping[str, str]) -> str:
    """W&B's mode: that of WANDB_MODE, else online with an API key and offline without one, as it would ask for it."""
    mode = environment.get("WANDB_MODE", "").lower()
    if mode == "disabled":
        return mode
    if mode in ("offline", "dryrun"):
        return "offline"
    if any(environment.get(key) for key in _KEYS) or _is_in_netrc(environment):
        return "online"
    if mode:
        log.warning("--wandb: WANDB_MODE is %s and there is no API key, so the run is kept offline", mode)
    return "offline"


def _is_in_netrc(environment: Mapping[str, str]) -> bool:
    """Whether `wandb login` has left a key."""
    host = urlsplit(environment.get("WANDB_BASE_URL") or _WANDB_SERVER).hostname or ""
    named = environment.get("NETRC")
    for path in [Path(named)] if named else [Path.home() / ".netrc", Path.home() / "_netrc"]:
        try:
            if netrc.netrc(path).authenticators(host) is not None:
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False

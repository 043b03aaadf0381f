"""Where the `meta-infer` command begins: Ctrl-C ends it quietly from its first moment on, while modules are imported.

An exception in the middle of an import may be taken for a failed import, or leave a half-made module behind. Nothing
has been begun yet, so that the process simply ends.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Runs the command of sys.argv and returns the exit code. Whoever ignores SIGINT goes on ignoring it."""
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, _leave)
    from meta_infer.cli import main as commands

    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return commands.main()
    except KeyboardInterrupt:                                   # between this `try` and that of the command
        return INTERRUPTED


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())

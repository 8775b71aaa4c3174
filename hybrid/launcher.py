"""Becomes another program, which then ends with the process that started it, even when that one is killed -9.

    python -I -S launcher.py <pid of the starter> <program> [argument ...]

A script of its own, because the alternative, Python code between fork and exec (`preexec_fn`), can deadlock in a
starter that has threads. It imports nothing of ours and keeps its pid when it becomes the program.

The signal is SIGKILL. A SIGTERM would let Redis end cleanly, but one that is frozen, inside a script or waiting for a
slow disk would take its time, or for ever; and an acknowledged write needs no clean end. A fork (an AOF rewrite) ends
by itself when it next reports to its Redis, within about a second, and holds the data directory's lock until then.
Not handled: a program with file capabilities or set-user-id, from which the kernel takes the signal away.

Only Linux has such a signal. Elsewhere a server whose starter was killed -9 lives on until it is ended by hand, and the
lock keeps everybody else out of its directory meanwhile.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(starter: str, program: str, *arguments: str) -> None:
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        sys.exit("prctl(PR_SET_PDEATHSIG) was refused; the server would outlive a killed parent")
    # After the request, not before it: a starter that died in between has sent no signal, but is no longer our parent.
    if os.getppid() != int(starter):
        sys.exit(f"pid {starter}, which asked for this server, is gone")
    try:
        os.execv(program, [program, *arguments])  # noqa: S606  a shell is what we do not want
    except OSError as error:
        sys.exit(f"cannot run {program}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])

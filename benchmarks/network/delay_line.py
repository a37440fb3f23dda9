"""`python -m benchmarks.network.delay_line A B DELAY_S JITTER_S LOSS SEED`: a cable that is long, uneven or lossy.

It makes two TAP devices, A and B, says `ready`, and from then on hands every frame that leaves one of them to the
other: after DELAY_S seconds and up to JITTER_S more, drawn for each frame, and not at all with the probability LOSS.
Frames stay in order, so one that drew a long delay holds up those behind it, as a queue does. (The kernel's netem does
the same and is often not built; `tc` still limits the bandwidth at both ends.)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME = 65536
MOST_AT_ONCE = 64


def tap(name: str) -> int:
    """A new TAP device: what is read from it are frames that the kernel sends, what is written it receives."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH14x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def carry(ends: tuple[int, int], delay_s: float, jitter_s: float, loss: float, dice: random.Random) -> None:
    """Hand frames over for ever."""
    queues: tuple[deque[tuple[float, bytes]], ...] = (deque(), deque())  # by the end that frames came from
    while True:
        now = time.monotonic()
        for queue, out in zip(queues, reversed(ends), strict=True):
            while queue and queue[0][0] <= now:
                _write(out, queue.popleft()[1])
        due = min((queue[0][0] for queue in queues if queue), default=None)
        readable, _, _ = select.select(ends, (), (), None if due is None else max(0.0, due - time.monotonic()))
        for queue, end in zip(queues, ends, strict=True):
            if end in readable:
                for frame in _read(end):
                    if dice.random() >= loss:
                        at = time.monotonic() + delay_s + jitter_s * dice.random()
                        queue.append((max(at, queue[-1][0]) if queue else at, frame))


def _read(end: int) -> list[bytes]:
    frames: list[bytes] = []
    with contextlib.suppress(OSError):  # there is no more, or the device is down
        while len(frames) < MOST_AT_ONCE:
            frames.append(os.read(end, FRAME))
    return frames


def _write(end: int, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # a device that is down loses the frame, as an unplugged cable does
        os.write(end, frame)


def main() -> None:
    a, b, delay_s, jitter_s, loss, seed = sys.argv[1:]
    ends = (tap(a), tap(b))
    print("ready", flush=True)
    carry(ends, float(delay_s), float(jitter_s), float(loss), random.Random(int(seed)))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)

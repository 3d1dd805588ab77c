"""Whole messages over a stream socket.

The controller's end never blocks: a rank that is stopped, or dies in the middle of a message, costs
the controller its deadline and nothing more. The rank's end blocks.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

Message = tuple[bytes, ...]

_CHUNK_BYTES = 2**18


class Channel:
    """One end: a message is a few byte strings, preceded by their number and their lengths."""

    def __init__(self, end: socket.socket, *, blocking: bool) -> None:
        end.setblocking(blocking)
        self._socket = end
        self._incoming = bytearray()
        self._outgoing: list[memoryview] = []
        self.ended = False

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    @property
    def pending(self) -> bool:
        """Whether something that was sent still waits for room; `flush` when there is some."""
        return bool(self._outgoing)

    def send(self, message: Sequence[bytes]) -> None:
        """Send what can be sent now and keep the rest for `flush`."""
        head = struct.pack(f"!B{len(message)}Q", len(message), *map(len, message))
        self._outgoing += [memoryview(part) for part in (head, *message) if part]
        self.flush()

    def flush(self) -> None:
        """Send what is pending, as far as there is room."""
        while self._outgoing:
            try:
                num_sent = self._socket.sendmsg(self._outgoing)
            except BlockingIOError:
                return
            except OSError:
                self._outgoing, self.ended = [], True
                return
            self._outgoing = _after(self._outgoing, num_sent)

    def receive(self) -> Message | None:
        """The next whole message; None if there is no more to read now, or ever: see `ended`."""
        while (message := self._whole_message()) is None:
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if not data:
                self.ended = True
                return None
            self._incoming += data
        return message

    def close(self) -> None:
        """Close this end; an idle rank exits when it sees that."""
        self._socket.close()

    def _whole_message(self) -> Message | None:
        data = self._incoming
        if not data or len(data) < (start := 1 + 8 * data[0]):
            return None
        lengths = struct.unpack_from(f"!{data[0]}Q", data, 1)
        if len(data) < start + sum(lengths):
            return None
        parts = []
        for length in lengths:
            parts.append(bytes(memoryview(data)[start : start + length]))
            start += length
        self._incoming = bytearray()
        return tuple(parts)


def _after(views: list[memoryview], num_sent: int) -> list[memoryview]:
    for index, view in enumerate(views):
        if num_sent < len(view):
            return [view[num_sent:], *views[index + 1 :]]
        num_sent -= len(view)
    return []

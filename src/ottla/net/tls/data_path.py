"""What runs for every request of a TLS connection: encrypted bytes in, decrypted ones to the link, answers back.

    arrived bytes → record by record → incoming → SSL object → the link's own buffer
    link.write → SSL object → outgoing → the transport below

1. OpenSSL gets record by record, so that a connection keeps memory for one record and not for all that came together.
2. A record of data that has not come whole is not read: OpenSSL could only say so, and its exception costs more than a
   small record. Whatever else comes (alerts, messages of a handshake, what cannot be TLS) OpenSSL judges at once.
3. All that came together is decrypted into the link's buffer, as far as there is room, before the link is told.
4. What stands before a record that cannot be read, or before a goodbye, is delivered first. So the link sees the same
   bytes however they were cut on their way, and while it does not read, the end waits. After a record that cannot be
   read OpenSSL encrypts nothing more, no answer either.
5. While the link does not read, nothing is decrypted; what the socket gave stays encrypted, one buffer at most.
6. What is written while bytes are delivered is encrypted at once and leaves when all of them are, or when it is
   HOLD_LIMIT_BYTES: a system call and a packet for each answer would cost more than its encryption.

This is the readable twin of _data_path.pyx. When a connection begins and ends is the business of stream.py.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final, Protocol

from ottla.net.framing import Buffer

HOLD_LIMIT_BYTES: Final = 16_384
HEADER_BYTES: Final = 5
DATA_BEGINS: Final = b"\x17\x03\x03"
"""Application data, and the version that TLS 1.2 and 1.3 both write."""
DATA_LIMIT_BYTES: Final = 16_384 + 256


class StreamEvents(Protocol):
    """The link above: what asyncio calls a buffered protocol."""

    def connection_made(self, transport: Any) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class DataPath:
    """Protocol of the transport below, transport of the link above, as far as data is concerned."""

    gathers = True  # writelines encrypts buffer by buffer and hands over the result at once

    def __init__(self, encrypted: memoryview) -> None:
        """`encrypted` is where the transport below puts what it reads."""
        self._encrypted = encrypted
        self._link: StreamEvents | None = None  # from the end of the handshake on
        self._below: Any = None
        self._object: Any = None  # ssl.SSLObject; its `read` returns a count when it is given a buffer
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._is_paused = False
        self._is_closing = False
        self._is_delivering = False  # the link has what was decrypted, and answers
        # The record that was begun, if it is not whole. What of it waits in `incoming` is not read before it is; that
        # is none of it when it is not a record of data.
        self._header = b""  # while that is not whole either
        self._is_data = False
        self._missing_bytes = 0
        self._unready_bytes = 0
        self._is_over = False  # nothing more can be decrypted
        self._failure: Exception | None = None  # why; None when the other side said goodbye
        self._has_decrypted = False  # OpenSSL has a part of a record for which there was no room

    # --- what stream.py adds ---

    def _handshake_received(self) -> None:
        """More bytes are in `incoming`, and the handshake is not complete."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def _end(self, failure: Exception) -> None:
        """Something cannot be decrypted or encrypted."""
        raise NotImplementedError

    # --- reading ---

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._encrypted

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closing:
            return
        if self._link is None:
            self._incoming.write(self._encrypted[:nbytes])
            self._handshake_received()
        else:
            self._decrypt(self._encrypted[:nbytes])

    def _decrypt(self, arrived: Buffer = b"") -> None:
        """Hand over what was kept and what has arrived, as long as the link reads; keep the rest."""
        link = self._link
        if link is None:
            return
        self._is_delivering = True
        try:
            position = self._deliver(link, arrived)
        finally:
            self._is_delivering = False
        if self._is_closing:
            return
        while position < len(arrived):
            position = self._feed(arrived, position)
        self._flush()  # answers, or TLS's own to a change of keys

    def _deliver(self, link: StreamEvents, arrived: Buffer) -> int:
        """Returns where that begins which OpenSSL did not get."""
        position = 0
        while not self._is_paused and not self._is_closing:
            position = self._prepare(arrived, position)
            if not self._is_ready():
                break
            if self._is_over:
                self._leave()
            else:
                position = self._fill(link, arrived, position)
        return position

    def _leave(self) -> None:
        if self._failure is None:
            self.close()
        else:
            self._end(self._failure)

    def _fill(self, link: StreamEvents, arrived: Buffer, position: int) -> int:
        """Decrypt into the link's buffer until it is full or nothing is left. A read gives one record of TLS at most,
        and all of it if there is room."""
        room = link.get_buffer(-1)
        size, filled = len(room), 0
        if not size:
            raise RuntimeError("get_buffer() returned an empty buffer")
        try:
            while filled < size and self._is_ready() and not self._is_over:
                count: int = self._object.read(size - filled, room[filled:] if filled else room)
                filled += count
                self._is_over = not count
                self._has_decrypted = filled == size and self._object.pending() > 0
                position = self._prepare(arrived, position)
        except ssl.SSLWantReadError:
            pass  # what came was for OpenSSL itself, or is no whole record
        except (ssl.SSLError, OSError) as error:
            self._is_over, self._failure = True, error
        del room  # held by nobody now: the link may resize it
        if filled:
            link.buffer_updated(filled)
        return position

    def _is_ready(self) -> bool:
        """Whether OpenSSL has something to read, or to say."""
        return self._is_over or self._has_decrypted or self._incoming.pending > self._unready_bytes

    def _prepare(self, arrived: Buffer, position: int) -> int:
        """Give OpenSSL the next record unless it has one."""
        if position < len(arrived) and not self._is_ready():
            return self._feed(arrived, position)
        return position

    def _feed(self, arrived: Buffer, position: int) -> int:
        """Give OpenSSL the rest of the record that was begun, or the next one; returns where it ends."""
        stop = position + self._missing_bytes if self._missing_bytes else self._read_header(arrived, position)
        end = min(stop, len(arrived))
        self._incoming.write(memoryview(arrived)[position:end])
        self._missing_bytes = 0 if self._header else stop - end
        if stop == end:
            self._unready_bytes = 0
        elif self._is_data:
            self._unready_bytes += end - position
        return end

    def _read_header(self, arrived: Buffer, position: int) -> int:
        """Where the record ends whose header begins here, or began earlier."""
        rest = HEADER_BYTES - len(self._header)
        header = self._header + bytes(memoryview(arrived)[position : position + rest])
        if len(header) < HEADER_BYTES:
            self._header, self._is_data = header, True  # as far as anybody can know
            return position + rest
        self._header = b""
        length = int.from_bytes(header[3:], "big")
        self._is_data = header.startswith(DATA_BEGINS) and length <= DATA_LIMIT_BYTES
        if not self._is_data:
            self._unready_bytes = 0
        return position + rest + length

    def pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_paused or self._is_closing:
            return
        self._is_paused = False
        self._below.resume_reading()
        if self._is_ready():
            asyncio.get_running_loop().call_soon(self._decrypt)

    # --- writing ---

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, buffers: Sequence[Buffer]) -> None:
        if self._is_closing:
            return
        try:
            for buffer in buffers:
                self._encrypt(buffer)
        except (ssl.SSLError, OSError) as error:
            self._end(error)
            return
        if not self._is_delivering or self._outgoing.pending >= HOLD_LIMIT_BYTES:
            self._flush()

    def _encrypt(self, buffer: Buffer) -> None:
        size = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
        done = self._object.write(buffer) if size else 0
        while done < size:
            done += self._object.write(memoryview(buffer)[done:])

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.write(self._outgoing.read())

    def get_write_buffer_size(self) -> int:
        size: int = self._below.get_write_buffer_size()
        return size + self._outgoing.pending

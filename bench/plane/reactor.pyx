# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A trial of a native data plane: simple produce and fetch requests answered without the interpreter.

This is no part of the broker. It is what decision 0070 measured, kept so that others can measure it again: threads that
own the sockets, cut frames, find the partition, check and place batches with the broker's own leaf, write them, and
answer; and a call of Python for every other request, for which the thread takes the lock and waits.

What it has of a broker's state is what it cannot do without: the end, the size and the index of each partition, under
a lock of its own, because Python would change them too. What it has not: producers' sequences, transactions, leader
epochs and in-sync replicas that change, quotas, access rules, rolling segments, time indexes, request times.
"""

include "_checks.pyx"

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove
from posix.types cimport off_t

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)

cdef extern from "<sys/epoll.h>" nogil:
    enum: EPOLLIN, EPOLL_CTL_ADD, EPOLL_CTL_DEL
    ctypedef union epoll_data_t:
        void* ptr
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int)
    int epoll_ctl(int, int, int, epoll_event*)
    int epoll_wait(int, epoll_event*, int, int)

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t pwritev(int, iovec*, int, off_t)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_MORE, MSG_NOSIGNAL
    ssize_t recv(int, void*, size_t, int)
    ssize_t send(int, void*, size_t, int)

cdef extern from "<sys/sendfile.h>" nogil:
    ssize_t sendfile(int, int, off_t*, size_t)

cdef extern from "<poll.h>" nogil:
    enum: POLLOUT
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd*, unsigned long, int)

cdef extern from "<time.h>" nogil:
    enum: CLOCK_REALTIME_COARSE
    struct timespec:
        int64_t tv_sec
        int64_t tv_nsec
    int clock_gettime(int, timespec*)

cdef extern from "<unistd.h>" nogil:
    int close(int)

cdef enum:
    ROOM_BYTES = 1 << 18
    FRAME_LIMIT_BYTES = 100 << 20
    ANSWER_BYTES = 128
    TOPIC_BYTES = 64
    INDEX_EVERY_BYTES = 4096
    EVENTS = 64
    PRODUCE = 0
    FETCH = 1
    SIMPLE_PRODUCE_VERSION = 11
    SIMPLE_FETCH_VERSION = 12


cdef struct Entry:
    int64_t offset
    int64_t position


cdef struct Partition:
    pthread_mutex_t lock
    int file
    int64_t next_offset
    int64_t size_bytes
    int64_t indexed_bytes  # where the last entry of the index points
    Entry* entries
    Py_ssize_t entry_count
    Py_ssize_t entry_room
    int64_t requests
    int64_t bytes_in


cdef struct Connection:
    int socket
    int number
    uint8_t* room
    size_t room_bytes
    size_t end


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint ok


cdef inline bint has(Cursor* cursor, int64_t count) noexcept nogil:
    if count < 0 or cursor.end - cursor.at < count:
        cursor.ok = False
    return cursor.ok


cdef inline int64_t get(Cursor* cursor, int size) noexcept nogil:
    """A signed number of 1, 2, 4 or 8 bytes; 0 when the frame ends before it."""
    cdef uint64_t value = 0
    cdef int index
    if not has(cursor, size):
        return 0
    for index in range(size):
        value = (value << 8) | cursor.at[index]
    cursor.at += size
    return <int64_t> (value << (64 - 8 * size)) >> (64 - 8 * size)


cdef inline int64_t get_varint(Cursor* cursor) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 35 and has(cursor, 1):
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            return <int64_t> value
        shift += 7
    cursor.ok = False
    return 0


cdef inline void expect(Cursor* cursor, int64_t wanted, int64_t found) noexcept nogil:
    if wanted != found:
        cursor.ok = False


cdef inline uint8_t* put(uint8_t* at, int64_t value, int size) noexcept nogil:
    cdef int index
    for index in range(size):
        at[index] = <uint8_t> (<uint64_t> value >> (8 * (size - 1 - index)))
    return at + size


cdef inline uint8_t* put_uvarint(uint8_t* at, uint64_t value) noexcept nogil:
    while value >= 0x80:
        at[0] = <uint8_t> (value | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t> value
    return at + 1


cdef bint send_all(int to, const uint8_t* data, size_t size, int flags) noexcept nogil:
    """A client that does not read stops its thread here; a real plane would keep the rest and go on with others."""
    cdef ssize_t sent
    cdef pollfd waiting
    while size:
        sent = send(to, <void*> data, size, flags | MSG_NOSIGNAL)
        if sent < 0:
            if errno == EINTR:
                continue
            if errno != EAGAIN:
                return False
            waiting.fd, waiting.events = to, POLLOUT
            poll(&waiting, 1, -1)
            continue
        data += sent
        size -= sent
    return True


cdef bint send_file(int to, int file, off_t position, size_t size) noexcept nogil:
    cdef ssize_t sent
    cdef pollfd waiting
    while size:
        sent = sendfile(to, file, &position, size)
        if sent <= 0:
            if sent < 0 and errno == EINTR:
                continue
            if sent == 0 or errno != EAGAIN:
                return False
            waiting.fd, waiting.events = to, POLLOUT
            poll(&waiting, 1, -1)
            continue
        size -= sent
    return True


cdef class Plane:
    """The partitions of one topic, and what its threads share. `run()` is a thread's whole life."""

    cdef Partition* partitions
    cdef int count
    cdef uint8_t topic[TOPIC_BYTES]
    cdef Py_ssize_t topic_bytes
    cdef object _other  # (connection's number, frame) -> the bytes of its answer

    def __cinit__(self, topic, list files, other):
        cdef int index
        encoded = topic.encode()
        if len(encoded) > TOPIC_BYTES - 1:
            raise ValueError("the trial knows short names of topics only")
        self.topic_bytes = len(encoded)
        memcpy(self.topic, <const char*> encoded, self.topic_bytes)
        self.count = len(files)
        self._other = other
        self.partitions = <Partition*> calloc(self.count, sizeof(Partition))
        if self.partitions == NULL:
            raise MemoryError
        for index in range(self.count):
            pthread_mutex_init(&self.partitions[index].lock, NULL)
            self.partitions[index].file = files[index]
            self.partitions[index].indexed_bytes = -INDEX_EVERY_BYTES

    def __dealloc__(self):
        cdef int index
        for index in range(self.count):
            free(self.partitions[index].entries)
        free(self.partitions)

    def ends(self):
        """What each partition has: its next offset, its size, and what was counted."""
        return [(self.partitions[i].next_offset, self.partitions[i].size_bytes, self.partitions[i].requests)
                for i in range(self.count)]

    def run(self, int poller):
        """Serve the connections of one epoll until the process ends."""
        cdef epoll_event events[EVENTS]
        cdef int ready, index
        with nogil:
            while True:
                ready = epoll_wait(poller, events, EVENTS, -1)
                for index in range(ready):
                    self.readable(poller, <Connection*> events[index].data.ptr)

    cdef void readable(self, int poller, Connection* connection) noexcept nogil:
        cdef ssize_t got = recv(connection.socket, connection.room + connection.end,
                                connection.room_bytes - connection.end, 0)
        if got < 0 and (errno == EAGAIN or errno == EINTR):
            return
        if got <= 0:
            forget(poller, connection)
            return
        connection.end += got
        if not self.serve(connection):
            forget(poller, connection)

    cdef bint serve(self, Connection* connection) noexcept nogil:
        """Everything that is whole, in order; what goes together is written and answered together."""
        cdef uint8_t* at = connection.room
        cdef uint8_t* end = connection.room + connection.end
        cdef uint8_t* taken
        cdef int64_t size = 0
        while end - at >= 4:
            size = (<int64_t> at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3]
            if size < 8 or size > FRAME_LIMIT_BYTES:
                return False
            if end - at < 4 + size:
                break
            taken = self.produce_run(connection, at, end)
            if taken == NULL:
                if not (self.fetch(connection, at + 4, size) or self.hand_over(connection, at + 4, size)):
                    return False
                taken = at + 4 + size
            at = taken
        connection.end = end - at
        if at != connection.room:
            memmove(connection.room, at, connection.end)
        return make_room(connection, 4 + size if connection.end >= 4 else 0)

    cdef bint find_topic(self, Cursor* cursor) noexcept nogil:
        cdef int64_t length
        expect(cursor, 2, get_varint(cursor))  # one topic
        length = get_varint(cursor) - 1
        if not has(cursor, length) or length != self.topic_bytes or memcmp(cursor.at, self.topic, length):
            return False
        cursor.at += length
        expect(cursor, 2, get_varint(cursor))  # one partition
        return cursor.ok

    cdef bint read_produce(self, uint8_t* frame, int64_t size, int* partition, iovec* records) noexcept nogil:
        cdef Cursor cursor
        cdef int64_t length
        if not begin(&cursor, frame, size, PRODUCE, SIMPLE_PRODUCE_VERSION):
            return False
        expect(&cursor, 0, get_varint(&cursor))  # no transaction
        expect(&cursor, 1, get(&cursor, 2) != 0)  # an answer is wanted
        get(&cursor, 4)
        if not self.find_topic(&cursor):
            return False
        partition[0] = <int> get(&cursor, 4)
        length = get_varint(&cursor) - 1
        if not has(&cursor, length + 3) or cursor.end - cursor.at != length + 3:
            return False
        records.iov_base, records.iov_len = <void*> cursor.at, length
        return 0 <= partition[0] < self.count and length >= HEADER_BYTES

    cdef uint8_t* produce_run(self, Connection* connection, uint8_t* at, uint8_t* end) noexcept nogil:
        """Append the simple requests that begin at `at`, as many as are for one partition. NULL when there is none."""
        cdef iovec buffers[RUN_LIMIT]
        cdef uint8_t* frames[RUN_LIMIT]
        cdef int partition = -1
        cdef int other = -1
        cdef int count = 0
        cdef int64_t size
        while count < RUN_LIMIT and end - at >= 4:
            size = (<int64_t> at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3]
            if end - at < 4 + size or not self.read_produce(at + 4, size, &other, &buffers[count]):
                break
            if count and other != partition:
                break
            partition = other
            frames[count] = at + 4
            count += 1
            at += 4 + size
        if count == 0 or not self.append(connection, partition, count, frames, buffers):
            return NULL
        return at

    cdef bint append(self, Connection* connection, int index, int count, uint8_t** frames,
                     iovec* buffers) noexcept nogil:
        cdef Partition* partition = &self.partitions[index]
        cdef uint8_t answers[RUN_LIMIT * ANSWER_BYTES]
        cdef uint8_t* at = answers
        cdef int64_t total = 0
        cdef int64_t base
        cdef int number
        if not are_simple(count, buffers):
            return False
        pthread_mutex_lock(&partition.lock)
        base = partition.next_offset
        for number in range(count):
            place(<uint8_t*> buffers[number].iov_base, base, 0)
            add_entry(partition, base, partition.size_bytes + total)
            at = self.put_appended(at, frames[number], index, base)
            base += records_of(<const uint8_t*> buffers[number].iov_base)
            total += buffers[number].iov_len
        if pwritev(partition.file, buffers, count, partition.size_bytes) != total:
            pthread_mutex_unlock(&partition.lock)
            return False
        partition.next_offset = base
        partition.size_bytes += total
        partition.requests += count
        partition.bytes_in += total
        pthread_mutex_unlock(&partition.lock)
        return send_all(connection.socket, answers, at - answers, 0)

    cdef uint8_t* put_topic(self, uint8_t* at) noexcept nogil:
        at = put(at, 2, 1)
        at = put_uvarint(at, self.topic_bytes + 1)
        memcpy(at, self.topic, self.topic_bytes)
        return put(at + self.topic_bytes, 2, 1)

    cdef uint8_t* put_appended(self, uint8_t* start, const uint8_t* frame, int index, int64_t base) noexcept nogil:
        cdef uint8_t* at = start + 4
        memcpy(at, frame + 4, 4)  # the request's number
        at = put(at + 4, 0, 1)
        at = self.put_topic(at)
        at = put(at, index, 4)
        at = put(at, 0, 2)
        at = put(at, base, 8)
        at = put(at, -1, 8)
        at = put(at, 0, 8)
        at = put(at, 1, 1)  # no errors of records
        at = put(at, 0, 3)  # no message, tags of partition and topic
        at = put(at, 0, 5)  # throttle time, tags
        put(start, at - start - 4, 4)
        return at

    cdef bint fetch(self, Connection* connection, uint8_t* frame, int64_t size) noexcept nogil:
        """Answer a fetch of one partition outside of a session which finds something; else nothing is done: False."""
        cdef Cursor cursor
        cdef int64_t index, offset, wanted, limit
        if not begin(&cursor, frame, size, FETCH, SIMPLE_FETCH_VERSION):
            return False
        expect(&cursor, -1, get(&cursor, 4))  # no follower
        get(&cursor, 8)
        limit = get(&cursor, 4)
        get(&cursor, 1)
        expect(&cursor, 0, get(&cursor, 4))  # no session
        get(&cursor, 4)
        if not self.find_topic(&cursor):
            return False
        index = get(&cursor, 4)
        get(&cursor, 4)
        offset = get(&cursor, 8)
        get(&cursor, 4)
        get(&cursor, 8)
        wanted = get(&cursor, 4)
        if not cursor.ok or not 0 <= index < self.count:
            return False
        return self.send_found(connection, frame, <int> index, offset, min(limit, wanted))

    cdef bint send_found(self, Connection* connection, uint8_t* frame, int index, int64_t offset,
                         int64_t limit) noexcept nogil:
        cdef Partition* partition = &self.partitions[index]
        cdef uint8_t head[ANSWER_BYTES]
        cdef uint8_t tail[3]
        cdef uint8_t* at = head + 4
        cdef int64_t position, end, size
        pthread_mutex_lock(&partition.lock)
        end = partition.next_offset
        position = find(partition, offset)
        size = partition.size_bytes - position
        pthread_mutex_unlock(&partition.lock)
        if position < 0 or size <= 0:
            return False
        size = min(size, limit)
        memcpy(at, frame + 4, 4)
        at = put(at + 4, 0, 1)
        at = put(at, 0, 4)
        at = put(at, 0, 2)
        at = put(at, 0, 4)
        at = self.put_topic(at)
        at = put(at, index, 4)
        at = put(at, 0, 2)
        at = put(at, end, 8)
        at = put(at, end, 8)
        at = put(at, 0, 8)
        at = put(at, 0, 1)
        at = put(at, -1, 4)
        at = put_uvarint(at, size + 1)
        put(head, at - head - 4 + size + 3, 4)
        put(tail, 0, 3)
        return (send_all(connection.socket, head, at - head, MSG_MORE)
                and send_file(connection.socket, partition.file, position, size)
                and send_all(connection.socket, tail, 3, 0))

    cdef bint hand_over(self, Connection* connection, uint8_t* frame, int64_t size) noexcept nogil:
        """Everything else is Python's. This thread waits for it, so the order of the connection is kept."""
        with gil:
            try:
                answer = self._other(connection.number, PyBytes_FromStringAndSize(<char*> frame, size))
                return send_all(connection.socket, <const uint8_t*> <const char*> answer, len(answer), 0)
            except Exception as error:
                print(f"a request was not answered: {error!r}", flush=True)
                return False


cdef inline bint begin(Cursor* cursor, uint8_t* frame, int64_t size, int api, int version) noexcept nogil:
    """Past the header of a request of that API in that version."""
    cdef int64_t length
    cursor.at, cursor.end, cursor.ok = frame, frame + size, True
    expect(cursor, api, get(cursor, 2))
    expect(cursor, version, get(cursor, 2))
    get(cursor, 4)
    length = max(get(cursor, 2), <int64_t> 0)
    if not has(cursor, length):
        return False
    cursor.at += length
    expect(cursor, 0, get_varint(cursor))
    return cursor.ok


cdef bint are_simple(int count, iovec* buffers) noexcept nogil:
    cdef Rules rules
    cdef Found found
    cdef timespec now
    cdef int number
    clock_gettime(CLOCK_REALTIME_COARSE, &now)
    rules.now_ms = now.tv_sec * 1000 + now.tv_nsec // 1_000_000
    rules.keys_required = False
    rules.before_max_ms = rules.after_max_ms = <int64_t> 1 << 62
    rules.has_append_time = False
    rules.has_bounds = True
    for number in range(count):
        if not has_plain_header(<const uint8_t*> buffers[number].iov_base, buffers[number].iov_len, 1 << 20):
            return False
        clear(&found)
        if not is_plain(<uint8_t*> buffers[number].iov_base, buffers[number].iov_len, &rules, &found):
            return False
    return True


cdef inline int32_t records_of(const uint8_t* batch) noexcept nogil:
    return (<int32_t> batch[57] << 24) | (batch[58] << 16) | (batch[59] << 8) | batch[60]


cdef void add_entry(Partition* partition, int64_t offset, int64_t position) noexcept nogil:
    cdef Entry* more
    if position - partition.indexed_bytes < INDEX_EVERY_BYTES:
        return
    if partition.entry_count == partition.entry_room:
        more = <Entry*> realloc(partition.entries, (2 * partition.entry_room + 1024) * sizeof(Entry))
        if more == NULL:
            return
        partition.entries = more
        partition.entry_room = 2 * partition.entry_room + 1024
    partition.entries[partition.entry_count] = Entry(offset, position)
    partition.entry_count += 1
    partition.indexed_bytes = position


cdef int64_t find(Partition* partition, int64_t offset) noexcept nogil:
    """The position of the last entry at or before the offset; -1 when there is none."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = partition.entry_count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if partition.entries[middle].offset <= offset:
            low = middle + 1
        else:
            high = middle
    return partition.entries[low - 1].position if low and offset < partition.next_offset else -1


cdef bint make_room(Connection* connection, int64_t frame_bytes) noexcept nogil:
    cdef uint8_t* more
    if frame_bytes <= <int64_t> connection.room_bytes:
        return True
    more = <uint8_t*> realloc(connection.room, frame_bytes)
    if more == NULL:
        return False
    connection.room, connection.room_bytes = more, frame_bytes
    return True


cdef void forget(int poller, Connection* connection) noexcept nogil:
    epoll_ctl(poller, EPOLL_CTL_DEL, connection.socket, NULL)
    close(connection.socket)
    free(connection.room)
    free(connection)


def add_connection(int poller, int socket, int number):
    """Let the thread of that epoll own the socket from now on."""
    cdef epoll_event event
    cdef Connection* connection = <Connection*> calloc(1, sizeof(Connection))
    if connection == NULL:
        raise MemoryError
    connection.room = <uint8_t*> malloc(ROOM_BYTES)
    if connection.room == NULL:
        free(connection)
        raise MemoryError
    connection.room_bytes = ROOM_BYTES
    connection.socket, connection.number = socket, number
    event.events = EPOLLIN
    event.data.ptr = connection
    if epoll_ctl(poller, EPOLL_CTL_ADD, socket, &event):
        raise OSError(errno, "epoll_ctl")


def new_poller():
    return epoll_create1(0)

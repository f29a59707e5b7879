# The native twin of arrow_rows.py, a part of _append.pyx: it writes from Arrow's memory into batches.
#
# Addresses come from arrow_columns.py, which has checked types, lengths and ends; the arrays are kept alive by `rows`.
# The interpreter lock is held throughout, because it is the lock of batches and topics; a piece has at most
# ROWS_AT_ONCE rows for that reason.

from libc.stdlib cimport free, realloc
from libc.stdint cimport uintptr_t

cdef struct Column:
    const uint8_t* validity    # NULL: no nulls
    Py_ssize_t first_bit
    const uint8_t* at          # ends of bytes and lists, or the numbers themselves
    const uint8_t* content
    bint is_wide
    bint is_there


cdef int describe(Column* column, layout) except -1:
    column.is_there = layout is not None
    if layout is None:
        return 0
    column.validity = <const uint8_t*> <uintptr_t> layout[0]
    column.first_bit = layout[1]
    column.at = <const uint8_t*> <uintptr_t> layout[2]
    column.is_wide = len(layout) > 3 and layout[3]
    column.content = <const uint8_t*> <uintptr_t> layout[4] if len(layout) > 4 else NULL
    return 0


cdef inline bint is_null(const Column* column, Py_ssize_t row) noexcept:
    cdef Py_ssize_t bit = column.first_bit + row
    return column.validity != NULL and not (column.validity[bit >> 3] >> (bit & 7)) & 1


cdef inline int64_t end_at(const Column* column, Py_ssize_t row) noexcept:
    return (<const int64_t*> column.at)[row] if column.is_wide else (<const int32_t*> column.at)[row]


cdef inline Py_ssize_t bytes_at(const Column* column, Py_ssize_t row, const uint8_t** start) noexcept:
    """The length of a value and where it begins; -1 for a null, and for a column that is not there."""
    cdef int64_t first
    if not column.is_there or is_null(column, row):
        return -1
    first = end_at(column, row)
    start[0] = column.content + first
    return <Py_ssize_t> (end_at(column, row + 1) - first)


cdef inline uint8_t* put_bytes(uint8_t* at, const uint8_t* start, Py_ssize_t length) noexcept:
    at = put_varint(at, zigzag(length))
    if length > 0:
        memcpy(at, start, length)
        at += length
    return at


cdef class RowWriter:
    """The rows of one piece of a table, and the states of the topics they name."""

    cdef object rows
    cdef list states
    cdef int64_t now_ms
    cdef Py_ssize_t count
    cdef Column key
    cdef Column value
    cdef Column header_lists
    cdef Column header_keys
    cdef Column header_values
    cdef Column partition
    cdef Column time_ms
    cdef Column topic_places
    cdef uint8_t* headers
    cdef Py_ssize_t headers_capacity

    def __init__(self, rows, states, int64_t now_ms):
        layouts = rows.layouts()
        self.rows = rows
        self.states = list(states)
        self.now_ms = now_ms
        self.count = rows.count
        describe(&self.key, layouts.key)
        describe(&self.value, layouts.value)
        describe(&self.header_lists, layouts.header_lists)
        describe(&self.header_keys, layouts.header_keys)
        describe(&self.header_values, layouts.header_values)
        describe(&self.partition, layouts.partition)
        describe(&self.time_ms, layouts.time_ms)
        describe(&self.topic_places, layouts.topic_places)

    def __dealloc__(self):
        free(self.headers)

    def put(self, Py_ssize_t start, list runs):
        """Write rows from `start` on until one finds no room; gives the index of that one, or the count."""
        cdef Py_ssize_t row = start
        cdef Py_ssize_t key_length, value_length, headers_length
        cdef const uint8_t* key_at = NULL
        cdef const uint8_t* value_at = NULL
        cdef TopicState state = self.states[0]
        cdef ProducerBatch batch
        cdef Delivery delivery = None
        cdef int32_t first = 0
        cdef int32_t count = 0
        try:
            while row < self.count:
                if self.topic_places.is_there:
                    state = self.states[(<const int32_t*> self.topic_places.at)[row]]
                key_length = bytes_at(&self.key, row, &key_at)
                value_length = bytes_at(&self.value, row, &value_at)
                headers_length = self.encode_headers_of(row)
                batch = state.place(key_at, key_length, value_at, value_length, self.headers, headers_length,
                                    self.time_of_row(row), self.partition_of_row(row))
                if batch is None:
                    break
                if batch.delivery is delivery and batch.record_count == first + count + 1:
                    count += 1
                elif runs is not None:
                    if count:
                        runs.append((delivery, first, count))
                    delivery = batch.delivery
                    first = batch.record_count - 1
                    count = 1
                row += 1
        finally:
            if count:
                runs.append((delivery, first, count))
        return row

    cdef inline int64_t time_of_row(self, Py_ssize_t row) noexcept:
        cdef int64_t found = -1
        if self.time_ms.is_there and not is_null(&self.time_ms, row):
            found = (<const int64_t*> self.time_ms.at)[row]
        return self.now_ms if found < 0 else found

    cdef inline int32_t partition_of_row(self, Py_ssize_t row) noexcept:
        if not self.partition.is_there or is_null(&self.partition, row):
            return -1
        return (<const int32_t*> self.partition.at)[row]

    cdef Py_ssize_t encode_headers_of(self, Py_ssize_t row) except -1:
        """Count and headers of a row into our own memory, as they stand in a record; gives their length."""
        cdef Py_ssize_t index, length
        cdef Py_ssize_t entry = 0
        cdef Py_ssize_t end = 0
        cdef Py_ssize_t bound = 10
        cdef const uint8_t* start = NULL
        cdef uint8_t* at
        if self.header_lists.is_there and not is_null(&self.header_lists, row):
            entry = <Py_ssize_t> end_at(&self.header_lists, row)
            end = <Py_ssize_t> end_at(&self.header_lists, row + 1)
        for index in range(entry, end):
            bound += 20 + bytes_at(&self.header_keys, index, &start) + bytes_at(&self.header_values, index, &start)
        self.reserve(bound)
        at = put_varint(self.headers, zigzag(end - entry))
        for index in range(entry, end):
            length = bytes_at(&self.header_keys, index, &start)
            at = put_bytes(at, start, length)
            length = bytes_at(&self.header_values, index, &start)
            at = put_bytes(at, start, length)
        return at - self.headers

    cdef int reserve(self, Py_ssize_t size) except -1:
        cdef void* memory
        if size > self.headers_capacity:
            memory = realloc(self.headers, 2 * size)
            if memory == NULL:
                raise MemoryError(f"{size} bytes for the headers of one record")
            self.headers = <uint8_t*> memory
            self.headers_capacity = 2 * size
        return 0

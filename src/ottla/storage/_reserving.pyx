# cython: language_level=3, boundscheck=False, wraparound=False, binding=False, embedsignature=True
"""The native twin of reserving.py: asks the system for room that the standard library cannot ask for.

Only ext4 is asked, because there it was measured to help. `os.posix_fallocate` would not do: it moves the end of the
file, and the end of a log is where its records end.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #if defined(__linux__)
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/vfs.h>
    #define OTTLA_EXT4 0xEF53
    static int ottla_reserve(int number, int64_t position, int64_t size) {
        struct statfs where;
        int result;
        if (fstatfs(number, &where) != 0 || where.f_type != OTTLA_EXT4) return 0;
        do {
            result = fallocate(number, 0x01 /* FALLOC_FL_KEEP_SIZE */, position, size);
        } while (result != 0 && errno == EINTR);
        return result == 0;
    }
    #else
    static int ottla_reserve(int number, int64_t position, int64_t size) { return 0; }
    #endif
    """
    int ottla_reserve(int number, int64_t position, int64_t size) nogil


def reserve(int number, int64_t position, int64_t size_bytes):
    """Ask for room from `position` on, behind the end of a file; False when there is none to be had."""
    cdef int is_reserved
    with nogil:
        is_reserved = ottla_reserve(number, position, size_bytes)
    return is_reserved != 0

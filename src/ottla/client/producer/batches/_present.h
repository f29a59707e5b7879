/* The present time in milliseconds, for the timestamp of a record; with the interpreter lock held.
 *
 * A look at the system's clock takes 26 ns here, a seventh of all that a small record costs, and a millisecond has room
 * for thousands of records. So the counter of the processor, which takes 11, says whether the millisecond of the last
 * look can be over:
 *
 * 1. A look finds the millisecond and how much of it is left. Until seven eighths of that have passed by the counter,
 *    the answer is the same; then the clock is asked again. So the answer is what the clock would say, unless somebody
 *    sets the clock: that is seen a millisecond later at most.
 * 2. How fast the counter counts is measured against the clock that nobody sets, over 10 ms at first and a second from
 *    then on. Until it is known the clock is asked every time.
 * 3. A counter that jumped, either way, is a large unsigned difference: the clock is asked.
 * 4. Where the processor does not promise that its counter counts evenly, or on other systems, the clock is always
 *    asked.
 */
#ifndef OTTLA_PRESENT_H
#define OTTLA_PRESENT_H

#include <stdint.h>
#include <time.h>

#if defined(_WIN32)

#include <windows.h>
static int64_t ottla_present_ms(void) {
    FILETIME file_time; ULARGE_INTEGER ticks;
    GetSystemTimeAsFileTime(&file_time);
    ticks.LowPart = file_time.dwLowDateTime; ticks.HighPart = file_time.dwHighDateTime;
    return (int64_t)(ticks.QuadPart / 10000) - 11644473600000LL;
}

#elif defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)

#include <cpuid.h>

#define OTTLA_MS_NS 1000000LL
#define OTTLA_FIRST_MEASURE_NS (10 * OTTLA_MS_NS)
#define OTTLA_MEASURE_NS (1000 * OTTLA_MS_NS)
#define OTTLA_UNDISTURBED_COUNTS 20000u /* about 8 us: nobody took the processor away between two readings */

static struct {
    int64_t ms;            /* what the last look found, */
    uint64_t since;        /* with the counter here, */
    uint64_t valid_counts; /* and for how long it holds */
    uint64_t begin_count;  /* a measurement of the counter's speed begins here, */
    int64_t begin_ns;      /* at this time */
    double counts_per_ns;  /* 0: not known yet */
    int is_even;           /* 1: the processor promises it, -1: it does not, 0: nobody has asked */
} ottla_present;

static int ottla_counter_is_even(void) {
    unsigned int a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8)) ? 1 : -1;
}

static void ottla_measure_counter(uint64_t count) {
    struct timespec now;
    int64_t ns, passed_ns;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (__builtin_ia32_rdtsc() - count > OTTLA_UNDISTURBED_COUNTS) return;
    ns = (int64_t)now.tv_sec * 1000 * OTTLA_MS_NS + now.tv_nsec;
    passed_ns = ns - ottla_present.begin_ns;
    if (ottla_present.begin_ns != 0) {
        if (passed_ns < (ottla_present.counts_per_ns > 0 ? OTTLA_MEASURE_NS : OTTLA_FIRST_MEASURE_NS)) return;
        ottla_present.counts_per_ns = (double)(count - ottla_present.begin_count) / (double)passed_ns;
    }
    ottla_present.begin_ns = ns;
    ottla_present.begin_count = count;
}

static int64_t ottla_look_at_clock(uint64_t count) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    ottla_present.ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / OTTLA_MS_NS;
    ottla_present.valid_counts = 0;
    if (ottla_present.is_even == 0) ottla_present.is_even = ottla_counter_is_even();
    if (ottla_present.is_even < 0) return ottla_present.ms;
    ottla_measure_counter(__builtin_ia32_rdtsc());
    /* From before the look on: whatever came between makes the time that it holds shorter. */
    ottla_present.since = count;
    ottla_present.valid_counts =
        (uint64_t)((double)(OTTLA_MS_NS - now.tv_nsec % OTTLA_MS_NS) * ottla_present.counts_per_ns * 0.875);
    return ottla_present.ms;
}

static inline int64_t ottla_present_ms(void) {
    uint64_t count = __builtin_ia32_rdtsc();
    if (count - ottla_present.since < ottla_present.valid_counts) return ottla_present.ms;
    return ottla_look_at_clock(count);
}

#else

static int64_t ottla_present_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
#endif

/* CRC-32C for the native record codec: the CPU's own instruction where there is one, tables everywhere else.
 *
 * 1. ottla_crc32c_prepare() is called once, at import, before any sum is taken; after that everything is read-only.
 * 2. Both ways give the same sums as checksum.py, on any byte order.
 * 3. The instruction takes three cycles but one can start each cycle, so long inputs run as three streams side by
 *    side; their registers are joined by "what would N zero bytes have done to this register", which is linear over
 *    single bits and so fits in four tables of 256 entries per N.
 */
#ifndef OTTLA_CRC32C_H
#define OTTLA_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if (defined(__x86_64__) || defined(_M_X64))
#  define OTTLA_CRC_HARDWARE 1
#  include <nmmintrin.h>
#  if defined(_MSC_VER) && !defined(__clang__)
#    include <intrin.h>
#    define OTTLA_CRC_TARGET
static int ottla_cpu_has_crc(void) { int facts[4]; __cpuid(facts, 1); return (facts[2] >> 20) & 1; }
#  else
#    define OTTLA_CRC_TARGET __attribute__((target("sse4.2")))
static int ottla_cpu_has_crc(void) { __builtin_cpu_init(); return __builtin_cpu_supports("sse4.2") != 0; }
#  endif
#  define OTTLA_CRC_EIGHT(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#  define OTTLA_CRC_ONE(crc, byte) _mm_crc32_u8((crc), (byte))
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32) && !defined(__AARCH64EB__)
#  define OTTLA_CRC_HARDWARE 1
#  include <arm_acle.h>
#  define OTTLA_CRC_TARGET
static int ottla_cpu_has_crc(void) { return 1; }
#  define OTTLA_CRC_EIGHT(crc, word) __crc32cd((crc), (word))
#  define OTTLA_CRC_ONE(crc, byte) __crc32cb((crc), (byte))
#else
#  define OTTLA_CRC_HARDWARE 0
#endif

#define OTTLA_CRC_POLYNOMIAL 0x82F63B78u
#define OTTLA_CRC_LONG 2048
#define OTTLA_CRC_SHORT 256

static uint32_t ottla_crc_table[8][256];
static uint32_t ottla_crc_over_long[4][256];
static uint32_t ottla_crc_over_short[4][256];
static int ottla_crc_in_hardware = 0;

static uint32_t ottla_crc_times(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (; vector; vector >>= 1, matrix++)
        if (vector & 1) sum ^= *matrix;
    return sum;
}

/* Tables for "run the register over `zeros` zero bytes"; zeros is a power of two. */
static void ottla_crc_prepare_shift(uint32_t table[4][256], size_t zeros) {
    uint32_t matrix[32], square[32];
    int bit, lane, byte;
    matrix[0] = OTTLA_CRC_POLYNOMIAL; /* one zero bit */
    for (bit = 1; bit < 32; bit++) matrix[bit] = 1u << (bit - 1);
    for (zeros *= 8; zeros > 1; zeros >>= 1) {
        for (bit = 0; bit < 32; bit++) square[bit] = ottla_crc_times(matrix, matrix[bit]);
        memcpy(matrix, square, sizeof matrix);
    }
    for (lane = 0; lane < 4; lane++)
        for (byte = 0; byte < 256; byte++)
            table[lane][byte] = ottla_crc_times(matrix, (uint32_t)byte << (8 * lane));
}

static void ottla_crc32c_prepare(void) {
    int byte, step, lane;
    for (byte = 0; byte < 256; byte++) {
        uint32_t crc = (uint32_t)byte;
        for (step = 0; step < 8; step++) crc = (crc >> 1) ^ ((crc & 1) ? OTTLA_CRC_POLYNOMIAL : 0);
        ottla_crc_table[0][byte] = crc;
    }
    for (lane = 1; lane < 8; lane++)
        for (byte = 0; byte < 256; byte++) {
            uint32_t crc = ottla_crc_table[lane - 1][byte];
            ottla_crc_table[lane][byte] = (crc >> 8) ^ ottla_crc_table[0][crc & 0xFF];
        }
    ottla_crc_prepare_shift(ottla_crc_over_long, OTTLA_CRC_LONG);
    ottla_crc_prepare_shift(ottla_crc_over_short, OTTLA_CRC_SHORT);
#if OTTLA_CRC_HARDWARE
    ottla_crc_in_hardware = ottla_cpu_has_crc();
#endif
}

static uint32_t ottla_crc32c_portable(uint32_t value, const uint8_t *data, size_t length) {
    uint32_t crc = ~value;
    for (; length >= 8; data += 8, length -= 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = ottla_crc_table[7][crc & 0xFF] ^ ottla_crc_table[6][(crc >> 8) & 0xFF] ^
              ottla_crc_table[5][(crc >> 16) & 0xFF] ^ ottla_crc_table[4][crc >> 24] ^
              ottla_crc_table[3][data[4]] ^ ottla_crc_table[2][data[5]] ^
              ottla_crc_table[1][data[6]] ^ ottla_crc_table[0][data[7]];
    }
    for (; length; data++, length--) crc = (crc >> 8) ^ ottla_crc_table[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

#if OTTLA_CRC_HARDWARE
static inline uint64_t ottla_crc_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

static inline uint32_t ottla_crc_shift(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 0xFF] ^ table[1][(crc >> 8) & 0xFF] ^ table[2][(crc >> 16) & 0xFF] ^ table[3][crc >> 24];
}

OTTLA_CRC_TARGET static inline uint32_t ottla_crc_three(uint32_t crc, const uint8_t *data, size_t block,
                                                        uint32_t table[4][256]) {
    uint32_t second = 0, third = 0;
    const uint8_t *end = data + block;
    for (; data < end; data += 8) {
        crc = OTTLA_CRC_EIGHT(crc, ottla_crc_word(data));
        second = OTTLA_CRC_EIGHT(second, ottla_crc_word(data + block));
        third = OTTLA_CRC_EIGHT(third, ottla_crc_word(data + 2 * block));
    }
    crc = ottla_crc_shift(table, crc) ^ second;
    return ottla_crc_shift(table, crc) ^ third;
}

OTTLA_CRC_TARGET static uint32_t ottla_crc32c_hardware(uint32_t value, const uint8_t *data, size_t length) {
    uint32_t crc = ~value;
    for (; length >= 3 * OTTLA_CRC_LONG; data += 3 * OTTLA_CRC_LONG, length -= 3 * OTTLA_CRC_LONG)
        crc = ottla_crc_three(crc, data, OTTLA_CRC_LONG, ottla_crc_over_long);
    for (; length >= 3 * OTTLA_CRC_SHORT; data += 3 * OTTLA_CRC_SHORT, length -= 3 * OTTLA_CRC_SHORT)
        crc = ottla_crc_three(crc, data, OTTLA_CRC_SHORT, ottla_crc_over_short);
    for (; length >= 8; data += 8, length -= 8) crc = OTTLA_CRC_EIGHT(crc, ottla_crc_word(data));
    for (; length; data++, length--) crc = OTTLA_CRC_ONE(crc, *data);
    return ~crc;
}
#endif

static uint32_t ottla_crc32c(uint32_t value, const uint8_t *data, size_t length) {
#if OTTLA_CRC_HARDWARE
    if (ottla_crc_in_hardware) return ottla_crc32c_hardware(value, data, length);
#endif
    return ottla_crc32c_portable(value, data, length);
}

#endif

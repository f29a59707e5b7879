/* MD5 (RFC 1321) of one piece of memory, for hashing keys without the interpreter lock. Not for secrets. */

#ifndef OTTLA_MD5_H
#define OTTLA_MD5_H

#include <stdint.h>
#include <string.h>

static const uint32_t ottla_md5_sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static inline uint32_t ottla_md5_rotated(uint32_t value, int bits) {
    return (value << bits) | (value >> (32 - bits));
}

static inline uint32_t ottla_md5_word(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

#define OTTLA_MD5_STEP(mixed, a, b, word, step, bits) \
    a = b + ottla_md5_rotated(a + (mixed) + (word) + ottla_md5_sines[step], bits)

#define OTTLA_MD5_F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define OTTLA_MD5_G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define OTTLA_MD5_H_(x, y, z) ((x) ^ (y) ^ (z))
#define OTTLA_MD5_I(x, y, z) ((y) ^ ((x) | ~(z)))

/* Four steps with the four registers in turn; `mul` and `add` say which word a step takes. */
#define OTTLA_MD5_FOUR(mix, step, mul, add, s0, s1, s2, s3) \
    OTTLA_MD5_STEP(mix(b, c, d), a, b, words[((step) * mul + add) & 15], (step), s0); \
    OTTLA_MD5_STEP(mix(a, b, c), d, a, words[((step + 1) * mul + add) & 15], (step + 1), s1); \
    OTTLA_MD5_STEP(mix(d, a, b), c, d, words[((step + 2) * mul + add) & 15], (step + 2), s2); \
    OTTLA_MD5_STEP(mix(c, d, a), b, c, words[((step + 3) * mul + add) & 15], (step + 3), s3)

#define OTTLA_MD5_ROUND(mix, step, mul, add, s0, s1, s2, s3) \
    OTTLA_MD5_FOUR(mix, step, mul, add, s0, s1, s2, s3); \
    OTTLA_MD5_FOUR(mix, step + 4, mul, add, s0, s1, s2, s3); \
    OTTLA_MD5_FOUR(mix, step + 8, mul, add, s0, s1, s2, s3); \
    OTTLA_MD5_FOUR(mix, step + 12, mul, add, s0, s1, s2, s3)

static void ottla_md5_block(uint32_t *state, const uint8_t *block) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t words[16];
    for (int i = 0; i < 16; i++)
        words[i] = ottla_md5_word(block + 4 * i);
    OTTLA_MD5_ROUND(OTTLA_MD5_F, 0, 1, 0, 7, 12, 17, 22);
    OTTLA_MD5_ROUND(OTTLA_MD5_G, 16, 5, 1, 5, 9, 14, 20);
    OTTLA_MD5_ROUND(OTTLA_MD5_H_, 32, 3, 5, 4, 11, 16, 23);
    OTTLA_MD5_ROUND(OTTLA_MD5_I, 48, 7, 0, 6, 10, 15, 21);
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* `digest` has room for 16 bytes. */
static void ottla_md5(const uint8_t *data, size_t length, uint8_t *digest) {
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint8_t tail[128] = {0};
    uint64_t bits = (uint64_t)length * 8;
    size_t left = length;
    for (; left >= 64; left -= 64, data += 64)
        ottla_md5_block(state, data);
    if (left)
        memcpy(tail, data, left);
    tail[left] = 0x80;
    size_t tail_bytes = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++)
        tail[tail_bytes - 8 + i] = (uint8_t)(bits >> (8 * i));
    ottla_md5_block(state, tail);
    if (tail_bytes == 128)
        ottla_md5_block(state, tail + 64);
    for (int i = 0; i < 16; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (8 * (i % 4)));
}

#endif

/* Some bytes at once: 16 with SSE2 or NEON, 8 in a word where there is neither.

   What is asked of each byte is answered by a match; its `Bits` are zero where there is none. In a word a byte above a
   match may seem to match as well: only the place of the first one, and whether there is any, can be relied upon. */

#ifndef INGEST_NATIVE_VECTORS_H
#define INGEST_NATIVE_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) && !defined(INGEST_PORTABLE)
#include <emmintrin.h>
#define VECTORS 1
typedef __m128i Vector;
typedef unsigned Bits;
enum { VECTOR_BYTES = 16 };

static inline Vector vector_at(const char *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline Vector vector_or(Vector a, Vector b) { return _mm_or_si128(a, b); }
static inline Vector vector_and(Vector a, Vector b) { return _mm_and_si128(a, b); }
static inline Vector vector_is(Vector v, char c) { return _mm_cmpeq_epi8(v, _mm_set1_epi8(c)); }
static inline Vector vector_control(Vector v) { return _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1F)), v); }
static inline bool vector_is_ascii(Vector v) { return !_mm_movemask_epi8(v); }

static inline Bits vector_bits(Vector match) { return (Bits)_mm_movemask_epi8(match); }
static inline Bits vector_unlike(Vector a, Vector b) { return vector_bits(_mm_cmpeq_epi8(a, b)) ^ 0xFFFF; }
static inline int first_place(Bits bits) { return __builtin_ctz(bits); }

#elif defined(__ARM_NEON) && defined(__aarch64__) && !defined(INGEST_PORTABLE)
#include <arm_neon.h>
#define VECTORS 1
typedef uint8x16_t Vector;
typedef uint64_t Bits; /* four for each byte, the first byte's the lowest */
enum { VECTOR_BYTES = 16 };

static inline Vector vector_at(const char *p) { return vld1q_u8((const uint8_t *)p); }
static inline Vector vector_or(Vector a, Vector b) { return vorrq_u8(a, b); }
static inline Vector vector_and(Vector a, Vector b) { return vandq_u8(a, b); }
static inline Vector vector_is(Vector v, char c) { return vceqq_u8(v, vdupq_n_u8((uint8_t)c)); }
static inline Vector vector_control(Vector v) { return vcltq_u8(v, vdupq_n_u8(0x20)); }
static inline bool vector_is_ascii(Vector v) { return vmaxvq_u8(v) < 0x80; }

static inline Bits vector_bits(Vector match)
{
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(match), 4)), 0);
}

static inline Bits vector_unlike(Vector a, Vector b) { return ~vector_bits(vceqq_u8(a, b)); }
static inline int first_place(Bits bits) { return __builtin_ctzll(bits) >> 2; }

#elif __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define VECTORS 1
typedef uint64_t Vector, Bits;
enum { VECTOR_BYTES = 8 };

#define EACH_LANE(c) (0x0101010101010101ULL * (uint8_t)(c))

static inline Vector vector_at(const char *p)
{
    Vector v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline Vector vector_or(Vector a, Vector b) { return a | b; }
static inline Vector vector_and(Vector a, Vector b) { return a & b; }
static inline Vector vector_is(Vector v, char c)
{
    v ^= EACH_LANE(c);
    return (v - EACH_LANE(1)) & ~v & EACH_LANE(0x80);
}
static inline Vector vector_control(Vector v) { return (v - EACH_LANE(0x20)) & ~v & EACH_LANE(0x80); }
static inline bool vector_is_ascii(Vector v) { return !(v & EACH_LANE(0x80)); }

static inline Bits vector_bits(Vector match) { return match; }
static inline Bits vector_unlike(Vector a, Vector b) { return a ^ b; }
static inline int first_place(Bits bits) { return __builtin_ctzll(bits) >> 3; }
#else
#define VECTORS 0
#endif

#endif

// Elementary functions in float32 without library calls, so that compilers turn loops over them into vector code.

#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef union {
    float f;
    int32_t i;
} bits_t;

// To bfloat16, ties to even; NaN stays NaN.
INLINE uint16_t bfloat16(float x) {
    uint32_t bits = (uint32_t)((bits_t){.f = x}).i, even = bits + 0x7FFF + (bits >> 16 & 1);
    return (uint16_t)(((bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x400000 : even) >> 16);
}

// 2^n for n in [-126, 128]; 128 gives infinity.
INLINE float power_of_two(int32_t n) { return ((bits_t){.i = (n + 127) << 23}).f; }

// e^x - 1 = scale * p + (scale - 1), with scale = 2^n and p = e^r - 1 for the rest r in [-ln2/2, ln2/2]: no cancellation
// near 0. x in [-87, 89].
INLINE float expm1_reduced(float x, float *scale) {
    float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; // adding 1.5 * 2^23 rounds to the nearest integer
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    *scale = power_of_two((int32_t)n);
    return p * r * r + r;
}

INLINE float clamp(float x, float low, float high) { return x < low ? low : (x > high ? high : x); } // NaN stays NaN

INLINE float exponential(float x) {
    float scale, p = expm1_reduced(clamp(x, -87.0f, 89.0f), &scale);
    return scale * (1.0f + p); // an infinite scale times a negative p, plus that scale, would be NaN
}

INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

INLINE float hyperbolic_tangent(float x) {
    float scale, p = expm1_reduced(clamp(2.0f * x, -40.0f, 40.0f), &scale);
    float e = scale * p + (scale - 1.0f);
    return e / (e + 2.0f);
}

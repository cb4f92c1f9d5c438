// Rounding to a microscaling format; the PyTorch form is in quant/mx.py.

#pragma once

#include "elementary.h"

#define MXFP8 3, -6, 8, 448.0f // mantissa, least, top and largest of E4M3

// Rounds blocks of 32 to `mantissa` bits above 2^least (evenly spaced below), saturating at `largest`, by OCP's floor rule.
INLINE void mx_round(const float *x, float *y, long blocks, long mantissa, long least, long top, float largest) {
    int drop = 23 - (int)mantissa;
    float spacing = power_of_two((int32_t)(least - mantissa)), normal = power_of_two((int32_t)least);
    for (long b = 0; b < blocks; b++, x += 32, y += 32) {
        int32_t peak = 0;
        for (int i = 0; i < 32; i++) {
            int32_t magnitude = ((bits_t){.f = x[i]}).i & 0x7FFFFFFF;
            peak = magnitude > peak ? magnitude : peak;
        }
        int32_t byte = (peak >> 23) - (int32_t)top;
        byte = peak > 0x7F800000 ? 255 : (byte < 0 ? 0 : byte);
        float divisor = power_of_two((byte > 0 ? byte : 1) - 127);
        float scale = byte == 255 ? ((bits_t){.i = 0x7FC00000}).f : byte ? divisor : ((bits_t){.i = 0x00400000}).f;
        for (int i = 0; i < 32; i++) {
            bits_t s = {.f = clamp(x[i] / divisor, -largest, largest)};
            int32_t sign = s.i & (int32_t)0x80000000;
            s.i &= 0x7FFFFFFF;
            float even = ((s.f / spacing + 12582912.0f) - 12582912.0f) * spacing; // ties to even by the sum's own rounding
            bits_t rounded = {.i = (s.i + (1 << (drop - 1)) - 1 + ((s.i >> drop) & 1)) & -(1 << drop)};
            bits_t value = {.f = s.f < normal ? even : rounded.f};
            value.i |= sign;
            y[i] = value.f * scale;
        }
    }
}

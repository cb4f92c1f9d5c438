#include <math.h>
#include <string.h>

/* Without a branch, so that a block is a few vectors. */
static inline unsigned code(float x, float part) {
    float size = fabsf(x) * part, v = size < 448.0f ? size : 448.0f, low = v * 512.0f;
    unsigned bits, sign;
    memcpy(&bits, &v, 4);
    memcpy(&sign, &x, 4);
    unsigned normal = ((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - 960;
    unsigned below = (unsigned)(int)rintf(low);
    return (v < 0.015625f ? below : normal) | (sign >> 31 << 7);
}

void mxfp8(const float *restrict x, unsigned char *restrict codes, unsigned char *restrict scales, long rows, long blocks) {
    for (long b = 0; b < rows * blocks; b++, x += 32, codes += 32) {
        unsigned most = 0, values[32];
        memcpy(values, x, sizeof values);
#pragma omp simd reduction(max : most)
        for (int i = 0; i < 32; i++) most = (values[i] & 0x7fffffff) > most ? values[i] & 0x7fffffff : most;
        int e = most >> 23, s = e > 8 ? e - 8 : 0;
        unsigned inverse = (unsigned)(254 - (s > 1 ? s : 1)) << 23;
        float part;
        memcpy(&part, &inverse, 4);
        scales[b] = s;
#pragma omp simd
        for (int i = 0; i < 32; i++) codes[i] = code(x[i], part);
    }
}

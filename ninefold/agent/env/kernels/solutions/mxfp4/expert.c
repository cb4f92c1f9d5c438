#include <math.h>
#include <string.h>

/* Without a branch, so that a block is a few vectors. */
static inline unsigned code(float x, float part) {
    float size = fabsf(x) * part, v = size < 6.0f ? size : 6.0f, low = v * 2.0f;
    unsigned bits, sign;
    memcpy(&bits, &v, 4);
    memcpy(&sign, &x, 4);
    unsigned normal = ((bits + 0x1fffff + (bits >> 22 & 1)) >> 22) - 252;
    unsigned below = (unsigned)(int)rintf(low);
    return (v < 1.0f ? below : normal) | (sign >> 31 << 3);
}

void mxfp4(const float *restrict x, unsigned char *restrict codes, unsigned char *restrict scales, long rows, long blocks) {
    for (long b = 0; b < rows * blocks; b++, x += 32, codes += 16) {
        unsigned most = 0, values[32];
        memcpy(values, x, sizeof values);
#pragma omp simd reduction(max : most)
        for (int i = 0; i < 32; i++) most = (values[i] & 0x7fffffff) > most ? values[i] & 0x7fffffff : most;
        int e = most >> 23, s = e > 2 ? e - 2 : 0;
        unsigned inverse = (unsigned)(254 - (s > 1 ? s : 1)) << 23;
        float part;
        memcpy(&part, &inverse, 4);
        scales[b] = s;
        unsigned found[32];
#pragma omp simd
        for (int i = 0; i < 32; i++) found[i] = code(x[i], part);
        for (int i = 0; i < 16; i++) codes[i] = found[2 * i] | found[2 * i + 1] << 4;
    }
}

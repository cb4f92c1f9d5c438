#include <math.h>
#include <string.h>

static inline unsigned char code(float v) {
    if (v > 448.0f) v = 448.0f;
    if (v < 0.015625f) return (unsigned char)lrintf(v * 512.0f);
    unsigned bits;
    memcpy(&bits, &v, 4);
    bits += 0x7ffff + (bits >> 20 & 1);
    return (unsigned char)((bits >> 20) - 960);
}

void mxfp8(const float *restrict x, unsigned char *restrict codes, unsigned char *restrict scales, long rows, long blocks) {
    for (long b = 0; b < rows * blocks; b++, x += 32) {
        float most = 0;
        for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
        int bits;
        memcpy(&bits, &most, 4);
        int s = (bits >> 23) > 8 ? (bits >> 23) - 8 : 0;
        float part = ldexpf(1, 127 - (s > 1 ? s : 1));
        scales[b] = s;
        for (int i = 0; i < 32; i++) codes[b * 32 + i] = code(fabsf(x[i] * part)) | (signbit(x[i]) ? 128 : 0);
    }
}

#include <math.h>
#include <string.h>

static inline unsigned char code(float v) {
    if (v > 6.0f) v = 6.0f;
    if (v < 1.0f) return (unsigned char)lrintf(v * 2.0f);
    unsigned bits;
    memcpy(&bits, &v, 4);
    bits += 0x1fffff + (bits >> 22 & 1);
    return (unsigned char)((bits >> 22) - 252);
}

void mxfp4(const float *restrict x, unsigned char *restrict codes, unsigned char *restrict scales, long rows, long blocks) {
    for (long b = 0; b < rows * blocks; b++, x += 32) {
        float most = 0;
        for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
        int bits;
        memcpy(&bits, &most, 4);
        int s = (bits >> 23) > 2 ? (bits >> 23) - 2 : 0;
        float part = ldexpf(1, 127 - (s > 1 ? s : 1));
        scales[b] = s;
        for (int i = 0; i < 16; i++) {
            unsigned even = code(fabsf(x[2 * i] * part)) | (signbit(x[2 * i]) ? 8 : 0);
            unsigned odd = code(fabsf(x[2 * i + 1] * part)) | (signbit(x[2 * i + 1]) ? 8 : 0);
            codes[b * 16 + i] = even | odd << 4;
        }
    }
}

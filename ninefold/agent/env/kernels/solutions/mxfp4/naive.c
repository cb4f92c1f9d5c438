#include <math.h>

/* The code of |v|, without its sign. */
static unsigned char code(double v) {
    v = fmin(v, 6.0);
    int e;
    frexp(v, &e);
    e = v > 0 && e - 1 > 0 ? e - 1 : 0;
    return (unsigned char)(rint(ldexp(v, 1 - e)) + (e - (0)) * 2);
}

void mxfp4(const float *x, unsigned char *codes, unsigned char *scales, long rows, long blocks) {
    for (long b = 0; b < rows * blocks; b++) {
        double most = 0;
        for (int i = 0; i < 32; i++) most = fmax(most, fabs(x[b * 32 + i]));
        int s = most > 0 ? (int)fmax(0, floor(log2(most)) - 2 + 127) : 0;
        scales[b] = s;
        for (int i = 0; i < 32; i++) {
            double v = ldexp(x[b * 32 + i], 127 - (s > 1 ? s : 1));
            unsigned char c = code(fabs(v)) | (signbit(v) ? 8 : 0);
            codes[b * 16 + i / 2] = i % 2 ? codes[b * 16 + i / 2] | c << 4 : c;
        }
    }
}

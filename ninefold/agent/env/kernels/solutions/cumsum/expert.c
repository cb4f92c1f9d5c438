/* Each sum waits for the one before it: eight rows at a time keep the adders busy. */
enum { TOGETHER = 8 };

void cumsum(const float *restrict x, float *restrict y, long rows, long cols, float decay) {
    long r = 0;
    for (; r + TOGETHER <= rows; r += TOGETHER) {
        const float *from = x + r * cols;
        float *to = y + r * cols, sums[TOGETHER] = {0};
        for (long i = 0; i < cols; i++)
#pragma GCC unroll 8
            for (int t = 0; t < TOGETHER; t++) to[t * cols + i] = sums[t] = decay * sums[t] + from[t * cols + i];
    }
    for (; r < rows; r++) {
        float sum = 0;
        for (long i = 0; i < cols; i++) y[r * cols + i] = sum = decay * sum + x[r * cols + i];
    }
}

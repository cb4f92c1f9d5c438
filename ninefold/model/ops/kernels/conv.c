// Short causal depthwise convolution with SiLU over packed documents; the PyTorch form is in ops/conv.py.
// x [T, C], weight [WIDTH, C], initial [D, WIDTH - 1, C], starts [D + 1]: first token of each document, then T.

#include "elementary.h"

#define WIDTH 4

// Row of the input `back` tokens before token t of document d; before the document it is one of its initial rows.
INLINE long row_of(long t, long back, long d, long start) {
    return t >= back ? start + t - back : (d + 1) * (WIDTH - 1) + t - back;
}

void conv_forward(const float *x, const float *weight, const float *initial, const int64_t *starts, float *y, long D, long C) {
    for (long d = 0; d < D; d++)
        for (long t = 0; t < starts[d + 1] - starts[d]; t++) {
            const float *rows[WIDTH];
            for (long i = 0; i < WIDTH; i++) {
                long back = WIDTH - 1 - i;
                rows[i] = (t >= back ? x : initial) + row_of(t, back, d, starts[d]) * C;
            }
            float *out = y + (starts[d] + t) * C;
#pragma omp simd
            for (long c = 0; c < C; c++) {
                float z = 0.0f;
                for (long i = 0; i < WIDTH; i++) z += weight[i * C + c] * rows[i][c];
                out[c] = z * sigmoid(z);
            }
        }
}

// Adds to d_x, d_weight and d_initial, which hold zeros on entry.
void conv_backward(const float *x, const float *weight, const float *initial, const int64_t *starts, const float *d_y,
                   float *d_x, float *d_weight, float *d_initial, long D, long C) {
    for (long d = 0; d < D; d++)
        for (long t = 0; t < starts[d + 1] - starts[d]; t++) {
            const float *rows[WIDTH], *dy = d_y + (starts[d] + t) * C;
            float *d_rows[WIDTH];
            for (long i = 0; i < WIDTH; i++) {
                long back = WIDTH - 1 - i, row = row_of(t, back, d, starts[d]);
                rows[i] = (t >= back ? x : initial) + row * C;
                d_rows[i] = (t >= back ? d_x : d_initial) + row * C;
            }
#pragma omp simd
            for (long c = 0; c < C; c++) {
                float z = 0.0f;
                for (long i = 0; i < WIDTH; i++) z += weight[i * C + c] * rows[i][c];
                float s = sigmoid(z), dz = dy[c] * s * (1.0f + z * (1.0f - s));
                for (long i = 0; i < WIDTH; i++) {
                    d_rows[i][c] += weight[i * C + c] * dz;
                    d_weight[i * C + c] += rows[i][c] * dz;
                }
            }
        }
}

// Small dense products whose results stay in registers.

#pragma once

#include "elementary.h"

#ifdef __AVX512F__
#define WIDE 16
#else
#define WIDE 8
#endif
#define TALL 4 // rows of one block

typedef float wide_t __attribute__((vector_size(WIDE * sizeof(float)), aligned(sizeof(float)), may_alias));

// y [rows, columns * WIDE] (+)= x [rows, depth] w [depth, pitch], rows by pointer; both extents at most 4 and constant.
INLINE void product_block(long rows, long columns, long depth, const float *const *x, const float *w, long pitch,
                          float *const *y, long offset, int add) {
    wide_t sum[TALL][4];
    for (long r = 0; r < rows; r++)
        for (long c = 0; c < columns; c++) sum[r][c] = (wide_t){0.0f};
    for (long i = 0; i < depth; i++, w += pitch)
        for (long c = 0; c < columns; c++) {
            wide_t weight = *(const wide_t *)(w + c * WIDE);
            for (long r = 0; r < rows; r++) sum[r][c] += x[r][i] * weight;
        }
    for (long r = 0; r < rows; r++)
        for (long c = 0; c < columns; c++) {
            wide_t *out = (wide_t *)(y[r] + offset + c * WIDE);
            if (add) *out += sum[r][c];
            else *out = sum[r][c];
        }
}

// The same for any number of columns that WIDE divides.
INLINE void product_rows(long rows, long depth, long width, const float *const *x, const float *w, float *const *y, int add) {
    long c = 0;
    for (; c + 4 * WIDE <= width; c += 4 * WIDE) product_block(rows, 4, depth, x, w + c, width, y, c, add);
    for (; c + 2 * WIDE <= width; c += 2 * WIDE) product_block(rows, 2, depth, x, w + c, width, y, c, add);
    for (; c < width; c += WIDE) product_block(rows, 1, depth, x, w + c, width, y, c, add);
}

// y [width] = x [depth] w [depth, width]
INLINE void product_row(long depth, long width, const float *x, const float *w, float *y) {
    product_rows(1, depth, width, &x, w, &y, 0);
}

// Sum of x * y by halves: left to itself the compiler adds up a vector's lanes in order, one after the other.
INLINE float dot(long N, const float *x, const float *y) {
    float lane[16] = {0.0f};
    long i = 0;
    for (; i + 16 <= N; i += 16)
#pragma omp simd
        for (long l = 0; l < 16; l++) lane[l] += x[i + l] * y[i + l];
    for (; i < N; i++) lane[i % 16] += x[i] * y[i];
    for (long width = 8; width > 0; width /= 2)
#pragma omp simd
        for (long l = 0; l < width; l++) lane[l] += lane[l + width];
    return lane[0];
}

INLINE float inverse_rms(long N, const float *x, float eps) { return 1.0f / sqrtf(dot(N, x, x) / N + eps); }

// Backward of y = x r weight with r = 1 / rms(x), for one row; adds to d_weight.
INLINE void norm_backward(long N, const float *x, const float *weight, const float *d_y, float eps, float *d_x,
                          float *d_weight) {
    float r = inverse_rms(N, x, eps), scaled[N];
#pragma omp simd
    for (long i = 0; i < N; i++) {
        scaled[i] = d_y[i] * weight[i];
        d_weight[i] += d_y[i] * x[i] * r;
    }
    float radial = dot(N, scaled, x) * r * r / N;
#pragma omp simd
    for (long i = 0; i < N; i++) d_x[i] = r * (scaled[i] - radial * x[i]);
}

// Turns logits [N] into a softmax whose division is left to the caller: the sum that was not divided by.
INLINE float exponentials(long N, float *x) {
    float peak = x[0], mass = 0.0f;
    for (long s = 1; s < N; s++) peak = x[s] > peak ? x[s] : peak;
#pragma omp simd reduction(+ : mass)
    for (long s = 0; s < N; s++) mass += x[s] = exponential(x[s] - peak);
    return mass;
}

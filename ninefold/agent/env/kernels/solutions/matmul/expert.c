#include <string.h>

/* Tiles of ROWS x 32 results stay in registers while k goes by. */
enum { ROWS = 8, LANES = 16, COLS = 2 * LANES };
typedef float vector __attribute__((vector_size(4 * LANES)));

static inline vector load(const float *from) {
    vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* `stride` is the distance of b's rows; `width` columns are written. */
static inline __attribute__((always_inline)) void tile(const float *a, const float *b, const float *bias, float *y, long n,
                                                       long k, long stride, long width, float alpha, int rows) {
    vector sums[ROWS][2];
    for (int r = 0; r < rows; r++) sums[r][0] = load(bias), sums[r][1] = load(bias + LANES);
    for (long l = 0; l < k; l++) {
        vector left = load(b + l * stride), right = load(b + l * stride + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            sums[r][0] += a[r * k + l] * left;
            sums[r][1] += a[r * k + l] * right;
        }
    }
    for (int r = 0; r < rows; r++) {
        float row[COLS];
        memcpy(row, sums[r], sizeof row);
        for (int c = 0; c < COLS; c++) row[c] = row[c] > 0 ? alpha * row[c] : 0;
        if (width == COLS)
            memcpy(y + r * n, row, sizeof row);
        else
            memcpy(y + r * n, row, width * sizeof(float));
    }
}

static inline __attribute__((always_inline)) void column(const float *a, const float *b, const float *bias, float *y, long m,
                                                         long n, long k, long stride, long width, float alpha) {
    long i = 0;
    for (; i + ROWS <= m; i += ROWS) tile(a + i * k, b, bias, y + i * n, n, k, stride, width, alpha, ROWS);
    for (; i + 2 <= m; i += 2) tile(a + i * k, b, bias, y + i * n, n, k, stride, width, alpha, 2);
    for (; i < m; i++) tile(a + i * k, b, bias, y + i * n, n, k, stride, width, alpha, 1);
}

void matmul(const float *a, const float *b, const float *bias, float *y, long m, long n, long k, float alpha) {
    long j = 0;
    for (; j + COLS <= n; j += COLS) column(a, b + j, bias + j, y + j, m, n, k, n, COLS, alpha);
    if (j == n) return;
    float last[k + 1][COLS] __attribute__((aligned(64)));
    memset(last, 0, sizeof last);
    for (long l = 0; l < k; l++) memcpy(last[l], b + l * n + j, (n - j) * sizeof(float));
    memcpy(last[k], bias + j, (n - j) * sizeof(float));
    column(a, last[0], last[k], y + j, m, n, k, COLS, n - j, alpha);
}

// Matrix product of any two matrices: the second is packed panel by panel.

#include "product.h"

typedef int lanes_t __attribute__((vector_size(WIDE * sizeof(int))));

// to[p][j] = from[j][p] of a square of WIDE: each round swaps one bit of row and column.
INLINE void transpose(const float *from, long along, float *to) {
    lanes_t lane;
    wide_t row[WIDE];
    for (int j = 0; j < WIDE; j++) lane[j] = j, row[j] = *(const wide_t *)(from + j * along);
#pragma GCC unroll 4
    for (int bit = 1; bit < WIDE; bit *= 2) {
        lanes_t odd = (lane & bit) != 0, other = lane ^ bit;
        lanes_t upper = (odd & (other + WIDE)) | (~odd & lane), lower = (odd & (lane + WIDE)) | (~odd & other);
#pragma GCC unroll 16
        for (int j = 0; j < WIDE; j++)
            if (!(j & bit)) {
                wide_t first = row[j], second = row[j | bit];
                row[j] = __builtin_shuffle(first, second, upper), row[j | bit] = __builtin_shuffle(first, second, lower);
            }
    }
    for (int p = 0; p < WIDE; p++) *(wide_t *)(to + p * PANEL) = row[p];
}

// panel [depth, PANEL] of b [depth, columns], which lies `down` apart by row and `along` by column.
INLINE void pack(long depth, long columns, const float *b, long down, long along, float *panel) {
    for (long j = 0; j < columns; j += WIDE)
        for (long p = 0; p < depth; p += WIDE) {
            const float *from = b + p * down + j * along;
            float *to = panel + p * PANEL + j;
            long wide = columns - j < WIDE ? columns - j : WIDE, tall = depth - p < WIDE ? depth - p : WIDE;
            if (wide == WIDE && tall == WIDE && down == 1) transpose(from, along, to);
            else if (wide == WIDE && along == 1)
                for (long q = 0; q < tall; q++) *(wide_t *)(to + q * PANEL) = *(const wide_t *)(from + q * down);
            else
                for (long q = 0; q < tall; q++)
                    for (long i = 0; i < WIDE; i++) to[q * PANEL + i] = i < wide ? from[q * down + i * along] : 0.0f;
        }
}

// c [M, N] = a [M, K] b [K, N]; a and b lie anyhow, c is dense.
void product(const float *a, const float *b, float *c, long M, long N, long K, long a_row, long a_column, long b_row,
             long b_column) {
    float panel[DEEP * PANEL] __attribute__((aligned(64)));
    if (K == 0) memset(c, 0, M * N * sizeof(float));
    for (long n = 0; n < N; n += PANEL)
        for (long k = 0; k < K; k += DEEP) {
            long columns = N - n < PANEL ? N - n : PANEL, depth = K - k < DEEP ? K - k : DEEP;
            pack(depth, columns, b + k * b_row + n * b_column, b_row, b_column, panel);
            panel_product(M, columns, depth, a + k * a_column, a_row, a_column, panel, c + n, N, k > 0, 0, 0);
        }
}

// y [rows, width] = x [rows, depth] w, which lies in panels; as `project` says.
void panels(const float *x, const float *w, float *y, float *scratch, long rows, long depth, long width, long paired) {
    project(rows, depth, width, x, w, y, (int)paired, scratch);
}

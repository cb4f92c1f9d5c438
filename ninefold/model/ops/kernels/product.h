// Matrix products by tiles whose sums stay in registers. Every element is summed in the order of its terms, whatever else is
// computed with it.

#pragma once

#include "linear.h"

#define HIGH 6 // rows of a tile
#ifdef __AVX512F__
#define BROAD 4 // vectors of a tile
#else
#define BROAD 2
#endif
#define PANEL 64 // columns of the second factor that lie together
#define DEEP 128 // terms for which a panel stays in the nearest cache

// c [rows, columns] (+)= a [rows, depth] panel [depth, PANEL]: a lies `down` apart by row and `along` by term, c `pitch` by row.
INLINE void tile(long rows, long vectors, long columns, long depth, const float *a, long down, long along, const float *panel,
                 float *c, long pitch, int add) {
    wide_t sum[HIGH][BROAD];
    long edge = columns - (vectors - 1) * WIDE; // columns of the last vector
    for (long r = 0; r < rows; r++)
        for (long v = 0; v < vectors; v++) {
            sum[r][v] = (wide_t){0.0f};
            if (add) memcpy(&sum[r][v], c + r * pitch + v * WIDE, (v + 1 < vectors ? WIDE : edge) * sizeof(float));
        }
    for (long p = 0; p < depth; p++, panel += PANEL)
#pragma GCC unroll 6
        for (long r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (long v = 0; v < vectors; v++) sum[r][v] += a[r * down + p * along] * *(const wide_t *)(panel + v * WIDE);
    for (long r = 0; r < rows; r++)
        for (long v = 0; v < vectors; v++)
            memcpy(c + r * pitch + v * WIDE, &sum[r][v], (v + 1 < vectors ? WIDE : edge) * sizeof(float));
}

INLINE void tiles(long vectors, long rows, long columns, long depth, const float *a, long down, long along, const float *panel,
                  float *c, long pitch, int add) {
    long r = 0;
    for (; r + HIGH <= rows; r += HIGH)
        tile(HIGH, vectors, columns, depth, a + r * down, down, along, panel, c + r * pitch, pitch, add);
    for (; r + 2 <= rows; r += 2) tile(2, vectors, columns, depth, a + r * down, down, along, panel, c + r * pitch, pitch, add);
    if (r < rows) tile(1, vectors, columns, depth, a + r * down, down, along, panel, c + r * pitch, pitch, add);
}

// The same for a whole panel and any number of rows.
static void panel_product(long rows, long columns, long depth, const float *a, long down, long along, const float *panel, float *c,
                          long pitch, int add) {
    for (; columns > 0; columns -= BROAD * WIDE, panel += BROAD * WIDE, c += BROAD * WIDE)
        switch ((columns + WIDE - 1) / WIDE) {
        case 1: tiles(1, rows, columns, depth, a, down, along, panel, c, pitch, add); break;
#if BROAD == 4
        case 2: tiles(2, rows, columns, depth, a, down, along, panel, c, pitch, add); break;
        case 3: tiles(3, rows, columns, depth, a, down, along, panel, c, pitch, add); break;
#endif
        default: tiles(BROAD, rows, BROAD * WIDE < columns ? BROAD * WIDE : columns, depth, a, down, along, panel, c, pitch, add);
        }
}

// Matrix products by tiles whose sums stay in registers. Every element is summed in the order of its terms, whatever else is
// computed with it. A lane of a factor is a number in float32 or, where factors are `paired`, two in bfloat16 that follow each
// other in depth, the first in the lower half.

#pragma once

#include "linear.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#define HIGH 6 // rows of a tile
#ifdef __AVX512F__
#define BROAD 4 // vectors of a tile
#else
#define BROAD 2
#endif
#define PANEL 64 // columns of the second factor that lie together
#define DEEP 128 // lanes of depth for which a panel stays in the nearest cache

typedef uint32_t pairs_t __attribute__((vector_size(WIDE * sizeof(uint32_t))));

// sum + a w of one lane of a
INLINE wide_t term(wide_t sum, const float *a, wide_t w, int paired) {
    if (!paired) return sum + *a * w;
    uint32_t pair;
    memcpy(&pair, a, sizeof pair);
    pairs_t x = pair + (pairs_t){0}, y = (pairs_t)w;
#ifdef __AVX512BF16__
    return (wide_t)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y);
#else
    sum += (wide_t)(x << 16) * (wide_t)(y << 16);
    return sum + (wide_t)(x & 0xffff0000) * (wide_t)(y & 0xffff0000);
#endif
}

// The first `count` of a vector. Sums are never addressed themselves: the compiler would keep them in memory.
INLINE wide_t read_some(const float *from, long count) {
    if (count == WIDE) return *(const wide_t *)from;
    float some[WIDE] = {0.0f};
    memcpy(some, from, count * sizeof(float));
    return *(const wide_t *)some;
}

INLINE void write_some(wide_t x, float *to, long count) {
    if (count == WIDE) *(wide_t *)to = x;
    else memcpy(to, &x, count * sizeof(float));
}

// c [rows, columns] (+)= a [rows, depth] panel [depth, PANEL]: a lies `down` apart by row and `along` by lane, c `pitch` by row.
// Every `every`th lane of depth from `due` on, what lies DEEP lanes behind in the panels is fetched.
INLINE void tile(long rows, long vectors, long columns, long depth, const float *a, long down, long along, const float *panel,
                 float *c, long pitch, int add, int paired, long due, long every) {
    wide_t sum[HIGH][BROAD];
    long edge = columns - (vectors - 1) * WIDE; // columns of the last vector
    for (long r = 0; r < rows; r++)
        for (long v = 0; v < vectors; v++)
            sum[r][v] = add ? read_some(c + r * pitch + v * WIDE, v + 1 < vectors ? WIDE : edge) : (wide_t){0.0f};
    for (long p = 0; p < depth; p++, panel += PANEL) {
        if (p == due) {
            for (long v = 0; v < vectors; v++) __builtin_prefetch(panel + DEEP * PANEL + v * WIDE);
            due += every;
        }
#pragma GCC unroll 6
        for (long r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (long v = 0; v < vectors; v++)
                sum[r][v] = term(sum[r][v], a + r * down + p * along, *(const wide_t *)(panel + v * WIDE), paired);
    }
    for (long r = 0; r < rows; r++)
        for (long v = 0; v < vectors; v++) write_some(sum[r][v], c + r * pitch + v * WIDE, v + 1 < vectors ? WIDE : edge);
}

INLINE void tiles(long vectors, long rows, long columns, long depth, const float *a, long down, long along, const float *panel,
                  float *c, long pitch, int add, int paired, int ahead) {
    long few = rows % HIGH, every = rows / HIGH + few / 2 + few % 2, due = ahead ? 0 : depth, r = 0;
#define ROWS(count) \
    tile(count, vectors, columns, depth, a + r * down, down, along, panel, c + r * pitch, pitch, add, paired, due++, every)
    for (; r + HIGH <= rows; r += HIGH) ROWS(HIGH);
    for (; r + 2 <= rows; r += 2) ROWS(2);
    if (r < rows) ROWS(1);
#undef ROWS
}

// The same for a whole panel and any number of rows; with `ahead`, the panels' next DEEP lanes are fetched meanwhile.
INLINE void panel_product(long rows, long columns, long depth, const float *a, long down, long along, const float *panel, float *c,
                          long pitch, int add, int paired, int ahead) {
    for (; columns > 0; columns -= BROAD * WIDE, panel += BROAD * WIDE, c += BROAD * WIDE)
        switch ((columns + WIDE - 1) / WIDE) {
        case 1: tiles(1, rows, columns, depth, a, down, along, panel, c, pitch, add, paired, ahead); break;
#if BROAD == 4
        case 2: tiles(2, rows, columns, depth, a, down, along, panel, c, pitch, add, paired, ahead); break;
        case 3: tiles(3, rows, columns, depth, a, down, along, panel, c, pitch, add, paired, ahead); break;
#endif
        default:
            tiles(BROAD, rows, BROAD * WIDE < columns ? BROAD * WIDE : columns, depth, a, down, along, panel, c, pitch, add, paired,
                  ahead);
        }
}

// y [rows, width] = x [rows, depth] w, whose panels lie one behind the other: each is read from memory once for all rows.
INLINE void panels_product(long rows, long depth, long width, const float *x, const float *w, float *y, int paired) {
    for (long c = 0; c < width; c += PANEL, w += depth * PANEL)
        for (long k = 0; k < depth; k += DEEP)
            panel_product(rows, width - c < PANEL ? width - c : PANEL, depth - k < DEEP ? depth - k : DEEP, x + k, depth, 1,
                          w + k * PANEL, y + c, width, k > 0, paired, 1);
}

#ifdef __AMX_BF16__
#include <sys/syscall.h>
#include <unistd.h>

#define SIDE 16 // rows, and lanes of a row, of a tile register

// Whether this process may use the tile registers; Linux wants to be asked.
INLINE int tiles_allowed(void) {
    static int allowed = -1;
    if (allowed < 0) allowed = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
    return allowed;
}

// `panels_product` of paired factors in tile registers; x has rows up to a multiple of SIDE, lanes are one.
static void tile_product(long rows, long lanes, long width, const float *x, const float *w, float *y) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    float out[SIDE * PANEL];
    for (int t = 0; t < 8; t++) shape.bytes[t] = SIDE * sizeof(float), shape.rows[t] = SIDE;
    __asm__ volatile("" ::: "memory"); // loads into tile registers do not say what they read
    _tile_loadconfig(&shape);
    for (long c = 0; c < width; c += PANEL, w += lanes * PANEL)
        for (long r = 0; r < rows; r += SIDE) {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (long k = 0; k < lanes; k += SIDE) {
                const float *panel = w + k * PANEL;
                for (long p = 0; r == 0 && p < SIDE * PANEL; p += WIDE) __builtin_prefetch(panel + DEEP * PANEL + p);
                _tile_loadd(4, x + r * lanes + k, lanes * sizeof(float));
#define COLUMN(sum, weight) \
    _tile_loadd(weight, panel + (sum) * SIDE, PANEL * sizeof(float)); \
    _tile_dpbf16ps(sum, 4, weight)
                COLUMN(0, 5);
                COLUMN(1, 6);
                COLUMN(2, 7);
                COLUMN(3, 5);
#undef COLUMN
            }
            _tile_stored(0, out, PANEL * sizeof(float));
            _tile_stored(1, out + SIDE, PANEL * sizeof(float));
            _tile_stored(2, out + 2 * SIDE, PANEL * sizeof(float));
            _tile_stored(3, out + 3 * SIDE, PANEL * sizeof(float));
            long columns = width - c < PANEL ? width - c : PANEL;
            for (long i = 0; i < SIDE && r + i < rows; i++)
                memcpy(y + (r + i) * width + c, out + i * PANEL, columns * sizeof(float));
        }
    _tile_release();
}
#endif

// y [rows, width] = x [rows, depth] w. Where `paired`, factors and product are rounded to bfloat16, a weight's depth ends with
// zeros up to a multiple of 32, and scratch holds x so and with rows up to a multiple of 16.
static void project(long rows, long depth, long width, const float *x, const float *w, float *y, int paired, float *scratch) {
    if (!paired) {
        panels_product(rows, depth, width, x, w, y, 0);
        return;
    }
    long lanes = (depth + 31) / 32 * 16;
    for (long r = 0; r < rows; r++) {
        uint16_t *row = (uint16_t *)(scratch + r * lanes);
        for (long i = 0; i < depth; i++) row[i] = bfloat16(x[r * depth + i]);
        for (long i = depth; i < 2 * lanes; i++) row[i] = 0;
    }
#ifdef __AMX_BF16__
    if (tiles_allowed()) tile_product(rows, lanes, width, scratch, w, y);
    else
#endif
        panels_product(rows, lanes, width, scratch, w, y, 1);
    for (long i = 0; i < rows * width; i++) y[i] = ((bits_t){.i = (int32_t)((uint32_t)bfloat16(y[i]) << 16)}).f;
}

// A KDA layer between its input and output products: packed documents with gradients, and one token of each row. The
// PyTorch form is in model/kda.py. Packed and stepped tokens take the same functions, so that they round alike.
// x [T, I] holds q, k, v (C channels together), output gate, decay down and beta of each token; J = H K, C = 3 J.

#include "delta.h"
#include "linear.h"

#define BACK 3 // inputs that the convolution looks back on

typedef struct {
    long H, R, K, J, C, I;
} shape_t;

typedef struct {
    const float *conv; // [BACK + 1, C], the last row meets the current token
    const float *up;   // [R, J] of the decay
    const float *bias; // [J] of the decay
    const float *rate; // [H] e^A
    const float *norm; // [K] scale of the heads' norm
    float g_min, eps;  // smallest log-decay; of the heads' norm
} layer_t;

INLINE shape_t shape_of(long H, long R, long K) {
    return (shape_t){H, R, K, H * K, 3 * H * K, 4 * H * K + R + H};
}

INLINE float inverse_length(long K, const float *x) { return 1.0f / sqrtf(dot(K, x, x) + 1e-6f); }

INLINE float convolved(const float *weight, const float *const *rows, long C, long c) {
    return weight[c] * rows[0][c] + weight[C + c] * rows[1][c] + weight[2 * C + c] * rows[2][c] + weight[3 * C + c] * rows[3][c];
}

// From the token's inputs, oldest first, to what the delta rule takes; v comes by the way.
INLINE void prepare(shape_t n, const layer_t *w, const float *const *rows, float *q, float *k, float *v, float *z, float *g,
                    float *beta) {
    const float *down = rows[BACK] + n.C + n.J, *raw = down + n.R;
    float qkv[n.C], root = 1.0f / sqrtf((float)n.K);
#pragma omp simd
    for (long c = 0; c < n.C; c++) {
        float y = convolved(w->conv, rows, n.C, c);
        qkv[c] = y * sigmoid(y);
    }
    memcpy(v, qkv + 2 * n.J, n.J * sizeof(float));
    product_row(n.R, n.J, down, w->up, z);
    for (long h = 0; h < n.H; h++) {
        const float *qh = qkv + h * n.K, *kh = qh + n.J;
        float by_q = inverse_length(n.K, qh) * root, by_k = inverse_length(n.K, kh);
#pragma omp simd
        for (long i = 0; i < n.K; i++) {
            long j = h * n.K + i;
            q[j] = qh[i] * by_q, k[j] = kh[i] * by_k;
            z[j] += w->bias[j];
            g[j] = w->g_min * sigmoid(w->rate[h] * z[j]);
        }
        beta[h] = sigmoid(raw[h]);
    }
}

// y = norm(o) sigmoid(gate), head by head.
INLINE void finish(shape_t n, const layer_t *w, const float *o, const float *gate, float *y) {
    for (long h = 0; h < n.H; h++) {
        const float *oh = o + h * n.K;
        float r = inverse_rms(n.K, oh, w->eps);
#pragma omp simd
        for (long i = 0; i < n.K; i++) y[h * n.K + i] = oh[i] * r * w->norm[i] * sigmoid(gate[h * n.K + i]);
    }
}

// The current token's and the three earlier inputs; those before the document are rows of its window [BACK, C].
INLINE void look_back(shape_t n, const float *x, const float *window, long t, const float **rows) {
    for (long i = 0; i <= BACK; i++) {
        long place = t - BACK + i;
        rows[i] = place >= 0 ? x + place * n.I : window + (place + BACK) * n.C;
    }
}

INLINE void prepare_packed(shape_t n, const layer_t *w, const float *x, const float *window, const int64_t *starts, float *q,
                           float *k, float *v, float *z, float *g, float *beta, long D) {
    for (long d = 0; d < D; d++)
        for (long t = starts[d]; t < starts[d + 1]; t++) {
            const float *rows[BACK + 1];
            long j = t * n.J;
            look_back(n, x + starts[d] * n.I, window + d * BACK * n.C, t - starts[d], rows);
            prepare(n, w, rows, q + j, k + j, v + j, z + j, g + j, beta + t * n.H);
        }
}

INLINE void step(shape_t n, const layer_t *w, const float *x, float *window, float *state, float *y, long B) {
    float q[n.J], k[n.J], v[n.J], z[n.J], g[n.J], beta[n.H], o[n.J];
    for (long b = 0; b < B; b++, x += n.I, window += BACK * n.C, y += n.J) {
        const float *rows[BACK + 1];
        look_back(n, x, window, 0, rows);
        prepare(n, w, rows, q, k, v, z, g, beta);
        memmove(window, window + n.C, (BACK - 1) * n.C * sizeof(float));
        memcpy(window + (BACK - 1) * n.C, x, n.C * sizeof(float));
        for (long h = 0; h < n.H; h++, state += n.K * n.K) {
            long j = h * n.K;
            token(n.K, n.K, q + j, k + j, v + j, g + j, beta[h], state, o + j);
        }
        finish(n, w, o, x + n.C, y);
    }
}

// Gradient through x / |x| times `by`; u is the unit vector, r the inverse length.
INLINE void unit_backward(long K, const float *x, float r, float by, const float *d_u, float *d_x) {
    float along = dot(K, x, d_u) * r * r;
#pragma omp simd
    for (long i = 0; i < K; i++) d_x[i] = by * r * (d_u[i] - along * x[i]);
}

// Adds to d_rows, d_window and the weights' gradients, which hold zeros at first; d_z replaces z.
INLINE void prepare_backward(shape_t n, const layer_t *w, const float *const *rows, float *const *d_rows, float *z,
                             const float *g, const float *beta, const float *d_q, const float *d_k, const float *d_v,
                             const float *d_g, const float *d_beta, float *d_conv, float *d_bias, float *d_rate) {
    float *d_raw = d_rows[BACK] + n.C + n.J + n.R;
    float y[n.C], slope[n.C], d_qkv[n.C], root = 1.0f / sqrtf((float)n.K);
#pragma omp simd
    for (long c = 0; c < n.C; c++) {
        float a = convolved(w->conv, rows, n.C, c), s = sigmoid(a);
        y[c] = a * s, slope[c] = s * (1.0f + a * (1.0f - s));
    }
    for (long h = 0; h < n.H; h++) {
        long j = h * n.K;
        unit_backward(n.K, y + j, inverse_length(n.K, y + j), root, d_q + j, d_qkv + j);
        unit_backward(n.K, y + n.J + j, inverse_length(n.K, y + n.J + j), 1.0f, d_k + j, d_qkv + n.J + j);
        float steeper = 0.0f;
#pragma omp simd reduction(+ : steeper)
        for (long i = j; i < j + n.K; i++) {
            float s = g[i] / w->g_min, d = d_g[i] * g[i] * (1.0f - s);
            steeper += d * z[i];
            z[i] = d * w->rate[h];
            d_bias[i] += z[i];
        }
        d_rate[h] += steeper;
        d_raw[h] = d_beta[h] * beta[h] * (1.0f - beta[h]);
    }
    memcpy(d_qkv + 2 * n.J, d_v, n.J * sizeof(float));
    for (long m = 0; m <= BACK; m++) {
        const float *weight = w->conv + m * n.C, *row = rows[m];
        float *d_weight = d_conv + m * n.C, *d_row = d_rows[m];
#pragma omp simd
        for (long c = 0; c < n.C; c++) {
            float d = d_qkv[c] * slope[c];
            d_row[c] += weight[c] * d;
            d_weight[c] += row[c] * d;
        }
    }
}

INLINE void prepare_packed_backward(shape_t n, const layer_t *w, const float *x, const float *window, const int64_t *starts,
                                    float *z, const float *g, const float *beta, const float *d_q, const float *d_k,
                                    const float *d_v, const float *d_g, const float *d_beta, float *d_x, float *d_window,
                                    float *d_conv, float *d_bias, float *d_rate, long D) {
    for (long d = 0; d < D; d++)
        for (long t = starts[d]; t < starts[d + 1]; t++) {
            const float *rows[BACK + 1];
            float *d_rows[BACK + 1];
            long j = t * n.J, h = t * n.H;
            look_back(n, x + starts[d] * n.I, window + d * BACK * n.C, t - starts[d], rows);
            look_back(n, d_x + starts[d] * n.I, d_window + d * BACK * n.C, t - starts[d], (const float **)d_rows);
            prepare_backward(n, w, rows, d_rows, z + j, g + j, beta + h, d_q + j, d_k + j, d_v + j, d_g + j, d_beta + h,
                             d_conv, d_bias, d_rate);
        }
}

// Writes d_o and the gate's columns of d_x; adds to d_norm.
INLINE void finish_backward(shape_t n, const layer_t *w, const float *o, const float *gate, const float *d_y, float *d_o,
                            float *d_gate, float *d_norm) {
    float scaled[n.K];
    for (long j = 0; j < n.J; j += n.K) {
        float r = inverse_rms(n.K, o + j, w->eps);
#pragma omp simd
        for (long i = 0; i < n.K; i++) {
            float s = sigmoid(gate[j + i]), plain = d_y[j + i] * o[j + i] * r * s;
            scaled[i] = d_y[j + i] * w->norm[i] * s;
            d_gate[j + i] = plain * w->norm[i] * (1.0f - s);
            d_norm[i] += plain;
        }
        float radial = dot(n.K, scaled, o + j) * r * r / n.K;
#pragma omp simd
        for (long i = 0; i < n.K; i++) d_o[j + i] = r * (scaled[i] - radial * o[j + i]);
    }
}

// One copy of each loop for the common head, so that the compiler knows its bounds.
#define BY_SHAPE(function, ...)                                                                                              \
    do {                                                                                                                     \
        if (K == 32 && H == 2) function(shape_of(2, R, 32), &w, __VA_ARGS__);                                                \
        else function(shape_of(H, R, K), &w, __VA_ARGS__);                                                                   \
    } while (0)

#define LAYER const float *conv, const float *up, const float *bias, const float *rate, const float *norm
#define SHAPE long H, long R, long K, float g_min, float eps
#define MADE {conv, up, bias, rate, norm, g_min, eps}

void kda_layer_step(const float *x, LAYER, float *window, float *state, float *y, long B, SHAPE) {
    layer_t w = MADE;
    BY_SHAPE(step, x, window, state, y, B);
}

void kda_prepare(const float *x, LAYER, const float *window, const int64_t *starts, float *q, float *k, float *v, float *z,
                 float *g, float *beta, long D, SHAPE) {
    layer_t w = MADE;
    BY_SHAPE(prepare_packed, x, window, starts, q, k, v, z, g, beta, D);
}

void kda_prepare_backward(const float *x, LAYER, const float *window, const int64_t *starts, float *z, const float *g,
                          const float *beta, const float *d_q, const float *d_k, const float *d_v, const float *d_g,
                          const float *d_beta, float *d_x, float *d_window, float *d_conv, float *d_bias, float *d_rate,
                          long D, SHAPE) {
    layer_t w = MADE;
    BY_SHAPE(prepare_packed_backward, x, window, starts, z, g, beta, d_q, d_k, d_v, d_g, d_beta, d_x, d_window, d_conv, d_bias,
             d_rate, D);
}

void kda_finish(const float *x, LAYER, const float *o, float *y, long T, SHAPE) {
    layer_t w = MADE;
    shape_t n = shape_of(H, R, K);
    for (long t = 0; t < T; t++) BY_SHAPE(finish, o + t * n.J, x + t * n.I + n.C, y + t * n.J);
}

void kda_finish_backward(const float *x, LAYER, const float *o, const float *d_y, float *d_o, float *d_x, float *d_norm,
                         long T, SHAPE) {
    layer_t w = MADE;
    shape_t n = shape_of(H, R, K);
    for (long t = 0; t < T; t++)
        BY_SHAPE(finish_backward, o + t * n.J, x + t * n.I + n.C, d_y + t * n.J, d_o + t * n.J, d_x + t * n.I + n.C, d_norm);
}

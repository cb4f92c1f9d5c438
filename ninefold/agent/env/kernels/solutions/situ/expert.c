#include <math.h>

/* e^x to a few units in the last place, in a form that compilers turn into vectors. */
static inline float exp_fast(float x) {
    x = x < -87.3f ? -87.3f : x > 88.3f ? 88.3f : x;
    float n = rintf(x * 1.44269504f), r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    union { int bits; float value; } power = {((int)n + 127) << 23};
    return (p * r * r + r + 1.0f) * power.value;
}

/* A polynomial near 0, where the other form cancels. */
static inline float tanh_fast(float x) {
    float z = x * x, p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float near = x + x * z * p, far = 1.0f - 2.0f / (1.0f + exp_fast(2.0f * x));
    return fabsf(x) < 0.625f ? near : far;
}

void situ(const float *restrict g, const float *restrict u, float *restrict y, long n, float b1, float b2) {
    float i1 = 1 / b1, i2 = 1 / b2, b = b1 * b2;
    for (long i = 0; i < n; i++) y[i] = b * tanh_fast(g[i] * i1) * tanh_fast(u[i] * i2) / (1.0f + exp_fast(-g[i]));
}

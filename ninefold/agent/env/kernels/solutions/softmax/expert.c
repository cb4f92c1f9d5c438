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

void softmax(const float *restrict x, float *restrict y, long rows, long cols, float scale) {
    for (long r = 0; r < rows; r++, x += cols, y += cols) {
        float most = -INFINITY, sum = 0;
#pragma omp simd reduction(max : most)
        for (long i = 0; i < cols; i++) most = scale * x[i] > most ? scale * x[i] : most;
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < cols; i++) {
            y[i] = exp_fast(scale * x[i] - most);
            sum += y[i];
        }
        float part = 1 / sum;
        for (long i = 0; i < cols; i++) y[i] *= part;
    }
}

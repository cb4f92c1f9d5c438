/* How fast this processor moves bytes: y ← x over arrays that its second cache holds, as often as asked. */
void stream(const float *restrict x, float *restrict y, long n, long times) {
    for (long t = 0; t < times; t++) {
        for (long i = 0; i < n; i++) y[i] = x[i];
        __asm__ volatile("" ::: "memory");
    }
}

void cumsum(const float *restrict x, float *restrict y, long rows, long cols, float decay) {
    for (long r = 0; r < rows; r++) {
        float sum = 0;
        for (long i = 0; i < cols; i++) y[r * cols + i] = sum = decay * sum + x[r * cols + i];
    }
}

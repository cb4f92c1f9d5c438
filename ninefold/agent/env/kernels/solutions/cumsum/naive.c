void cumsum(const float *x, float *y, long rows, long cols, float decay) {
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < cols; i++) y[r * cols + i] = (i ? (double)decay * y[r * cols + i - 1] : 0) + x[r * cols + i];
}

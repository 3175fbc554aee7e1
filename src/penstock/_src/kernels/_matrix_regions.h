/* Products and factors of matrices in regions, of numbers of one precision (see _regions.h, which includes it for each). */
static inline Real *NAME(at)(float *const *buffers, Place place)
{
    return place_of(buffers, place, sizeof(Real));
}

/* A product that is shorter than a call of the library. */
static void NAME(multiply_short)(const Product *p, const Real *a, const Real *b, Real *to)
{
    const int across = p->turn_a ? 1 : p->a.stride, along = p->turn_a ? p->a.stride : 1;
    for (int i = 0; i < p->rows; i++, to += p->to.stride)
        if (p->turn_b)
            for (int j = 0; j < p->columns; j++) {
                Real sum = 0;
                for (int k = 0; k < p->depth; k++)
                    sum += a[i * across + k * along] * b[j * p->b.stride + k];
                to[j] = sum;
            }
        else {
            memset(to, 0, p->columns * sizeof(Real));
            for (int k = 0; k < p->depth; k++) {
                const Real factor = a[i * across + k * along], *row = b + k * p->b.stride;
                for (int j = 0; j < p->columns; j++)
                    to[j] += factor * row[j];
            }
        }
}

static void NAME(do_product)(const Product *p, float *const *buffers)
{
    const Real one = 1, zero = 0;
    const Real *a = NAME(at)(buffers, p->a.at), *b = NAME(at)(buffers, p->b.at);
    Real *to = NAME(at)(buffers, p->to.at);
    const int is_short = (int64_t)p->rows * p->columns * p->depth <= FEW_PRODUCTS;
    for (int i = 0; i < p->count; i++, a += p->a.batch, b += p->b.batch, to += p->to.batch)      /* as its transpose, by columns */
        if (is_short)
            NAME(multiply_short)(p, a, b, to);
        else
            NAME(multiply)(p->turn_b ? "T" : "N", p->turn_a ? "T" : "N", &p->columns, &p->rows, &p->depth, &one, b, &p->b.stride,
                     a, &p->a.stride, &zero, to, &p->to.stride);
}

/* The lower triangles L for which L Lᵀ are the matrices; NaN, as a failure, where there is none. Reads lower triangles. */
static void NAME(do_cholesky)(const Squares *s, float *const *buffers)
{
    const int n = s->size;
    const Real *a = NAME(at)(buffers, s->matrix);
    Real *l = NAME(at)(buffers, s->to);
    for (int m = 0; m < s->count; m++, a += n * n, l += n * n) {
        int fails = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                Real sum = j > i ? 0 : a[i * n + j];
                for (int k = 0; k < j && j <= i; k++)
                    sum -= l[i * n + k] * l[j * n + k];
                fails |= i == j && !(sum > 0);
                l[i * n + j] = j > i ? 0 : i == j ? (Real)sqrt(sum) : sum / l[j * n + j];
            }
        for (int i = 0; fails && i < n; i++)
            for (int j = 0; j <= i; j++)
                l[i * n + j] = NAN;
    }
}

/* Solves one system of equations whose matrix is a triangle; x has the right sides, then the solutions. */
static void NAME(solve_triangle)(const Real *a, Real *x, int n, int width, int upper, int turned)
{
    for (int r = 0; r < n; r++) {
        const int i = upper ? n - 1 - r : r;
        Real *row = x + i * width;
        for (int j = upper ? i + 1 : 0; j < (upper ? n : i); j++) {
            const Real factor = turned ? a[j * n + i] : a[i * n + j];
            for (int c = 0; c < width; c++)
                row[c] -= factor * x[j * width + c];
        }
        for (int c = 0; c < width; c++)
            row[c] /= a[i * n + i];
    }
}

static void NAME(do_triangular)(const Squares *s, float *const *buffers)
{
    const int n = s->size, each = n * s->width;
    Real *x = NAME(at)(buffers, s->to);
    memcpy(x, NAME(at)(buffers, s->sides), (size_t)s->count * each * sizeof(Real));
    for (int m = 0; m < s->count; m++)
        NAME(solve_triangle)(NAME(at)(buffers, s->matrix) + m * n * n, x + m * each, n, s->width, s->upper, s->turned);
}

static void NAME(swap)(Real *a, Real *b, int count)
{
    for (int i = 0; i < count; i++) {
        const Real kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Gauss's elimination with the largest pivots of columns. Whether all matrices have an inverse. */
static int NAME(do_solve)(const Squares *s, float *const *buffers)
{
    const int n = s->size, width = s->width;
    const Real *a = NAME(at)(buffers, s->matrix);
    Real *lu = NAME(at)(buffers, s->spare), *x = NAME(at)(buffers, s->to);
    memcpy(x, NAME(at)(buffers, s->sides), (size_t)s->count * n * width * sizeof(Real));
    for (int m = 0; m < s->count; m++, a += n * n, x += n * width) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                lu[i * n + j] = s->turned ? a[j * n + i] : a[i * n + j];
        for (int k = 0; k < n; k++) {
            int pivot = k;
            for (int i = k + 1; i < n; i++)
                if (fabs(lu[i * n + k]) > fabs(lu[pivot * n + k]) || isnan(lu[i * n + k]))
                    pivot = i;
            if (lu[pivot * n + k] == 0)
                return 0;
            if (pivot != k) {
                NAME(swap)(lu + pivot * n, lu + k * n, n);
                NAME(swap)(x + pivot * width, x + k * width, width);
            }
            for (int i = k + 1; i < n; i++) {
                const Real factor = lu[i * n + k] / lu[k * n + k];
                for (int j = k + 1; j < n; j++)
                    lu[i * n + j] -= factor * lu[k * n + j];
                for (int c = 0; c < width; c++)
                    x[i * width + c] -= factor * x[k * width + c];
            }
        }
        NAME(solve_triangle)(lu, x, n, width, 1, 0);
    }
    return 1;
}

#undef Real
#undef NAME

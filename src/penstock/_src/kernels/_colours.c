/* Colours of images on the CPU (float32): saturation, hue and contrast in one pass over the pixels.

   This is an accelerator: ops/image/color.py has the definition, which torch computes where this file is not compiled. An image is
   a sequence of pixels; those of saturation and hue have three numbers each. */
#include "_threads.h"
#include <string.h>

enum { BLOCK = 1 << 12 };                 /* pixels that a thread takes at a time */
typedef struct { const float *from; float *to; int64_t pixels; float by; } Job;

static inline float larger(float a, float b) { return a > b || a != a ? a : b; }
static inline float smaller(float a, float b) { return a < b || a != a ? a : b; }
static inline float within(float x) { return x < 0.f ? 0.f : x > 1.f ? 1.f : x; }
static inline float size(float x) { return x < 0.f ? -x : x; }

#define PIXELS(body)                                                                                                 \
    {                                                                                                                \
        const Job *job = given;                                                                                      \
        const int64_t begin = number * BLOCK, end = begin + BLOCK < job->pixels ? begin + BLOCK : job->pixels;       \
        const float *restrict from = job->from;                                                                      \
        float *restrict to = job->to;                                                                                \
        const float by = job->by;                                                                                    \
        for (int64_t i = begin; i < end; i++) {                                                                      \
            const float r = from[3 * i], g = from[3 * i + 1], b = from[3 * i + 2];                                   \
            const float v = larger(larger(r, g), b), span = v - smaller(smaller(r, g), b);                           \
            body                                                                                                     \
        }                                                                                                            \
    }

/* The largest channel stays, and the others move away from it, or to it: until the saturation is 1. */
#define SATURATE                                                                                                     \
    const float most = larger(v / larger(span, 1e-30f), 0.f), factor = smaller(most, by);                            \
    to[3 * i] = v + (r - v) * factor;                                                                                \
    to[3 * i + 1] = v + (g - v) * factor;                                                                            \
    to[3 * i + 2] = v + (b - v) * factor;

#define TURN                                                                                                         \
    const float norm = 1.f / (6.f * (span > 0.f ? span : 1.f));                                                      \
    float h = r == v ? norm * (g - b) : g == v ? norm * (b - r) + 2.f / 6.f : norm * (r - g) + 4.f / 6.f;            \
    h = span > 0.f ? h : 0.f;                                                                                        \
    h = (h < 0.f ? h + 1.f : h) + by;                                                                                \
    h = (h - __builtin_floorf(h)) * 6.f;                                                                             \
    to[3 * i] = v - span * (1.f - within(size(h - 3.f) - 1.f));                                                      \
    to[3 * i + 1] = v - span * (1.f - within(2.f - size(h - 2.f)));                                                  \
    to[3 * i + 2] = v - span * (1.f - within(2.f - size(h - 4.f)));

#if defined(__x86_64__)
#define WITH_AVX2 __attribute__((target("avx2,fma")))
#else
#define WITH_AVX2
#endif
WITH_AVX2 static void saturate_some(const void *given, int64_t number) PIXELS(SATURATE)
WITH_AVX2 static void turn_some(const void *given, int64_t number) PIXELS(TURN)

typedef struct { const float *from; float *to; int64_t pixels, channels; float by; } Contrast;

/* One image: each channel moves away from its mean, or to it. */
WITH_AVX2 static void contrast_one(const void *given, int64_t number)
{
    enum { MOST = 64 };
    const Contrast *job = given;
    const int64_t channels = job->channels, count = job->pixels * channels;
    const float *from = job->from + number * count;
    float *to = job->to + number * count;
    for (int64_t first = 0; first < channels; first += MOST) {
        const int64_t some = channels - first < MOST ? channels - first : MOST;
        double sum[MOST] = {0};
        float mean[MOST];
        for (int64_t i = 0; i < job->pixels; i++)
            for (int64_t c = 0; c < some; c++)
                sum[c] += from[i * channels + first + c];
        for (int64_t c = 0; c < some; c++)
            mean[c] = (float)(sum[c] / (double)job->pixels);
        for (int64_t i = 0; i < job->pixels; i++)
            for (int64_t c = 0; c < some; c++) {
                const int64_t at = i * channels + first + c;
                to[at] = (from[at] - mean[c]) * job->by + mean[c];
            }
    }
}

static PyObject *on_pixels(PyObject *args, Item item)
{
    Job job;
    unsigned long long from, to;
    long long pixels;
    if (!PyArg_ParseTuple(args, "KKLf", &from, &to, &pixels, &job.by))
        return NULL;
    job.from = (const float *)(uintptr_t)from, job.to = (float *)(uintptr_t)to, job.pixels = pixels;
    Py_BEGIN_ALLOW_THREADS
    share(item, &job, (pixels + BLOCK - 1) / BLOCK, 8 * pixels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *saturate(PyObject *self, PyObject *args) { return on_pixels(args, saturate_some); }
static PyObject *turn(PyObject *self, PyObject *args) { return on_pixels(args, turn_some); }

static PyObject *contrast(PyObject *self, PyObject *args)
{
    Contrast job;
    unsigned long long from, to;
    long long images, pixels, channels;
    if (!PyArg_ParseTuple(args, "KKLLLf", &from, &to, &images, &pixels, &channels, &job.by))
        return NULL;
    job.from = (const float *)(uintptr_t)from, job.to = (float *)(uintptr_t)to, job.pixels = pixels, job.channels = channels;
    Py_BEGIN_ALLOW_THREADS
    share(contrast_one, &job, images, 2 * images * pixels * channels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"saturate", saturate, METH_VARARGS, "saturate(from, to, pixels, scale): multiplies the saturation."},
    {"turn", turn, METH_VARARGS, "turn(from, to, pixels, delta): adds to the hue."},
    {"contrast", contrast, METH_VARARGS, "contrast(from, to, images, pixels, channels, factor): scales the distance to the mean."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_colours", "Colours of images on the CPU.", -1, methods};

PyMODINIT_FUNC PyInit__colours(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        PyErr_SetString(PyExc_ImportError, "the colour kernels need a processor with AVX2 and FMA");
        return NULL;
    }
#endif
    return PyModule_Create(&module);
}

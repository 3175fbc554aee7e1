/* Threads that are inside C++ code when the interpreter ends.

   Until Python 3.14, a daemon thread that asks for the interpreter's lock then is unwound as by an exception. C++ functions that
   do not allow exceptions, such as the destructors of PyTorch's guards, call std::terminate instead, and the process aborts after
   a program that ran to its end. `install` makes such a thread wait for the end of the process. A failure of the thread that
   installs it, which is the one that ends the process, still aborts. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef void (*handler)(void);

static pthread_t ending;
static handler before;

static void wait_for_the_end(void)
{
    if (pthread_equal(pthread_self(), ending)) {
        if (before)
            before();
        abort();
    }
    for (;;)
        pause();
}

static PyObject *install(PyObject *self, PyObject *args)
{
#ifdef __APPLE__
    void *library = dlopen("libc++.1.dylib", RTLD_LAZY | RTLD_NOLOAD);
#else
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
#endif
    handler (*set)(handler) = library ? (handler (*)(handler))dlsym(library, "_ZSt13set_terminatePFvvE") : NULL;
    if (!set)
        Py_RETURN_FALSE;
    ending = pthread_self();
    before = set(wait_for_the_end);
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, "Makes other threads wait when C++ would abort; returns whether it could."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_exiting", "Threads at the end of the process.", -1, methods};

PyMODINIT_FUNC PyInit__exiting(void)
{
    return PyModule_Create(&module);
}

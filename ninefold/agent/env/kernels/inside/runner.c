/* Calls a kernel on arrays in shared memory whenever it is told to. It runs as a process of its own, knows no clock and no
   expected value, and is trusted by nobody: argv is LIBRARY MEMORY_FD BYTES ASK_FD TELL_FD. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { WORDS = 512, POINTERS = 16 };

typedef void kernel_call(void **arrays, const long *dims, const double *scalars);

/* A message: count of calls, arrays, dims and scalars, then dims, scalars and for each call the offset of each array. */
int main(int argc, char **argv) {
    if (argc != 6 || prctl(PR_SET_DUMPABLE, 0)) return 2;
    char *memory = mmap(0, strtoul(argv[3], 0, 10), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, atoi(argv[2]), 0);
    void *library = dlopen(argv[1], RTLD_NOW);
    kernel_call *call = library ? (kernel_call *)dlsym(library, "call_kernel") : 0;
    if (memory == MAP_FAILED || !call) return 3;
    int ask = atoi(argv[4]), tell = atoi(argv[5]);
    long message[WORDS];
    char ready = 'r';
    while (write(tell, &ready, 1) == 1 && read(ask, message, sizeof message) > 0) {
        long calls = message[0], arrays = message[1];
        const long *dims = message + 4, *offsets = dims + message[2] + message[3];
        for (long c = 0; c < calls; c++, offsets += arrays) {
            void *pointers[POINTERS];
            for (long a = 0; a < arrays; a++) pointers[a] = memory + offsets[a];
            call(pointers, dims, (const double *)(dims + message[2]));
        }
    }
    return 0;
}

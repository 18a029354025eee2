/* Ends its first thread and lives on in another: /proc then shows it as a zombie, though it works. */
#include <pthread.h>
#include <unistd.h>

static void *stay(void *nothing) {
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    _exit(0);
    return nothing;
}

int main(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, stay, NULL) != 0) {
        return 1;
    }
    pthread_exit(NULL);
}

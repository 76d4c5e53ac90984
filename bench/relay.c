/* The plain relay that stdio is measured against: it starts the command it is given and copies bytes both ways.
   cc -O2 -o relay relay.c;  ./relay COMMAND [ARGS...] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[1 << 16];

/* Copies what is there; 0 at the end of the input. */
static int copy(int from, int to) {
    ssize_t have = read(from, buffer, sizeof buffer);
    if (have <= 0) return 0;
    for (ssize_t done = 0; done < have;) {
        ssize_t put = write(to, buffer + done, have - done);
        if (put < 0) return 0;
        done += put;
    }
    return 1;
}

int main(int count, char **words) {
    int down[2], up[2];
    if (count < 2 || pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC)) return 2;
    pid_t child = fork();
    if (child == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        execvp(words[1], words + 1);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    struct pollfd ends[2] = {{0, POLLIN, 0}, {up[0], POLLIN, 0}};
    while (poll(ends, 2, -1) > 0) {
        if (ends[0].revents && !copy(0, down[1])) {
            close(down[1]);
            ends[0].fd = -1;
        }
        if (ends[1].revents && !copy(up[0], 1)) break;
    }
    waitpid(child, 0, 0);
    return 0;
}

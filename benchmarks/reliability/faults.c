/* A disk that fails on demand, loaded in front of the C library (LD_PRELOAD).
 *
 * Idle until fault_arm() is called in a process; from then on, calls that change files below a folder are
 * counted, and one of them fails as asked:
 *   EIO     this one call fails
 *   FULL    this and all later writes fail with ENOSPC
 *   TORN    half of the bytes are written, then the process dies
 *   POWER   the process dies, and files that were written but not flushed come back empty
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { IDLE, COUNT, FAULT_EIO, FULL, TORN, POWER };
enum { DIRTY = 512 };

static int mode = IDLE;
static long nth, seen;
static char below[PATH_MAX];
static char dirty[DIRTY][PATH_MAX];

void fault_arm(int kind, long call, const char *folder) {
    mode = kind;
    nth = call;
    seen = 0;
    snprintf(below, sizeof below, "%s/", folder);
    memset(dirty, 0, sizeof dirty);
}

long fault_seen(void) { return seen; }

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, below, strlen(below)) == 0;
}

static void mark(const char *path, int written) {
    int free_place = -1;
    for (int i = 0; i < DIRTY; i++) {
        if (!strcmp(dirty[i], path)) {
            if (!written) dirty[i][0] = 0;
            return;
        }
        if (!dirty[i][0] && free_place < 0) free_place = i;
    }
    if (written && free_place >= 0) snprintf(dirty[free_place], PATH_MAX, "%s", path);
}

static void moved(const char *from, const char *to) {
    size_t length = strlen(from);
    for (int i = 0; i < DIRTY; i++) {
        if (strncmp(dirty[i], from, length) || (dirty[i][length] && dirty[i][length] != '/')) continue;
        char tail[PATH_MAX], whole[2 * PATH_MAX];
        snprintf(tail, sizeof tail, "%s", dirty[i] + length);
        snprintf(whole, sizeof whole, "%s%s", to, tail);
        snprintf(dirty[i], PATH_MAX, "%.*s", PATH_MAX - 1, whole);
    }
}

static void die(void) {
    if (mode == POWER)
        for (int i = 0; i < DIRTY; i++)
            if (dirty[i][0] && truncate(dirty[i], 0)) dirty[i][0] = 0;
    kill(getpid(), SIGKILL);
}

/* Whether the call that is about to happen is the one that fails with an error. */
static int fails(int is_write) {
    seen++;
    if (mode == FAULT_EIO && seen == nth) errno = EIO;
    else if (mode == FULL && seen >= nth && is_write) errno = ENOSPC;
    else return 0;
    return 1;
}

static ssize_t real_write(int fd, const void *bytes, size_t count) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "write");
    return next(fd, bytes, count);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    char path[PATH_MAX];
    if (mode == IDLE || !path_of(fd, path)) return real_write(fd, bytes, count);
    if (fails(1)) return -1;
    if (seen == nth && mode == TORN) {
        if (real_write(fd, bytes, count / 2) >= 0) die();
        die();
    }
    ssize_t written = real_write(fd, bytes, count);
    mark(path, 1);
    if (seen == nth && mode == POWER) die();
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    static ssize_t (*next)(int, const struct iovec *, int);
    if (!next) next = dlsym(RTLD_NEXT, "writev");
    if (mode == IDLE || !path_of(fd, path)) return next(fd, parts, count);
    if (fails(1)) return -1;
    if (seen == nth && mode == TORN) {
        if (count && real_write(fd, parts[0].iov_base, parts[0].iov_len / 2) >= 0) die();
        die();
    }
    ssize_t written = next(fd, parts, count);
    mark(path, 1);
    if (seen == nth && mode == POWER) die();
    return written;
}

int fsync(int fd) {
    char path[PATH_MAX];
    static int (*next)(int);
    if (!next) next = dlsym(RTLD_NEXT, "fsync");
    if (mode == IDLE || !path_of(fd, path)) return next(fd);
    if (fails(0)) return -1;
    if (seen == nth && (mode == TORN || mode == POWER)) die();
    mark(path, 0);
    return next(fd);
}

int rename(const char *from, const char *to) {
    static int (*next)(const char *, const char *);
    if (!next) next = dlsym(RTLD_NEXT, "rename");
    if (mode == IDLE || strncmp(to, below, strlen(below))) return next(from, to);
    if (fails(0)) return -1;
    if (seen == nth && mode == TORN) die();
    int result = next(from, to);
    if (!result) moved(from, to);
    if (seen == nth && mode == POWER) die();
    return result;
}

/* Preloaded into a program, makes its disk full at a chosen moment (scripts/torment_full_disk.sh):
     cc -shared -fPIC -O1 -o full_disk.so full_disk.c -ldl
     LD_PRELOAD=full_disk.so FULL_DISK_AT=17 FULL_DISK_HOW=on program …
   Every step that may need room is counted: making a file or a directory, writing, flushing, closing what was written, renaming;
   not those of standard output and standard error. FULL_DISK_LOG=FILE appends one line for each: "STEP PATH".
   At step FULL_DISK_AT (from 1) and, by FULL_DISK_HOW,
     on     at all later ones: ENOSPC
     short  a write still takes half of its bytes; all later steps: ENOSPC
     once   ENOSPC at this one alone: whoever overlooks it goes on and writes something wrong
     kill   the process is killed just before it
   Linux and glibc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static atomic_long steps;

enum outcome { GO_ON, SHORT, FULL };

static void log_step(const char* step, const char* path) {
  static _Atomic int log_file = -2;
  if (log_file == -2) {
    const char* name = getenv("FULL_DISK_LOG");
    log_file = name == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }
  if (log_file < 0) return;
  char line[4200];
  const int length = snprintf(line, sizeof line, "%s %s\n", step, path);
  if (length > 0 && (size_t)length < sizeof line) syscall(SYS_write, log_file, line, (size_t)length);
}

static enum outcome count(const char* step, const char* path) {
  const int saved = errno;
  const long now = atomic_fetch_add(&steps, 1) + 1;
  const char *at = getenv("FULL_DISK_AT"), *how = getenv("FULL_DISK_HOW");
  log_step(step, path);
  errno = saved;
  if (at == NULL || how == NULL) return GO_ON;
  const long first = atol(at);
  if (now < first) return GO_ON;
  if (now == first) {
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    return strcmp(how, "short") == 0 ? SHORT : FULL;
  }
  return strcmp(how, "once") == 0 ? GO_ON : FULL;
}

/* Of an open file: what is no regular file (a pipe, a terminal) is no disk's, and standard streams belong to whoever looks on. */
static enum outcome count_file(const char* step, int file) {
  struct stat status;
  char link[64], path[4096];
  const int saved = errno;
  if (file <= 2 || fstat(file, &status) != 0 || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) {
    errno = saved;
    return GO_ON;
  }
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = '\0';
  errno = saved;
  return count(step, path);
}

static long full(void) {
  errno = ENOSPC;
  return -1;
}

#define WRITING(name, all, half)                   \
  switch (count_file("write", file)) {             \
    case GO_ON: return NEXT(name) all;             \
    case SHORT: return size < 2 ? full() : NEXT(name) half; \
    default: return full();                        \
  }

ssize_t write(int file, const void* bytes, size_t size) { WRITING(write, (file, bytes, size), (file, bytes, size / 2)) }
ssize_t pwrite(int file, const void* bytes, size_t size, off_t at) {
  WRITING(pwrite, (file, bytes, size, at), (file, bytes, size / 2, at))
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t at) {
  WRITING(pwrite64, (file, bytes, size, at), (file, bytes, size / 2, at))
}
ssize_t writev(int file, const struct iovec* parts, int size) {
  WRITING(writev, (file, parts, size), (file, parts, size / 2))
}
ssize_t pwritev(int file, const struct iovec* parts, int size, off_t at) {
  WRITING(pwritev, (file, parts, size, at), (file, parts, size / 2, at))
}
ssize_t pwritev64(int file, const struct iovec* parts, int size, off64_t at) {
  WRITING(pwritev64, (file, parts, size, at), (file, parts, size / 2, at))
}
ssize_t sendfile(int file, int from, off_t* at, size_t size) {
  WRITING(sendfile, (file, from, at, size), (file, from, at, size / 2))
}
ssize_t copy_file_range(int from, off64_t* from_at, int file, off64_t* at, size_t size, unsigned flags) {
  WRITING(copy_file_range, (from, from_at, file, at, size, flags), (from, from_at, file, at, size / 2, flags))
}

#define STEP_OF_FILE(step, name, ...) \
  return count_file(step, file) != GO_ON ? (int)full() : NEXT(name)(__VA_ARGS__)

int ftruncate(int file, off_t size) { STEP_OF_FILE("resize", ftruncate, file, size); }
int ftruncate64(int file, off64_t size) { STEP_OF_FILE("resize", ftruncate64, file, size); }
int fsync(int file) { STEP_OF_FILE("flush", fsync, file); }
int fdatasync(int file) { STEP_OF_FILE("flush", fdatasync, file); }

/* These return the error instead of setting errno. */
int posix_fallocate(int file, off_t at, off_t size) {
  return count_file("resize", file) != GO_ON ? ENOSPC : NEXT(posix_fallocate)(file, at, size);
}
int posix_fallocate64(int file, off64_t at, off64_t size) {
  return count_file("resize", file) != GO_ON ? ENOSPC : NEXT(posix_fallocate64)(file, at, size);
}

/* A network file system may say so only now; the file is closed all the same. */
int close(int file) {
  const int saved = errno, flags = fcntl(file, F_GETFL);
  errno = saved;
  const int fails = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && count_file("close", file) != GO_ON;
  const int status = NEXT(close)(file);
  return fails ? (int)full() : status;
}

/* Opening what is there takes no room. */
static int needs_room(int where, const char* path, int flags) {
  const int saved = errno;
  const int makes = (flags & O_CREAT) && faccessat(where, path, F_OK, 0) != 0;
  errno = saved;
  return makes;
}

#define OPENING(name, where, ...)                                                    \
  mode_t mode = 0;                                                                   \
  if (flags & (O_CREAT | __O_TMPFILE)) {                                             \
    va_list more;                                                                    \
    va_start(more, flags);                                                           \
    mode = va_arg(more, mode_t);                                                     \
    va_end(more);                                                                    \
  }                                                                                  \
  if (needs_room(where, path, flags) && count("create", path) != GO_ON) return (int)full(); \
  return NEXT(name)(__VA_ARGS__, flags, mode)

int open(const char* path, int flags, ...) { OPENING(open, AT_FDCWD, path); }
int open64(const char* path, int flags, ...) { OPENING(open64, AT_FDCWD, path); }
int openat(int directory, const char* path, int flags, ...) { OPENING(openat, directory, directory, path); }
int openat64(int directory, const char* path, int flags, ...) { OPENING(openat64, directory, directory, path); }

#define STEP_OF_PATH(step, name, ...) return count(step, path) != GO_ON ? (int)full() : NEXT(name)(__VA_ARGS__)

int mkdir(const char* path, mode_t mode) {
  const int saved = errno, makes = access(path, F_OK) != 0;
  errno = saved;
  if (!makes) return NEXT(mkdir)(path, mode);
  STEP_OF_PATH("mkdir", mkdir, path, mode);
}
int rename(const char* from, const char* path) { STEP_OF_PATH("rename", rename, from, path); }
int renameat(int from_in, const char* from, int in, const char* path) {
  STEP_OF_PATH("rename", renameat, from_in, from, in, path);
}
int renameat2(int from_in, const char* from, int in, const char* path, unsigned flags) {
  STEP_OF_PATH("rename", renameat2, from_in, from, in, path, flags);
}
int link(const char* from, const char* path) { STEP_OF_PATH("link", link, from, path); }
int symlink(const char* from, const char* path) { STEP_OF_PATH("link", symlink, from, path); }

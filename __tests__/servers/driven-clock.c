/*
 * A process clock that a test drives. Loaded ahead of the C library (LD_PRELOAD), it returns as the
 * time of day the microseconds since the Unix epoch from a shared file, which the test writes. The
 * monotonic clock, which timers use, is unchanged.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *micros;

__attribute__((constructor)) static void share(void) {
  const char *path = getenv("TOLLGATE_CLOCK_FILE");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file >= 0) {
    void *shared = mmap(NULL, sizeof *micros, PROT_READ, MAP_SHARED, file, 0);
    micros = shared == MAP_FAILED ? NULL : shared;
    close(file);
  }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!micros || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) {
    return (int)syscall(SYS_clock_gettime, clock, time);
  }
  int64_t now = *micros;
  time->tv_sec = now / 1000000;
  time->tv_nsec = now % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) {
    *seconds = now.tv_sec;
  }
  return now.tv_sec;
}

/* What file I/O is compared with: plain preads on threads, and a loop on a raw ring with registered file and buffer.
   Knows no damacy. Built by bench/file_io.py with the system's C compiler. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct slice {
  int fd;
  char *to;
  int64_t size, offset;
};

static void *read_slice(void *argument) {
  struct slice *s = argument;
  for (int64_t done = 0; done < s->size;) {
    int64_t left = s->size - done;
    ssize_t n = pread(s->fd, s->to + done, left < (1 << 30) ? (size_t)left : (size_t)(1 << 30), s->offset + done);
    if (n <= 0) return (void *)1;
    done += n;
  }
  return 0;
}

/* Bytes [offset, offset + size) on so many threads; 0 if all were read. */
int threads_read(int fd, char *to, int64_t size, int64_t offset, int threads) {
  pthread_t ids[256];
  struct slice slices[256];
  int64_t each = (size / threads + 4095) / 4096 * 4096;
  int started = 0, failed = 0;
  for (int i = 0; i < threads && i < 256; ++i) {
    int64_t begin = i * each, end = begin + each < size ? begin + each : size;
    if (begin >= end) break;
    slices[i] = (struct slice){fd, to + begin, end - begin, offset + begin};
    if (pthread_create(&ids[i], 0, read_slice, &slices[i])) return 1;
    ++started;
  }
  for (int i = 0; i < started; ++i) {
    void *bad;
    pthread_join(ids[i], &bad);
    failed |= bad != 0;
  }
  return failed;
}

struct share {
  int fd, first, step, count, failed;
  char *to;
  const int64_t *sizes, *offsets, *places;
};

static void *read_share(void *argument) {
  struct share *s = argument;
  for (int i = s->first; i < s->count; i += s->step) {
    struct iovec one = {s->to + s->places[i], (size_t)s->sizes[i]};
    if (preadv(s->fd, &one, 1, s->offsets[i]) != s->sizes[i]) s->failed = 1;
  }
  return 0;
}

/* A loop of preadv over ranges, on so many threads. */
int threads_gather(int fd, char *to, const int64_t *sizes, const int64_t *offsets, const int64_t *places, int count,
                   int threads) {
  pthread_t ids[256];
  struct share shares[256];
  int failed = 0;
  for (int i = 0; i < threads; ++i) {
    shares[i] = (struct share){fd, i, threads, count, 0, to, sizes, offsets, places};
    if (pthread_create(&ids[i], 0, read_share, &shares[i])) return 1;
  }
  for (int i = 0; i < threads; ++i) {
    pthread_join(ids[i], 0);
    failed |= shares[i].failed;
  }
  return failed;
}

struct ring {
  int fd;
  unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
  struct io_uring_sqe *sqes;
  struct io_uring_cqe *cqes;
};

static int set_up(struct ring *r, unsigned depth, int file, char *memory, size_t bytes) {
  struct io_uring_params p;
  memset(&p, 0, sizeof p);
  r->fd = (int)syscall(SYS_io_uring_setup, depth, &p);
  if (r->fd < 0) return -1;
  char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd,
                  IORING_OFF_SQ_RING);
  char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_CQ_RING);
  r->sqes = mmap(0, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                 r->fd, IORING_OFF_SQES);
  if (sq == MAP_FAILED || cq == MAP_FAILED || r->sqes == MAP_FAILED) return -1;
  r->sq_tail = (unsigned *)(sq + p.sq_off.tail);
  r->sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
  r->sq_array = (unsigned *)(sq + p.sq_off.array);
  r->cq_head = (unsigned *)(cq + p.cq_off.head);
  r->cq_tail = (unsigned *)(cq + p.cq_off.tail);
  r->cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
  r->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
  if (syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_FILES, &file, 1) < 0) return -1;
  /* one registered buffer holds 1 GiB at most */
  struct iovec whole = {memory, bytes < ((size_t)1 << 30) ? bytes : ((size_t)1 << 30)};
  return syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &whole, 1) < 0 ? -1 : 0;
}

static struct ring kept;
static char *kept_memory;

/* Registering is not part of what is timed. 0: there is a ring. */
int ring_open(int fd, char *memory, int64_t bytes, int depth) {
  kept_memory = memory;
  return set_up(&kept, (unsigned)depth, fd, memory, (size_t)bytes);
}

int ring_gather(const int64_t *sizes, const int64_t *offsets, const int64_t *places, int count, int depth) {
  struct ring *r = &kept;
  int pushed = 0, ended = 0, failed = 0;
  while (ended < count) {
    unsigned tail = *r->sq_tail, before = tail;
    for (; pushed < count && pushed - ended < depth; ++pushed, ++tail) {
      unsigned slot = tail & *r->sq_mask;
      struct io_uring_sqe *e = &r->sqes[slot];
      memset(e, 0, sizeof *e);
      e->opcode = IORING_OP_READ_FIXED;
      e->flags = IOSQE_FIXED_FILE;
      e->off = (uint64_t)offsets[pushed];
      e->addr = (uint64_t)(kept_memory + places[pushed]);
      e->len = (unsigned)sizes[pushed];
      e->user_data = (uint64_t)pushed;
      r->sq_array[slot] = slot;
    }
    __atomic_store_n(r->sq_tail, tail, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, r->fd, tail - before, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0 && errno != EINTR)
      return 1;
    unsigned head = *r->cq_head;
    for (; head != __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE); ++head, ++ended) {
      struct io_uring_cqe *c = &r->cqes[head & *r->cq_mask];
      failed |= c->res != sizes[c->user_data];
    }
    __atomic_store_n(r->cq_head, head, __ATOMIC_RELEASE);
  }
  return failed;
}

void ring_close(void) { close(kept.fd); }

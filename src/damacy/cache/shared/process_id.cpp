#include "damacy/cache/shared/process_id.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

namespace damacy {
namespace {

constexpr int kStartBits = 40;  // in ticks of 10 ms: 348 years
constexpr std::uint64_t kStartMask = (std::uint64_t{1} << kStartBits) - 1;

struct Process {
  char state;
  long threads;
  std::uint64_t start;
};

// The fields of /proc/PID/stat behind the name, which may have any character: state is the 3rd, threads the 20th and
// start the 22nd. Empty: the file says nothing. `is_gone`: there is no such process.
std::optional<Process> read_process(int number, bool& is_gone) noexcept {
  is_gone = false;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", number);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    is_gone = errno == ENOENT && ::kill(number, 0) != 0 && errno == ESRCH;
    return {};
  }
  char text[1024];
  const ssize_t size = ::read(file, text, sizeof text - 1);
  is_gone = size < 0 && errno == ESRCH;
  ::close(file);
  if (size <= 0) return {};
  text[size] = '\0';
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return {};
  Process process{at[2], 0, 0};
  at += 3;
  for (int field = 4; field <= 22; ++field) {
    char* end = nullptr;
    const unsigned long long value = std::strtoull(at, &end, 10);
    if (end == at) return {};
    if (field == 20) process.threads = static_cast<long>(value);
    if (field == 22) process.start = value;
    at = end;
  }
  return process;
}

}  // namespace

ProcessId this_process() noexcept {
  bool is_gone = false;
  const int number = ::getpid();
  const auto process = read_process(number, is_gone);
  const std::uint64_t start = process ? process->start & kStartMask : 0;
  return static_cast<std::uint64_t>(number) << kStartBits | start;
}

int number_of(ProcessId process) noexcept {
  return static_cast<int>(process >> kStartBits);
}

// A zombie whose other threads go on is alive.
bool is_alive(ProcessId process) noexcept {
  if (process == 0) return false;
  bool is_gone = false;
  const auto found = read_process(number_of(process), is_gone);
  if (!found) return !is_gone;
  if ((found->state == 'Z' || found->state == 'X') && found->threads <= 1) return false;
  const std::uint64_t start = process & kStartMask;
  return start == 0 || start == (found->start & kStartMask);
}

}  // namespace damacy

// One file and what ought to be in it: rounds of random requests on it, ended in every way there is, each checked
// against the model. Knows files, futures and bytes; not how long it goes on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/fileio/file_requests.h"

namespace damacy::soak {

[[noreturn]] void found(const std::string& what);  // a finding: says so and aborts
inline void require(bool holds, const char* what) {
  if (!holds) found(what);
}

struct Totals {
  std::atomic<std::uint64_t> requests{0}, cancelled{0}, failed{0}, refused{0}, short_reads{0}, writes{0}, dropped{0};
};
Totals& totals();

// Futures and files that other threads may wait for, cancel or close at any time.
class Mailbox {
 public:
  void put(std::shared_ptr<Operation> operation);
  void put(std::shared_ptr<File> file);
  void meddle(std::mt19937_64& random);  // with an object of another thread
  void clear();

 private:
  static constexpr std::size_t kKept = 16;
  std::mutex mutex_;
  std::array<std::shared_ptr<Operation>, kKept> operations_;
  std::array<std::shared_ptr<File>, kKept> files_;
  std::size_t next_operation_ = 0, next_file_ = 0;
};

class Territory {
 public:
  Territory(std::string path, std::uint64_t seed, Mailbox& mailbox);
  void round();

 private:
  struct Piece {  // consecutive bytes of the file and where they lie in memory
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::byte* data = nullptr;
  };
  struct Asked;

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  std::shared_ptr<File> open(bool writing);
  std::vector<std::unique_ptr<Asked>> ask(bool writing);
  void make_memory(Asked& asked, std::uint64_t bytes);
  bool begin(Asked& asked, const std::shared_ptr<File>& file);
  void begin_gather_of(Asked& asked, const std::shared_ptr<File>& file);
  void end(Asked& asked);
  void check(Asked& asked);
  std::string describe(const Asked& asked, std::size_t piece) const;
  void check_read(const Asked& asked, bool whole);
  void settle_write(const Asked& asked, bool whole);
  std::vector<std::byte> on_disk() const;

  const std::string path_;
  std::mt19937_64 random_;
  Mailbox& mailbox_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::byte> model_;
};

}  // namespace damacy::soak
